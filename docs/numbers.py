"""How the pages write numbers."""

from __future__ import annotations

import math

DIGITS = 3


def written(value: float) -> str:
    """A float with DIGITS decimals, a true minus and ∞."""
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    text = f"{value:.{DIGITS}f}"
    return text.removeprefix("-") if float(text) == 0 else text.replace("-", "−")


def counted(count: int) -> str:
    """A count with thin spaces between groups of three digits."""
    return f"{count:,}".replace(",", "\u202f")
