"""Attention by its definition, in any precision: what the attention kernels are held against.

Each row is a max, a sum and a weighted mean over the keys it sees (Vaswani et al. 2017, equation 1), worked out from
all of its scores at once, never by the recurrence the kernels use.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[Any]


def visible(queries: int, keys: int) -> npt.NDArray[np.bool_]:
    """Which keys each query sees under a causal mask aligned bottom-right: (queries, keys)."""
    return np.arange(keys) <= np.arange(queries)[:, None] + keys - queries


def scores(Q: Matrix, K: Matrix, causal: bool, dtype: npt.DTypeLike) -> Matrix:
    """Scores of one head, Q Kᵀ / √d, masked ones −∞: (queries, keys) from (queries, d) and (keys, d)."""
    x = Q.astype(dtype) @ K.astype(dtype).T * np.dtype(dtype).type(Q.shape[1] ** -0.5)
    return np.where(visible(*x.shape), x, -np.inf).astype(dtype) if causal else x


def partial_attention(
    Q: Matrix, K: Matrix, V: Matrix, seen: npt.NDArray[np.int_], causal: bool, dtype: npt.DTypeLike
) -> dict[str, Matrix]:
    """One head's O (queries, d), l and m (queries,) when row r has seen only its first `seen[r]` keys.

    A row that has seen none has O = 0, l = 0, m = −∞.
    """
    x = scores(Q, K, causal, dtype)
    x = np.where(np.arange(x.shape[1]) < seen[:, None], x, -np.inf).astype(dtype)
    m = x.max(axis=1, initial=-np.inf)
    weights = np.exp(x - np.where(np.isfinite(m), m, 0)[:, None])
    l = weights.sum(axis=1)
    O = weights @ V.astype(dtype) / np.where(l > 0, l, 1)[:, None]
    return {"O": O, "l": l, "m": m}


def magnitudes(Q: Matrix, K: Matrix, V: Matrix) -> dict[str, float]:
    """How large the terms are that one head's scores, m, l and O are summed from: what rounding is measured by."""
    score = float((np.abs(Q) @ np.abs(K).T).max() * Q.shape[1] ** -0.5)
    return {
        "S": score,
        "m": score,
        "l": len(K) * max(1.0, score),
        "O": float(np.abs(V).max()) * max(1.0, score),
    }


def attention(Q: Matrix, K: Matrix, V: Matrix, causal: bool, dtype: npt.DTypeLike) -> dict[str, Matrix]:
    """O, l and m of every head, from arrays (heads, queries or keys, d)."""
    all_keys = np.full(Q.shape[1], K.shape[1])
    heads = [partial_attention(*head, all_keys, causal, dtype) for head in zip(Q, K, V, strict=True)]
    return {name: np.stack([head[name] for head in heads]) for name in ("O", "l", "m")}
