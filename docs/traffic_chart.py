"""A chart of what FlashAttention-1 moves against standard attention, as SVG: drawn from the formulas while building."""

from __future__ import annotations

import math
from collections.abc import Sequence

from docs.traffic_formulas import FA1, STANDARD, all_sizes, fa1_moves_more

WIDTH, HEIGHT = 720, 400
LEFT, RIGHT, TOP, BOTTOM = 64, 84, 24, 48
BC, RATIO = (4, 256), (0.05, 20.0)  # the ranges of the axes
DASHES = ("none", "7 4", "2 4", "10 3 2 3")


def ratio(N: int, d: int, Bc: int) -> float:
    """Elements that FlashAttention-1 moves for one that standard attention moves."""
    sizes = all_sizes(N, N, d, 1, Bc)
    return FA1.total(sizes) / STANDARD.total(sizes)


def last_that_moves_more(N: int, d: int) -> int:
    """The largest Bc at which FlashAttention-1 moves more."""
    return max(Bc for Bc in range(1, N + 1) if fa1_moves_more(N, d, Bc))


def chart(N: int, widths: Sequence[int]) -> str:
    """A curve over Bc for each d of `widths`, the line of equal traffic, and where each curve crosses it."""
    parts = [
        f'<rect class="more" x="{LEFT}" y="{TOP}" width="{WIDTH - LEFT - RIGHT}" height="{_y(1) - TOP:.1f}"/>',
        f'<text class="region" x="{WIDTH - RIGHT - 8}" y="{TOP + 18}">FlashAttention-1 moves more</text>',
        f'<text class="region" x="{LEFT + 8}" y="{HEIGHT - BOTTOM - 10}" style="text-anchor:start">less</text>',
    ]
    for Bc in (4, 8, 16, 32, 64, 128, 256):
        parts.append(
            f'<path class="grid" d="M{_x(Bc):.1f} {TOP}V{HEIGHT - BOTTOM}"/>'
            f'<text class="tick" x="{_x(Bc):.1f}" y="{HEIGHT - BOTTOM + 18}">{Bc}</text>'
        )
    for value in (0.1, 0.5, 1, 2, 5, 10):
        rule = "equal" if value == 1 else "grid"
        parts.append(
            f'<path class="{rule}" d="M{LEFT} {_y(value):.1f}H{WIDTH - RIGHT}"/>'
            f'<text class="tick side" x="{LEFT - 8}" y="{_y(value) + 4:.1f}">{value:g} ×</text>'
        )
    said = []
    for d, dashes in zip(widths, DASHES, strict=False):
        points = " ".join(
            f"{_x(Bc):.1f},{_y(ratio(N, d, Bc)):.1f}"
            for Bc in range(BC[0], BC[1] + 1)
            if ratio(N, d, Bc) <= RATIO[1]
        )
        end, crossing = _y(ratio(N, d, BC[1])), last_that_moves_more(N, d)
        at = _x(crossing), _y(ratio(N, d, crossing))
        parts.append(
            f'<polyline points="{points}" stroke-dasharray="{dashes}"/>'
            f'<text class="name" x="{WIDTH - RIGHT + 8}" y="{end + 4:.1f}">d = {d}</text>'
            f'<circle cx="{at[0]:.1f}" cy="{at[1]:.1f}" r="4"/>'
            f'<text class="crossing" x="{at[0] + 7:.1f}" y="{at[1] - 7:.1f}">{crossing}</text>'
        )
        said.append(f"for d = {d} it moves more up to Bc = {crossing}")
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text class="axis" x="{middle}" y="{HEIGHT - 8}">Bc, rows of a tile of K and V</text>')
    label = f"What FlashAttention-1 moves against standard attention, N = {N}: {'; '.join(said)}."
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">{"".join(parts)}</svg>'


def _x(Bc: int) -> float:
    low, high = (math.log(edge) for edge in BC)
    return LEFT + (math.log(Bc) - low) / (high - low) * (WIDTH - LEFT - RIGHT)


def _y(value: float) -> float:
    low, high = (math.log(edge) for edge in RATIO)
    return HEIGHT - BOTTOM - (math.log(value) - low) / (high - low) * (HEIGHT - TOP - BOTTOM)
