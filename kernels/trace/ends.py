"""Where the steps of a launch end: at each SNAPSHOT, or, in a kernel without any, at each barrier of the block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kernels.errors import BackendError
from kernels.listen.log import SNAPSHOT_INFO, Kind, LaunchLog
from kernels.trace.model import Array, Dim3
from kernels.trace.rows import Rows, at


@dataclass(frozen=True, eq=False)
class Ends:
    """`step` is the ordinal of each row's step in its block; `counts`, how many steps of each block have an end.

    `leads` are the rows that end them, of the lowest thread each, in the order block, step; `texts` are what they say.
    """

    step: Array
    counts: Array
    leads: Array
    names: tuple[tuple[str, dict[str, int], int], ...]  # of each of `leads`: name, loop, line


def ends_of(rows: Rows, log: LaunchLog, block: Dim3, source: str) -> Ends:
    """The ends of the steps.

    Raises BackendError if threads of a block that are still there end a step under different names or loop counters.
    """
    told = rows.of_kind(Kind.SNAPSHOT)
    by_barrier = not told.any()
    flags = rows.of_kind(Kind.BARRIER) if by_barrier else told
    step = rows.passed(flags)
    ends = np.flatnonzero(flags)
    ends = ends[np.lexsort((rows.rows["thread"][ends], step[ends], rows.block[ends]))]
    is_lead = np.ones(len(ends), np.bool_)
    is_lead[1:] = (step[ends][1:] != step[ends][:-1]) | (rows.block[ends][1:] != rows.block[ends][:-1])
    leads = ends[is_lead]
    lines = np.array([site.line for site in log.sites] or [0])
    counts = np.bincount(rows.block[leads], minlength=len(rows.blocks))
    lead_lines = lines[rows.rows["site"][leads]].tolist()
    if by_barrier:
        names: Any = (("line " + str(line), {}, line) for line in lead_lines)
        return Ends(step, counts, leads, tuple(names))
    infos = _infos(rows, ends, log)
    lead_of = np.repeat(np.flatnonzero(is_lead), np.diff(np.append(np.flatnonzero(is_lead), len(ends))))
    differ = np.flatnonzero((infos != infos[lead_of]).any(axis=1))
    texts = [parts(text) for text in log.texts]

    def said(row: int) -> tuple[str, dict[str, int]]:
        name, *loops = texts[int(infos[row, 0])]
        return name, dict(zip(loops, infos[row, 2 : 2 + len(loops)].tolist(), strict=True))

    if len(differ):
        one, other = int(differ[0]), int(lead_of[differ[0]])
        line, where = (lines[rows.rows["site"][ends[n]]] for n in (one, other))
        x, y, z = rows.blocks[rows.block[ends[one]]]
        raise BackendError(
            f"{source} line {line}: {_thread(rows, ends[one], block)} of block ({x}, {y}, {z}) ends its step "
            f"{step[ends[one]]} with SNAPSHOT({_words(*said(one))}), but {_thread(rows, ends[other], block)} with "
            f"SNAPSHOT({_words(*said(other))}) in line {where}: let all threads of a block pass the same SNAPSHOTs"
        )
    said_by = (said(int(n)) for n in np.flatnonzero(is_lead))
    return Ends(
        step,
        counts,
        leads,
        tuple((name, loop, line) for (name, loop), line in zip(said_by, lead_lines, strict=True)),
    )


def parts(text: str) -> list[str]:
    """The arguments of a macro, split at the commas that stand in no bracket."""
    found, depth, begun = [], 0, 0
    for place, letter in enumerate(text):
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            found.append(text[begun:place])
            begun = place + 1
    return [" ".join(part.split()) for part in [*found, text[begun:]]]


def thread_of(number: int, block: Dim3) -> Dim3:
    """The coordinates (x, y, z) of a thread."""
    return number % block[0], number // block[0] % block[1], number // (block[0] * block[1])


def _infos(rows: Rows, ends: Array, log: LaunchLog) -> Array:
    """Of each end: text, count, and its loop counters (0 beyond the count)."""
    same = [log.texts.index(text) for text in log.texts]
    info = at(rows.payload, rows.rows["value"][ends], SNAPSHOT_INFO)
    table = np.empty((len(ends), 2 + info["loops"].shape[1]), np.int64)
    table[:, 0] = np.array(same)[info["text"]]
    table[:, 1] = info["count"]
    table[:, 2:] = np.where(np.arange(info["loops"].shape[1]) < table[:, 1:2], info["loops"], 0)
    return table


def _thread(rows: Rows, row: int, block: Dim3) -> str:
    return f"thread {thread_of(int(rows.rows['thread'][row]), block)}"


def _words(name: str, loop: dict[str, int]) -> str:
    return ", ".join([name, *(f"{loop_name} = {value}" for loop_name, value in loop.items())])
