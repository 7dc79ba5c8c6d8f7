"""What stands beside the memories: the caption, the traffic so far, and where in the loops we are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from manim import VGroup, VMobject

from kernels.layout import ArrayLayout, Loop
from scenes.boxes import Box, rectangles
from scenes.lettering import Lettering, line_width
from scenes.names import array_math, name_math
from scenes.numerals import MOST_DECIMALS, Numerals, decimals_of, number_outline, written
from scenes.story import Crossed
from scenes.theme import Theme
from scenes.workings import Line, Number

_LABEL_EM, _NUMBER_EM, _SMALL_EM, _WORD_SPACE = 0.28, 0.215, 0.19, 0.22
_LOOP_EM, _LEAST_SQUARE = 0.24, 0.08


def symbol_colors(theme: Theme) -> dict[str, str]:
    """The text colour of each letter that has a meaning."""
    return {symbol: hue.text for symbol, hue in theme.hues.items()}


class Caption(VGroup):
    """The caption line in `box`: what happens in this step."""

    def __init__(self, box: Box, theme: Theme, em: float = 0.45) -> None:
        super().__init__()
        self.box, self.theme, self.em, self.text = box, theme, em, ""

    def say(self, text: str) -> None:
        """Show another caption."""
        self.text = text
        self.submobjects.clear()
        if text:
            at = self.box.center[0], self.box.center[1] - 0.33 * self.em
            self.add(
                Lettering(
                    text,
                    self.em,
                    self.theme.ink,
                    at,
                    align="center",
                    colors=symbol_colors(self.theme),
                    room=self.box.width,
                )
            )


class Memory(VGroup):
    """HBM or SRAM: a panel that fills `box`, with its name along the left edge."""

    def __init__(self, name: str, box: Box, theme: Theme) -> None:
        super().__init__()
        self.box = box
        title = Lettering(name, 0.3, theme.ink, (0.0, 0.0), align="center", weight="semibold")
        title.rotate(np.pi / 2).move_to((box.left + 0.24, box.center[1], 0))
        self.add(_outlined(box, theme.rule, theme.panel), title)


class Slot(VGroup):
    """A place in a memory for one tile, value or carry: an outline around `box` with a name above it.

    `name` is a letter in Typst mathematics, such as ``S_(i j)``; `symbol`, by default its first letter, has the colour.
    """

    def __init__(
        self, box: Box, name: str, theme: Theme, symbol: str | None = None, em: float = 0.36
    ) -> None:
        super().__init__()
        self.box = box
        color = theme.hue(symbol or name[0]).text
        self.add(Lettering(f"${name}$", em, color, (box.center[0], box.top + 0.19), align="center"))
        self.add(_outlined(box, theme.line))


def _outlined(box: Box, line: str, fill: str | None = None) -> VMobject:
    outline = VMobject(
        stroke_color=line, stroke_width=1.5, fill_color=fill, fill_opacity=float(fill is not None)
    )
    outline.points = rectangles(box.left, box.top, box.right, box.bottom)
    return outline


class TrafficPanel(VGroup):
    """Elements of each array moved across HBM so far, by the `blocks` it names: bars and numbers."""

    def __init__(
        self,
        arrays: Sequence[ArrayLayout],
        in_the_end: Mapping[str, Crossed],
        box: Box,
        theme: Theme,
        blocks: str = "this block",
    ) -> None:
        super().__init__()
        self.box, self.theme, self.arrays = box, theme, tuple(arrays)
        self._most = max((max(sums.reads, sums.writes) for sums in in_the_end.values()), default=0) or 1
        head = 0.62
        self._pitch = min(0.3, (box.height - head - 0.38) / max(len(arrays), 1))
        self._first = box.top - head - self._pitch / 2
        self._bar_left, self._bar_room = box.left + 0.52, 0.82
        self._columns = box.left + 1.92, box.right - 0.16
        self.still = VGroup()
        self.still.add(
            Lettering(
                "Traffic so far", 0.24, theme.ink, (box.left + 0.16, box.top - 0.28), weight="semibold"
            ),
            *(
                Lettering(word, _SMALL_EM * 0.95, theme.dim, (x, box.top - 0.52), align="right")
                for word, x in zip(("read", "written"), self._columns, strict=True)
            ),
            Lettering("elements", _SMALL_EM * 0.95, theme.dim, (self._bar_left, box.top - 0.52)),
            Lettering(blocks, _SMALL_EM * 0.95, theme.dim, (box.right - 0.16, box.top - 0.28), align="right"),
            *self._swatches(box.top - 0.47),
        )
        em = min(_LABEL_EM, self._pitch * 0.8)
        for array, y in zip(self.arrays, self._ys(), strict=True):
            color = theme.hue(array.symbol).text
            self.still.add(
                Lettering(array_math(array), em, color, (box.left + 0.28, y - 0.3 * em), align="center")
            )
        self.bars = VGroup(
            *(
                VGroup(
                    VMobject(fill_color=theme.hue(array.symbol).line, fill_opacity=1, stroke_width=0),
                    VMobject(stroke_color=theme.hue(array.symbol).line, stroke_width=1.5, fill_opacity=0),
                )
                for array in arrays
            )
        )
        self.numbers = VGroup()
        self.shown: dict[str, Crossed] = {}
        self.add(self.still, self.bars, self.numbers)
        self.count({array.name: Crossed() for array in arrays})

    def count(self, traffic: Mapping[str, Crossed]) -> None:
        """Show these numbers and bars as long."""
        self.shown = dict(traffic)
        self.grow_bars(traffic, traffic, 1.0)
        self.numbers.submobjects.clear()
        em = min(_NUMBER_EM, self._pitch * 0.8)
        for array, y in zip(self.arrays, self._ys(), strict=True):
            sums = traffic[array.name]
            for value, right in zip((sums.reads, sums.writes), self._columns, strict=True):
                self.numbers.add(
                    _number(str(value), em, right, y, self.theme.ink if value else self.theme.dim)
                )
        read = 4 * sum(sums.reads for sums in traffic.values())
        written = 4 * sum(sums.writes for sums in traffic.values())
        y = self.box.bottom + 0.19
        self.numbers.add(Lettering("bytes", _SMALL_EM * 0.95, self.theme.dim, (self._bar_left, y - 0.06)))
        for value, right in zip((read, written), self._columns, strict=True):
            self.numbers.add(_number(str(value), _NUMBER_EM, right, y, self.theme.ink))

    def grow_bars(self, before: Mapping[str, Crossed], after: Mapping[str, Crossed], part: float) -> None:
        """Show bars on the way from one count to the next."""
        thick = min(0.085, self._pitch * 0.3)
        for (full, hollow), array, y in zip(self.bars, self.arrays, self._ys(), strict=True):
            a, b = before[array.name], after[array.name]
            for bar, length, top in (
                (full, a.reads + (b.reads - a.reads) * part, y + thick * 1.25),
                (hollow, a.writes + (b.writes - a.writes) * part, y - thick * 0.25),
            ):
                right = self._bar_left + self._bar_room * length / self._most
                empty = length == 0
                bar.points = (
                    np.zeros((0, 3)) if empty else rectangles(self._bar_left, top, right, top - thick)
                )

    def _swatches(self, y: float) -> list[VMobject]:
        """What the heads of the columns mean by full and hollow bars."""
        full = VMobject(fill_color=self.theme.dim, fill_opacity=1, stroke_width=0)
        hollow = VMobject(stroke_color=self.theme.dim, stroke_width=1.5, fill_opacity=0)
        for swatch, word, right in zip((full, hollow), ("read", "written"), self._columns, strict=True):
            end = right - line_width(word, _SMALL_EM * 0.95) - 0.07
            swatch.points = rectangles(end - 0.1, y + 0.045, end, y - 0.045)
        return [full, hollow]

    def _ys(self) -> list[float]:
        return [self._first - n * self._pitch for n in range(len(self.arrays))]


class LoopPanel(VGroup):
    """The loops around the steps, outermost first: the value of each, and how far it has come.

    `turns` are the values each loop takes in this block, by default all; the others, another block's or skipped, are
    faint.
    """

    def __init__(
        self, loops: Sequence[Loop], box: Box, theme: Theme, turns: Mapping[str, frozenset[int]] | None = None
    ) -> None:
        super().__init__()
        self.loops, self.box, self.theme = tuple(loops), box, theme
        self.turns = {loop.name: (turns or {}).get(loop.name, frozenset(range(loop.turns))) for loop in loops}
        self.values: dict[str, int] = {}
        self.at({})

    def at(self, values: Mapping[str, int]) -> None:
        """Show these values; a loop without one has not begun or is between turns."""
        self.values = dict(values)
        self.submobjects.clear()
        pitch = self.box.width / max(len(self.loops), 2)
        for n, loop in enumerate(self.loops):
            left, width, known = self.box.left + n * pitch, pitch - 0.15, loop.name in values
            text = f"{name_math(loop.name)} = {values[loop.name]}" if known else name_math(loop.name)
            if line_width(f"loop {text}", _LOOP_EM) <= width:
                text = f"loop {text}"
            color = self.theme.ink if known else self.theme.dim
            self.add(Lettering(text, _LOOP_EM, color, (left, self.box.top - 0.2), room=width))
            self.add(*self._squares(loop, values.get(loop.name), Box(left, self.box.top - 0.29, width, 0.12)))

    def _squares(self, loop: Loop, value: int | None, box: Box) -> list[VMobject]:
        """A row of squares, one for each turn, those begun filled; a bar where there are too many."""
        own = self.turns[loop.name]
        begun = [turn for turn in sorted(own) if value is not None and turn <= value]
        other = [turn for turn in range(loop.turns) if turn not in own]
        pitch = min(0.17, box.width / loop.turns)
        as_bar = pitch < _LEAST_SQUARE
        lefts = box.left + pitch * np.arange(loop.turns, dtype=np.float64)
        side = pitch if as_bar else 0.7 * pitch
        edges = rectangles(lefts, box.top, lefts + side, box.top - (box.height if as_bar else side))
        edges = edges.reshape(-1, 16, 3)
        parts = []
        if as_bar:
            whole = VMobject(stroke_color=self.theme.line, stroke_width=1.2, fill_opacity=0)
            whole.points = rectangles(box.left, box.top, box.right, box.bottom)
            parts.append(whole)
        else:
            for turns, color in ((other, self.theme.rule), (sorted(own), self.theme.line)):
                outline = VMobject(stroke_color=color, stroke_width=1.2, fill_opacity=0)
                outline.points = edges[turns].reshape(-1, 3)
                parts.append(outline)
        inside = VMobject(fill_color=self.theme.ink, fill_opacity=1, stroke_width=0)
        inside.points = edges[begun].reshape(-1, 3)
        return [*parts, inside]


class Worked(VGroup):
    """A line of a formula with its numbers put in, in `box`, each number in the colour of its letter.

    `decimals` are those that the letters are written with elsewhere; a number that needs more has two.
    """

    def __init__(self, box: Box, theme: Theme, decimals: Mapping[str, int], em: float = 0.4) -> None:
        super().__init__()
        self.box, self.theme, self.decimals, self.em = box, theme, decimals, em
        self.line: Line = ()

    def say(self, line: Line) -> None:
        """Show another line."""
        self.line = line
        self.submobjects.clear()
        widths = [self._width(part) for part in line]
        total = sum(widths) + _WORD_SPACE * max(len(line) - 1, 0)
        em = self.em * min(1.0, self.box.width / (self.em * total)) if total else self.em
        x, base = self.box.center[0] - em * total / 2, self.box.center[1] - 0.33 * em
        for part, width in zip(line, widths, strict=True):
            if isinstance(part, Number):
                color = self.theme.hue(part.symbol).text if part.symbol else self.theme.ink
                numerals = Numerals([self._written(part)], color)
                numerals.place(np.array([[x + em * width / 2, base + 0.325 * em]]), em)
                self.add(numerals)
            else:
                self.add(Lettering(part, em, self.theme.dim, (x, base), colors=symbol_colors(self.theme)))
            x += em * (width + _WORD_SPACE)

    def _width(self, part: str | Number) -> float:
        return (
            number_outline(self._written(part)).width if isinstance(part, Number) else line_width(part, 1.0)
        )

    def _written(self, number: Number) -> str:
        usual = self.decimals.get(number.symbol, MOST_DECIMALS)
        return written(number.value, max(usual, decimals_of([number.value])))


def _number(text: str, em: float, right: float, y: float, color: str) -> Numerals:
    number = Numerals([text], color)
    number.place(np.zeros((1, 2)), em)
    number.points += (right - number.points[:, 0].max(), y, 0.0)
    return number
