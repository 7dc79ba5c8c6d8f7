"""Attention by its definition, in any precision: what the attention kernels are held against.

Each row is a max, a sum and a weighted mean over the keys it sees (Vaswani et al. 2017, equation 1), worked out from
all of its scores at once, never by the recurrence the kernels use.
"""

from __future__ import annotations

from collections.abc import Mapping
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
    Q: Matrix,
    K: Matrix,
    V: Matrix,
    seen: npt.NDArray[np.int_] | int,
    causal: bool,
    dtype: npt.DTypeLike,
    since: int = 0,
) -> dict[str, Matrix]:
    """What one head's rows carry when row r has seen only the keys from `since` up to `seen[r]`.

    O (queries, d), l, m and L = m + log l (queries,), and the sum U = l O (queries, d). A row that has seen no key has
    O = U = 0, l = 0, m = L = −∞.
    """
    x = scores(Q, K, causal, dtype)
    key = np.arange(x.shape[1])
    x = np.where((since <= key) & (key < np.reshape(seen, (-1, 1))), x, -np.inf).astype(dtype)
    m = x.max(axis=1, initial=-np.inf)
    weights = np.exp(x - np.where(np.isfinite(m), m, 0)[:, None])
    l = weights.sum(axis=1)
    U = weights @ V.astype(dtype)
    with np.errstate(divide="ignore"):
        L = m + np.log(l)
    return {"O": U / np.where(l > 0, l, 1)[:, None], "l": l, "m": m, "L": L, "U": U}


def attention(Q: Matrix, K: Matrix, V: Matrix, causal: bool, dtype: npt.DTypeLike) -> dict[str, Matrix]:
    """O, l, m, L and U of every head, from arrays (heads, queries or keys, d)."""
    heads = [partial_attention(*head, K.shape[1], causal, dtype) for head in zip(Q, K, V, strict=True)]
    return {name: np.stack([head[name] for head in heads]) for name in ("O", "l", "m", "L", "U")}


def magnitudes(Q: Matrix, K: Matrix, V: Matrix) -> dict[str, float]:
    """How large the terms are that one head's scores and carries are summed from: what rounding is measured by."""
    score = float((np.abs(Q).astype(np.float64) @ np.abs(K).astype(np.float64).T).max() * Q.shape[1] ** -0.5)
    largest, slack = float(np.abs(V).max()), max(1.0, score)
    return {
        "S": score,
        "m": score,
        "l": len(K) * slack,
        "L": score + np.log(len(K)) + slack,
        "O": largest * slack,
        "U": len(K) * largest * slack,
    }


def scale(params: Mapping[str, int]) -> Mapping[str, np.generic]:
    """The argument ``scale`` of an attention kernel, 1 / √d."""
    return {"scale": np.float32(params["d"] ** -0.5)}


def keys_loaded(queries: int, keys: int, Br: int, Bc: int, causal: bool) -> int:
    """How many keys of one head are loaded in all, if each tile of queries loads the tiles of keys that it sees."""
    loaded = 0
    for first in range(0, queries, Br):
        last = min(queries, first + Br) - 1
        seen = max(0, min(keys, last + keys - queries + 1)) if causal else keys
        loaded += min(keys, -(-seen // Bc) * Bc)
    return loaded


def draw_inputs(
    heads: int, queries: int, keys: int, d: int, tile: int, causal: bool, seed: int
) -> Mapping[str, Matrix]:
    """Q, K and V of normal numbers of one decimal, for each head its own.

    They are drawn until, in head 0, the second tile of keys moves the running max of some rows and not of others (where
    there is a second tile and more than one row).
    """
    rng = np.random.default_rng(seed)

    def draw(rows: int) -> Matrix:
        return (rng.normal(size=(heads, rows, d)).round(1) + 0.0).astype(np.float32)

    for _ in range(1000):
        arrays = {"Q": draw(queries), "K": draw(keys), "V": draw(keys)}
        if keys <= tile or queries == 1:
            break
        x = scores(arrays["Q"][0], arrays["K"][0], causal, np.float64)
        moved = x[:, tile : 2 * tile].max(axis=1) > x[:, :tile].max(axis=1)
        if moved.any() and not moved.all():
            break
    return arrays
