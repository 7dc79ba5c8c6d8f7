"""What each source line asks of the memories: requests, sectors of HBM, ways of bank conflicts in SRAM.

HBM is moved in sectors of 32 bytes (CUDA C++ Best Practices Guide, "Coalesced Access to Global Memory"). SRAM has 32
banks of 4 bytes; what lanes want from one bank is served word after word, but one word serves all lanes that want it
(CUDA C++ Programming Guide, "Shared Memory"). Nsight Compute counts the same on a GPU:
``l1tex__t_requests_pipe_lsu_mem_global_op_ld``, ``l1tex__t_sectors_pipe_lsu_mem_global_op_ld`` (``_st``) and
``l1tex__data_bank_conflicts_pipe_lsu_mem_shared``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from kernels.conclude.keys import Array, Integers, expanded, joined, run_starts
from kernels.conclude.rows import WARP, lines_of, span_numbers, spans
from kernels.trace.model import Step, Trace, dtype_of

SECTOR, BANKS, WORD = 32, 32, 4  # bytes of a sector; banks; bytes of a bank's word

Act = Literal["read", "write", "atomic"]
ACTS: tuple[Act, ...] = ("read", "write", "atomic")  # by ACCESS.write


@dataclass(frozen=True)
class LineUse:
    """What one line did to one place, over all threads: `elements` and `bytes` as often as they were asked for.

    A request is one instruction of one warp. `sectors` and `ideal_sectors` (those that its bytes would fill) are of
    HBM, else 0. `bank_ways` is the worst request's number of words from one bank (1: no conflict) and
    `bank_conflicts` the sum of the ways beyond the first; both are of SRAM, else 0.
    """

    line: int
    place: str
    act: Act
    elements: int
    bytes: int
    requests: int
    sectors: int
    ideal_sectors: int
    bank_ways: int
    bank_conflicts: int


def lines(trace: Trace, steps: Iterable[Step] | None = None) -> tuple[LineUse, ...]:
    """A LineUse for each source line, place and act, of `steps` (all of the trace if None), in the order of lines."""
    numbers = range(len(trace.records)) if steps is None else sorted({step.index for step in steps})
    ranges = np.array([trace.records[n].rows for n in numbers], np.int64).reshape(-1, 2)
    chosen = expanded(ranges[:, 0], ranges[:, 1])
    rows, blocks = trace.accesses[chosen], span_numbers(trace)[chosen]
    launches = np.array([span.launch for span in spans(trace)], np.int64)[blocks]
    sizes = np.array([dtype_of(place.dtype).itemsize for place in trace.places], np.int64)
    in_memory = {
        memory: np.array([place.memory == memory for place in trace.places]) for memory in ("HBM", "SRAM")
    }

    warps = rows["thread"] // WARP
    requests = joined(blocks, warps, rows["request"], rows["place"], rows["write"])
    _, firsts, request = np.unique(requests, return_index=True, return_inverse=True)
    request = request.reshape(-1)
    keys = joined(
        lines_of(trace, rows[firsts], launches[firsts]), rows["place"][firsts], rows["write"][firsts]
    )
    _, of_use, use = np.unique(keys, return_index=True, return_inverse=True)
    use = use.reshape(-1)  # of each request

    def total(values: Array) -> Integers:
        return np.bincount(use, values, minlength=len(of_use)).astype(np.int64)

    elements = np.bincount(request, minlength=len(firsts))
    itemsize = sizes[rows["place"]]
    hbm = np.flatnonzero(in_memory["HBM"][rows["place"]])
    sectors, ideal = _sectors(request[hbm], rows["cell"][hbm].astype(np.int64), itemsize[hbm], len(firsts))
    sram = np.flatnonzero(in_memory["SRAM"][rows["place"]])
    ways, conflicts = _ways(request[sram], rows[sram], itemsize[sram], len(firsts))
    worst = np.zeros(len(of_use), np.int64)
    np.maximum.at(worst, use, ways)

    columns = [
        total(elements),
        total(np.ones(len(firsts))),
        total(sectors),
        total(ideal),
        worst,
        total(conflicts),
    ]
    first_rows = firsts[of_use]
    named = zip(
        lines_of(trace, rows[first_rows], launches[first_rows]).tolist(),
        rows["place"][first_rows].tolist(),
        rows["write"][first_rows].tolist(),
        *(column.tolist() for column in columns),
        strict=True,
    )
    return tuple(
        LineUse(line, trace.places[n].name, ACTS[write], count, count * int(sizes[n]), *rest)
        for line, n, write, count, *rest in named
    )


def _sectors(
    request: Integers, cell: Integers, itemsize: Integers, requests: int
) -> tuple[Integers, Integers]:
    """For each request, the sectors that its cells lie in, and those that their bytes would fill side by side.

    An array begins at a multiple of 32 bytes: CuPy aligns to 256, and so do the arenas of this project.
    """
    order = np.argsort(joined(request, cell), kind="stable")
    request, cell, itemsize = request[order], cell[order], itemsize[order]
    starts = run_starts(joined(request, cell))
    owner, size = request[starts], itemsize[starts]
    sector = cell[starts] * size // SECTOR
    distinct = run_starts(joined(owner, sector))
    sectors = np.bincount(owner[distinct], minlength=requests)
    wanted = np.bincount(owner, size, minlength=requests).astype(np.int64)
    return sectors.astype(np.int64), -(-wanted // SECTOR)


def _ways(request: Integers, rows: Array, itemsize: Integers, requests: int) -> tuple[Integers, Integers]:
    """For each request, the most words that one bank must give at once, and the ways beyond the first of its parts.

    A warp's access of 8 bytes a lane is served half a warp at a time, one of 16 bytes a quarter of a warp. A variable
    is taken to begin at bank 0.
    """
    if not len(request):
        return np.zeros(requests, np.int64), np.zeros(requests, np.int64)
    lane = rows["thread"] % WARP
    cells_of_lane = np.unique(joined(request, lane), return_inverse=True, return_counts=True)
    width = cells_of_lane[2][cells_of_lane[1].reshape(-1)] * itemsize
    widest = np.zeros(requests, np.int64)
    np.maximum.at(widest, request, width)
    parts = np.clip(widest[request] // WORD, 1, 4)
    part = lane.astype(np.int64) * parts // WARP

    # A double's second word meets in its bank what the first meets in the bank before.
    word = rows["cell"].astype(np.int64) * itemsize // WORD
    phase = joined(request, part)
    distinct = np.unique(joined(phase, word % BANKS, word), return_index=True)[1]
    phase, bank = phase[distinct], word[distinct] % BANKS
    starts = run_starts(joined(phase, bank))
    depth = np.diff(np.append(starts, len(phase)))
    phase_starts = run_starts(phase[starts])
    deepest = np.maximum.reduceat(depth, phase_starts)
    owner = request[distinct][starts][phase_starts]
    ways = np.zeros(requests, np.int64)
    np.maximum.at(ways, owner, deepest)
    return ways, np.bincount(owner, deepest - 1, minlength=requests).astype(np.int64)
