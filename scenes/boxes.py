"""Boxes on the canvas, and how the room in a row is shared out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Points = npt.NDArray[np.float64]

FRAME_WIDTH, FRAME_HEIGHT = 128 / 9, 8.0


@dataclass(frozen=True)
class Box:
    """An upright rectangle in Manim units: its left and top edge, its width and height."""

    left: float
    top: float
    width: float
    height: float

    @property
    def right(self) -> float:
        """The x of its right edge."""
        return self.left + self.width

    @property
    def bottom(self) -> float:
        """The y of its bottom edge."""
        return self.top - self.height

    @property
    def center(self) -> tuple[float, float]:
        """The x and y of its middle."""
        return self.left + self.width / 2, self.top - self.height / 2

    def grown(self, by: float) -> Box:
        """The box with `by` more on each side."""
        return Box(self.left - by, self.top + by, self.width + 2 * by, self.height + 2 * by)

    def toward(self, other: Box, part: float) -> Box:
        """The box on the way to `other`: this one at 0, the other at 1."""

        def between(a: float, b: float) -> float:
            return a + (b - a) * part

        return Box(
            between(self.left, other.left),
            between(self.top, other.top),
            between(self.width, other.width),
            between(self.height, other.height),
        )

    def holds(self, other: Box, slack: float = 1e-6) -> bool:
        """Whether `other` lies inside."""
        return (
            self.left <= other.left + slack
            and self.right >= other.right - slack
            and self.top >= other.top - slack
            and self.bottom <= other.bottom + slack
        )

    def meets(self, other: Box, slack: float = 1e-6) -> bool:
        """Whether the two overlap by more than `slack`."""
        return (
            self.left < other.right - slack
            and other.left < self.right - slack
            and self.bottom < other.top - slack
            and other.bottom < self.top - slack
        )


FRAME = Box(-FRAME_WIDTH / 2, FRAME_HEIGHT / 2, FRAME_WIDTH, FRAME_HEIGHT)


def rectangles(
    left: npt.ArrayLike, top: npt.ArrayLike, right: npt.ArrayLike, bottom: npt.ArrayLike
) -> Points:
    """Rectangles as one path of cubic curves, 16 points for each, in the order of the arrays given."""
    lefts, tops, rights, bottoms = (np.ravel(edge) for edge in np.broadcast_arrays(left, top, right, bottom))
    corners = np.stack(
        [
            np.stack([lefts, tops], -1),
            np.stack([rights, tops], -1),
            np.stack([rights, bottoms], -1),
            np.stack([lefts, bottoms], -1),
        ],
        axis=1,
    ).astype(np.float64)
    ends = np.roll(corners, -1, axis=1)
    curves = np.stack(
        [corners, corners + (ends - corners) / 3, corners + (ends - corners) * 2 / 3, ends], axis=2
    )
    flat = curves.reshape(-1, 2)
    return np.concatenate([flat, np.zeros((len(flat), 1))], axis=1)


def segments(starts: Points, ends: Points) -> Points:
    """Straight lines as one path of cubic curves, 4 points for each; `starts` and `ends` are (n, 2)."""
    curves = np.stack([starts, starts + (ends - starts) / 3, starts + (ends - starts) * 2 / 3, ends], axis=1)
    flat = curves.reshape(-1, 2)
    return np.concatenate([flat, np.zeros((len(flat), 1))], axis=1)


def hatching(box: Box, pitch: float = 0.11) -> Points:
    """Lines at 45 degrees that fill `box`, clipped to it, as one path."""
    if box.width <= 0 or box.height <= 0:
        return np.zeros((0, 3))
    offsets = np.arange(pitch / 2, box.width + box.height, pitch)
    starts = np.stack(
        [box.left + np.minimum(offsets, box.width), box.bottom + np.maximum(offsets - box.width, 0)], axis=-1
    )
    ends = np.stack(
        [box.left + np.maximum(offsets - box.height, 0), box.bottom + np.minimum(offsets, box.height)],
        axis=-1,
    )
    return segments(starts, ends)


def cell_width(columns: Sequence[float], room: float, least: Sequence[float], most: float) -> float:
    """The width of one column when matrices of `columns` share `room` side by side.

    No matrix gets less than its entry of `least`, no column more than `most`.
    """
    low, high = 0.0, most
    for _ in range(40):
        middle = (low + high) / 2
        if sum(max(n * middle, enough) for n, enough in zip(columns, least, strict=True)) <= room:
            low = middle
        else:
            high = middle
    return low
