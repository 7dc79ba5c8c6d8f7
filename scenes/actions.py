"""The actions of a kernel as animations: move, compute, update, run block, drop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from manim import Animation, Mobject, VGroup, VMobject
from manim.utils.rate_functions import linear, smooth

from scenes.block_grid import BlockGrid, ZoomLines
from scenes.boxes import Box, rectangles
from scenes.matrix import Matrix
from scenes.panels import TrafficPanel
from scenes.story import Crossed


class Act(Animation):
    """An animation that shows moments between 0 and 1, and needs no copy of its mobject for that."""

    def create_starting_mobject(self) -> Any:
        return self.mobject

    def interpolate_mobject(self, alpha: float) -> None:
        self.show_moment(float(self.rate_func(min(max(alpha, 0.0), 1.0))))

    def show_moment(self, part: float) -> None:
        """Show things `part` of the way."""
        raise NotImplementedError


class MoveTile(Act):
    """A copy of a tile flies from one box to another."""

    def __init__(self, copy: Matrix, start: Box, end: Box, **options: Any) -> None:
        self.copy_of_tile, self.start, self.end = copy, start, end
        super().__init__(copy, **{"rate_func": smooth, **options})

    def show_moment(self, part: float) -> None:
        self.copy_of_tile.place(self.start.toward(self.end, part))


class FillCells(Act):
    """A compute: the cells of a matrix fill one after another, over what its slot held."""

    def __init__(self, matrix: Matrix, **options: Any) -> None:
        self.matrix = matrix
        super().__init__(matrix, **{"rate_func": linear, **options})

    def show_moment(self, part: float) -> None:
        self.matrix.show_cells(round(part * self.matrix.values.size))


class PointAt(Act):
    """While cells fill: outlines around the row of each factor that the cell being filled is made from.

    `rows` are the boxes of the rows that each row of the product is made from, `columns` those for its columns.
    """

    def __init__(self, rows: Sequence[Box], columns: Sequence[Box], color: str, **options: Any) -> None:
        self.rows, self.columns = tuple(rows), tuple(columns)
        self.outlines = VMobject(stroke_color=color, stroke_width=3, fill_opacity=0)
        super().__init__(self.outlines, **{"rate_func": linear, "remover": True, **options})

    def show_moment(self, part: float) -> None:
        across = max(len(self.columns), 1)
        cell = min(int(part * len(self.rows) * across), len(self.rows) * across - 1)
        boxes = [self.rows[cell // across], *self.columns[cell % across : cell % across + 1]]
        edges = np.array([(box.left, box.top, box.right, box.bottom) for box in boxes]).T
        self.outlines.points = rectangles(*edges)


class Rise(Act):
    """An update: the new value fills the slot from the bottom, under its new numbers, `over` what the slot held."""

    def __init__(self, matrix: Matrix, over: Matrix | None = None, **options: Any) -> None:
        self.matrix, self.over = matrix, over
        super().__init__(matrix, **{"rate_func": smooth, **options})

    def begin(self) -> None:
        if self.over is not None:
            self.over.hide_numbers()
        super().begin()

    def show_moment(self, part: float) -> None:
        self.matrix.rise(part)


class RunBlock(Act):
    """The square of a block fills, and the zoom lines grow from it, or slide to it from the block before."""

    def __init__(
        self,
        grid: BlockGrid,
        zoom: ZoomLines,
        slots: Box,
        index: int,
        before: int | None = None,
        **options: Any,
    ) -> None:
        self.grid, self.zoom, self.slots, self.index = grid, zoom, slots, index
        self.before = None if before is None else grid.square(before)
        super().__init__(VGroup(zoom, grid), **{"rate_func": smooth, **options})

    def show_moment(self, part: float) -> None:
        self.grid.fill(self.index, part)
        square = self.grid.square(self.index)
        if self.before is None:
            self.zoom.join(square, self.slots, part)
        else:
            self.zoom.join(self.before.toward(square, part), self.slots)


class Drop(Act):
    """A dropped tile leaves: it sinks into the bottom of its slot."""

    def __init__(self, matrix: Matrix, **options: Any) -> None:
        self.matrix, self.home = matrix, matrix.box
        super().__init__(matrix, **{"rate_func": smooth, "remover": True, **options})

    def show_moment(self, part: float) -> None:
        height = self.home.height * (1 - part)
        self.matrix.place(Box(self.home.left, self.home.bottom + height, self.home.width, height))
        if part > 0:
            self.matrix.hide_numbers()
        if part >= 1:
            self.matrix.frame.clear_points()


class CountTraffic(Act):
    """The bars of the traffic panel grow; its numbers change once the data has arrived."""

    def __init__(
        self, panel: TrafficPanel, before: Mapping[str, Crossed], after: Mapping[str, Crossed], **options: Any
    ) -> None:
        self.panel, self.before, self.after = panel, before, after
        super().__init__(panel.bars, **{"rate_func": smooth, **options})

    def show_moment(self, part: float) -> None:
        if part >= 1:
            self.panel.count(self.after)
        else:
            self.panel.grow_bars(self.before, self.after, part)


def ring(box: Box, color: str) -> Mobject:
    """The outline around a slot while it changes in place."""
    outline = VMobject(stroke_color=color, stroke_width=3.5, fill_opacity=0)
    grown = box.grown(0.055)
    outline.points = rectangles(grown.left, grown.top, grown.right, grown.bottom)
    return outline
