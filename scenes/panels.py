"""What stands beside the memories: the caption, the traffic so far, and where in the loops we are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from manim import VGroup, VMobject

from kernels.layout import ArrayLayout, Loop
from scenes.boxes import Box, rectangles
from scenes.lettering import Lettering, line_width
from scenes.names import array_math, name_math
from scenes.numerals import Numerals
from scenes.story import Crossed
from scenes.theme import Theme

_LABEL_EM, _NUMBER_EM, _SMALL_EM = 0.26, 0.2, 0.19


def symbol_colors(theme: Theme) -> dict[str, str]:
    """The text colour of each letter that has a meaning."""
    return {symbol: hue.text for symbol, hue in theme.hues.items()}


class Caption(VGroup):
    """The caption line in `box`: what happens in this step."""

    def __init__(self, box: Box, theme: Theme, em: float = 0.36) -> None:
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
        self._bar_left, self._bar_room = box.left + 0.5, 0.95
        self._columns = box.left + 2.0, box.right - 0.16
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
        em = min(_LABEL_EM, self._pitch * 0.95)
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
    """The loops around the steps, outermost first, in one line: the value of each, and how far it has come."""

    def __init__(self, loops: Sequence[Loop], box: Box, theme: Theme) -> None:
        super().__init__()
        self.loops, self.box, self.theme = tuple(loops), box, theme
        self.values: dict[str, int] = {}
        self.at({})

    def at(self, values: Mapping[str, int]) -> None:
        """Show these values; a loop without one has not begun or is between turns."""
        self.values = dict(values)
        self.submobjects.clear()
        if not self.loops:
            return
        em, base, gap = 0.25, self.box.center[1] - 0.08, 0.7
        depth = ("outer loop", "inner loop") if len(self.loops) == 2 else ("loop",) * len(self.loops)
        texts = [f"{word} {name_math(loop.name)}" for word, loop in zip(depth, self.loops, strict=True)]
        names = [line_width(text, em) for text in texts]
        values_wide = [line_width(f"= {loop.turns}", em) + 0.2 for loop in self.loops]
        room = (self.box.width - gap * (len(self.loops) - 1)) / len(self.loops)
        turns_wide = [
            min(0.19 * loop.turns, 2.4, room - name - value)
            for loop, name, value in zip(self.loops, names, values_wide, strict=True)
        ]
        total = sum(names) + sum(values_wide) + sum(turns_wide) + gap * (len(self.loops) - 1)
        x = self.box.center[0] - total / 2
        for n, loop in enumerate(self.loops):
            self.add(Lettering(texts[n], em, self.theme.dim, (x, base)))
            x += names[n]
            if loop.name in values:
                self.add(Lettering(f"= {values[loop.name]}", em, self.theme.ink, (x + 0.06, base)))
            x += values_wide[n]
            self.add(*self._turns(loop, values.get(loop.name), Box(x, base + 0.145, turns_wide[n], 0.13)))
            x += turns_wide[n] + gap

    def _turns(self, loop: Loop, value: int | None, box: Box) -> list[VMobject]:
        """A row of squares, one for each turn, those begun filled; a bar where there are too many."""
        begun = 0 if value is None else value + 1
        pitch = box.width / loop.turns
        if pitch >= 0.08:
            lefts = box.left + pitch * np.arange(loop.turns)
            side = min(box.height, pitch * 0.7)
            top = box.center[1] + side / 2
            edges = rectangles(lefts, top, lefts + side, top - side)
            filled = edges[: 16 * begun]
        else:
            edges = rectangles(box.left, box.top, box.right, box.bottom)
            filled = rectangles(box.left, box.top, box.left + box.width * begun / loop.turns, box.bottom)
            filled = filled if begun else filled[:0]
        outline = VMobject(stroke_color=self.theme.line, stroke_width=1.2, fill_opacity=0)
        outline.points = edges
        inside = VMobject(fill_color=self.theme.ink, fill_opacity=1, stroke_width=0)
        inside.points = filled
        return [outline, inside]


def _number(text: str, em: float, right: float, y: float, color: str) -> Numerals:
    number = Numerals([text], color)
    number.place(np.zeros((1, 2)), em)
    number.points += (right - number.points[:, 0].max(), y, 0.0)
    return number
