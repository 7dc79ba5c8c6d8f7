"""The truth of ``bare_gemm.cu``: a matrix product, from a program that knows nothing of traces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kernels.gallery import Array, Example, words


def truth(A: Array, B: Array, **_: Any) -> Mapping[str, Array]:
    """C = A B, all (n, n)."""
    return {"C": A.astype(np.float64) @ B.astype(np.float64)}


def _square(n: int) -> Example:
    tiles = -(-n // 8)
    square = f"{n},{n}"
    return Example(
        "matmul",
        (tiles, tiles),
        (8, 8),
        words(A=f"normal:{square}", B=f"normal:{square}", C=f"zeros:{square}", n=f"{n}"),
    )


EXAMPLES = (_square(16), _square(21))
