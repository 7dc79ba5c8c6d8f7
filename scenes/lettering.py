"""Text set with Typst, each word built once: the same letters on every machine."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
from manim import Typst, VGroup, VMobject

from scenes.boxes import Points

Weight = Literal["regular", "semibold"]

_UNIT_PER_POINT = 0.1  # of an em: Manim has Typst set text at 10 pt
_WORD = re.compile(r"\$[^$]*\$|[^\s$]+")
_SPACE = 0.27


@dataclass(frozen=True)
class Outline:
    """A word as one path, in em, with its baseline's left end at the origin; `width` is that of its ink."""

    points: Points
    width: float


def em_of(shape: Typst) -> float:
    """The length of one em of its text, in Manim units."""
    origin, right, _up = shape.baseline_frames[0]
    return float(np.linalg.norm(right - origin)) / _UNIT_PER_POINT


@cache
def outline(word: str, weight: Weight = "regular") -> Outline:
    """The outline of one word; between dollar signs it is Typst mathematics."""
    quoted = word.replace("\\", "\\\\").replace('"', '\\"')
    shape = Typst(
        "H#h(1em)" + (word if word.startswith("$") else f'#"{quoted}"'),
        typst_preamble=f'#set text(font: "Libertinus Serif", weight: "{weight}")\n',
        track_baselines=True,
        use_svg_cache=False,  # a deep copy of each, for nobody
    )
    upright, *glyphs = (glyph.points for glyph in shape.family_members_with_points())
    points = np.concatenate(glyphs) / em_of(shape)
    # Manim's own baseline leaves out where Typst put the line, so the foot of an H marks it.
    points -= (points[:, 0].min(), upright[:, 1].min() / em_of(shape), 0.0)
    return Outline(points, float(points[:, 0].max()))


def words(text: str) -> list[str]:
    """The words of a line; what stands between dollar signs is one word."""
    return _WORD.findall(text)


def line_width(text: str, em: float, weight: Weight = "regular") -> float:
    """How wide a line of `text` is."""
    parts = words(text)
    return em * (sum(outline(word, weight).width for word in parts) + _SPACE * max(len(parts) - 1, 0))


class Lettering(VGroup):
    """One line of text on a baseline.

    `at` is the point on the baseline that `align` speaks of. A mathematical word takes the colour that `colors` has
    for its first letter, everything else `color`. Lines wider than `room` are set smaller.
    """

    def __init__(
        self,
        text: str,
        em: float,
        color: str,
        at: tuple[float, float],
        *,
        align: Literal["left", "center", "right"] = "left",
        weight: Weight = "regular",
        colors: dict[str, str] | None = None,
        room: float | None = None,
    ) -> None:
        super().__init__()
        self.text = text
        width = line_width(text, em, weight)
        if room is not None and width > room > 0:
            em *= room / width
            width = room
        self.em = em
        x = at[0] - width * {"left": 0.0, "center": 0.5, "right": 1.0}[align]
        for word in words(text):
            shape = outline(word, weight)
            letter = word[1] if word.startswith("$") else ""
            self.add(_path(shape.points * em + (x, at[1], 0.0), (colors or {}).get(letter, color)))
            x += em * (shape.width + _SPACE)


def _path(points: Points, color: str) -> VMobject:
    path = VMobject(fill_color=color, fill_opacity=1, stroke_width=0)
    path.points = points
    return path
