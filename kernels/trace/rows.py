"""The rows of one launch's blocks in one table, with what each thread had passed when it did them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from kernels.listen.log import ROW, Kind, LaunchLog
from kernels.trace.model import Array, Dim3


@dataclass(frozen=True, eq=False)
class Rows:
    """All rows (ROW) of a launch, blocks in order (x fastest); `starts` is where each block's begin, and the end.

    `block` is each row's block as an index into `blocks`. `value` of the rows points into the one `payload`.
    """

    rows: Array
    payload: Array
    blocks: tuple[Dim3, ...]
    starts: Array
    block: Array
    threads: int

    @cached_property
    def actor(self) -> Array:
        """A number of each row's thread that no other thread of the launch has."""
        actor: Array = self.block.astype(np.int64) * self.threads + self.rows["thread"]
        return actor

    @cached_property
    def order(self) -> Array:
        """Where each row stood in its block's log."""
        return np.arange(len(self.rows), dtype=np.int64) - self.starts[self.block]

    @cached_property
    def by_actor(self) -> Array:
        """The rows' indices, each thread's together, in its own order."""
        order: Array = np.argsort(self.actor, kind="stable")
        return order

    def passed(self, flags: Array) -> Array:
        """How many of the flagged rows each row's thread had done before it."""
        if not flags.any():
            return np.zeros(len(flags), np.int64)
        actor, mine = self.actor[self.by_actor], flags[self.by_actor]
        before = np.cumsum(mine) - mine
        starts = np.flatnonzero(np.concatenate(([True], actor[1:] != actor[:-1])))
        before -= np.repeat(before[starts], np.diff(np.append(starts, len(actor))))
        result = np.empty(len(flags), np.int64)
        result[self.by_actor] = before
        return result

    def of_kind(self, *kinds: Kind) -> Array:
        """Which rows are of one of these kinds."""
        return np.isin(self.rows["kind"], kinds)


def rows_of(log: LaunchLog, block: Dim3) -> Rows:
    """The rows of a launch whose blocks have `block` threads."""
    logs = sorted(log.blocks, key=lambda one: one.block[::-1])
    lengths = [len(one.rows) for one in logs]
    starts = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
    shifts = np.concatenate(([0], np.cumsum([len(one.payload) for one in logs], dtype=np.int64)))
    if len(logs) == 1:
        rows, payload = logs[0].rows, logs[0].payload
    else:
        rows = np.concatenate([one.rows for one in logs]) if logs else np.zeros(0, ROW)
        payload = np.concatenate([one.payload for one in logs]) if logs else np.zeros(0, np.uint8)
    number = np.repeat(np.arange(len(logs), dtype=np.int32), lengths)
    if len(logs) > 1:
        rows["value"] += shifts[number].astype(np.uint64)
    return Rows(rows, payload, tuple(one.block for one in logs), starts, number, math.prod(block))


def at(payload: Array, starts: Array, dtype: npt.DTypeLike) -> Array:
    """The values of one dtype that begin at these bytes."""
    kind: np.dtype[Any] = np.dtype(dtype)
    if not len(starts):
        return np.zeros(0, kind)
    places = np.ndarray(
        (max(0, len(payload) - kind.itemsize + 1),), kind, np.ascontiguousarray(payload), 0, (1,)
    )
    return places[starts.astype(np.int64)]


def number(*columns: Array) -> tuple[Array, Array]:
    """A number from 0 for each distinct row of these integer columns, and the first row that has it."""
    code = np.zeros(len(columns[0]), np.int64)
    many = 1
    for column in columns:
        if not len(column) or column.min() == column.max():
            continue
        values, which = np.unique(column, return_inverse=True)
        if many * len(values) > 2**62:
            distinct, code = np.unique(code, return_inverse=True)
            many = len(distinct)
        code = code * len(values) + which.reshape(-1)
        many *= len(values)
    _, first, ids = np.unique(code, return_index=True, return_inverse=True)
    return ids.reshape(-1), first
