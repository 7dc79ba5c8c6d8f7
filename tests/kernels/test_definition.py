"""The definition itself, against numbers worked out by hand."""

from __future__ import annotations

import math

import numpy as np

from kernels.attention import attention, partial_attention, scores, visible

Q = np.array([[2.0, 0.0, 0.0, 0.0]])
K = np.array([[0.0, 1, 1, 1], [math.log(3), 0, 0, 0], [math.log(5), 7, 0, 0]])
V = np.array([[9.0, 0], [0, 9], [18, 9]])


def test_scores_are_dot_products_over_the_root_of_d() -> None:
    np.testing.assert_allclose(scores(Q, K, False, np.float64), [[0, math.log(3), math.log(5)]])


def test_output_is_the_mean_of_v_weighted_by_the_exponentials_of_the_scores() -> None:
    result = attention(Q[None], K[None], V[None], False, np.float64)
    np.testing.assert_allclose(
        result["O"], [[[(1 * 9 + 5 * 18) / 9, (3 * 9 + 5 * 9) / 9]]]
    )  # weights 1, 3, 5 of 9
    np.testing.assert_allclose(result["m"], [[math.log(5)]])
    np.testing.assert_allclose(result["l"], [[9 / 5]])


def test_a_row_that_has_seen_two_keys_is_the_attention_over_those_two() -> None:
    result = partial_attention(Q, K, V, np.array([2]), False, np.float64)
    np.testing.assert_allclose(result["O"], [[9 / 4, 27 / 4]])
    np.testing.assert_allclose(result["l"], [4 / 3])


def test_a_row_that_has_seen_no_key_has_zeros_and_a_max_of_minus_infinity() -> None:
    result = partial_attention(Q, K, V, np.array([0]), False, np.float64)
    assert result["O"].tolist() == [[0, 0]]
    assert result["l"].tolist() == [0]
    assert result["m"].tolist() == [-math.inf]


def test_the_causal_mask_is_aligned_bottom_right() -> None:
    assert visible(2, 3).tolist() == [[True, True, False], [True, True, True]]
    assert visible(3, 2).tolist() == [[False, False], [True, False], [True, True]]
