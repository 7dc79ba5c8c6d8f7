"""The block grid, the zoom lines, and the actions that are not part of a step."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from scenes import plan as places
from scenes.actions import Drop, FillCells, PointAt, Rise, RunBlock
from scenes.block_grid import BlockGrid, ZoomLines
from scenes.boxes import Box
from scenes.heat import scale_of
from scenes.matrix import Matrix
from scenes.theme import THEMES

LIGHT = THEMES["light"]
GRIDS = [
    (1, 1, 1),
    (4, 1, 1),
    (6, 1, 1),
    (192, 1, 1),
    (2, 3, 1),
    (8, 16, 2),
    (3, 1, 2),
    (5000, 1, 1),
    (1, 900, 1),
]
pytestmark = pytest.mark.usefixtures("manim_at_rest")


def small_matrix() -> Matrix:
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    return Matrix(
        values,
        Box(0, 1, 3, 1),
        "numbers",
        fills=["#ccfbf1"],
        line="#0f766e",
        ink="#18181b",
        scale=scale_of(values, LIGHT.hue("Q"), LIGHT),
        em=0.2,
    )


@pytest.mark.parametrize("launched", GRIDS, ids=str)
def test_squares_lie_in_the_grids_box_and_apart(launched: tuple[int, int, int]) -> None:
    grid = BlockGrid(launched, places.BLOCKS, LIGHT)
    squares = [grid.square(n) for n in range(0, int(np.prod(launched)), max(1, int(np.prod(launched)) // 60))]
    assert all(places.BLOCKS.grown(0.04).holds(square) for square in squares)
    assert not any(a.meets(b) for a, b in itertools.pairwise(squares))


def test_each_block_has_its_own_square() -> None:
    grid = BlockGrid((2, 3, 1), places.BLOCKS, LIGHT)
    assert [grid.index((x, y, 0)) for y in range(3) for x in range(2)] == list(range(6))


def test_a_new_block_fills_its_square_and_the_zoom_lines_slide_to_it() -> None:
    grid, zoom = BlockGrid((6, 1, 1), places.BLOCKS, LIGHT), ZoomLines(LIGHT)
    first = RunBlock(grid, zoom, places.SRAM, 0)
    first.begin()
    assert np.ptp(zoom.lines.points[:, 1]) == 0
    first.finish()
    before = zoom.lines.points.copy()
    assert before[0][0] == pytest.approx(grid.square(0).left)
    second = RunBlock(grid, zoom, places.SRAM, 4, before=0)
    second.begin()
    np.testing.assert_allclose(zoom.lines.points, before)
    second.finish()
    assert zoom.lines.points[0][0] == pytest.approx(grid.square(4).left)
    assert grid.filled.points[:, 0].min() == pytest.approx(grid.square(4).left)


def test_a_dropped_tile_sinks_out_of_its_slot() -> None:
    matrix = small_matrix()
    drop = Drop(matrix)
    drop.begin()
    assert matrix.box == Box(0, 1, 3, 1)
    drop.finish()
    assert matrix.box.height == pytest.approx(0)
    assert matrix.numerals is not None
    assert len(matrix.numerals.points) == 0


def test_cells_fill_one_after_another() -> None:
    matrix = small_matrix()
    fill = FillCells(matrix)
    fill.begin()
    filled = []
    for part in np.linspace(0, 1, 7):
        fill.interpolate(float(part))
        filled.append(len(matrix.mats[0].points) // 16)
    assert filled == [0, 1, 2, 3, 4, 5, 6]


def test_the_pointer_marks_the_row_and_column_of_the_cell_being_filled() -> None:
    rows, columns = [Box(0, 1, 1, 0.5), Box(0, 0.5, 1, 0.5)], [Box(2, 1, 1, 0.3), Box(2, 0.7, 1, 0.3)]
    pointer = PointAt(rows, columns, "#18181b")
    pointer.begin()
    pointer.interpolate(0.8)
    assert pointer.outlines.points[:16, 1].max() == pytest.approx(0.5)
    assert pointer.outlines.points[16:, 1].max() == pytest.approx(0.7)


def test_an_update_fills_from_the_bottom_under_whole_numbers() -> None:
    matrix = small_matrix()
    assert matrix.numerals is not None
    numbers = len(matrix.numerals.points)
    rise = Rise(matrix, rate_func=lambda part: part)
    rise.begin()
    rise.interpolate(0.5)
    assert matrix.mats[0].points[:, 1].max() == pytest.approx(0.5)
    assert len(matrix.numerals.points) == numbers
    rise.finish()
    assert matrix.mats[0].points[:, 1].max() == pytest.approx(1, abs=0.02)
