"""Where everything lies on the canvas, worked out from the sizes in the trace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from kernels.layout import ArrayLayout
from scenes.boxes import Box, cell_width
from scenes.matrix import LEAST_EM, MOST_EM, NUMBER_SHARE, Grid, Style, number_em, style_for
from scenes.numerals import widest
from scenes.story import Story, matrix_shape, values_of

TITLE = Box(-6.75, 3.86, 13.5, 0.4)
HBM = Box(-6.75, 3.4, 10.25, 2.52)
TRAFFIC = Box(3.65, 3.4, 3.1, 2.52)
BLOCKS = Box(-1.6, 0.78, 3.2, 0.46)
SRAM = Box(-6.75, 0.04, 13.5, 2.84)
LOOPS = Box(-6.57, -0.98, 0.98, 1.76)
CAPTION = Box(-6.75, -2.84, 13.5, 0.56)
WORKED = Box(-6.75, -3.42, 13.5, 0.46)

NAME_EM = 0.3
HBM_TITLE, SRAM_TITLE = 0.8, 1.1
_PAD = 0.18
_HBM_NAMES, _SRAM_NAMES, _SRAM_LABELS = 0.44, 0.5, 0.36
_GUTTER, _SLOT_GAP, _TILE_GAP = 0.42, 0.3, 0.05
_LEAST_WIDTH, _LEAST_HEIGHT = 0.36, 0.16
_MOST_CELL, _MOST_SLOT_CELL = (0.62, 0.44), (0.95, 0.6)
_LYING_CELL, _LYING_LABELS, _MOST_LYING = (0.75, 0.5), 0.3, 3


@dataclass(frozen=True)
class Place:
    """Where a matrix lies and how it is shown: its box, its grid of cells, style and size of numbers.

    With `lying` a column is drawn as a row.
    """

    box: Box
    grid: Grid
    style: Style
    em: float
    lying: bool = False

    def part(self, rows: tuple[int, int], columns: tuple[int, int]) -> Box:
        """The box around some rows and columns of the matrix, half-open ranges."""
        return (
            self.grid.part(self.box, columns, rows) if self.lying else self.grid.part(self.box, rows, columns)
        )

    def row(self, row: int) -> Box:
        """The box around one row of the matrix."""
        return self.part((row, row + 1), (0, self.grid.rows if self.lying else self.grid.columns))


@dataclass(frozen=True)
class Plan:
    """Where the arrays of HBM and the slots of SRAM lie, by name, from left to right."""

    hbm: Mapping[str, Place]
    sram: Mapping[str, Place]


def plan(story: Story, arrays: Sequence[str], slots: Sequence[str], film: Sequence[Story] = ()) -> Plan:
    """Where `arrays` and `slots` lie, in this order; numbers have room for all that the `film` shows.

    Where there are only a few vectors, they lie: each is a row.
    """
    layout = story.trace.layout
    launch = layout.launches[story.launch]
    widths = {symbol: widest(values_of(film or (story,), symbol)) for symbol in _symbols(story)}
    in_hbm = [layout.array(name) for name in arrays]
    in_sram = [(name, launch.slot(name).symbol, *matrix_shape(launch.slot(name).shape)) for name in slots]
    columns = [*(array.columns for array in in_hbm), *(width for *_, width in in_sram)]
    lying = len(in_hbm) <= _MOST_LYING and set(columns) == {1}
    if lying:
        in_sram = [(name, symbol, 1, rows) for name, symbol, rows, _ in in_sram]
    return Plan(
        _evened(_lying_in_hbm(in_hbm, widths) if lying else _in_hbm(in_hbm, widths)),
        _evened(_in_sram(in_sram, widths, lying)),
    )


def _in_hbm(arrays: Sequence[ArrayLayout], widths: Mapping[str, float]) -> dict[str, Place]:
    """Matrices side by side, one scale for all."""
    rows = max(array.rows for array in arrays)
    tiles = max(array.tiles for array in arrays)
    room = Box(
        HBM.left + HBM_TITLE,
        HBM.top - _HBM_NAMES,
        HBM.width - HBM_TITLE - _PAD,
        HBM.height - _HBM_NAMES - _PAD,
    )
    gap = _TILE_GAP if room.height / tiles >= 0.3 else 0.0
    height = min(room.height, rows * _MOST_CELL[1] + gap * (tiles - 1))
    down = (height - gap * (tiles - 1)) / rows
    boxes = _row(
        room,
        [array.columns for array in arrays],
        [max(down * array.rows + gap * (array.tiles - 1), _LEAST_HEIGHT) for array in arrays],
        _GUTTER,
        [_least(widths[array.symbol], down) for array in arrays],
        _MOST_CELL[0],
    )
    return {
        array.name: _place(box, Grid(array.rows, array.columns, array.tile, gap), widths[array.symbol])
        for array, box in zip(arrays, boxes, strict=True)
    }


def _lying_in_hbm(arrays: Sequence[ArrayLayout], widths: Mapping[str, float]) -> dict[str, Place]:
    """Vectors as rows, one below the other."""
    most, tiles = max(array.rows for array in arrays), max(array.tiles for array in arrays)
    room = Box(
        HBM.left + HBM_TITLE + 0.5, HBM.top - _PAD, HBM.width - HBM_TITLE - 0.5 - _PAD, HBM.height - 2 * _PAD
    )
    gap = _TILE_GAP if room.width / tiles >= 0.3 else 0.0
    across = min((room.width - gap * (tiles - 1)) / most, _LYING_CELL[0])
    band = room.height / len(arrays)
    height = min(band - _LYING_LABELS - 0.08, _LYING_CELL[1])
    found = {}
    for n, array in enumerate(arrays):
        top = room.top - (n + 0.5) * band + (height - _LYING_LABELS) / 2
        box = Box(room.left, top, array.rows * across + gap * (array.tiles - 1), height)
        grid = Grid(1, array.rows, array.tile, gap, across=True)
        found[array.name] = _place(box, grid, widths[array.symbol], lying=True)
    return found


def _in_sram(
    slots: Sequence[tuple[str, str, int, int]], widths: Mapping[str, float], lying: bool
) -> dict[str, Place]:
    """Slots side by side, one scale for all."""
    most_rows = max(rows for _, _, rows, _ in slots)
    room = Box(
        SRAM.left + SRAM_TITLE,
        SRAM.top - _SRAM_NAMES,
        SRAM.width - SRAM_TITLE - _PAD,
        SRAM.height - _SRAM_NAMES - _SRAM_LABELS - 0.1,
    )
    down = min(room.height / most_rows, _MOST_SLOT_CELL[1])
    heights = [max(rows * down, _LEAST_HEIGHT) for _, _, rows, _ in slots]
    room = Box(room.left, room.top - (room.height - max(heights)) / 2, room.width, max(heights))
    boxes = _row(
        room,
        [columns for *_, columns in slots],
        heights,
        _SLOT_GAP,
        [_least(widths[symbol], down) for _, symbol, _, _ in slots],
        _MOST_SLOT_CELL[0],
    )
    return {
        name: _place(
            box,
            Grid(rows, columns, columns if lying else rows, 0.0, across=lying),
            widths[symbol],
            lying=lying,
        )
        for (name, symbol, rows, columns), box in zip(slots, boxes, strict=True)
    }


def _symbols(story: Story) -> set[str]:
    layout = story.trace.layout
    return {array.symbol for array in layout.arrays} | {
        slot.symbol for slot in layout.launches[story.launch].slots
    }


def _least(widest_number: float, cell_height: float) -> float:
    """The least width of a matrix: that of one column of numbers, if numbers fit the height of its cells."""
    if 0.72 * cell_height < LEAST_EM:
        return _LEAST_WIDTH
    return max(_LEAST_WIDTH, widest_number * LEAST_EM / NUMBER_SHARE + 0.001)


def _row(
    room: Box,
    columns: Sequence[int],
    heights: Sequence[float],
    gap: float,
    least: Sequence[float],
    most: float,
) -> list[Box]:
    """Boxes side by side in the middle of `room`, their tops in line; each has a gap to its left."""
    free = room.width - gap * len(columns)
    column = cell_width(columns, free, least, most)
    widths = [max(n * column, enough) for n, enough in zip(columns, least, strict=True)]
    if sum(widths) > free:
        widths = [width * free / sum(widths) for width in widths]
    x = room.left + (free - sum(widths)) / 2
    boxes = []
    for width, height in zip(widths, heights, strict=True):
        x += gap
        boxes.append(Box(x, room.top, width, height))
        x += width
    return boxes


def _place(box: Box, grid: Grid, widest_number: float, lying: bool = False) -> Place:
    width, height = grid.cell(box)
    return Place(
        box,
        grid,
        style_for(width, height, widest_number),
        min(number_em(width, height, widest_number), MOST_EM),
        lying,
    )


def _evened(places: Mapping[str, Place]) -> dict[str, Place]:
    """The places with numbers of one size: the smallest that any of them needs."""
    sizes = [place.em for place in places.values() if place.style == "numbers"]
    em = min(sizes, default=MOST_EM)
    return {name: replace(place, em=em) for name, place in places.items()}
