"""Plain kernels on the CPU: compiled by the system's C++ compiler, a block's threads as fibers, traced by hooks."""

from __future__ import annotations

import math
import platform
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from kernels.backend.compiler import compiler, version
from kernels.backend.cpu import Cpu as Threads
from kernels.errors import BackendError, KernelsError, ParameterError
from kernels.launch.cpu_build import built_library
from kernels.launch.cpu_image import image_of
from kernels.launch.cpu_library import Arrays, Ended, Library, Logged, Status
from kernels.launch.cpu_sites import lines_of, sites_of
from kernels.launch.request import Array, Launch, Machine, Request
from kernels.launch.source import shows_itself
from kernels.listen.log import BlockLog, Fault, LaunchLog
from kernels.memory import available
from kernels.trace.model import dtype_of
from kernels.trace.outside import outside, outside_shared

_MOST_THREADS = 1024
_MOST_SHARED = 232448  # bytes a block, of an H100 or H200: a kernel that runs here at all then runs there
_LONGEST = 120.0  # seconds that a launch may take
_running = threading.Lock()  # a library keeps the running launch in globals

# What threads wait at, by Waiting.kind.
_WAITS = (
    *("__syncthreads()", "__syncwarp()", "__shfl_sync()", "__shfl_up_sync()", "__shfl_down_sync()"),
    *("__shfl_xor_sync()", "vote", "__activemask()", "__match_any_sync()", "__reduce_add_sync()"),
    *("__reduce_min_sync()", "__reduce_max_sync()", "__reduce_min_sync()", "__reduce_max_sync()"),
    *("__reduce_and_sync()", "__reduce_or_sync()", "__reduce_xor_sync()"),
)


def open_backend() -> Cpu:
    """The CPU; BackendError if there is no C++ compiler."""
    compiler()
    return Cpu()


class Cpu:
    """Runs and traces requests on this machine's processor.

    `longest` is how many seconds a launch may take; `room` how many bytes the log of a request, by default a third of
    the memory that is free.
    """

    name = "cpu"

    def __init__(self, longest: float = _LONGEST, room: int | None = None) -> None:
        self._longest, self._room = longest, room

    def machine(self) -> Machine:
        """The processor, the system, and the compiler's own name and version."""
        return Machine(
            device=Threads().machine().device,
            driver=f"{platform.system()} {platform.release()}",
            runtime=f"fibers of Python {platform.python_version()}",
            compiler=version(compiler()),
        )

    def run(self, request: Request) -> dict[str, Array]:
        """Run all launches untraced; what every array holds afterwards."""
        with self._library(request, traced=False) as (library, arrays):
            for launch in request.launches:
                ended, _ = library.launch(launch, arrays, seconds=self._longest)
                if ended.status != Status.DONE:
                    raise self._error(request, launch, library, arrays, ended)
            return arrays.copies()

    def trace(self, request: Request) -> tuple[tuple[LaunchLog, ...], dict[str, Array]]:
        """Run all launches traced; the log of each, and what every array holds afterwards."""
        with self._library(request, traced=True) as (library, arrays):
            logs: list[LaunchLog] = []
            image = image_of(library.path, request.source)
            room = available() // 3 if self._room is None else self._room
            for launch in request.launches:
                before = arrays.copies()
                ended, logged = library.launch(
                    launch,
                    arrays,
                    seconds=self._longest,
                    blocks=_window(request, launch),
                    last_step=request.steps[1] if request.steps else 2**63,
                    barriers_end_steps=not shows_itself(request.source),
                    room=room,
                    image=image,
                )
                if logged is None:
                    raise self._error(request, launch, library, arrays, ended, room)
                room -= ended.log_bytes
                logs.append(_log(request, launch, library, arrays, before, logged))
            return tuple(logs), arrays.copies()

    @contextmanager
    def _library(self, request: Request, traced: bool) -> Iterator[tuple[Library, Arrays]]:
        for launch in request.launches:
            if math.prod(launch.block) > _MOST_THREADS:
                raise ParameterError(
                    f"block={launch.block} has {math.prod(launch.block)} threads: at most {_MOST_THREADS} can be"
                )
            if launch.shared_bytes > _MOST_SHARED:
                raise ParameterError(
                    f"shared={launch.shared_bytes} bytes: a block may have {_MOST_SHARED}: choose smaller tiles"
                )
        kernels = tuple(dict.fromkeys(launch.kernel for launch in request.launches))
        path = built_library(request.source, kernels, traced)
        with _running:
            library = Library(path, kernels)
            try:
                with library.arrays(request.arrays) as arrays:
                    yield library, arrays
            finally:
                library.close()

    def _error(
        self,
        request: Request,
        launch: Launch,
        library: Library,
        arrays: Arrays,
        ended: Ended,
        room: int = 0,
    ) -> KernelsError:
        """What ended a launch, in one sentence."""
        source = request.source.name
        line = lines_of(library.path, [ended.pc % 2**31], source)[ended.pc % 2**31]
        thread = _thread(launch, ended.thread)
        where = f"{source} line {line}" if line else source
        who = f"{where}: thread {thread} of block {ended.block}"
        match ended.status:
            case Status.OUTSIDE | Status.CRASHED:
                fault = Fault(ended.address, max(1, ended.size), line, ended.block, thread, ended.writes)
                at = {name: (start, arrays.views[name].nbytes) for name, start in arrays.addresses.items()}
                return outside(fault, arrays.views, at, source)
            case Status.OUTSIDE_SHARED:
                fault = Fault(ended.address, max(1, ended.size), line, ended.block, thread, ended.writes)
                near, size = ended.near, dtype_of(ended.near.dtype).itemsize
                return outside_shared(
                    fault, near.name, near.at, near.bytes, size, source, dynamic=near.dynamic
                )
            case Status.MISALIGNED:
                return BackendError(
                    f"{who} moves {ended.size} bytes at once at the address {ended.address:#x}{_cell(arrays, ended)}, "
                    f"which is no multiple of {ended.size}: a GPU cannot do that, so align it"
                )
            case Status.STUCK:
                return BackendError(_stuck(launch, ended, source))
            case Status.HUNG:
                return BackendError(
                    f"{launch.kernel} of {source} has run for {self._longest:.0f} s and does not end: thread "
                    f"{thread} of block {ended.block} is at line {line}: look at what ends its loops, or choose "
                    "smaller sizes"
                )
            case Status.TRAPPED:
                return BackendError(f"{who} met a __trap() or an assert() that does not hold")
            case Status.DIVIDED:
                return BackendError(f"{who} divides a whole number by zero")
            case Status.OVERFLOWN:
                return BackendError(
                    f"{who} has more than 256 KiB of local variables: make its arrays smaller, or end its recursion"
                )
            case Status.FULL:
                return ParameterError(
                    f"the log of this run takes more than {ended.log_bytes:,} bytes, {ended.blocks_done} of "
                    f"{math.prod(launch.grid)} blocks of {launch.kernel} being done; there is room for {room:,}: "
                    "record a window of it (--blocks 0:1, --steps 0:10), or choose smaller sizes"
                )
            case _:
                return BackendError(
                    f"there is no memory to run {launch.kernel} of {source}: choose smaller sizes"
                )


