"""The truth of ``pipeline.cu``: a matrix times a vector."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kernels.gallery import Array, Example, words


def truth(A: Array, x: Array, **_: Any) -> Mapping[str, Array]:
    """The vector y = A x: (rows,) from (rows, columns) and (columns,)."""
    return {"y": A.astype(np.float64) @ x.astype(np.float64)}


def _matrix(rows: int, columns: int, block: int, tile: int) -> Example:
    return Example(
        f"matvec<{block}, {tile}>",
        (-(-rows // block),),
        (block,),
        words(
            A=f"normal:{rows},{columns}",
            x=f"normal:{columns}",
            y=f"zeros:{rows}",
            rows=f"{rows}",
            columns=f"{columns}",
        ),
    )


EXAMPLES = (_matrix(64, 48, 32, 16), _matrix(45, 52, 32, 16), _matrix(70, 20, 64, 8), _matrix(1, 4, 32, 16))
