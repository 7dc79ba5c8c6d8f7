"""A matrix as a mobject: numbers where they fit its cells, else a heat map, else a plain tile."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from manim import Group, ImageMobject, VMobject
from manim.constants import RESAMPLING_ALGORITHMS

from scenes.boxes import Box, Points, hatching, rectangles
from scenes.heat import Scale, cell_pixels, heat_map
from scenes.numerals import MOST_DECIMALS, Numerals, widest_of, written

Style = Literal["numbers", "heat", "plain"]

LEAST_EM, MOST_EM = 0.145, 0.34
NUMBER_SHARE, EM_SHARE = 0.86, 0.8  # of a cell's width, for its number, and of its height, for one em
_NOTHING = np.zeros((0, 3))
_LEAST_TILE = 0.08  # lower tiles have no outline of their own
_LEAST_CELL = 0.011  # a heat map's cells are at least about a pixel and a half


def number_em(width: float, height: float, widest: float) -> float:
    """How large numbers of at most `widest` em can be in a cell; below LEAST_EM nobody could read them."""
    return min(NUMBER_SHARE * width / widest if widest else MOST_EM, EM_SHARE * height, MOST_EM)


def style_for(width: float, height: float, widest: float) -> Style:
    """How a matrix is shown whose cells are so large."""
    if number_em(width, height, widest) >= LEAST_EM:
        return "numbers"
    return "heat" if min(width, height) >= _LEAST_CELL else "plain"


@dataclass(frozen=True)
class Grid:
    """Where the cells of a matrix lie in its box.

    The rows fall into tiles of `tile` rows with `gap` between them; with `across` it is the columns that do, and the
    tiles lie side by side.
    """

    rows: int
    columns: int
    tile: int
    gap: float
    across: bool = False

    @property
    def tiles(self) -> int:
        """How many tiles there are."""
        return math.ceil((self.columns if self.across else self.rows) / self.tile)

    def cell(self, box: Box) -> tuple[float, float]:
        """The width and height of a cell."""
        gaps = self.gap * (self.tiles - 1)
        if self.across:
            return (box.width - gaps) / self.columns, box.height / self.rows
        return box.width / self.columns, (box.height - gaps) / self.rows

    def row_tops(self, box: Box) -> npt.NDArray[np.float64]:
        """The y of each row's top edge."""
        rows = np.arange(self.rows)
        return box.top - rows * self.cell(box)[1] - (0 if self.across else rows // self.tile * self.gap)

    def column_lefts(self, box: Box) -> npt.NDArray[np.float64]:
        """The x of each column's left edge."""
        columns = np.arange(self.columns)
        return (
            box.left + columns * self.cell(box)[0] + (columns // self.tile * self.gap if self.across else 0)
        )

    def part(self, box: Box, rows: tuple[int, int], columns: tuple[int, int]) -> Box:
        """The box around some rows and columns, half-open ranges."""
        width, height = self.cell(box)
        tops, lefts = self.row_tops(box), self.column_lefts(box)
        left, top = float(lefts[columns[0]]), float(tops[rows[0]])
        right, bottom = float(lefts[columns[1] - 1]) + width, float(tops[rows[1] - 1]) - height
        return Box(left, top, right - left, top - bottom)

    def tile_box(self, box: Box, index: int) -> Box:
        """The box of one tile; the last may have fewer rows."""
        first, whole = index * self.tile, self.columns if self.across else self.rows
        own = first, min(first + self.tile, whole)
        return self.part(box, (0, self.rows), own) if self.across else self.part(box, own, (0, self.columns))


class HeatImage(ImageMobject):
    """An image laid into a box, its pixels left as they are."""

    def __init__(self, pixels: npt.NDArray[np.uint8]) -> None:
        super().__init__(pixels)
        self.set_resampling_algorithm(RESAMPLING_ALGORITHMS["nearest"])

    def place(self, box: Box) -> None:
        """Lay it into `box`."""
        self.points = np.array(
            [
                [box.left, box.top, 0],
                [box.right, box.top, 0],
                [box.left, box.bottom, 0],
                [box.right, box.bottom, 0],
            ]
        )


class Matrix(Group):
    """The values of a matrix in a box, as numbers, heat map or plain tiles.

    `values` (rows, columns) is what there is; NaN is drawn as a blank cell, and with `masked`, −∞ as a hatched one.
    `fills` has a colour for each tile. `room` rows and columns are what the slot could hold: beyond the values it is
    hatched. `between` is the colour of the lines between cells with numbers, `decimals` how these are written.
    """

    def __init__(
        self,
        values: npt.NDArray[np.float32],
        box: Box,
        style: Style,
        *,
        fills: Sequence[str],
        line: str,
        ink: str,
        scale: Scale,
        em: float = MOST_EM,
        decimals: int = MOST_DECIMALS,
        tile: int | None = None,
        gap: float = 0.0,
        across: bool = False,
        masked: bool = False,
        room: tuple[int, int] | None = None,
        between: str = "#ffffff",
        hatch: str = "#71717a",
        line_width: float = 1.5,
    ) -> None:
        super().__init__()
        rows, columns = values.shape
        self.values, self.style, self.fills = values, style, tuple(fills)
        self.grid = Grid(rows, columns, tile or (columns if across else rows), gap, across)
        self.masked = (
            np.argwhere(values == -np.inf) if masked and style == "numbers" else np.zeros((0, 2), int)
        )
        self.room = room or (rows, columns)
        self._em = em
        self._order = tuple(dict.fromkeys(self.fills))
        self.mats = [VMobject(fill_color=color, fill_opacity=1, stroke_width=0) for color in self._order]
        self.frame = VMobject(stroke_color=line, stroke_width=line_width, fill_opacity=0)
        self.hatch = VMobject(stroke_color=hatch, stroke_width=1, fill_opacity=0)
        self.numerals: Numerals | None = None
        self.image: HeatImage | None = None
        self.back = VMobject(fill_color=between, fill_opacity=1, stroke_width=0)
        self.add(self.back, *self.mats)
        if style == "numbers":
            self.numerals = Numerals(
                ["" if np.isnan(value) else written(float(value), decimals) for value in values.flat], ink
            )
            self._widest = widest_of(self.numerals.texts)
            self.add(self.hatch)
            self.add(self.numerals)
        elif style == "heat":
            self._pixels = self._image(values, box, scale)
            self.image = HeatImage(self._pixels)
            self.add(self.image)
        if style != "numbers":
            self.add(self.hatch)
        self.add(self.frame)
        self.place(box)

    @property
    def texts(self) -> tuple[str, ...]:
        """The numbers as written, row by row; none unless they are shown."""
        return () if self.numerals is None else self.numerals.texts

    def place(self, box: Box) -> None:
        """Lay the matrix, room for more rows and columns included, into `box`."""
        self.box = box
        self._mat_paths = self._paths()
        for mat, path in zip(self.mats, self._mat_paths, strict=True):
            mat.points = path
        whole = self.valid_box
        tiles = [self.grid.tile_box(whole, n) for n in range(self.grid.tiles)]
        if self.grid.gap == 0 and tiles[0].height < _LEAST_TILE:
            tiles = [whole]
        self.frame.points = _around(tiles)
        if self.style == "numbers":
            self.back.points = self.frame.points
        if self.numerals is not None:
            room = number_em(*self.grid.cell(whole), self._widest)
            self.numerals.place(self._centers(), min(self._em, room))
        if self.image is not None:
            self.image.place(self._inset(whole))
        self.hatch.points = self._hatched()

    @property
    def valid_box(self) -> Box:
        """The part of the box that holds values."""
        width, height = self.box.width / self.room[1], self.box.height / self.room[0]
        if self.room == self.values.shape:
            return self.box
        return Box(self.box.left, self.box.top, width * self.values.shape[1], height * self.values.shape[0])

    def show_cells(self, count: int) -> None:
        """Show only the first `count` cells, row by row."""
        rows, columns = self.values.shape
        self.back.points = _NOTHING
        if self.style == "numbers":
            self.mats[0].points = self._mat_paths[0][: 16 * count]
        else:
            self.mats[0].points = self._cell_rectangles(count)
        if self.numerals is not None:
            self.numerals.first(count)
        if self.image is not None:
            seen = (np.arange(rows * columns) < count).reshape(rows, columns)
            across, down = self._pixels.shape[1] // columns, self._pixels.shape[0] // rows
            self._mask(np.kron(seen, np.ones((down, across), bool)))
        whole = count == rows * columns
        self.hatch.points = self._hatched() if whole else _NOTHING

    def rise(self, part: float) -> None:
        """Show only the lowest `part` of the fill; numbers stay whole."""
        level = self.box.bottom + part * self.box.height
        self.back.points = _NOTHING
        for mat, path in zip(self.mats, self._mat_paths, strict=True):
            clipped = path.copy()
            clipped[:, 1] = np.minimum(clipped[:, 1], level)
            mat.points = clipped
        if self.image is not None:
            height = len(self._pixels)
            inset = self._inset(self.valid_box)
            reached = (level - inset.bottom) / inset.height if inset.height else 1.0
            seen = np.arange(height)[:, None] >= round(height * (1 - min(max(reached, 0.0), 1.0)))
            self._mask(seen)

    def hide_numbers(self) -> None:
        """Leave only what is under the numbers."""
        if self.numerals is not None:
            self.numerals.first(0)

    def _mask(self, seen: npt.NDArray[np.bool_]) -> None:
        assert self.image is not None
        pixels = self._pixels.copy()
        pixels[..., 3] = np.where(seen, pixels[..., 3], 0)
        self.image.pixel_array = pixels

    def _image(self, values: npt.NDArray[np.float32], box: Box, scale: Scale) -> npt.NDArray[np.uint8]:
        inset = self._inset(box)
        across, down = cell_pixels(inset.width / self.grid.columns, self.grid.cell(inset)[1])
        image = heat_map(values, scale, across, down)
        blank = np.kron(np.isnan(values), np.ones((down, across), bool))
        image[blank] = 0
        if self.grid.gap == 0:
            return image
        axis = int(self.grid.across)
        cell, pixels = self.grid.cell(box)[1 - axis], (down, across)[axis]
        wide = max(1, round(self.grid.gap / cell * pixels))
        gap = np.zeros((image.shape[0], wide, 4) if axis else (wide, image.shape[1], 4), np.uint8)
        step = self.grid.tile * pixels
        cuts = np.split(image, range(step, image.shape[axis], step), axis=axis)
        return np.concatenate([part for cut in cuts for part in (cut, gap)][:-1], axis=axis)

    def _inset(self, box: Box) -> Box:
        """Where the heat map lies: a mat shows around it, as far as there is room and tiles have no gaps."""
        if self.grid.gap or min(box.width, box.height) < 0.3:
            return box
        return box.grown(-0.045)

    def _centers(self) -> Points:
        width, height = self.grid.cell(self.valid_box)
        x = self.grid.column_lefts(self.valid_box) + width / 2
        y = self.grid.row_tops(self.valid_box) - height / 2
        return np.stack([np.tile(x, self.grid.rows), np.repeat(y, self.grid.columns)], axis=-1)

    def _cell_rectangles(self, count: int, inset: float = 0.0) -> Points:
        width, height = self.grid.cell(self.valid_box)
        n = np.arange(count)
        left = self.grid.column_lefts(self.valid_box)[n % self.grid.columns]
        top = self.grid.row_tops(self.valid_box)[n // self.grid.columns]
        return rectangles(left + inset, top - inset, left + width - inset, top - height + inset)

    def _paths(self) -> list[Points]:
        """The path of each distinct fill: cells where numbers stand, else whole tiles."""
        whole = self.valid_box
        paths: dict[str, list[Points]] = {color: [] for color in self._order}
        cells = (
            self._cell_rectangles(self.grid.rows * self.grid.columns, 0.008).reshape(-1, 16, 3)
            if self.style == "numbers"
            else None
        )
        row, column = np.divmod(np.arange(self.grid.rows * self.grid.columns), self.grid.columns)
        tile_of = (column if self.grid.across else row) // self.grid.tile
        for n, color in enumerate(self.fills):
            if cells is not None:
                paths[color].append(cells[tile_of == n].reshape(-1, 3))
            else:
                tile = self.grid.tile_box(whole, n)
                paths[color].append(rectangles(tile.left, tile.top, tile.right, tile.bottom))
        return [np.concatenate(parts) for parts in paths.values()]

    def _hatched(self) -> Points:
        valid, box = self.valid_box, self.box
        below = Box(box.left, valid.bottom, box.width, valid.bottom - box.bottom)
        beside = Box(valid.right, valid.top, box.right - valid.right, valid.height)
        cells = [self.grid.part(valid, (r, r + 1), (c, c + 1)) for r, c in self.masked]
        return np.concatenate([hatching(below), hatching(beside), *map(hatching, cells)])


def _around(boxes: Sequence[Box]) -> Points:
    edges = np.array([(box.left, box.top, box.right, box.bottom) for box in boxes]).T
    return rectangles(*edges)
