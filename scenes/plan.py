"""Where everything lies on the canvas, worked out from the sizes in the trace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from kernels.layout import ArrayLayout
from scenes.boxes import Box, cell_width
from scenes.matrix import EM_SHARE, LEAST_EM, MOST_EM, NUMBER_SHARE, Grid, Style, number_em, style_for
from scenes.numerals import decimals_of, widest
from scenes.story import Story, matrix_shape, values_of

TITLE = Box(-6.9, 3.9, 13.8, 0.4)
HBM = Box(-6.9, 3.46, 10.7, 2.62)
TRAFFIC = Box(3.9, 3.46, 3.0, 2.62)
LOOPS = Box(-6.9, 0.8, 2.6, 0.42)
BLOCKS = Box(-1.6, 0.78, 3.2, 0.46)
SRAM = Box(-6.9, 0.06, 13.8, 2.76)
CAPTION = Box(-6.9, -2.74, 13.8, 0.58)
WORKED = Box(-6.9, -3.36, 13.8, 0.5)

NAME_EM = 0.36
LEGEND = 0.34  # below a heat map
_HBM_NAMES, _SRAM_NAMES, _SRAM_LABELS = 0.48, 0.52, 0.42
_TITLE_ROOM, _PAD = 0.36, 0.18
_GUTTER, _SLOT_GAP, _MORE_GAP, _TILE_GAP = 0.42, 0.25, 0.3, 0.05
_LEAST_WIDTH, _LEAST_HEIGHT = 0.36, 0.16
_MOST_CELL, _MOST_SLOT_CELL = (0.7, 0.44), (1.0, 0.6)
_LYING_CELL, _LYING_LABELS, _LYING_NAMES, _MOST_LYING = (0.8, 0.5), 0.3, 0.55, 3
_ROOMY = 1.3  # how much wider than its numbers need a cell may be


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

    Where there are only a few vectors, they lie: each is a row. Below each array of which anything is a heat map there
    is room for its legend.
    """
    layout = story.trace.layout
    launch = layout.launches[story.launch]
    shown = {symbol: values_of(film or (story,), symbol) for symbol in _symbols(story)}
    widths = {symbol: widest(values, decimals_of(values)) for symbol, values in shown.items()}
    in_hbm = [layout.array(name) for name in arrays]
    in_sram = [(name, launch.slot(name).symbol, *matrix_shape(launch.slot(name).shape)) for name in slots]
    columns = [*(array.columns for array in in_hbm), *(width for *_, width in in_sram)]
    lying = len(in_hbm) <= _MOST_LYING and set(columns) == {1}
    if lying:
        in_sram = [(name, symbol, 1, rows) for name, symbol, rows, _ in in_sram]
    sram = _in_sram(in_sram, widths, lying)
    heat = {symbol for name, symbol, *_ in in_sram if sram[name].style == "heat"}
    lay = _lying_in_hbm if lying else _in_hbm
    hbm = lay(in_hbm, widths, 0.0)
    if any(hbm[array.name].style == "heat" or array.symbol in heat for array in in_hbm):
        hbm = lay(in_hbm, widths, LEGEND)
    return Plan(_evened(hbm), _evened(sram))


def _in_hbm(arrays: Sequence[ArrayLayout], widths: Mapping[str, float], legend: float) -> dict[str, Place]:
    """Matrices side by side, one scale for all."""
    rows = max(array.rows for array in arrays)
    tiles = max(array.tiles for array in arrays)
    room = Box(
        HBM.left + _TITLE_ROOM,
        HBM.top - _HBM_NAMES,
        HBM.width - _TITLE_ROOM - _PAD,
        HBM.height - _HBM_NAMES - _PAD - legend,
    )
    gap = _TILE_GAP if room.height / tiles >= 0.3 else 0.0
    height = min(room.height, rows * _MOST_CELL[1] + gap * (tiles - 1))
    down = (height - gap * (tiles - 1)) / rows
    boxes = _row(
        Box(room.left, room.top - (room.height - height) / 2, room.width, height),
        [(array.columns, widths[array.symbol]) for array in arrays],
        [max(down * array.rows + gap * (array.tiles - 1), _LEAST_HEIGHT) for array in arrays],
        _GUTTER,
        (_MOST_CELL[0], down),
    )
    return {
        array.name: _place(box, Grid(array.rows, array.columns, array.tile, gap), widths[array.symbol])
        for array, box in zip(arrays, boxes, strict=True)
    }


