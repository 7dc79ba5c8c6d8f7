"""The log of a launch: what each block's threads did, in order, as both backends leave it.

A row is one act of one thread: an access to memory, or an event (a barrier, the end of a step, a HOLD). The rows of a
block are in an order in which they can have happened: each thread's own order, and barriers before what follows them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt


class Kind(IntEnum):
    """What a row is."""

    READ = 0
    WRITE = 1
    ATOMIC = 2  # reads and writes one place in one act
    BARRIER = 3  # of the block: __syncthreads and its like
    WARP_BARRIER = 4  # of a warp: __syncwarp, a shuffle, a vote
    SNAPSHOT = 5
    HOLD = 6
    DROP = 7  # the end of the scope of a HOLD


class Space(IntEnum):
    """Which memory an address is in."""

    HBM = 0
    SRAM = 1  # `address` is the same for all threads of the block
    REGISTERS = 2  # `address` is the thread's own


# `value` is where in the block's payload stand: for WRITE and ATOMIC, the `size` bytes that the place held afterwards;
# for SNAPSHOT and HOLD, a SNAPSHOT_INFO or HOLD_INFO. `request` numbers the instructions that a warp issued: its lanes'
# rows share it, and the WRITE of an asynchronous copy has that of its READ. HOLD and DROP have the address and the size
# in bytes of one variable.
ROW = np.dtype(
    [
        ("address", "u8"),
        ("value", "u8"),
        ("site", "u4"),
        ("request", "u4"),
        ("size", "u4"),
        ("thread", "u2"),
        ("kind", "u1"),
        ("space", "u1"),
    ]
)

MOST_LOOPS = 6
MOST_RANK = 6
# `text` is an index into LaunchLog.texts: of "load, t" for SNAPSHOT(load, t), of "As, Bs, acc" for HOLD(As, Bs, acc).
SNAPSHOT_INFO = np.dtype([("text", "u8"), ("count", "u8"), ("loops", "i8", (MOST_LOOPS,))])
# `index` is which of the names in the text; `element` an index into ELEMENTS; `extents` the variable's own, outermost
# first (a scalar has rank 0, a float4 one more extent of 4). A hidden one is a __shared__ variable that no HOLD shows.
HOLD_INFO = np.dtype(
    [
        ("text", "u8"),
        ("index", "u4"),
        ("element", "u4"),
        ("rank", "u4"),
        ("hidden", "u4"),
        ("extents", "u4", (MOST_RANK,)),
    ]
)
ELEMENTS = (
    "uint8",  # of a type that is not shown, as bytes
    "float32",
    "float64",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "float16",
    "bfloat16",
    "bool",
)


@dataclass(frozen=True)
class Source:
    """A site whose reads a write is made of; `via_warp` if the value came by a shuffle, from any lane of the warp."""

    site: int
    via_warp: bool = False


@dataclass(frozen=True)
class Site:
    """One instruction of the program, or one line and array where instructions are not known: where rows come from.

    `line` is 1-based in the user's file, 0 where unknown. `made_of` are, for a site that writes, the sites whose reads
    make up the value; None where that is not known (then every read of the thread since its last write may be).
    """

    line: int
    made_of: tuple[Source, ...] | None = None


@dataclass(frozen=True)
class BlockLog:
    """What one block did. `payload` is bytes that `ROW.value` points into."""

    block: tuple[int, int, int]
    rows: npt.NDArray[Any]  # of ROW
    payload: npt.NDArray[np.uint8]


@dataclass(frozen=True)
class LaunchLog:
    """What one launch did.

    `arrays` gives each array argument's address and bytes in the run, by its name. `blocks` are those recorded.
    `before` is what arrays held before the launch, where the backend says so.
    """

    sites: tuple[Site, ...]
    texts: tuple[str, ...]
    arrays: Mapping[str, tuple[int, int]]
    blocks: tuple[BlockLog, ...]
    faults: tuple[Fault, ...] = ()
    before: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Fault:
    """An access that was not let happen, because it lay in no array: where, and by whom."""

    address: int
    size: int
    line: int
    block: tuple[int, int, int]
    thread: tuple[int, int, int]
    writes: bool
