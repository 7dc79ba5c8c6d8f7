"""The vocabulary for scenes of your own: mobjects and animations that need no trace.

Memory, slots and matrices are ordinary mobjects in boxes; move, compute, update, run block and drop are ordinary
animations. ``scenes/examples/tiled_product.py`` shows them at work.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from scenes.actions import Drop, FillCells, MoveTile, PointAt, Rise, RunBlock, ring
from scenes.block_grid import BlockGrid, ZoomLines
from scenes.boxes import Box
from scenes.heat import scale_of
from scenes.lettering import Lettering
from scenes.matrix import Grid, Matrix, number_em, style_for
from scenes.numerals import decimals_of, widest
from scenes.panels import Caption, Memory, Slot
from scenes.theme import Theme, mix, theme_named, theme_wanted

__all__ = [
    "BlockGrid",
    "Box",
    "Caption",
    "Drop",
    "FillCells",
    "Grid",
    "Lettering",
    "Matrix",
    "Memory",
    "MoveTile",
    "PointAt",
    "Rise",
    "RunBlock",
    "Slot",
    "Theme",
    "ZoomLines",
    "box_of",
    "matrix_in",
    "ring",
    "theme_named",
    "theme_wanted",
    "tiles_of",
]


def box_of(rows: int, columns: int, unit: float, origin: tuple[float, float]) -> Box:
    """The box of a matrix whose cells are `unit` wide and high and whose top left corner is at `origin`."""
    return Box(*origin, columns * unit, rows * unit)


def tiles_of(box: Box, down: int, across: int) -> list[Box]:
    """The boxes of the equal tiles of a matrix in `box`, row by row: so many `down` and `across`."""
    width, height = box.width / across, box.height / down
    return [
        Box(box.left + column * width, box.top - row * height, width, height)
        for row in range(down)
        for column in range(across)
    ]


def matrix_in(
    box: Box,
    values: npt.ArrayLike,
    symbol: str,
    theme: Theme,
    *,
    tile: int | None = None,
    shade: float = 0.5,
    grid_opacity: float = 1.0,
    decimals: int | None = None,
) -> Matrix:
    """The values (rows, columns) of a matrix in `box`, as numbers if they fit its cells, else as a heat map.

    It has the colours of the letter `symbol`; `shade`, 0 to 1, is how strong its fill is. `tile` rows make a tile, with
    an outline of its own; `grid_opacity`, 0 to 1, is how clear the lines between cells are. Without `decimals`, numbers
    have as few as their values need, and at most two.
    """
    numbers = np.atleast_2d(np.asarray(values, np.float32))
    rows, columns = numbers.shape
    grid = Grid(rows, columns, tile or rows, 0.05 if tile else 0.0)
    width, height = grid.cell(box)
    decimals = decimals_of(numbers) if decimals is None else decimals
    wide = widest(numbers, decimals)
    hue = theme.hue(symbol)
    return Matrix(
        numbers,
        box,
        style_for(width, height, wide),
        fills=[hue.fill(shade)] * grid.tiles,
        line=hue.line,
        ink=theme.ink,
        scale=scale_of(numbers, hue, theme),
        em=number_em(width, height, wide),
        decimals=decimals,
        tile=grid.tile,
        gap=grid.gap,
        between=mix(hue.fill(shade), theme.panel, grid_opacity),
        hatch=theme.line,
    )
