"""The figure: HBM, SRAM with one block's slots, block grid, caption, traffic and loops, as one picture of a story."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from manim import Mobject, VGroup, VMobject

from kernels.trace import Array, Provenance
from scenes import plan as places
from scenes.actions import Act, FillCells, MoveTile, PointAt, Rise, ring
from scenes.block_grid import BlockGrid, ZoomLines
from scenes.boxes import Box, Points, rectangles, segments
from scenes.heat import scale_of
from scenes.lettering import Lettering, line_width
from scenes.matrix import Matrix, Style
from scenes.names import array_math, slot_math, tile_math
from scenes.numerals import decimals_of, written
from scenes.panels import Caption, LoopPanel, Memory, Slot, TrafficPanel, Worked, symbol_colors
from scenes.plan import NAME_EM, Place, plan
from scenes.score import Score
from scenes.skips import Skipped
from scenes.story import (
    Cleared,
    Computed,
    Content,
    Event,
    Loaded,
    Move,
    Picture,
    Story,
    Updated,
    carries,
    most_folds,
    values_of,
)
from scenes.theme import Theme, mix
from scenes.workings import Part

_LABEL_EM, _TILE_EM, _SMALL_EM = 0.32, 0.24, 0.22
_MOST_LEGEND = 1.2
_LEAST_GLANCE = 0.06  # seconds for one cell, below which nobody could follow an outline


class Figure:
    """The mobjects of one story.

    The heat maps, shades and bars are those of all the stories of the `film`. `still` never changes. `hbm` has one
    matrix for each array, `slots` what each slot holds, None while it is empty. :meth:`show` puts everything in the
    state of a picture at once; :meth:`acts` are the animations that lead there.
    """

    def __init__(self, story: Story, score: Score, theme: Theme, film: Sequence[Story] = ()) -> None:
        self.story, self.theme = story, theme
        self.arrays, self.slot_names = score.arrays[story.launch], score.slots[story.launch]
        self.plan = plan(story, self.arrays, self.slot_names, film)
        stories = film or (story,)
        layout = story.trace.layout
        self.launch = layout.launches[story.launch]
        symbols = {array.symbol for array in layout.arrays} | {slot.symbol for slot in self.launch.slots}
        values = {symbol: values_of(stories, symbol) for symbol in symbols}
        self._scales = {symbol: scale_of(each, theme.hue(symbol), theme) for symbol, each in values.items()}
        self.decimals = {symbol: decimals_of(each) for symbol, each in values.items()}
        self._carries, self._most_folds = carries(stories), max(most_folds(stories), 1)
        self.caption = Caption(places.CAPTION, theme)
        arrays = [layout.array(name) for name in self.arrays]
        blocks = "this block" if len(stories) == 1 else "these blocks"
        self.traffic = TrafficPanel(arrays, stories[-1].pictures[-1].traffic, places.TRAFFIC, theme, blocks)
        self.worked = Worked(places.WORKED, theme, self.decimals)
        self.loops = LoopPanel(self.launch.loops, places.LOOPS, theme, story.turns)
        self.grid = BlockGrid(self.launch.grid, places.BLOCKS, theme)
        self.zoom = ZoomLines(theme)
        self.hbm: dict[str, Matrix] = {}
        self.slots: dict[str, Matrix | None] = dict.fromkeys(self.slot_names)
        self.labels: dict[str, VGroup] = {name: VGroup() for name in self.slot_names}
        self._shown: Mapping[str, Content | None] = {}
        self.still = self._still()
        self.show(story.pictures[0])

    # What is on the canvas

    @property
    def mobjects(self) -> list[Mobject]:
        """Everything, in drawing order: what never moves first."""
        return [
            self.still,
            self.zoom,
            self.grid,
            self.loops,
            self.traffic.still,
            self.traffic.bars,
            self.traffic.numbers,
            *self.hbm.values(),
            *(matrix for matrix in self.slots.values() if matrix is not None),
            *self.labels.values(),
            self.caption,
            self.worked,
        ]

    def show(self, picture: Picture) -> None:
        """Put everything in the state of `picture`."""
        for name in self.arrays:
            self.hbm[name] = self._hbm_matrix(name, picture.hbm[name], picture.folds[name])
        for name in self.slot_names:
            content = picture.slots[name]
            self.slots[name] = None if content is None else self.slot_matrix(name, content)
            self.label(name, content)
        self._shown = picture.slots
        self.traffic.count(picture.traffic)
        self.loops.at(picture.step.loop if picture.step else {})
        index = self.grid.index(self.story.block)
        self.grid.fill(index)
        self.zoom.join(self.grid.square(index), places.SRAM)

    def label(self, name: str, content: Content | None) -> None:
        """Name, under a slot, the tile that it holds."""
        group = self.labels[name]
        group.submobjects.clear()
        if content is not None and content.array is not None and content.tile is not None:
            box = self.plan.sram[name].box
            group.add(
                Lettering(
                    tile_math(content.array, content.symbol, content.tile),
                    _LABEL_EM,
                    self.theme.hue(content.symbol).text,
                    (box.center[0], box.bottom - 0.3),
                    align="center",
                )
            )

    # The matrices

    def fill(self, content: Content) -> str:
        """The fill of what a slot or tile holds: a carry's grows stronger with each fold, a computed one alternates."""
        hue = self.theme.hue(content.symbol)
        if content.symbol in self._carries:
            return hue.fill(content.folds / self._most_folds)
        if content.turn:
            return hue.fill(float(content.turn % 2 == 0))
        return hue.fill(0.5)

    def slot_matrix(self, name: str, content: Content) -> Matrix:
        """What a slot holds, in its place."""
        place = self.plan.sram[name]
        return self._matrix(
            place,
            content.values,
            content.symbol,
            [self.fill(content)],
            content.shape,
            masked=content.turn > 0,
        )

    def copy_of(self, move: Move) -> Matrix:
        """The flying copy of a tile, shown as its slot shows it."""
        place = self.plan.sram[move.slot]
        values = move.content.values
        box = self._valid_box(move.slot, values.shape)
        return self._matrix(
            replace(place, box=box),
            values,
            move.content.symbol,
            [self.fill(move.content)],
            (values.shape[0], values.shape[1]),
        )

    def tile_box(self, move: Move) -> Box:
        """Where in HBM a tile comes from or goes to."""
        return self.plan.hbm[move.array].part(move.rows, move.columns)

    def _valid_box(self, slot: str, shape: tuple[int, ...]) -> Box:
        return self.plan.sram[slot].part((0, shape[0]), (0, shape[1]))

    def _hbm_matrix(self, name: str, values: Array, folds: Sequence[int]) -> Matrix:
        array = self.story.trace.layout.array(name)
        place = self.plan.hbm[name]
        tiles = [values[n * array.tile : (n + 1) * array.tile] for n in range(array.tiles)]
        fills = [
            self.theme.panel
            if np.isnan(tile).all()
            else self.fill(Content(tile, tile.shape, array.symbol, name, n, count))
            for n, (tile, count) in enumerate(zip(tiles, folds, strict=True))
        ]
        return self._matrix(place, values, array.symbol, fills, (array.rows, array.columns))

    def _matrix(
        self,
        place: Place,
        values: Array,
        symbol: str,
        fills: Sequence[str],
        room: tuple[int, int],
        masked: bool = False,
    ) -> Matrix:
        hue = self.theme.hue(symbol)
        if place.lying:
            values, room = values.T, (room[1], room[0])
        style: Style = place.style
        tile = place.grid.tile if len(fills) > 1 else None
        gap = place.grid.gap if len(fills) > 1 else 0.0
        return Matrix(
            values,
            place.box,
            style,
            fills=fills,
            line=hue.line,
            ink=self.theme.ink,
            scale=self._scales[symbol],
            em=place.em,
            decimals=self.decimals[symbol],
            tile=tile,
            gap=gap,
            across=place.lying,
            masked=masked,
            room=room,
            between=self.theme.panel,
            hatch=self.theme.line,
        )

    # How it comes about

    def acts(self, phase: Sequence[Event], seconds: float) -> tuple[list[Act], list[Mobject]]:
        """The animations of one phase, and mobjects that are on the canvas only while it lasts."""
        acts: list[Act] = []
        passing: list[Mobject] = []
        if tiles := [self.tile_box(event) for event in phase if isinstance(event, Move)]:
            marks = self._mark()
            marks.points = np.concatenate([_box(tile) for tile in tiles])
            passing.append(marks)
        for event in phase:
            if isinstance(event, Move):
                copy = self.copy_of(event)
                here, there = self.tile_box(event), self._valid_box(event.slot, event.content.values.shape)
                start, end = (here, there) if isinstance(event, Loaded) else (there, here)
                acts.append(MoveTile(copy, start, end, run_time=seconds))
                passing.append(copy)
                continue
            new = self.slot_matrix(event.slot, event.content)
            box = self.plan.sram[event.slot].box
            if isinstance(event, Updated | Cleared):
                acts.append(Rise(new, self.slots[event.slot], run_time=seconds))
                outline = ring(box, self.theme.ink)
                passing += [new, outline]
            elif isinstance(event, Computed):
                acts.append(FillCells(new, run_time=seconds))
                passing.append(new)
                if event.rows is not None:
                    pointer = self._pointer(event.rows, event, seconds)
                    acts.append(pointer)
                    passing.append(pointer.outlines)
        return acts, passing

    def _pointer(self, factor: str, event: Computed, seconds: float) -> PointAt:
        rows, columns = event.content.values.shape

        def row_boxes(slot: str, count: int) -> list[Box]:
            return [self.plan.sram[slot].row(n) for n in range(count)]

        slow_enough = seconds / (rows * columns) >= _LEAST_GLANCE
        columns_from = row_boxes(event.columns, columns) if event.columns and slow_enough else []
        return PointAt(row_boxes(factor, rows), columns_from, self.theme.ink, run_time=seconds)

    def settle(self, phase: Sequence[Event], picture: Picture) -> tuple[list[Mobject], list[Mobject]]:
        """Put in place what a phase changed: the mobjects that are gone, and the ones that replace them."""
        gone: list[Mobject] = []
        new: list[Mobject] = []
        for event in phase:
            if isinstance(event, Move) and not isinstance(event, Loaded):
                gone.append(self.hbm[event.array])
                self.hbm[event.array] = self._hbm_matrix(
                    event.array, picture.hbm[event.array], picture.folds[event.array]
                )
                new.append(self.hbm[event.array])
                continue
            old = self.slots[event.slot]
            if old is not None:
                gone.append(old)
            matrix = self.slot_matrix(event.slot, event.content)
            self.slots[event.slot] = matrix
            self.label(event.slot, event.content)
            new.append(matrix)
        return gone, new

    def outlines(self, part: Part, row: int) -> VMobject:
        """Outlines around what a part of a step is worked out from, and around what it changes."""
        boxes = [self.plan.sram[name].row(row) for name in part.rows]
        boxes += [self.plan.sram[name].box for name in part.wholes]
        lines = self._mark()
        lines.points = np.concatenate([_box(box) for box in boxes])
        return lines

    def _mark(self) -> VMobject:
        """Lines that can be seen on every fill and every colour of a heat map: with a light edge."""
        return VMobject(
            stroke_color=self.theme.ink,
            stroke_width=3,
            background_stroke_color=self.theme.panel,
            background_stroke_width=6,
            fill_opacity=0,
        )

    def crosses(self, skipped: Skipped) -> VMobject:
        """Crosses over the tiles in HBM that are skipped."""
        lines = self._mark()
        ends: list[tuple[float, float, float, float]] = []
        for name, tile in skipped.tiles:
            if name in self.plan.hbm:
                place = self.plan.hbm[name]
                box = place.grid.tile_box(place.box, tile)
                ends.append((box.left, box.top, box.right, box.bottom))
                ends.append((box.left, box.bottom, box.right, box.top))
        corners = np.array(ends, float).reshape(-1, 4)
        lines.points = segments(corners[:, :2], corners[:, 2:])
        return lines

    # What never changes

    def _still(self) -> VGroup:
        theme, trace = self.theme, self.story.trace
        group = VGroup()
        group.add(Memory("HBM", places.HBM, theme), Memory("SRAM", places.SRAM, theme))
        group.add(Memory("", places.TRAFFIC, theme))
        colors = symbol_colors(theme)
        title = Lettering(trace.title, 0.38, theme.ink, (places.TITLE.left, 3.6), weight="semibold")
        parameters = ", ".join(
            f"{name.replace('_', ' ')} = {value}" for name, value in trace.params.items() if value
        )
        x = places.TITLE.left + line_width(trace.title, 0.38, "semibold") + 0.35
        where = where_recorded(trace.provenance)
        width = line_width(where, _SMALL_EM)
        group.add(
            title,
            Lettering(parameters, 0.27, theme.dim, (x, 3.6), room=places.TITLE.right - width - 0.4 - x),
            Lettering(where, _SMALL_EM, theme.dim, (places.TITLE.right, 3.6), align="right"),
        )
        in_sram = {self.launch.slot(name).symbol: place for name, place in self.plan.sram.items()}
        explained = set()
        for name, place in self.plan.hbm.items():
            array = trace.layout.array(name)
            color = theme.hue(array.symbol).text
            at = place.box.center[0], place.box.top + 0.15
            if place.lying:
                at = place.box.left - 0.3, place.box.center[1] - 0.08
            group.add(Lettering(array_math(array), NAME_EM, color, at, align="center", colors=colors))
            group.add(*self._tile_labels(place, name, array.symbol))
            if "heat" in (place.style, *(in_sram[s].style for s in in_sram if s == array.symbol)):
                group.add(*self._legend(place, array.symbol))
                explained.add(array.symbol)
        for name, place in self.plan.sram.items():
            slot = self.launch.slot(name)
            group.add(Slot(place.box, slot_math(slot).strip("$"), theme, slot.symbol, NAME_EM))
            if place.style == "heat" and slot.symbol not in explained:
                group.add(*self._legend(place, slot.symbol))
        which = [f"block {self.grid.index(self.story.block) + 1} of {int(np.prod(self.launch.grid))}"]
        if len(trace.layout.launches) > 1:
            which.insert(0, f"launch {self.story.launch + 1} of {len(trace.layout.launches)}")
        at = places.SRAM.right, places.LOOPS.top - 0.2
        group.add(Lettering(", ".join(which), _SMALL_EM, theme.dim, at, align="right"))
        return group

    def _legend(self, place: Place, symbol: str) -> list[VMobject]:
        """The scale of a heat map, below it: from as far below zero as the greatest value is above it."""
        scale, box = self._scales[symbol], place.box
        width, steps = min(box.width, _MOST_LEGEND), np.linspace(-1, 1, 9)
        left, top, pitch = box.center[0] - width / 2, box.bottom - 0.06, width / len(steps)
        parts: list[VMobject] = []
        for n, share in enumerate(steps):
            color = mix(scale.zero, scale.above if share >= 0 else scale.below, abs(float(share)) ** 0.5)
            swatch = VMobject(fill_color=color, fill_opacity=1, stroke_width=0)
            swatch.points = rectangles(left + n * pitch, top, left + (n + 1) * pitch, top - 0.08)
            parts.append(swatch)
        edge = VMobject(stroke_color=self.theme.line, stroke_width=1, fill_opacity=0)
        edge.points = rectangles(left, top, left + width, top - 0.08)
        most = "±" + written(scale.most, self.decimals[symbol])
        at = box.center[0], box.bottom - places.LEGEND + 0.04
        return [*parts, edge, Lettering(most, 0.2, self.theme.dim, at, align="center")]

    def _tile_labels(self, place: Place, name: str, symbol: str) -> list[Lettering]:
        """Labels left of the tiles, above them where they lie; where tiles are too small, only of some of them."""
        grid = place.grid
        pitch = grid.cell(place.box)[not place.lying] * grid.tile + grid.gap
        em = _TILE_EM
        least = em * (2.2 if place.lying else 1.0)
        every = next(n for n in (1, 2, 4, 5, 8, 10, 16, 20, 32, 50, 64, 128, 10**9) if n * pitch >= least)
        boxes = [grid.tile_box(place.box, n) for n in range(0, grid.tiles, every)]
        along = [box.center[not place.lying] for box in boxes]
        labels = []
        for n, box in enumerate(boxes):
            if n and abs(along[n] - along[n - 1]) < least:  # a ragged tile is smaller than the others
                break
            at = place.box.left - 0.07, box.center[1] - 0.06
            if place.lying:
                at = box.center[0], box.top + 0.1
            text, color = tile_math(name, symbol, n * every), self.theme.hue(symbol).text
            labels.append(
                Lettering(text, em, color, at, align="center" if place.lying else "right", room=0.32)
            )
        return labels


def where_recorded(provenance: Provenance) -> str:
    """Where and when a run was made, in one line."""
    kind = "GPU" if provenance.backend == "cupy" else "CPU"
    return f"recorded on {kind} {provenance.device}, {provenance.recorded_at[:10]}"


def _box(box: Box) -> Points:
    return rectangles(box.left, box.top, box.right, box.bottom)
