"""The truth of ``layer_norm.cu``: rows brought to mean 0 and variance 1, then scaled and shifted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kernels.gallery import Array, Example, words


def truth(x: Array, weight: Array, bias: Array, epsilon: float, **_: Any) -> Mapping[str, Array]:
    """Y (rows, columns) from x of the same shape, weight and bias (columns,)."""
    x = x.astype(np.float64)
    centred = x - x.mean(axis=1, keepdims=True)
    scale = 1 / np.sqrt((centred**2).mean(axis=1, keepdims=True) + np.float64(epsilon))
    return {"y": centred * scale * weight.astype(np.float64) + bias.astype(np.float64)}


def _rows(rows: int, columns: int, threads: int) -> Example:
    return Example(
        "layer_norm",
        (rows,),
        (threads,),
        words(
            x=f"normal:{rows},{columns}",
            weight=f"normal:{columns}",
            bias=f"normal:{columns}",
            y=f"zeros:{rows},{columns}",
            columns=f"{columns}",
            epsilon="1e-5",
        ),
    )


EXAMPLES = (_rows(3, 128, 32), _rows(2, 256, 64), _rows(2, 100, 96), _rows(1, 4, 32))
