"""Numbers: how they are written, and many of them drawn as one path from glyphs built once."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cache

import numpy as np
import numpy.typing as npt
from manim import Typst, VMobject

from scenes.boxes import Points
from scenes.lettering import Outline, em_of

MOST_DECIMALS = 2
MINUS, INFINITY = "\N{MINUS SIGN}", "\N{INFINITY}"
_SIGNS = f"123456789{MINUS}.{INFINITY}e–"


def decimals_of(values: npt.ArrayLike) -> int:
    """The fewest decimals, at most two, with which every one of these numbers is written exactly; else two."""
    finite = np.ravel(np.asarray(values, np.float32))
    finite = finite[np.isfinite(finite)]
    exact = (
        n
        for n in range(MOST_DECIMALS)
        if (np.round(finite.astype(float), n).astype(np.float32) == finite).all()
    )
    return next(exact, MOST_DECIMALS)


def written(value: float, decimals: int = MOST_DECIMALS) -> str:
    """A number in at most six characters: so many decimals while there is room, fewer for large ones."""
    if math.isnan(value):
        return "–"
    sign = MINUS if value < 0 else ""
    size = abs(value)
    if math.isinf(size):
        return sign + INFINITY
    for bound, most in ((9.995, 2), (99.95, 1), (9999.5, 0)):
        if size < bound:
            text = f"{size:.{min(decimals, most)}f}"
            return text if float(text) == 0 else sign + text
    return sign + f"{size:.0e}".replace("e+0", "e").replace("e+", "e")


@cache
def _glyphs() -> dict[str, Outline]:
    """Each sign's outline in em and its advance, measured between two zeros."""
    row = Typst(
        f'#"0{"".join(sign + "0" for sign in "0" + _SIGNS)}"',
        typst_preamble='#set text(font: "Libertinus Serif", kerning: false, ligatures: false)\n',
        track_baselines=True,
    )
    shapes = row.family_members_with_points()
    paths = [shape.points / em_of(row) for shape in shapes]
    lefts = [float(path[:, 0].min()) for path in paths]
    zero_width = lefts[1] - lefts[0]
    middle = float(paths[0][:, 1].max() + paths[0][:, 1].min()) / 2
    bearing = (zero_width - float(np.ptp(paths[0][:, 0]))) / 2
    glyphs = {}
    for n, sign in enumerate("0" + _SIGNS):
        before, here, after = 2 * n, 2 * n + 1, 2 * n + 2
        pen = lefts[before] - bearing + zero_width
        glyphs[sign] = Outline(paths[here] - (pen, middle, 0.0), lefts[after] - lefts[before] - zero_width)
    return glyphs


@cache
def number_outline(text: str) -> Outline:
    """A number as one path in em, its middle at the origin."""
    pen, paths = 0.0, []
    for sign in text:
        glyph = _glyphs()[sign]
        paths.append(glyph.points + np.array([pen, 0.0, 0.0]))
        pen += glyph.width
    return Outline(np.concatenate(paths) - (pen / 2, 0.0, 0.0), pen)


def widest(values: npt.ArrayLike, decimals: int = MOST_DECIMALS) -> float:
    """The width, in em, of the widest of these numbers as written; 0 for none."""
    return widest_of({written(float(value), decimals) for value in np.ravel(values)})


def widest_of(texts: Iterable[str]) -> float:
    """The width, in em, of the widest of these written numbers; 0 for none."""
    return max((number_outline(text).width for text in texts if text), default=0.0)


class Numerals(VMobject):
    """Numbers in one path, each on its own place."""

    def __init__(self, texts: Sequence[str], color: str) -> None:
        super().__init__(fill_color=color, fill_opacity=1, stroke_width=0)
        self.texts = tuple(texts)
        paths = [number_outline(text).points if text else np.zeros((0, 3)) for text in texts]
        self._shape = np.concatenate([np.zeros((0, 3)), *paths])
        lengths = [len(path) for path in paths]
        self._owner = np.repeat(np.arange(len(paths)), lengths)
        self._ends = np.concatenate([[0], np.cumsum(lengths)]).astype(int)
        self._all: Points = self._shape

    def place(self, centers: Points, em: float) -> None:
        """Put each number's middle on its row of `centers` (n, 2), `em` high."""
        points = self._shape * em
        points[:, :2] += centers[self._owner]
        self._all = self.points = points

    def first(self, count: int) -> None:
        """Show only the first `count` numbers."""
        self.points = self._all[: self._ends[count]]
