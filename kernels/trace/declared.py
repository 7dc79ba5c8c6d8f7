"""The variables that the HOLDs of a launch name, as the places they are shown as."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kernels.listen.log import ELEMENTS, HOLD_INFO, MOST_RANK, Kind, LaunchLog, Space
from kernels.trace.ends import parts
from kernels.trace.model import Array, Dim3, Place, dtype_of, shape_of_registers
from kernels.trace.rows import Rows, at, number


@dataclass(frozen=True, eq=False)
class Holds:
    """The HOLD rows of a launch: each one's row, address, bytes, place, and whether it is hidden or of registers."""

    row: Array
    address: Array
    size: Array
    place: Array  # index into the places
    hidden: Array
    registers: Array


def holds_of(
    rows: Rows, log: LaunchLog, launch: int, block: Dim3, taken: frozenset[str]
) -> tuple[Holds, tuple[Place, ...]]:
    """The HOLD rows of a launch, and the places they show; none is called as one of `taken`.

    HOLDs of one line and name are one place, and so are a HOLD and the hidden one of the same ``__shared__`` memory.
    """
    row = np.flatnonzero(rows.of_kind(Kind.HOLD))
    info = at(rows.payload, rows.rows["value"][row], HOLD_INFO)
    extents = np.where(np.arange(MOST_RANK) < info["rank"][:, None], info["extents"], 1).astype(np.int64)
    hidden = info["hidden"] > 0
    registers = rows.rows["space"][row] == Space.REGISTERS
    name, names = _names(info, log)
    lines = np.array([site.line for site in log.sites] or [0])[rows.rows["site"][row]]
    declaration, first = number(lines, name, info["element"], info["rank"], *extents.T, hidden, registers)
    size = extents.prod(axis=1) * np.array([dtype_of(e).itemsize for e in ELEMENTS])[info["element"]]
    address = rows.rows["address"][row].astype(np.int64)
    shown_by = _merged(rows.block[row], address, size, hidden, registers, declaration, len(first))
    kept = sorted(
        (n for n in range(len(first)) if shown_by[n] == n),
        key=lambda n: (int(lines[first[n]]), int(info["index"][first[n]]), int(first[n])),
    )
    asked = any(not hidden[first[n]] for n in kept)
    places: list[Place] = []
    for n in kept:
        one = int(first[n])
        own = tuple(info["extents"][one][: info["rank"][one]].tolist())
        line = int(lines[one])
        places.append(
            Place(
                name=_free(names[name[one]], line, taken | {place.name for place in places}),
                memory="registers" if registers[one] else "SRAM",
                dtype=ELEMENTS[info["element"][one]],
                shape=shape_of_registers(block, own) if registers[one] else own,
                held=not (asked and hidden[one]),
                launch=launch,
                line=line,
            )
        )
    position = np.zeros(len(first), np.int64)
    position[kept] = np.arange(len(kept))
    return Holds(row, address, size, position[shown_by][declaration], hidden, registers), tuple(places)


def _names(info: Array, log: LaunchLog) -> tuple[Array, list[str]]:
    """Of each HOLD the index of its name, and the names."""
    which, first = number(info["text"], info["index"])
    texts = [parts(text) for text in log.texts]
    called = []
    for one in info[first]:
        words = texts[one["text"]]
        called.append(words[min(int(one["index"]), len(words) - 1)])
    names = sorted(set(called))
    return np.array([names.index(word) for word in called], np.int64)[which], names


def _merged(
    block: Array, address: Array, size: Array, hidden: Array, registers: Array, declaration: Array, many: int
) -> Array:
    """Of each declaration the one it is shown by: itself, or of a hidden one the HOLD of the very same memory."""
    shown_by = np.arange(many)
    sram = np.flatnonzero(~registers)
    if not hidden.any() or not (~hidden[sram]).any():
        return shown_by
    memory, _ = number(block[sram], address[sram], size[sram])
    of_hidden, of_held = sram[hidden[sram]], sram[~hidden[sram]]
    ids, first = np.unique(memory[~hidden[sram]], return_index=True)
    mine = memory[hidden[sram]]
    found = np.minimum(np.searchsorted(ids, mine), len(ids) - 1)
    same = ids[found] == mine
    shown_by[declaration[of_hidden[same]]] = declaration[of_held[first[found[same]]]]
    return shown_by


def _free(name: str, line: int, taken: Any) -> str:
    if name not in taken:
        return name
    name = f"{name} (line {line})"
    number = 2
    while name in taken:
        name = f"{name.removesuffix(f', {number - 1})').removesuffix(')')}, {number})"
        number += 1
    return name
