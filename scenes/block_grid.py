"""The block grid, one square for each CUDA block of a launch, and the zoom lines from one of them to the slots."""

from __future__ import annotations

import math

import numpy as np
from manim import VGroup, VMobject

from kernels.trace import Block
from scenes.boxes import Box, Points, rectangles, segments
from scenes.theme import Theme

_MOST_SQUARE, _SPACING = 0.22, 1.35


class BlockGrid(VGroup):
    """The squares of a launch's grid in `box`; `fill` fills one of them.

    A one-dimensional grid of more than four blocks is folded into rows; one that is too fine to draw as squares
    becomes one bar, in which the block's place is marked.
    """

    def __init__(self, grid: tuple[int, int, int], box: Box, theme: Theme) -> None:
        super().__init__()
        self.launched, self.box = grid, box
        across, down = _folded(grid)
        pitch = min(_MOST_SQUARE * _SPACING, box.width / across, box.height / down)
        self.fine = pitch < 0.05
        if self.fine:
            across, down, pitch = math.prod(grid), 1, box.width / math.prod(grid)
        self._across, self._pitch = across, pitch
        self._side = pitch / _SPACING
        self._left = box.center[0] - across * pitch / 2 + (pitch - self._side) / 2
        self._top = box.center[1] + down * pitch / 2 - (pitch - self._side) / 2
        squares = [self.square(n) for n in range(math.prod(grid))] if not self.fine else [self._bar()]
        self.squares = VMobject(
            stroke_color=theme.line, stroke_width=1.5, fill_color=theme.paper, fill_opacity=1
        )
        self.squares.points = np.concatenate([_rectangle(square) for square in squares])
        self.filled = VMobject(fill_color=theme.ink, fill_opacity=1, stroke_width=0)
        self.add(self.squares, self.filled)

    def index(self, block: Block) -> int:
        """The place of a block in the order of the grid, x fastest."""
        return block[0] + self.launched[0] * (block[1] + self.launched[1] * block[2])

    def square(self, index: int) -> Box:
        """The square of a block."""
        if self.fine:
            bar = self._bar()
            return Box(bar.left + index * self._pitch, bar.top, max(self._pitch, 0.03), bar.height)
        row, column = divmod(index, self._across)
        return Box(self._left + column * self._pitch, self._top - row * self._pitch, self._side, self._side)

    def fill(self, index: int, part: float = 1.0) -> None:
        """Fill the square of a block, from its middle, as far as `part` says."""
        square = self.square(index)
        self.filled.points = _rectangle(square.grown(-(1 - part) * min(square.width, square.height) / 2))

    @property
    def right(self) -> float:
        """The x of its right edge."""
        return self._left + self._across * self._pitch if not self.fine else self._bar().right

    def _bar(self) -> Box:
        x, y = self.box.center
        return Box(x - self.box.width / 2, y + 0.1, self.box.width, 0.2)


class ZoomLines(VGroup):
    """Two lines from the bottom of a square to the top of the slots, with a faint beam between them."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self.beam = VMobject(fill_color=theme.rule, fill_opacity=0.45, stroke_width=0)
        self.lines = VMobject(stroke_color=theme.line, stroke_width=1.5, fill_opacity=0)
        self.add(self.beam, self.lines)

    def join(self, square: Box, slots: Box, part: float = 1.0) -> None:
        """Draw the lines from `square` as far toward `slots` as `part` says."""
        starts = np.array([[square.left, square.bottom], [square.right, square.bottom]])
        ends = np.array([[slots.left, slots.top], [slots.right, slots.top]])
        reached = starts + (ends - starts) * part
        self.lines.points = segments(starts, reached)
        outline = np.array([starts[0], starts[1], reached[1], reached[0]])
        self.beam.points = segments(outline, np.roll(outline, -1, axis=0))


def _folded(grid: tuple[int, int, int]) -> tuple[int, int]:
    """How many squares lie across and down."""
    x, rest = grid[0], grid[1] * grid[2]
    if rest > 1:
        return x, rest
    if x <= 4:
        return x, 1
    down = 2 if x <= 16 else 3 if x <= 60 else 6
    return math.ceil(x / down), down


def _rectangle(box: Box) -> Points:
    return rectangles(box.left, box.top, box.right, box.bottom)
