"""A library of kernels as it is loaded: launches in the words of `kernels/listen/cpu/runtime.cpp`, and its memory."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kernels.errors import BackendError
from kernels.launch.request import Array, Launch
from kernels.listen.log import ELEMENTS, ROW

_PAGE = 65536  # at least that of any system
_GAP = 1 << 20  # of nothing between arrays
_MARGIN = 16 << 30  # before the first and behind the last, so that an int as an index does not leave it


class Status(IntEnum):
    """How a launch ended."""

    DONE = 0
    OUTSIDE = 1
    MISALIGNED = 2
    CRASHED = 3
    STUCK = 4
    FULL = 5
    HUNG = 6
    TRAPPED = 7
    OVERFLOWN = 8
    DIVIDED = 9
    NO_MEMORY = 10
    OUTSIDE_SHARED = 11


class _Array(ctypes.Structure):
    _fields_ = (("at", ctypes.c_uint64), ("bytes", ctypes.c_uint64))


class _Config(ctypes.Structure):
    _fields_ = (
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("shared_bytes", ctypes.c_uint32),
        ("traced", ctypes.c_uint32),
        ("first_block", ctypes.c_uint64),
        ("last_block", ctypes.c_uint64),
        ("last_step", ctypes.c_uint64),
        ("room", ctypes.c_uint64),
        ("arena", ctypes.c_uint64),
        ("arena_bytes", ctypes.c_uint64),
        ("arrays", ctypes.POINTER(_Array)),
        ("array_count", ctypes.c_uint32),
        ("barriers_end_steps", ctypes.c_uint32),
        ("seconds", ctypes.c_double),
        ("image", ctypes.c_uint64),
        ("image_bytes", ctypes.c_uint64),
        ("globals", ctypes.POINTER(_Array)),
        ("global_count", ctypes.c_uint32),
        ("unused", ctypes.c_uint32),
    )


class _Waiting(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint32) for name in ("kind", "line", "count", "first"))


class _Result(ctypes.Structure):
    _fields_ = (
        ("status", ctypes.c_uint32),
        ("writes", ctypes.c_uint32),
        ("address", ctypes.c_uint64),
        ("size", ctypes.c_uint64),
        ("pc", ctypes.c_uint64),
        ("block", ctypes.c_uint32 * 3),
        ("thread", ctypes.c_uint32),
        ("blocks_done", ctypes.c_uint64),
        ("rows", ctypes.c_void_p),
        ("names", ctypes.c_void_p),
        ("row_count", ctypes.c_uint64),
        ("payload", ctypes.c_void_p),
        ("payload_bytes", ctypes.c_uint64),
        ("blocks", ctypes.c_void_p),
        ("block_count", ctypes.c_uint64),
        ("texts", ctypes.c_void_p),
        ("text_count", ctypes.c_uint64),
        ("variables", ctypes.c_void_p),
        ("variable_count", ctypes.c_uint64),
        ("touches", ctypes.c_void_p),
        ("touch_count", ctypes.c_uint64),
        ("waiting", _Waiting * 8),
        ("waiting_count", ctypes.c_uint32),
        ("returned", ctypes.c_uint32),
        ("base", ctypes.c_uint64),
        ("near_name", ctypes.c_void_p),
        ("near_name_bytes", ctypes.c_uint64),
        ("near_at", ctypes.c_uint64),
        ("near_bytes", ctypes.c_uint64),
        ("near_element", ctypes.c_uint32),
        ("near_dynamic", ctypes.c_uint32),
    )


BLOCK = np.dtype([(name, "u8") for name in ("number", "rows", "row_count", "payload", "payload_bytes")])
TOUCH = np.dtype([("code", "u4"), ("name", "u2"), ("kind", "u1"), ("unused", "u1"), ("site", "u4")])
_TEXT = np.dtype([("at", "u8"), ("bytes", "u8")])
_VARIABLE = np.dtype([("text", "u4"), ("index", "u4")])


@dataclass(frozen=True)
class Waiting:
    """Threads that wait at one line: `kind` is 0 at a barrier of the block, else a WarpOp of runtime.h + 1."""

    kind: int
    line: int
    count: int
    first: int


@dataclass(frozen=True)
class Image:
    """A library's own memory: its first byte and bytes, and the parts that are a kernel's, not shared, ascending."""

    at: int
    bytes: int
    globals: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Near:
    """The shared variable beside which an access lay: its name ("" if none), address, bytes, dtype of its numbers."""

    name: str
    at: int
    bytes: int
    dtype: str
    dynamic: bool


@dataclass(frozen=True)
class Ended:
    """How a launch ended, and at which access of which thread if it did not end well."""

    status: Status
    address: int
    size: int
    writes: bool
    pc: int
    block: tuple[int, int, int]
    thread: int
    blocks_done: int
    log_bytes: int
    waiting: tuple[Waiting, ...]
    returned: int
    near: Near


@dataclass(frozen=True)
class Logged:
    """The log of a launch as it lies in the library's memory, copied.

    `touches` says which sites there are: a return address (or a line), a kind, and for each name that it touched a
    row. A name is an array's number, or the number of arrays + one into `variables`, which has for each a text and
    which of its names.
    """

    rows: npt.NDArray[Any]
    payload: npt.NDArray[np.uint8]
    blocks: npt.NDArray[Any]
    touches: npt.NDArray[Any]
    texts: tuple[str, ...]
    variables: tuple[tuple[int, int], ...]


class Library:
    """A loaded library: what its kernels keep in global variables is new."""

    def __init__(self, path: Path, kernels: Sequence[str]) -> None:
        self.path = path
        self._library = ctypes.CDLL(str(path))
        self._library.kim_launch.restype = ctypes.POINTER(_Result)
        self._library.kim_reserve.restype = ctypes.c_void_p
        self._starts = {
            kernel: ctypes.cast(getattr(self._library, f"kim_start_{number}"), ctypes.c_void_p)
            for number, kernel in enumerate(kernels)
        }

    def close(self) -> None:
        """Unload it."""
        import _ctypes

        _ctypes.dlclose(self._library._handle)

    @contextmanager
    def arrays(self, arrays: Mapping[str, Array]) -> Iterator[Arrays]:
        """Memory of the library's with these arrays in it, each with nothing around it.

        Raises BackendError if there is no room.
        """
        starts, at = {}, _MARGIN
        for name, array in arrays.items():
            starts[name] = at
            at += -(-array.nbytes // _PAGE) * _PAGE + _GAP
        whole = at + _MARGIN
        base = self._library.kim_reserve(ctypes.c_uint64(whole))
        if not base:
            raise BackendError(
                f"there is no room for {whole:,} bytes of addresses: lift the limit (ulimit -v)"
            )
        try:
            views = {}
            for name, start in starts.items():
                size = arrays[name].nbytes
                if size and self._library.kim_open(ctypes.c_void_p(base + start), ctypes.c_uint64(size)):
                    raise BackendError(f"there is no memory for {name}, which takes {size:,} bytes")
                memory = (ctypes.c_uint8 * size).from_address(base + start)
                view = (
                    np.frombuffer(memoryview(memory), np.uint8)
                    .view(arrays[name].dtype)
                    .reshape(arrays[name].shape)
                )
                view[...] = arrays[name]
                views[name] = view
            yield Arrays(base, whole, {name: base + start for name, start in starts.items()}, views)
        finally:
            self._library.kim_release(ctypes.c_void_p(base), ctypes.c_uint64(whole))

    def launch(
        self,
        launch: Launch,
        arrays: Arrays,
        *,
        seconds: float,
        blocks: tuple[int, int] = (0, 0),
        last_step: int = 2**63,
        barriers_end_steps: bool = False,
        room: int | None = None,
        image: Image | None = None,
    ) -> tuple[Ended, Logged | None]:
        """Launch a kernel; of a traced one (`room` is how many bytes its log may take) also the log of `blocks`.

        With `image` an access of a traced one to the library's memory that lies in no variable is not let happen.
        """
        values = [_value(argument.name, argument.value, arrays) for argument in launch.arguments]
        pointers = (ctypes.c_void_p * max(1, len(values)))(*(value.ctypes.data for value in values))
        image = image or Image(0, 0, ())
        known = [_Array(at, arrays.views[name].nbytes) for name, at in arrays.addresses.items()]
        config = _Config(
            grid=launch.grid,
            block=launch.block,
            shared_bytes=launch.shared_bytes,
            traced=room is not None,
            first_block=blocks[0],
            last_block=blocks[1],
            last_step=last_step,
            room=room or 0,
            arena=arrays.base,
            arena_bytes=arrays.bytes,
            arrays=(_Array * max(1, len(known)))(*known),
            array_count=len(known),
            barriers_end_steps=barriers_end_steps,
            seconds=seconds,
            image=image.at,
            image_bytes=image.bytes,
            globals=(_Array * max(1, len(image.globals)))(*(_Array(*one) for one in image.globals)),
            global_count=len(image.globals),
        )
        result = self._library.kim_launch(
            self._starts[launch.kernel], pointers, ctypes.byref(config)
        ).contents
        try:
            ended = Ended(
                status=Status(result.status),
                address=result.address,
                size=result.size,
                writes=bool(result.writes),
                pc=result.pc,
                block=(result.block[0], result.block[1], result.block[2]),
                thread=result.thread,
                blocks_done=result.blocks_done,
                log_bytes=result.row_count * ROW.itemsize + result.payload_bytes,
                waiting=tuple(
                    Waiting(one.kind, one.line, one.count, one.first)
                    for one in result.waiting[: result.waiting_count]
                ),
                returned=result.returned,
                near=Near(
                    name=ctypes.string_at(result.near_name, result.near_name_bytes).decode("utf-8", "replace")
                    if result.near_name
                    else "",
                    at=result.near_at,
                    bytes=result.near_bytes,
                    dtype=ELEMENTS[result.near_element],
                    dynamic=bool(result.near_dynamic),
                ),
            )
            logged = _logged(result) if room is not None and ended.status == Status.DONE else None
        finally:
            self._library.kim_free()
        return ended, logged


@dataclass(frozen=True)
class Arrays:
    """Array arguments in a library's memory: `addresses` and views of each, in `bytes` from `base` with gaps."""

    base: int
    bytes: int
    addresses: Mapping[str, int]
    views: Mapping[str, Array]

    def copies(self) -> dict[str, Array]:
        """What each array holds now."""
        return {name: view.copy() for name, view in self.views.items()}


def _value(name: str, value: np.generic | None, arrays: Arrays) -> npt.NDArray[Any]:
    """The bytes of an argument."""
    if value is None:
        return np.array(arrays.addresses[name], np.uint64)
    return np.array(value)


def _logged(result: _Result) -> Logged:
    texts = _copied(result.texts, result.text_count, _TEXT)
    return Logged(
        rows=_copied(result.rows, result.row_count, ROW),
        payload=_copied(result.payload, result.payload_bytes, np.dtype(np.uint8)),
        blocks=_copied(result.blocks, result.block_count, BLOCK),
        touches=_copied(result.touches, result.touch_count, TOUCH),
        texts=tuple(
            ctypes.string_at(int(at), int(size)).decode("utf-8", "replace") for at, size in texts.tolist()
        ),
        variables=tuple(
            (text, index)
            for text, index in _copied(result.variables, result.variable_count, _VARIABLE).tolist()
        ),
    )


def _copied(at: int | None, count: int, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    if not count or at is None:
        return np.zeros(0, dtype)
    memory = (ctypes.c_uint8 * (count * dtype.itemsize)).from_address(at)
    return np.frombuffer(memoryview(memory), np.uint8).view(dtype).copy()
