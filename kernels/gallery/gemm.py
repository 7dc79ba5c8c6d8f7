"""The truth of ``gemm.cu``: a matrix product."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kernels.gallery import Array, Example, words


def truth(A: Array, B: Array, **_: Any) -> Mapping[str, Array]:
    """C = A B: (M, N) from (M, K) and (K, N)."""
    return {"C": A.astype(np.float64) @ B.astype(np.float64)}


def _product(kernel: str, block: int, M: int, N: int, K: int) -> Example:
    return Example(
        kernel,
        grid=(-(-N // block), -(-M // block)),
        block=(block, block),
        arguments=words(
            A=f"normal:{M},{K}", B=f"normal:{K},{N}", C=f"zeros:{M},{N}", M=f"{M}", N=f"{N}", K=f"{K}"
        ),
    )


EXAMPLES = (
    _product("gemm<16>", 16, 64, 64, 64),
    _product("gemm<4>", 4, 7, 10, 9),
    _product("gemm<8>", 8, 19, 5, 21),
    _product("gemm<32>", 32, 33, 40, 35),
)
