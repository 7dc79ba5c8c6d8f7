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
from scenes.matrix import MOST_EM, Grid, Matrix, number_em, style_for
from scenes.numerals import widest
from scenes.panels import Caption, Memory, Slot
from scenes.theme import Theme, theme_named

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
    "matrix_in",
    "ring",
    "theme_named",
    "tile_of",
]


def tile_of(box: Box, row: int, column: int, tiles: int) -> Box:
    """The box of one tile of a matrix in `box` that is cut into `tiles` by `tiles` equal ones."""
    width, height = box.width / tiles, box.height / tiles
    return Box(box.left + column * width, box.top - row * height, width, height)


def matrix_in(
    box: Box, values: npt.ArrayLike, symbol: str, theme: Theme, *, tile: int | None = None, shade: float = 0.5
) -> Matrix:
    """The values (rows, columns) of a matrix in `box`, as numbers if they fit its cells, else as a heat map.

    It has the colours of the letter `symbol`; `shade`, 0 to 1, is how strong its fill is. `tile` rows make a tile, with
    an outline of its own.
    """
    numbers = np.atleast_2d(np.asarray(values, np.float32))
    rows, columns = numbers.shape
    grid = Grid(rows, columns, tile or rows, 0.05 if tile else 0.0)
    width, height = grid.cell(box)
    wide = widest(numbers)
    hue = theme.hue(symbol)
    return Matrix(
        numbers,
        box,
        style_for(width, height, wide),
        fills=[hue.fill(shade)] * grid.tiles,
        line=hue.line,
        ink=theme.ink,
        scale=scale_of(numbers, hue, theme),
        em=min(number_em(width, height, wide), MOST_EM),
        tile=grid.tile,
        gap=grid.gap,
        between=theme.panel,
        hatch=theme.line,
    )
