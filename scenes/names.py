"""How slots, tiles and arrays are written: as Typst mathematics on the canvas, as plain words elsewhere."""

from __future__ import annotations

from kernels.layout import ArrayLayout, SlotLayout

_DIGITS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


def slot_math(slot: SlotLayout) -> str:
    """A slot's name: its letter with the rest as its index, ``$S_(i j)$`` for ``Sij``."""
    return _indexed(slot.name, slot.symbol)


def array_math(array: ArrayLayout) -> str:
    """An array's name: its letter with the rest as its index, ``$O_(p)$`` for ``Op``."""
    return _indexed(array.name, array.symbol)


def tile_math(array: str, symbol: str, tile: int) -> str:
    """The name of a tile of an array, ``$Q_(0)$``; of one whose letter has an index, ``$O_(p 0)$``."""
    return _indexed(array, symbol, str(tile))


def name_math(name: str) -> str:
    """The name of an array or a loop, ``$Q$``."""
    return f"${_letter(name)}$"


def tile_plain(array: str, tile: int) -> str:
    """A tile's name in plain text, ``Q₁``."""
    return array + str(tile).translate(_DIGITS)


def _indexed(name: str, symbol: str, more: str = "") -> str:
    letter, index = (symbol, name[len(symbol) :]) if name.startswith(symbol) else (name, "")
    parts = [index if not index else " ".join(index) if len(index) <= 2 else _quoted(index), more]
    below = " ".join(part for part in parts if part)
    return f"${_letter(letter)}_({below})$" if below else f"${_letter(letter)}$"


def _letter(name: str) -> str:
    return name if len(name) == 1 else _quoted(name)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', "") + '"'
