"""For each write of a step, the reads that its value was made of: the latest burst of each site it is made from.

A burst is the reads that a thread did at one site with no write at the writing site between them. So ``acc += a[k]``
is made of one ``a[k]`` each time, and ``m = max over c of S[c]; mi[r] = m`` of all of row r, though nothing here
knows loops. Sites of one line and one place are one: a compiler may have made several of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from kernels.conclude.copies import copies
from kernels.conclude.keys import Array, Integers, joined, run_starts
from kernels.conclude.rows import WARP, span_of
from kernels.listen.log import Site
from kernels.trace.model import Place, Trace, dtype_of


@dataclass(frozen=True)
class Bursts:
    """Row `writes[n]` of a trace is made of the rows ``read(k)`` for low[n] <= k < high[n].

    A write may stand more than once.
    """

    writes: Integers
    low: Integers
    high: Integers
    _reads: Integers
    _rows: Integers

    def read(self, numbers: Integers) -> Integers:
        """The rows of the trace with these numbers."""
        return self._rows[self._reads[numbers]]


@dataclass(frozen=True)
class _Block:
    """A block's rows, thread after thread, each thread's in its own order: a row's place in this order is its rank."""

    first: int  # row of the trace
    rows: Integers  # from rank to row of the trace
    rank: Integers  # and back, from a row counted from `first`
    thread: Integers  # and the following: by rank
    sync: Integers  # how many barriers came before: of the block, then of the warp
    event: Integers  # the rank of the first row of the same wide access
    start: Integers  # by thread: its first rank; one more than there are threads
    reads: dict[int, Integers]  # by site: ranks
    writes: dict[int, Integers]
    all_reads: Integers
    all_writes: Integers
    own_key: Integers  # thread and row as one number, ascending by rank
    sync_key: Integers  # thread and `sync` as one number, ascending by rank
    place: Array  # by rank
    in_hbm: npt.NDArray[np.bool_]  # by rank
    # Of each cell that an asynchronous copy wrote, ascending: its rank, and [low, high) of the reads that it is of.
    arrived: tuple[Integers, Integers, Integers]
    # What has been asked for: by sites, the ranks of their reads; by site, the writes of its line and place.
    joint: dict[tuple[int, ...], Integers] = field(default_factory=dict)
    beside: dict[int, Integers] = field(default_factory=dict)


# Every step of a block wants the same order of its rows; steps are asked for block after block, so one block's is kept.
_latest: WeakKeyDictionary[Trace, _Block] = WeakKeyDictionary()


def _block(trace: Trace, step: int) -> _Block:
    first, stop = span_of(trace, step).rows
    if trace not in _latest or _latest[trace].first != first:
        _latest[trace] = _ordered(trace.accesses[first:stop], first, trace.places)
    return _latest[trace]


