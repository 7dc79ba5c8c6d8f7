"""A chart of times on a scale of powers of ten, as SVG: a dot for each median."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, LEFT, RIGHT = 440, 118, 74
ROW, GAP, TOP, BOTTOM, RADIUS = 22, 30, 6, 40, 4.5


@dataclass(frozen=True)
class Dot:
    """One time in milliseconds: its name, whether its dot is filled, and its median."""

    name: str
    filled: bool
    median: float


def milliseconds(value: float) -> str:
    """A time with three significant digits."""
    digits = max(0, 2 - math.floor(math.log10(value)))
    return f"{value:.{digits}f}"


Groups = Sequence[tuple[str, Sequence[Dot]]]


def scale(groups: Groups) -> tuple[int, int]:
    """The powers of ten at both ends of the axis."""
    powers = [math.log10(dot.median) for _, dots in groups for dot in dots]
    return math.floor(min(powers)), math.ceil(max(powers))


def decade(groups: Groups) -> float:
    """How far apart two powers of ten stand."""
    first, last = scale(groups)
    return (WIDTH - LEFT - RIGHT) / (last - first)


def chart(groups: Groups, label: str) -> str:
    """A row for each dot under the title of its group, on one scale for all."""
    first, last = scale(groups)

    def x(value: float) -> float:
        return LEFT + (math.log10(value) - first) * decade(groups)

    parts, y = [], float(TOP)
    for name, dots in groups:
        y += GAP
        parts.append(f'<text class="group" x="0" y="{y - 10:.0f}">{escape(name)}</text>')
        for dot in dots:
            middle, kind = y + ROW / 2, "own" if dot.filled else "other"
            parts.append(
                f'<g class="{kind}"><text class="what" x="{LEFT - 10}" y="{middle + 4:.0f}">{escape(dot.name)}</text>'
                f'<path class="rule" d="M{LEFT} {middle:.0f}H{WIDTH - RIGHT}"/>'
                f'<circle cx="{x(dot.median):.1f}" cy="{middle:.0f}" r="{RADIUS}"/>'
                f'<text class="value" x="{WIDTH - RIGHT + 8}" y="{middle + 4:.0f}">'
                f"{milliseconds(dot.median)} ms</text></g>"
            )
            y += ROW
    height = y + BOTTOM
    grid = "".join(
        f'<path class="grid" d="M{x(10.0**power):.1f} {TOP}V{y + 4:.0f}"/>'
        f'<text class="tick" x="{x(10.0**power):.1f}" y="{y + 18:.0f}">{10.0**power:g}</text>'
        for power in range(first, last + 1)
    )
    axis = (
        f'<text class="axis" x="{(LEFT + WIDTH - RIGHT) / 2:.0f}" y="{height - 6:.0f}">'
        "milliseconds; each line is ten times the one before</text>"
    )
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{escape(label)}">'
        f"{grid}{''.join(parts)}{axis}</svg>"
    )
