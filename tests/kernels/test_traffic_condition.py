"""Where FlashAttention-1 moves more than standard attention: the condition of the traffic page, in counted runs."""

from __future__ import annotations

import pytest

import kernels


def counted(N: int, d: int, Bc: int) -> int:
    """Elements that one head of the kernel read and wrote."""
    trace = kernels.record("fa1", None, N=N, d=d, Br=4, Bc=Bc, batch_heads=1, backend="cpu")
    return sum(total.reads + total.writes for total in trace.traffic.values())


def standard(N: int, d: int) -> int:
    """Elements that three calls read and write: Q, K, V and O once, the scores and their softmax twice each."""
    return 4 * N * d + 4 * N * N


@pytest.mark.parametrize(
    ("N", "d", "Bc", "side"),
    [
        (24, 16, 8, 1),  # 8 · ⌊128/52⌋ = 16 < 24
        (24, 16, 11, 1),  # the last that moves more: 11 · 2 = 22 < 24, ragged
        (24, 16, 12, -1),  # 12 · 2 = 24
        (24, 4, 3, 1),  # 3 · ⌊104/16⌋ = 18 < 24
        (24, 4, 4, -1),
        (7, 3, 2, 1),  # 2 · ⌊34/13⌋ = 4 < 7, ragged
        (7, 3, 4, -1),
        (3, 9, 3, 1),  # d > 4N − 4: more with any tile
        (3, 8, 3, 0),  # d = 4N − 4: just as much
    ],
)
def test_fa1_moves_more_than_standard_attention_just_where_the_condition_says(
    N: int, d: int, Bc: int, side: int
) -> None:
    moved, least = counted(N, d, Bc), standard(N, d)
    assert (moved > least) - (moved < least) == side
    assert (moved > least) == (Bc * ((4 * N + 2 * d) // (3 * d + 4)) < N)
