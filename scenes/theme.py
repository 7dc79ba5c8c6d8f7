"""Colours by meaning, in a light and a dark theme."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace

from scenes.errors import SceneError

Rgb = tuple[float, float, float]


def rgb(color: str) -> Rgb:
    """The parts, 0 to 1, of a colour such as ``#1d4ed8``."""
    return int(color[1:3], 16) / 255, int(color[3:5], 16) / 255, int(color[5:7], 16) / 255


def mix(a: str, b: str, part: float) -> str:
    """The colour on the way from `a` (0) to `b` (1)."""
    return "#" + "".join(
        f"{round(255 * (x + (y - x) * part)):02x}" for x, y in zip(rgb(a), rgb(b), strict=True)
    )


def luminance(color: str) -> float:
    """Relative luminance as WCAG 2.2 defines it."""
    r, g, b = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in rgb(color))
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(a: str, b: str) -> float:
    """The contrast ratio of two colours as WCAG 2.2 defines it, 1 to 21."""
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


@dataclass(frozen=True)
class Hue:
    """The colour of one letter: its text, its outlines, and its fills from the faintest to the strongest.

    `above` and `below` are the far ends of its heat map: the greatest value, and as far below zero.
    """

    text: str
    line: str
    faint: str
    strong: str
    above: str
    below: str

    def fill(self, part: float) -> str:
        """The fill at `part` of the way from the faintest to the strongest."""
        return mix(self.faint, self.strong, min(max(part, 0.0), 1.0))


@dataclass(frozen=True)
class Theme:
    """All colours of a film.

    `paper` is behind everything, `panel` behind a memory; `ink` is for what matters, `dim` for what helps; `line`
    outlines, `rule` only separates; `zero` is the middle of every heat map.
    """

    name: str
    paper: str
    panel: str
    ink: str
    dim: str
    line: str
    rule: str
    zero: str
    hues: Mapping[str, Hue]
    other: Hue

    def hue(self, symbol: str) -> Hue:
        """The hue of a letter; letters without a meaning of their own are neutral."""
        return self.hues.get(symbol, self.other)


def _light() -> Theme:
    neutral = Hue("#3f3f46", "#52525b", "#f4f4f5", "#d4d4d8", "#57493b", "#3f5f8f")
    slate = "#475569"
    hues = {
        "Q": Hue("#0f766e", "#0f766e", "#ccfbf1", "#99f6e4", "#0f766e", slate),
        "K": Hue("#b91c1c", "#b91c1c", "#fee2e2", "#fecaca", "#b91c1c", slate),
        "V": neutral,
        "S": Hue("#6d28d9", "#7c3aed", "#ede9fe", "#c4b5fd", "#6d28d9", slate),
        "O": Hue("#a84a08", "#b45309", "#fef6e0", "#fbbf24", "#b45309", slate),
        "l": Hue("#047857", "#047857", "#e6faf1", "#6ee7b7", "#047857", slate),
        "m": Hue("#1d4ed8", "#1d4ed8", "#eaf2fe", "#93c5fd", "#1d4ed8", slate),
    }
    return Theme(
        "light", "#f5f4f0", "#ffffff", "#18181b", "#5c5c66", "#71717a", "#d8d6d0", "#ffffff", hues, neutral
    )


def _dark() -> Theme:
    neutral = Hue("#d4d4d8", "#a1a1aa", "#2b2d33", "#4b4d55", "#d9cdbf", "#6f93cc")
    slate = "#94a3b8"
    hues = {
        "Q": Hue("#5eead4", "#2dd4bf", "#0f3533", "#135e57", "#2dd4bf", slate),
        "K": Hue("#fca5a5", "#f87171", "#43191b", "#7f1d1d", "#f87171", slate),
        "V": neutral,
        "S": Hue("#c4b5fd", "#a78bfa", "#2a1f55", "#54309f", "#a78bfa", slate),
        "O": Hue("#fbbf24", "#f59e0b", "#33210c", "#92480c", "#f59e0b", slate),
        "l": Hue("#6ee7b7", "#34d399", "#0d2f25", "#066a4c", "#34d399", slate),
        "m": Hue("#93c5fd", "#60a5fa", "#16233f", "#1e4bc0", "#60a5fa", slate),
    }
    return Theme(
        "dark", "#0e1014", "#181b21", "#f4f4f5", "#a6a8b3", "#8b8d98", "#33363f", "#181b21", hues, neutral
    )


THEMES: Mapping[str, Theme] = {theme.name: theme for theme in (_light(), _dark())}


def theme_named(name: str) -> Theme:
    """The theme called `name`; SceneError if there is none.

    The denominator is written ``d'`` in the derivation and ``l`` in the paper; both have one hue.
    """
    if name not in THEMES:
        raise SceneError(f"there is no theme {name!r}: choose one of {', '.join(THEMES)}")
    theme = THEMES[name]
    aliases = {"d'": "l", "d": "l", "x": "S", "y": "O", "P": "S", "L": "l"}
    return replace(theme, hues={**{new: theme.hues[old] for new, old in aliases.items()}, **theme.hues})


def theme_wanted() -> Theme:
    """The theme that the environment's THEME names, light by default; SceneError if there is none."""
    return theme_named(os.environ.get("THEME", "light"))
