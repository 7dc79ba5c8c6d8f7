"""The truth of ``wmma_gemm.cu``: a matrix product of numbers in half precision."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kernels.gallery import Array, Example, words


def truth(A: Array, B: Array, **_: Any) -> Mapping[str, Array]:
    """C = A B: (M, N) from (M, K) and (K, N)."""
    return {"C": A.astype(np.float64) @ B.astype(np.float64)}


def _product(M: int, N: int, K: int) -> Example:
    return Example(
        "wmma_gemm",
        (-(-N // 16), -(-M // 16)),
        (32,),
        words(A=f"normal:{M},{K}", B=f"normal:{K},{N}", C=f"zeros:{M},{N}", M=f"{M}", N=f"{N}", K=f"{K}"),
    )


EXAMPLES = (_product(32, 32, 32), _product(19, 21, 13))
