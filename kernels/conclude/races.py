"""Races: two threads of a block at one cell with no barrier between them, at least one of them writing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from kernels.conclude.copies import copies
from kernels.conclude.keys import Array, Integers, expanded, joined, run_starts
from kernels.conclude.lines import ACTS, Act
from kernels.conclude.rows import WARP, index_of, lines_of, span_numbers, spans, step_of
from kernels.trace.model import Dim3, Trace, dtype_of

RaceAct = Act | Literal["copy"]
_ACTS: tuple[RaceAct, ...] = (*ACTS, "copy")
_COPY = 3  # an asynchronous copy's act, by its number in _ACTS
_DOES = {"read": "reads", "write": "writes", "atomic": "changes atomically", "copy": "copies to"}
_MOST_AT_ONCE = 1 << 22  # pairs


@dataclass(frozen=True)
class Race:
    """Two lines, the writing one first, that no barrier orders: one case in the first block with any, and how many.

    `lines`, `acts` and `threads` (x fastest) are of the two; `step` is the index of the step of the first; `cells`
    counts those of all blocks where the two lines race. Of an asynchronous copy (act "copy") the line is the one that
    begins it; it may race with its own thread. `at_once` if the two are lanes of one instruction.
    """

    place: str
    index: tuple[int, ...]
    launch: int
    block: Dim3
    step: int
    lines: tuple[int, int]
    acts: tuple[RaceAct, RaceAct]
    threads: tuple[int, int]
    cells: int
    at_once: bool = False

    @property
    def text(self) -> str:
        """The race in one sentence."""
        where = f"{self.place}[{', '.join(map(str, self.index))}]" if self.index else self.place
        one, two = (
            f"thread {thread} {_DOES[act]} {what} on line {line}"
            for thread, act, what, line in zip(
                self.threads, self.acts, (where, "it"), self.lines, strict=True
            )
        )
        how = "with no barrier between them"
        if self.at_once:
            how = "another value in the same instruction"
        elif self.threads[0] == self.threads[1]:
            two = two.removeprefix(f"thread {self.threads[1]} ")
            how = "before it has waited for the copy"
        elif "copy" in self.acts:
            how += ": a copy lasts until its wait"
        return f"{one[0].upper()}{one[1:]} and {two}, {how}."


def races(trace: Trace) -> tuple[Race, ...]:
    """Each pair of lines and acts that race at a place, in SRAM or among the threads of a block in HBM.

    Two accesses of a cell race if different threads of one block did them between the same barriers of the block, not
    both read and not both are atomic; within a warp, if it passed no barrier of its own between them and they are not
    one instruction, or one that writes different values. Writes of the same value by two instructions race too. An
    asynchronous copy writes at any time from its line to its wait, so it also races with what its own thread does
    there. Order of time plays no part else, so what is found does not depend on luck.
    """
    memory = np.array([place.memory for place in trace.places] or ["registers"])
    chosen = np.flatnonzero((memory != "registers")[trace.accesses["place"]])
    if not len(chosen):
        return ()
    rows, blocks = trace.accesses[chosen], span_numbers(trace)[chosen]
    act = rows["write"].copy()
    arrived, begun = copies(rows, blocks, (memory == "HBM")[rows["place"]], (memory == "SRAM")[rows["place"]])
    act[arrived] = _COPY
    all_spans = spans(trace)
    launches = np.array([span.launch for span in all_spans], np.int64)[blocks]

    between, (first, second) = _between_barriers(rows, blocks, act, launches, trace)
    at_once = _at_once(rows, blocks, chosen, trace)
    on_the_way = _on_the_way(rows, blocks, arrived, begun)
    first = np.concatenate((between[first], at_once[0], on_the_way[0]))
    second = np.concatenate((between[second], at_once[1], on_the_way[1]))
    if not len(first):
        return ()
    # The writing one first, and of those a copy.
    turn = (rows["write"][first] == 0) | ((act[second] == _COPY) & (act[first] != _COPY))
    first, second = np.where(turn, second, first), np.where(turn, first, second)
    return _told(trace, rows, blocks, chosen, act, launches, first, second)


def _between_barriers(
    rows: Array, blocks: Integers, act: Array, launches: Integers, trace: Trace
) -> tuple[Integers, tuple[Integers, Integers]]:
    """Some of the rows, and pairs of those: one for each two kinds of row that race with no barrier between them."""
    warp = rows["thread"].astype(np.int64) // WARP
    group = joined(blocks, rows["place"], rows["cell"], rows["epoch"])
    in_warp = joined(group, warp, rows["warp_epoch"])
    suspects = np.union1d(_suspects(group, warp, rows), _suspects(in_warp, rows["thread"], rows))
    if not len(suspects):
        return suspects, (suspects, suspects)
    group, in_warp, warp = group[suspects], in_warp[suspects], warp[suspects]
    rows, launches = rows[suspects], launches[suspects]
    kind = joined(launches, lines_of(trace, rows, launches), act[suspects])
    request = joined(warp, rows["request"])
    pairs = [
        _pairs(group, kind, warp, request, rows["write"]),
        _pairs(in_warp, kind, rows["thread"].astype(np.int64), request, rows["write"]),
    ]
    first, second = (np.concatenate(side) for side in zip(*pairs, strict=True))
    return suspects, (first, second)


def _at_once(rows: Array, blocks: Integers, chosen: Integers, trace: Trace) -> tuple[Integers, Integers]:
    """A pair for each cell to which lanes wrote different values in one instruction."""
    writes = np.flatnonzero(rows["write"] == 1)
    order, alike = _alike(rows, blocks, writes)
    writes = writes[order[alike]]
    if not len(writes):
        return writes, writes
    number = np.searchsorted(trace.writes, chosen[writes])
    sizes = np.array([dtype_of(place.dtype).itemsize for place in trace.places])[rows["place"][writes]]
    value = np.zeros((len(writes), 8), np.uint8)
    for size in np.unique(sizes).tolist():
        here = np.flatnonzero(sizes == size)
        starts = trace.value_starts[number[here]]
        value[here, :size] = trace.values[starts[:, None] + np.arange(size)]
    key = _instructions(rows, blocks, writes)
    low, high = _extremes(key, value.view(np.int64).reshape(-1))
    differ = (value[low] != value[high]).any(axis=1)
    return writes[low[differ]], writes[high[differ]]


def _instructions(rows: Array, blocks: Integers, some: Integers) -> Integers:
    """A number for each instruction of a warp and cell that it touched, of some of the rows."""
    names = ("place", "cell", "request", "epoch", "warp_epoch")
    return joined(blocks[some], *(rows[name][some] for name in names))


def _alike(rows: Array, blocks: Integers, writes: Integers) -> tuple[Integers, Array]:
    """An order of the writes, and which of them, so ordered, are of one instruction and cell with another."""
    key = _instructions(rows, blocks, writes)
    order = np.argsort(key, kind="stable")
    same = key[order][1:] == key[order][:-1]
    none = np.zeros(1, np.bool_)
    return order, np.concatenate((none, same))[: len(order)] | np.concatenate((same, none))[: len(order)]


def _on_the_way(
    rows: Array, blocks: Integers, arrived: Integers, begun: Integers
) -> tuple[Integers, Integers]:
    """Pairs of a copy's arrival at a cell and an access to that from the copy's line to its wait: one for each site."""
    if not len(arrived):
        return arrived, begun
    thread, epoch = rows["thread"].astype(np.int64), rows["epoch"].astype(np.int64)
    warp_epoch = rows["warp_epoch"].astype(np.int64)
    cell = joined(blocks, rows["place"], rows["cell"])
    some = np.flatnonzero(np.isin(cell, cell[arrived]))
    cell[some] = np.unique(cell[some], return_inverse=True)[1].reshape(-1)
    radix = int(epoch.max()) + 1
    key = cell[some] * radix + epoch[some]
    order = np.argsort(key, kind="stable")
    key, some = key[order], some[order]
    low = np.searchsorted(key, cell[arrived] * radix + epoch[begun])
    high = np.searchsorted(key, cell[arrived] * radix + epoch[arrived], side="right")
    found = [(np.zeros(0, np.int64), np.zeros(0, np.int64))]
    ends = np.cumsum(high - low)
    cuts = np.searchsorted(ends, np.arange(0, int(ends[-1]), _MOST_AT_ONCE)).tolist()
    for start, stop in zip(cuts, [*cuts[1:], len(ends)], strict=True):
        part = np.arange(start, stop)
        copy = np.repeat(part, (high - low)[part])
        other = some[expanded(low[part], high[part])]
        at, since = arrived[copy], begun[copy]
        own = thread[at] == thread[other]
        same_warp = thread[at] // WARP == thread[other] // WARP
        after = (epoch[other] > epoch[since]) | (warp_epoch[other] >= warp_epoch[since])
        before = (epoch[other] < epoch[at]) | (warp_epoch[other] <= warp_epoch[at])
        meets = np.where(own, (since < other) & (other < at), ~same_warp | (after & before))
        at, other = at[meets], other[meets]
        apart = rows["request"][other] != rows["request"][at]
        at, other = at[apart], other[apart]
        _, each = np.unique(joined(at, rows["site"][other], rows["write"][other]), return_index=True)
        found.append((at[each], other[each]))
    first, second = (np.concatenate(side) for side in zip(*found, strict=True))
    return first, second


def _told(
    trace: Trace,
    rows: Array,
    blocks: Integers,
    chosen: Integers,
    act: Array,
    launches: Integers,
    first: Integers,
    second: Integers,
) -> tuple[Race, ...]:
    """The pairs as races, one for each two lines and acts at a place, in the order of the trace."""
    lines = np.zeros(len(rows), np.int64)
    both = np.union1d(first, second)
    lines[both] = lines_of(trace, rows[both], launches[both])
    one, two = (
        joined(launches[both], lines[both], act[both])[np.searchsorted(both, side)]
        for side in (first, second)
    )
    cell = joined(blocks[first], rows["cell"][first])
    _, examples, sort = np.unique(
        joined(rows["place"][first], one, two), return_index=True, return_inverse=True
    )
    sort = sort.reshape(-1)
    distinct = np.unique(joined(sort, cell), return_index=True)[1]
    cells = np.bincount(sort[distinct], minlength=len(examples))
    all_spans = spans(trace)
    found = []
    in_order = np.argsort(chosen[first[examples]], kind="stable")
    for n, count in zip(examples[in_order].tolist(), cells[in_order].tolist(), strict=True):
        a, b = int(first[n]), int(second[n])
        place, span = trace.places[int(rows["place"][a])], all_spans[int(blocks[a])]
        threads = int(rows["thread"][a]), int(rows["thread"][b])
        found.append(
            Race(
                place.name,
                index_of(place.shape, int(rows["cell"][a])),
                span.launch,
                span.block,
                step_of(trace, int(chosen[a])),
                (int(lines[a]), int(lines[b])),
                (_ACTS[int(act[a])], _ACTS[int(act[b])]),
                threads,
                count,
                at_once=bool(rows["request"][a] == rows["request"][b]) and threads[0] != threads[1],
            )
        )
    return tuple(found)


def _suspects(group: Integers, apart: Array, rows: Array) -> Integers:
    """The rows of each group that more than one number of `apart` took part in, not all reading and not all atomic."""
    order = np.argsort(group, kind="stable")
    starts = run_starts(group[order])
    apart, write = apart[order], rows["write"][order]
    least, most = np.minimum.reduceat(write, starts), np.maximum.reduceat(write, starts)
    both = np.minimum.reduceat(apart, starts) != np.maximum.reduceat(apart, starts)
    wanted = both & (most > 0) & (least < 2)
    suspects: Integers = order[np.repeat(wanted, np.diff(np.append(starts, len(order))))]
    return suspects


def _pairs(
    group: Integers, kind: Integers, apart: Integers, request: Integers, write: Array
) -> tuple[Integers, Integers]:
    """For each two kinds of row in a group, one pair of rows that race, if any do.

    Two rows are of different kinds if of another line or act; then they are not one instruction either.
    """
    entry = joined(group, kind)
    low, high = _extremes(entry, apart)
    early, late = _extremes(entry, request)
    starts = run_starts(group[low])
    ends = np.repeat(np.append(starts[1:], len(low)), np.diff(np.append(starts, len(low))))
    entries = np.arange(len(low))
    one = np.repeat(entries, ends - entries)
    two = expanded(entries, ends)

    # Of two kinds: the lowest of one and the highest of the other differ, or the other way round, or all are the same.
    crossed = apart[low[one]] != apart[high[two]]
    first, second = np.where(crossed, low[one], high[one]), np.where(crossed, high[two], low[two])
    # Of one kind: if the lowest and the highest are of one instruction, a row of another is apart from either.
    alone = (one == two) & (request[first] == request[second])
    other = np.where(request[early[one]] != request[first], early[one], late[one])
    second = np.where(alone, np.where(apart[other] != apart[first], other, second), second)
    first = np.where(alone & (second != other), other, first)

    race = (apart[first] != apart[second]) & (request[first] != request[second])
    race &= (write[first] > 0) | (write[second] > 0)
    race &= (write[first] < 2) | (write[second] < 2)
    return first[race], second[race]


def _extremes(entry: Integers, value: Integers) -> tuple[Integers, Integers]:
    """For each distinct `entry`, ascending, where its least and its greatest `value` stand."""
    order = np.lexsort((value, entry))
    starts = run_starts(entry[order])
    return order[starts], order[np.append(starts[1:], len(order)) - 1]