def _log(
    request: Request,
    launch: Launch,
    library: Library,
    arrays: Arrays,
    before: dict[str, Array],
    logged: Logged,
) -> LaunchLog:
    blocks = []
    for number, start, count, payload, size in logged.blocks.tolist():
        blocks.append(
            BlockLog(
                block=_index(launch.grid, number),
                rows=logged.rows[start : start + count],
                payload=logged.payload[payload : payload + size],
            )
        )
    return LaunchLog(
        sites=sites_of(logged, tuple(arrays.addresses), library.path, request.source, launch),
        texts=logged.texts,
        arrays={name: (at, arrays.views[name].nbytes) for name, at in arrays.addresses.items()},
        blocks=tuple(blocks),
        before=before,
    )


def _window(request: Request, launch: Launch) -> tuple[int, int]:
    """The blocks of a launch to record; ParameterError if there are none."""
    count = math.prod(launch.grid)
    first, last = request.blocks or (0, count)
    if first >= count:
        raise ParameterError(
            f"the window of blocks {first}:{last} is empty: {launch.kernel} has {count} blocks"
        )
    return first, min(last, count)


def _index(extents: tuple[int, int, int], number: int) -> tuple[int, int, int]:
    """The (x, y, z) of a linear number, x fastest."""
    x, y, _ = extents
    return number % x, number // x % y, number // (x * y)


def _thread(launch: Launch, number: int) -> tuple[int, int, int]:
    return _index(launch.block, number)


def _cell(arrays: Arrays, ended: Ended) -> str:
    for name, at in arrays.addresses.items():
        view = arrays.views[name]
        if at <= ended.address < at + view.nbytes:
            return f", {name}[{(ended.address - at) // view.dtype.itemsize}]"
    return ""


def _stuck(launch: Launch, ended: Ended, source: str) -> str:
    """Who waits where, most of them first, and what the others do."""
    groups = sorted(ended.waiting, key=lambda one: -one.count)
    first, others = groups[0], groups[1:]
    total = math.prod(launch.block)
    text = (
        f"{first.count} of {total} threads of block {ended.block}, the first is thread {_thread(launch, first.first)}, "
        f"wait at the {_WAITS[first.kind]} of line {first.line} of {source}"
    )
    said = [f"{one.count} wait at the {_WAITS[one.kind]} of line {one.line}" for one in others]
    if ended.returned:
        said.append(f"{ended.returned} have returned")
    if len(said) == 1:
        said = (
            ["the others have" + said[0].split("have", 1)[1]]
            if ended.returned
            else ["the others wait" + said[0].split("wait", 1)[1]]
        )
    return f"{text}; {' and '.join(said)}" if said else text
