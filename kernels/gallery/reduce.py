"""The truth of ``reduce.cu``: the sums of the rows of a matrix."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kernels.gallery import Array, Example, words


def truth(x: Array, **_: Any) -> Mapping[str, Array]:
    """The sums (rows,) of x (rows, columns)."""
    return {"sums": x.astype(np.float64).sum(axis=1)}


def _rows(rows: int, columns: int, threads: int) -> Example:
    return Example(
        "reduce",
        (rows,),
        (threads,),
        words(x=f"normal:{rows},{columns}", sums=f"zeros:{rows}", columns=f"{columns}"),
    )


EXAMPLES = (_rows(2, 300, 128), _rows(3, 77, 64), _rows(1, 1, 32), _rows(1, 3000, 1024))
