"""Where everything lies on the canvas, worked out from the sizes in the trace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scenes.boxes import Box, cell_width
from scenes.matrix import LEAST_EM, MOST_EM, NUMBER_SHARE, Grid, Style, number_em, style_for
from scenes.numerals import widest
from scenes.story import Story, matrix_shape, values_of

TITLE = Box(-6.75, 3.86, 13.5, 0.4)
HBM = Box(-6.75, 3.4, 10.25, 2.52)
TRAFFIC = Box(3.65, 3.4, 3.1, 2.52)
BLOCKS = Box(-1.6, 0.78, 3.2, 0.46)
SRAM = Box(-6.75, 0.04, 13.5, 2.84)
CAPTION = Box(-6.75, -2.88, 13.5, 0.62)
LOOPS = Box(-6.75, -3.5, 13.5, 0.32)

NAME_EM = 0.3
TITLE_ROOM = 0.8
_PAD = 0.18
_HBM_NAMES, _SRAM_NAMES, _SRAM_LABELS = 0.42, 0.5, 0.36
_GUTTER, _SLOT_GAP, _TILE_GAP = 0.42, 0.3, 0.05
_LEAST_WIDTH, _LEAST_HEIGHT = 0.36, 0.16
_MOST_CELL = 0.62, 0.44


@dataclass(frozen=True)
class Place:
    """Where a matrix lies and how it is shown: its box, its grid of cells, style and size of numbers."""

    box: Box
    grid: Grid
    style: Style
    em: float


@dataclass(frozen=True)
class Plan:
    """Where the arrays of HBM and the slots of SRAM lie, by name, from left to right."""

    hbm: Mapping[str, Place]
    sram: Mapping[str, Place]


def plan(story: Story, arrays: Sequence[str], slots: Sequence[str], film: Sequence[Story] = ()) -> Plan:
    """Where `arrays` and `slots` lie, in this order; numbers have room for all that the `film` shows."""
    layout = story.trace.layout
    launch = layout.launches[story.launch]
    widths = {symbol: widest(values_of(film or (story,), symbol)) for symbol in _symbols(story)}

    in_hbm = [layout.array(name) for name in arrays]
    rows = max(array.rows for array in in_hbm)
    tiles = max(array.tiles for array in in_hbm)
    room = Box(
        HBM.left + TITLE_ROOM,
        HBM.top - _HBM_NAMES,
        HBM.width - TITLE_ROOM - _PAD,
        HBM.height - _HBM_NAMES - _PAD,
    )
    gap = _TILE_GAP if room.height / tiles >= 0.3 else 0.0
    height = min(room.height, rows * _MOST_CELL[1] + gap * (tiles - 1))
    boxes = _row(
        room,
        [array.columns for array in in_hbm],
        [height] * len(in_hbm),
        _GUTTER,
        [_least(widths[array.symbol], (height - gap * (tiles - 1)) / rows) for array in in_hbm],
    )
    hbm = {}
    for array, box in zip(in_hbm, boxes, strict=True):
        grid = Grid(array.rows, array.columns, array.tile, gap)
        cell_height = (height - gap * (tiles - 1)) / rows
        box = Box(box.left, box.top, box.width, cell_height * array.rows + gap * (array.tiles - 1))
        hbm[array.name] = _place(box, grid, widths[array.symbol])

    in_sram = [(name, launch.slot(name).symbol, *matrix_shape(launch.slot(name).shape)) for name in slots]
    most_rows = max(rows for _, _, rows, _ in in_sram)
    room = Box(
        SRAM.left + TITLE_ROOM + 0.1,
        SRAM.top - _SRAM_NAMES,
        SRAM.width - TITLE_ROOM - 0.1 - _PAD,
        SRAM.height - _SRAM_NAMES - _SRAM_LABELS - 0.1,
    )
    down = min(room.height / most_rows, _MOST_CELL[1])
    heights = [max(rows * down, _LEAST_HEIGHT) for _, _, rows, _ in in_sram]
    room = Box(room.left, room.top - (room.height - max(heights)) / 2, room.width, max(heights))
    boxes = _row(
        room,
        [columns for *_, columns in in_sram],
        heights,
        _SLOT_GAP,
        [_least(widths[symbol], down) for _, symbol, _, _ in in_sram],
    )
    sram = {
        name: _place(box, Grid(rows, columns, rows, 0.0), widths[symbol])
        for (name, symbol, rows, columns), box in zip(in_sram, boxes, strict=True)
    }
    return Plan(_evened(hbm), _evened(sram))


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
    room: Box, columns: Sequence[int], heights: Sequence[float], gap: float, least: Sequence[float]
) -> list[Box]:
    """Boxes side by side in the middle of `room`, their tops in line; each has a gap to its left."""
    free = room.width - gap * len(columns)
    column = cell_width(columns, free, least, _MOST_CELL[0])
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


def _place(box: Box, grid: Grid, widest_number: float) -> Place:
    width, height = grid.cell(box)
    return Place(
        box,
        grid,
        style_for(width, height, widest_number),
        min(number_em(width, height, widest_number), MOST_EM),
    )


def _evened(places: Mapping[str, Place]) -> dict[str, Place]:
    """The places with numbers of one size: the smallest that any of them needs."""
    sizes = [place.em for place in places.values() if place.style == "numbers"]
    em = min(sizes, default=MOST_EM)
    return {name: Place(place.box, place.grid, place.style, em) for name, place in places.items()}
