"""The truth of ``histogram.cu``: how often each number occurs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kernels.gallery import Array, Example, words


def truth(x: Array, counts: Array, **_: Any) -> Mapping[str, Array]:
    """Counts (BINS,) of the numbers of x (n,) that are below BINS, added to those that were there."""
    found = np.bincount(x, minlength=256)[: len(counts)]
    return {"counts": (counts + found).astype(np.float64)}


def _bytes(n: int, bins: int, end: int, blocks: int, threads: int, counts: str = "zeros") -> Example:
    return Example(
        f"histogram<{bins}>",
        (blocks,),
        (threads,),
        words(x=f"integers:{n}:0:{end}", counts=f"{counts}:{bins}", n=f"{n}"),
    )


EXAMPLES = (
    _bytes(500, 16, 16, 2, 64),
    _bytes(333, 10, 13, 3, 33, "ones"),
    _bytes(1, 256, 256, 1, 96),
)