def _lying_in_hbm(
    arrays: Sequence[ArrayLayout], widths: Mapping[str, float], legend: float
) -> dict[str, Place]:
    """Vectors as rows, one below the other."""
    most, tiles = max(array.rows for array in arrays), max(array.tiles for array in arrays)
    left = HBM.left + _TITLE_ROOM + _LYING_NAMES
    room = Box(left, HBM.top - _PAD, HBM.right - _PAD - left, HBM.height - 2 * _PAD)
    gap = _TILE_GAP if room.width / tiles >= 0.3 else 0.0
    across = min((room.width - gap * (tiles - 1)) / most, _LYING_CELL[0])
    band = room.height / len(arrays)
    height = min(band - _LYING_LABELS - legend - 0.08, _LYING_CELL[1])
    found = {}
    for n, array in enumerate(arrays):
        top = room.top - (n + 0.5) * band + (height - _LYING_LABELS + legend) / 2
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
        SRAM.left + _TITLE_ROOM,
        SRAM.top - _SRAM_NAMES,
        SRAM.width - _TITLE_ROOM - _PAD,
        SRAM.height - _SRAM_NAMES - _SRAM_LABELS,
    )
    down = min(room.height / most_rows, _MOST_SLOT_CELL[1])
    heights = [max(rows * down, _LEAST_HEIGHT) for _, _, rows, _ in slots]
    room = Box(room.left, room.top - (room.height - max(heights)) / 2, room.width, max(heights))
    boxes = _row(
        room,
        [(columns, widths[symbol]) for _, symbol, _, columns in slots],
        heights,
        _SLOT_GAP,
        (_MOST_SLOT_CELL[0], down),
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


def _row(
    room: Box,
    matrices: Sequence[tuple[int, float]],
    heights: Sequence[float],
    gap: float,
    cell: tuple[float, float],
) -> list[Box]:
    """Boxes side by side in the middle of `room`, their tops in line; each has a gap to its left.

    `matrices` are their columns and the width of their widest number; `cell` is the greatest width of a cell, and its
    height.
    """
    free = room.width - gap * len(matrices)
    widths = _for_numbers(matrices, free, cell) or _for_cells(matrices, free, cell)
    gap += min((free - sum(widths)) / len(widths), _MORE_GAP)
    x = room.left + (room.width - sum(widths) - gap * len(widths)) / 2
    boxes = []
    for width, height in zip(widths, heights, strict=True):
        x += gap
        boxes.append(Box(x, room.top, width, height))
        x += width
    return boxes


def _for_numbers(
    matrices: Sequence[tuple[int, float]], free: float, cell: tuple[float, float]
) -> list[float] | None:
    """Widths that give the numbers of all matrices one size; None if it could not be read."""
    most = min(_ROOMY * EM_SHARE * cell[1], MOST_EM) / NUMBER_SHARE
    em = cell_width(
        [columns * widest for columns, widest in matrices], free, [_LEAST_WIDTH] * len(matrices), most
    )
    if min(em * NUMBER_SHARE, EM_SHARE * cell[1]) < LEAST_EM:
        return None
    return [max(columns * widest * em, _LEAST_WIDTH) for columns, widest in matrices]


def _for_cells(matrices: Sequence[tuple[int, float]], free: float, cell: tuple[float, float]) -> list[float]:
    """Widths that give all matrices one width of cells; a column that can show numbers has room for them."""
    least = [_LEAST_WIDTH] * len(matrices)
    if EM_SHARE * cell[1] >= LEAST_EM:
        least = [max(_LEAST_WIDTH, widest * LEAST_EM / NUMBER_SHARE + 0.001) for _, widest in matrices]
    width = cell_width([columns for columns, _ in matrices], free, least, cell[0])
    widths = [max(columns * width, enough) for (columns, _), enough in zip(matrices, least, strict=True)]
    return [each * min(1.0, free / sum(widths)) for each in widths]


def _place(box: Box, grid: Grid, widest_number: float, lying: bool = False) -> Place:
    width, height = grid.cell(box)
    return Place(
        box,
        grid,
        style_for(width, height, widest_number),
        number_em(width, height, widest_number),
        lying,
    )


def _evened(places: Mapping[str, Place]) -> dict[str, Place]:
    """The places with numbers of one size: the smallest that any of them needs."""
    sizes = [place.em for place in places.values() if place.style == "numbers"]
    em = min(sizes, default=MOST_EM)
    return {name: replace(place, em=em) for name, place in places.items()}
