"""The truth of ``convolve.cu``: a convolution of one dimension."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kernels.gallery import Array, Example, words


def truth(x: Array, w: Array, **_: Any) -> Mapping[str, Array]:
    """Y (n,) from x (n,), taken as zero beyond its ends, and w (2 RADIUS + 1,)."""
    padded = np.pad(x.astype(np.float64), len(w) // 2)
    return {"y": np.correlate(padded, w.astype(np.float64), "valid")}


def _signal(n: int, block: int, radius: int) -> Example:
    return Example(
        f"convolve<{block}, {radius}>",
        (-(-n // block),),
        (block,),
        words(x=f"normal:{n}", w=f"normal:{2 * radius + 1}", y=f"zeros:{n}", n=f"{n}"),
    )


EXAMPLES = (_signal(128, 64, 3), _signal(77, 32, 8), _signal(10, 4, 9), _signal(1, 32, 1))
