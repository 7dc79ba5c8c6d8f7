"""The truth of ``axpy_half2.cu``: a multiple of one vector added to another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kernels.gallery import Array, Example, words


def truth(a: float, x: Array, y: Array, **_: Any) -> Mapping[str, Array]:
    """The new y = a x + y, (n,), with a rounded to half precision first."""
    return {"y": np.float64(np.float16(a)) * x.astype(np.float64) + y.astype(np.float64)}


def _vectors(n: int, blocks: int, threads: int) -> Example:
    return Example(
        "axpy_half2", (blocks,), (threads,), words(a="0.3", x=f"normal:{n}", y=f"normal:{n}", n=f"{n}")
    )


EXAMPLES = (_vectors(256, 2, 64), _vectors(77, 3, 13), _vectors(1, 1, 32))
