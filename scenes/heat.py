"""A matrix as a heat map: one image, one scale for each letter, zero in the middle."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scenes.theme import Hue, Theme, rgb

Pixels = npt.NDArray[np.uint8]

_PIXELS_PER_UNIT = 135  # of a film 1080 pixels high
_MARKED = 9  # cells at least so many pixels wide and high carry a minus where they are negative


@dataclass(frozen=True)
class Scale:
    """The colours of a heat map: `most` is the size of the value that gets the full colour, either way.

    The strength of a colour is the root of the value's share of `most`, so that small values beside large ones, such as
    an output beside the sums it was divided from, can be told from zero.
    """

    most: float
    above: str
    below: str
    zero: str
    nothing: str

    def colors(self, values: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
        """The colour, as three parts, of each value; of what is not finite, the colour of `nothing`."""
        finite = np.isfinite(values)
        share = np.clip(np.where(finite, values, 0) / self.most, -1, 1)[..., None]
        part = np.sign(share) * np.sqrt(abs(share))
        ends = np.where(part >= 0, rgb(self.above), rgb(self.below))
        mixed = np.asarray(rgb(self.zero)) * (1 - abs(part)) + ends * abs(part)
        return np.where(finite[..., None], mixed, rgb(self.nothing))


def scale_of(values: npt.NDArray[np.float32], hue: Hue, theme: Theme) -> Scale:
    """The scale on which all of `values` have a colour."""
    sizes = abs(values[np.isfinite(values)])
    most = float(sizes.max()) if sizes.size and sizes.max() > 0 else 1.0
    return Scale(most, hue.above, hue.below, theme.zero, theme.rule)


def cell_pixels(width: float, height: float) -> tuple[int, int]:
    """How many pixels a cell of that many Manim units gets, across and down."""
    return max(1, round(width * _PIXELS_PER_UNIT)), max(1, round(height * _PIXELS_PER_UNIT))


def heat_map(values: npt.NDArray[np.float32], scale: Scale, across: int, down: int) -> Pixels:
    """The image of a matrix (rows, columns), `across` by `down` pixels a cell, RGBA.

    Negative cells carry a minus and cells that hold no finite number are hatched, where they are large enough.
    """
    rows, columns = values.shape
    image = np.empty((rows, down, columns, across, 4), np.uint8)
    image[..., 3] = 255
    image[..., :3] = np.round(255 * scale.colors(values))[:, None, :, None, :]
    if across >= _MARKED and down >= _MARKED:
        thick, wide = max(1, down // 8), max(3, across * 2 // 5)
        top, left = (down - thick) // 2, (across - wide) // 2
        mark = np.zeros((down, across), bool)
        mark[top : top + thick, left : left + wide] = True
        negative = np.isfinite(values) & (values < 0)
        image[np.einsum("rc,yx->rycx", negative, mark)] = (*_bytes(scale.zero), 255)
    y, x = np.ogrid[: rows * down, : columns * across]
    stripes = ((x + y) % 6 < 2).reshape(rows, down, columns, across)
    missing = ~np.isfinite(values)[:, None, :, None]
    image[stripes & missing] = (*_bytes(scale.below), 255)
    return image.reshape(rows * down, columns * across, 4)


def _bytes(color: str) -> tuple[int, int, int]:
    red, green, blue = (round(255 * part) for part in rgb(color))
    return red, green, blue
