"""The truth of ``transpose.cu``: a matrix with its rows as columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kernels.gallery import Array, Example, words


def truth(A: Array, **_: Any) -> Mapping[str, Array]:
    """B = Aᵀ: (columns, rows) from (rows, columns)."""
    return {"B": A.astype(np.float64).T}


def _matrix(kernel: str, rows: int, columns: int, tile: tuple[int, int], block: tuple[int, int]) -> Example:
    return Example(
        kernel,
        grid=(-(-columns // tile[0]), -(-rows // tile[1])),
        block=block,
        arguments=words(
            A=f"normal:{rows},{columns}", B=f"zeros:{columns},{rows}", rows=f"{rows}", columns=f"{columns}"
        ),
    )


EXAMPLES = (
    _matrix("transpose<0>", 64, 96, (32, 32), (32, 8)),
    _matrix("transpose<1>", 64, 96, (32, 32), (32, 8)),
    _matrix("transpose<1>", 45, 70, (32, 32), (32, 4)),
    _matrix("transpose<0>", 1, 33, (32, 32), (32, 32)),
    _matrix("transpose_naive", 64, 96, (32, 8), (32, 8)),
    _matrix("transpose_naive", 21, 13, (16, 16), (16, 16)),
)
