"""Logs of launches written by hand: what a backend would have left, as lists of acts in the order they were done.

``write(0, 3, SRAM + 4, np.float32([1]))`` is thread 0 writing one float at the site 3. The memory is told from the
address: HBM, SRAM and REGISTERS are where each begins. An act on more than one cell is one act of a wide type.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kernels.launch.request import Argument, Launch, Request
from kernels.launch.source import Source
from kernels.listen.log import (
    ELEMENTS,
    HOLD_INFO,
    MOST_LOOPS,
    MOST_RANK,
    ROW,
    SNAPSHOT_INFO,
    BlockLog,
    Fault,
    Kind,
    LaunchLog,
    Site,
    Space,
)
from kernels.trace.assemble import assemble
from kernels.trace.model import Trace
from kernels.trace.version2 import Provenance

PROVENANCE = Provenance("hand", "no device", "", "", "", "", "2026-01-01T00:00:00+00:00")

Dim3 = tuple[int, int, int]
SRAM = 0x1_0000
REGISTERS = 0x2_0000
HBM = 0x7F00_0000_0000


@dataclass(frozen=True)
class Act:
    """One row to be, and what it puts into the payload."""

    kind: Kind
    thread: int
    site: int
    address: int = 0
    size: int = 0
    request: int | None = None  # None: one of its own
    values: npt.NDArray[Any] | None = None
    text: str = ""
    loops: tuple[int, ...] = ()
    index: int = 0
    element: int = 0
    extents: tuple[int, ...] = ()
    hidden: bool = False


def read(thread: int, site: int, address: int, size: int = 4, request: int | None = None) -> Act:
    return Act(Kind.READ, thread, site, address, size, request)


def write(thread: int, site: int, address: int, values: Any, request: int | None = None) -> Act:
    held = np.asarray(values)
    return Act(Kind.WRITE, thread, site, address, held.nbytes, request, held)


def atomic(thread: int, site: int, address: int, values: Any, request: int | None = None) -> Act:
    """`values` is what the place held afterwards."""
    held = np.asarray(values)
    return Act(Kind.ATOMIC, thread, site, address, held.nbytes, request, held)


def barrier(thread: int, site: int) -> Act:
    return Act(Kind.BARRIER, thread, site)


def warp_barrier(thread: int, site: int) -> Act:
    return Act(Kind.WARP_BARRIER, thread, site)


def snapshot(thread: int, site: int, text: str, *loops: int) -> Act:
    return Act(Kind.SNAPSHOT, thread, site, text=text, loops=loops)


def hold(
    thread: int,
    site: int,
    text: str,
    address: int,
    dtype: str = "float32",
    extents: tuple[int, ...] = (),
    *,
    index: int = 0,
    hidden: bool = False,
) -> Act:
    size = int(np.prod(extents, dtype=np.int64)) * (2 if dtype == "bfloat16" else np.dtype(dtype).itemsize)
    return Act(
        Kind.HOLD,
        thread,
        site,
        address,
        size,
        text=text,
        index=index,
        element=ELEMENTS.index(dtype, 1),
        extents=extents,
        hidden=hidden,
    )


def drop(thread: int, site: int, address: int, size: int = 0) -> Act:
    return Act(Kind.DROP, thread, site, address, size)


def launch_log(
    blocks: Mapping[Dim3, Sequence[Act]] | Sequence[Act],
    sites: Sequence[Site | int],
    arrays: Mapping[str, tuple[int, int]] | None = None,
    *,
    before: Mapping[str, npt.NDArray[Any]] | None = None,
    faults: tuple[Fault, ...] = (),
) -> LaunchLog:
    """The log of a launch; a list alone is block (0, 0, 0)'s. A site may be given as its line."""
    texts: list[str] = []
    if not isinstance(blocks, Mapping):
        blocks = {(0, 0, 0): blocks}
    return LaunchLog(
        sites=tuple(Site(site) if isinstance(site, int) else site for site in sites),
        blocks=tuple(_block(block, acts, texts) for block, acts in blocks.items()),
        texts=tuple(texts),
        arrays=arrays or {},
        faults=faults,
        before=before or {},
    )


def request_of(
    *launches: tuple[Dim3, Dim3],
    arrays: Mapping[str, npt.NDArray[Any]] | None = None,
    blocks: tuple[int, int] | None = None,
    steps: tuple[int, int] | None = None,
) -> Request:
    """A request for launches of these grids and blocks, each with all the arrays."""
    arguments = tuple(Argument(name, None, "by hand") for name in arrays or {})
    return Request(
        source=Source("hand.cu", "// by hand\n", None, (), (), ()),
        launches=tuple(Launch("hand<4>", grid, block, 0, arguments) for grid, block in launches),
        arrays=arrays or {},
        blocks=blocks,
        steps=steps,
    )


def trace_of(
    log: LaunchLog | tuple[LaunchLog, ...],
    arrays: Mapping[str, npt.NDArray[Any]] | None = None,
    outputs: Mapping[str, npt.NDArray[Any]] | None = None,
    *,
    block: Dim3 = (2, 1, 1),
    grid: Dim3 = (1, 1, 1),
    blocks: tuple[int, int] | None = None,
    steps: tuple[int, int] | None = None,
) -> Trace:
    """The trace assembled from logs of launches of one grid and block; arrays not in `outputs` stay as they were."""
    logs = log if isinstance(log, tuple) else (log,)
    request = request_of(*[(grid, block)] * len(logs), arrays=arrays, blocks=blocks, steps=steps)
    return assemble(request, logs, {**(arrays or {}), **(outputs or {})}, PROVENANCE)


def _block(block: Dim3, acts: Sequence[Act], texts: list[str]) -> BlockLog:
    rows = np.zeros(len(acts), ROW)
    payload = bytearray()
    free = 1 + max((act.request for act in acts if act.request is not None), default=-1)
    for number, act in enumerate(acts):
        request = act.request
        if request is None:
            request, free = free, free + 1
        space = (
            Space.HBM if act.address >= HBM else Space.REGISTERS if act.address >= REGISTERS else Space.SRAM
        )
        if act.text and act.text not in texts:
            texts.append(act.text)
        rows[number] = (
            act.address,
            len(payload),
            act.site,
            request,
            act.size,
            act.thread,
            act.kind,
            space,
        )
        payload += _payload(act, texts)
    return BlockLog(block, rows, np.frombuffer(bytes(payload), np.uint8))


def _payload(act: Act, texts: list[str]) -> bytes:
    if act.values is not None:
        return act.values.tobytes()
    if act.kind == Kind.SNAPSHOT:
        loops = act.loops + (0,) * (MOST_LOOPS - len(act.loops))
        return np.array((texts.index(act.text), len(act.loops), loops), SNAPSHOT_INFO).tobytes()
    if act.kind == Kind.HOLD:
        extents = act.extents + (0,) * (MOST_RANK - len(act.extents))
        return np.array(
            (texts.index(act.text), act.index, act.element, len(act.extents), act.hidden, extents), HOLD_INFO
        ).tobytes()
    return b""
