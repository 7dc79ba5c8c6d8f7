"""How numbers are written."""

from __future__ import annotations

import math

import numpy as np
import pytest

from scenes.numerals import decimals_of, number_outline, widest, written

pytestmark = pytest.mark.usefixtures("manim_at_rest")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.00"),
        (-0.0, "0.00"),
        (-0.004, "0.00"),
        (-0.5, "−0.50"),
        (1.005, "1.00"),
        (9.996, "10.0"),
        (-12.34, "−12.3"),
        (99.96, "100"),
        (1234.5, "1234"),
        (-20000.0, "−2e4"),
        (math.inf, "∞"),
        (-math.inf, "−∞"),
        (math.nan, "–"),
    ],
)
def test_numbers_are_short(value: float, text: str) -> None:
    assert written(value) == text


@pytest.mark.parametrize(
    ("values", "decimals"),
    [
        ([-12, 3, 0], 0),
        ([0.1, -2.3, 4], 1),
        ([0.25, 1], 2),
        ([1 / 3], 2),
        ([-math.inf, 1.5], 1),
        ([math.nan], 0),
    ],
)
def test_numbers_have_as_few_decimals_as_write_all_of_them_exactly(
    values: list[float], decimals: int
) -> None:
    assert decimals_of(np.float32(values)) == decimals


def test_integers_are_written_as_integers() -> None:
    assert written(-12.0, 0) == "−12"
    assert widest([-12, 3], 0) == number_outline("−12").width


def test_digits_are_equally_wide() -> None:
    assert len({round(number_outline(digit).width, 3) for digit in "0123456789"}) == 1


def test_a_number_is_as_wide_as_its_signs() -> None:
    alone = number_outline("−").width + number_outline(".").width + 3 * number_outline("0").width
    assert number_outline("−0.52").width == pytest.approx(alone)
    assert widest([0.5, -0.5]) == number_outline("−0.50").width


def test_the_outline_of_a_number_lies_around_its_middle() -> None:
    points = number_outline("88").points
    assert points[:, 0].min() == pytest.approx(-points[:, 0].max(), abs=0.02)
    assert points[:, 1].min() == pytest.approx(-points[:, 1].max(), abs=0.02)
