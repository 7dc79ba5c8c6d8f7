"""How slots, tiles and arrays are written: as Typst mathematics on the canvas, as plain words elsewhere."""

from __future__ import annotations

from kernels.layout import ArrayLayout, SlotLayout

_DIGITS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


def slot_math(slot: SlotLayout) -> str:
    """A slot's name: its letter with the rest as its index, ``$S_(i j)$`` for ``Sij``."""
    if slot.name.startswith(slot.symbol) and len(slot.name) > len(slot.symbol):
        index = slot.name[len(slot.symbol) :]
        return f"${_letter(slot.symbol)}_({' '.join(index) if len(index) <= 2 else _quoted(index)})$"
    return f"${_letter(slot.name)}$"


def array_math(array: ArrayLayout) -> str:
    """An array's name: its letter with the rest as its index, ``$O_(p)$`` for ``Op``."""
    return slot_math(SlotLayout(array.name, array.symbol, array.shape))


def tile_math(symbol: str, tile: int) -> str:
    """A tile's name, ``$Q_1$``."""
    return f"${_letter(symbol)}_({tile})$"


def name_math(name: str) -> str:
    """The name of an array or a loop, ``$Q$``."""
    return f"${_letter(name)}$"


def tile_plain(symbol: str, tile: int) -> str:
    """A tile's name in plain text, ``Q₁``."""
    return symbol + str(tile).translate(_DIGITS)


def _letter(name: str) -> str:
    return name if len(name) == 1 else _quoted(name)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', "") + '"'