def _ordered(rows: Array, first: int, places: tuple[Place, ...]) -> _Block:
    order = np.argsort(rows["thread"], kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    thread = rows["thread"][order].astype(np.int64)
    site, write = rows["site"][order], rows["write"][order]
    place = rows["place"][order]
    sync = joined(rows["epoch"], rows["warp_epoch"])[order]
    ranks = np.arange(len(order))
    event = np.zeros(len(order), np.int64)
    starts = run_starts(joined(thread, rows["request"][order], site, write))
    event[starts] = starts
    event = np.maximum.accumulate(event)
    reads, writes = np.flatnonzero(write != 1), np.flatnonzero(write > 0)
    memory = np.array([place.memory for place in places])
    in_hbm = (memory == "HBM")[place]
    arrived, begun = copies(rows[order], np.zeros(len(order), np.int64), in_hbm, (memory == "SRAM")[place])
    return _Block(
        first,
        order + first,
        rank,
        thread,
        sync,
        event,
        np.searchsorted(thread, np.arange(int(thread[-1]) + 2 if len(thread) else 1)),
        _by_site(reads, site),
        _by_site(writes, site),
        reads,
        writes,
        thread * len(ranks) + order,
        thread * (int(sync.max(initial=0)) + 1) + sync,
        place,
        in_hbm,
        (arrived, *_copied(arrived, begun, event, starts, place, places)),
    )


def _copied(
    arrived: Integers,
    begun: Integers,
    event: Integers,
    starts: Integers,
    place: Array,
    places: tuple[Place, ...],
) -> tuple[Integers, Integers]:
    """Of each cell that a copy wrote the range of its reads: its own, or all where cells differ in size."""
    sizes = np.array([dtype_of(one.dtype).itemsize for one in places])
    alike = sizes[place[arrived]] == sizes[place[begun]]
    end = np.append(starts, len(event))[np.searchsorted(starts, begun, side="right")]
    low = begun + np.where(alike, arrived - event[arrived], 0)
    return low, np.where(alike, np.minimum(low + 1, end), end)


def _by_site(ranks: Integers, site: Array) -> dict[int, Integers]:
    sites = site[ranks]
    order = np.argsort(sites, kind="stable")
    ranks, sites = ranks[order], sites[order]
    starts = run_starts(sites)
    parts = np.split(ranks, starts[1:]) if len(starts) else []
    return dict(zip(sites[starts].tolist(), parts, strict=True))


def bursts(trace: Trace, step: int) -> Iterator[Bursts]:
    """What the writes of the step numbered `step` are made of, in parts.

    The reads are of the same block, and of an earlier step only where the thread has none in this one. What came
    through a shuffle is sought in each lane of the warp, before the last barrier of the warp that the writing lane
    passed. A burst that went into a write before counts again, as a value kept in a register, unless it looks as if
    there was nothing to read this time: ``s[i] = i < n ? x[i] : 0``.
    """
    record = trace.records[step]
    block = _block(trace, step)
    sites = trace.sites[record.launch]
    rows = trace.accesses[slice(*record.rows)]
    low = record.rows[0] - block.first
    written = np.flatnonzero(rows["write"] > 0)
    read_here = frozenset(np.unique(rows["site"][rows["write"] != 1]).tolist())
    for number, here in _by_site(written, rows["site"]).items():
        at = _Write(block, sites, number, np.sort(block.rank[here + low]), low, read_here)
        copied, at = at.copied()
        yield copied
        if not len(at.ranks):
            continue
        if sites[number].made_of is None:
            yield at.since_last_write()
        else:
            yield from at.latest()
        atomic = block.rank[here[rows["write"][here] == 2] + low]
        if len(atomic):
            each = np.arange(len(atomic))
            yield Bursts(block.rows[atomic], each, each + 1, atomic, block.rows)


def _last(ranks: Integers, before: Integers, least: Integers) -> Integers:
    """The last of sorted `ranks` that is < `before`, or `least` − 1 where none is ≥ `least`."""
    at = np.searchsorted(ranks, before) - 1
    last = np.where(at >= 0, ranks[np.maximum(at, 0)], -1) if len(ranks) else np.full(len(before), -1)
    return np.maximum(last, least - 1)


@dataclass(frozen=True)
class _Group:
    """Sites of one line and place that a write is made of, and the ranks of their reads.

    `guarded` if a thread that reads nothing there has nothing to read: a line that takes from HBM what it writes.
    """

    sites: frozenset[int]
    reads: Integers
    guarded: bool


@dataclass(frozen=True)
class _Write:
    """The writes of one site in one step.

    `ranks` are theirs, `low` is the step's first row, counted from the block's, and `read_here` the sites that any
    thread reads at in the step.
    """

    block: _Block
    sites: tuple[Site, ...]
    site: int
    ranks: Integers
    low: int
    read_here: frozenset[int]

    def copied(self) -> tuple[Bursts, _Write]:
        """The writes by which asynchronous copies arrived, whose reads are known, and the others."""
        arrived, low, high = self.block.arrived
        if not len(arrived):
            return Bursts(arrived, arrived, arrived, arrived, arrived), self
        at = np.minimum(np.searchsorted(arrived, self.ranks), len(arrived) - 1)
        mine = arrived[at] == self.ranks
        at = at[mine]
        found = self._found(self.ranks[mine], np.arange(len(self.block.rows)), low[at], high[at])
        return found, replace(self, ranks=self.ranks[~mine])

    def since_last_write(self) -> Bursts:
        """Every read of the thread since it last wrote anything."""
        block, threads, reads = self.block, self.block.thread[self.ranks], self.block.all_reads
        start, until = block.start[threads], block.event[self.ranks]
        from_rank = _last(block.all_writes, until, start) + 1
        last = _last(reads, until, start)
        first = self._first(threads)
        from_rank = np.where(last >= first, np.maximum(from_rank, first), from_rank)
        return self._found(
            self.ranks, reads, np.searchsorted(reads, from_rank), np.searchsorted(reads, until)
        )

    def latest(self) -> Iterator[Bursts]:
        """The latest burst of each source."""
        groups: dict[tuple[int, int, bool], list[int]] = {}
        for source in self.sites[self.site].made_of or ():
            if source.site in self.block.reads:
                line = self.sites[source.site].line
                place = int(self.block.place[self.block.reads[source.site][0]])
                key = (line or -1 - source.site, place, source.via_warp)
                groups.setdefault(key, []).append(source.site)
        for (line, _, via_warp), sites in groups.items():
            itself = sites == [self.site]
            same_line = line == self.sites[self.site].line and not itself
            reads = self._reads(tuple(sorted(sites)))
            group = _Group(frozenset(sites), reads, same_line and bool(self.block.in_hbm[reads[0]]))
            ranks = self.ranks
            if same_line or itself:
                copied, ranks = self._copies(reads, itself)
                yield copied
            yield self._own(ranks, group)
            if via_warp:
                yield self._of_other_lanes(group)

    def _reads(self, group: tuple[int, ...]) -> Integers:
        joint, reads = self.block.joint, self.block.reads
        if len(group) == 1:
            return reads[group[0]]
        if group not in joint:
            joint[group] = np.sort(np.concatenate([reads[site] for site in group]))
        return joint[group]

    def _beside(self) -> Integers:
        """All writes of the block at the line and place of this site."""
        block, line = self.block, self.sites[self.site].line
        if not line:
            return block.writes[self.site]
        if self.site not in block.beside:
            place = block.place[self.ranks[0]]
            ranks = [
                ranks
                for site, ranks in block.writes.items()
                if site == self.site or (self.sites[site].line == line and block.place[ranks[0]] == place)
            ]
            block.beside[self.site] = np.sort(np.concatenate(ranks)) if len(ranks) > 1 else ranks[0]
        return block.beside[self.site]

    def _first(self, threads: Integers) -> Integers:
        """The rank of each thread's first row of this step."""
        return np.searchsorted(self.block.own_key, threads * len(self.block.rows) + self.low)

    def _found(self, writes: Integers, reads: Integers, low: Integers, high: Integers) -> Bursts:
        there = high > low
        rows = self.block.rows
        return Bursts(rows[writes[there]], low[there], high[there], reads, rows)

    def _counts(self, group: _Group, last: Integers, again: Array, first: Array) -> Array:
        """Whether the bursts that end at rank `last` count; those that do `again` were used, `first` is the step's."""
        return ~again | np.where(last >= first, not group.guarded, self.read_here.isdisjoint(group.sites))

    def _own(self, writes: Integers, group: _Group) -> Bursts:
        """The latest burst of the writing thread."""
        block, threads, reads = self.block, self.block.thread[writes], group.reads
        start, until = block.start[threads], block.event[writes]
        last = _last(reads, until, start)
        from_rank = _last(self._beside(), block.event[np.maximum(last, 0)], start) + 1
        first = self._first(threads)
        from_rank = np.where(last >= first, np.maximum(from_rank, first), from_rank)
        again = _last(block.writes[self.site], until, start) >= last
        counts = self._counts(group, last, again, first)
        until = np.where(counts, np.searchsorted(reads, last + 1), 0)
        return self._found(writes, reads, np.searchsorted(reads, from_rank), until)

    def _of_other_lanes(self, group: _Group) -> Bursts:
        """The latest burst of each other lane of the warp: lanes are in step only where the warp's barriers say so."""
        block, threads = self.block, self.block.thread[self.ranks]
        lanes = (threads[:, None] // WARP * WARP + np.arange(WARP)).reshape(-1)
        writes, threads = np.repeat(self.ranks, WARP), np.repeat(threads, WARP)
        others = (lanes != threads) & (lanes < len(block.start) - 1)
        writes, threads, lanes = writes[others], threads[others], lanes[others]
        reads, beside = group.reads, self._beside()
        read_keys = block.sync_key[reads]
        radix = int(block.sync.max(initial=0)) + 1
        until = np.searchsorted(read_keys, lanes * radix + block.sync[writes])
        last = reads[np.maximum(until - 1, 0)]
        there = (until > 0) & (block.thread[last] == lanes)
        before = np.searchsorted(block.sync_key[beside], threads * radix + block.sync[last], side="right") - 1
        previous = beside[np.maximum(before, 0)]
        since = np.where((before >= 0) & (block.thread[previous] == threads), block.sync[previous], 0)
        begin = np.searchsorted(read_keys, lanes * radix + since)
        first = self._first(lanes)
        begin = np.where(last >= first, np.maximum(begin, np.searchsorted(reads, first)), begin)
        start = block.start[threads]
        written = _last(block.writes[self.site], block.event[writes], start)
        again = (written >= start) & (block.sync[written] > block.sync[last])
        there &= self._counts(group, last, again, first)
        return self._found(writes, reads, begin, np.where(there, until, 0))

    def _copies(self, reads: Integers, itself: bool) -> tuple[Bursts, Integers]:
        """Copies of a line from HBM to a slot: a thread's n-th cell written is its n-th one read; and other writes.

        An asynchronous copy is written when it is waited for, after the reads of later ones.
        """
        block, none = self.block, np.zeros(0, np.int64)
        writes = block.writes[self.site] if itself else self._beside()
        if not block.in_hbm[reads].all() or block.in_hbm[writes].any():
            return Bursts(none, none, none, none, none), self.ranks
        threads = block.thread[self.ranks]
        most = len(block.start)
        alike = np.bincount(block.thread[reads], minlength=most) == np.bincount(
            block.thread[writes], minlength=most
        )
        start = block.start[threads]
        nth = np.searchsorted(writes, self.ranks) - np.searchsorted(writes, start)
        partner = np.searchsorted(reads, start) + nth
        copied = alike[threads]
        copied &= reads[np.minimum(partner, len(reads) - 1)] < self.ranks
        found = self._found(self.ranks[copied], reads, partner[copied], partner[copied] + 1)
        return found, self.ranks[~copied]
