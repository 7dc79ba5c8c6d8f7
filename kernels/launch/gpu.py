"""Plain kernels on an NVIDIA GPU: compiled to PTX by NVRTC, traced by calls put before each access."""

from __future__ import annotations

import atexit
import contextlib
import math
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kernels.backend.cupy import Cupy, open_cupy
from kernels.errors import BackendError, ParameterError
from kernels.launch.nvrtc import Compiler, plain_text, traced_text
from kernels.launch.request import Array, Launch, Machine, Request
from kernels.launch.source import shows_itself
from kernels.listen.barriers import check_barriers
from kernels.listen.gpu_log import CONFIG, MOST_GLOBALS, MOST_STRAYS, REQUEST, STRAY, Decoder
from kernels.listen.log import Fault, Kind, LaunchLog
from kernels.listen.rewrite import Listening, leave_out, listen
from kernels.memory import available

_GAP, _ALIGN = (
    4096,
    256,
)  # between arrays, so that a stray access meets no other array; and of their addresses
_FIRST_REQUESTS, _FIRST_WORDS = 1 << 15, 1 << 16  # of a block, before it is known how many there are
_LONGEST = 120.0  # seconds that a launch may take


def open_backend() -> Gpu:
    """The GPU; BackendError if CuPy is not installed or finds none."""
    return Gpu(open_cupy())


@dataclass(frozen=True)
class Memory:
    """All array arguments in one piece of the GPU's memory, each with its own place in it."""

    whole: Any
    views: Mapping[str, Any]  # of bytes

    @property
    def addresses(self) -> dict[str, tuple[int, int]]:
        return {name: (view.data.ptr, view.nbytes) for name, view in self.views.items()}


class Gpu:
    """Runs and traces requests on the current CUDA device."""

    name = "cupy"

    def __init__(self, cupy: Any) -> None:
        self.cupy = cupy

    def machine(self) -> Machine:
        """The GPU, its driver, the CUDA runtime and NVRTC."""
        machine = Cupy(self.cupy).machine()
        return Machine(machine.device, machine.driver, machine.runtime, machine.compiler)

    def run(self, request: Request) -> dict[str, Array]:
        """Run all launches untraced; what every array holds afterwards."""
        with self._errors(request):
            memory = self.memory(request)
            self.plain_call(request, memory)()
            self._wait(request)
            return self._arrays(request, memory)

    def plain_call(self, request: Request, memory: Memory | None = None) -> Callable[[], None]:
        """A call that starts all launches untraced."""
        source = request.source
        code, names = self.compiler.compiled(plain_text(source), source, _names(request), "cubin")
        module, memory = load(self.cupy, code), memory or self.memory(request)
        kernels = [(module.get_function(names[launch.kernel]), launch) for launch in request.launches]

        def call() -> None:
            for kernel, launch in kernels:
                go(kernel, launch, memory.addresses)

        return call

    def trace(self, request: Request) -> tuple[tuple[LaunchLog, ...], dict[str, Array]]:
        """Run all launches traced; the log of each, and what every array holds afterwards."""
        with self._errors(request):
            memory = self.memory(request)
            traced = Traced(self.cupy, self.compiler, request)
            logs = []
            for number, launch in enumerate(request.launches):
                before = self._arrays(request, memory)
                logs.append(self._log(traced, request, number, launch, memory, before))
            return tuple(logs), self._arrays(request, memory)

    def _log(
        self,
        traced: Traced,
        request: Request,
        number: int,
        launch: Launch,
        memory: Memory,
        before: dict[str, Array],
    ) -> LaunchLog:
        room = self._room()
        first, last = window(request, launch)
        most = [_FIRST_REQUESTS, _FIRST_WORDS]
        while True:
            size = (last - first) * (most[0] * REQUEST.itemsize + most[1] * 4)
            if size > room:
                raise ParameterError(
                    f"the log of this run takes {size:,} bytes; there is room for {room:,}: record a window of it "
                    "(--blocks 0:1, --steps 0:10), or choose smaller sizes"
                )
            logged = traced.launch(launch, memory.whole, memory.addresses, (first, last), most)
            self._wait(request)
            counts = logged.counts()
            needed = [int(counts[:, n].max(initial=0)) for n in range(2)]
            if all(need <= have for need, have in zip(needed, most, strict=True)):
                break
            most = [max(need, 1) for need in needed]
            for name, view in memory.views.items():
                view.set(before[name].reshape(-1).view(np.uint8))
        faults = logged.faults(traced.sites)
        decoder = Decoder(traced.sites, self._read_text)
        blocks = [] if faults else logged.blocks(decoder, launch, first, counts)
        decoded = decoder.finish(blocks)
        log = LaunchLog(
            sites=decoded.sites,
            texts=decoded.texts,
            arrays=memory.addresses,
            blocks=decoded.blocks,
            faults=faults,
            before=before,
        )
        check_barriers(log, launch.block, request.source.name)
        return log

    def _room(self) -> int:
        free, _ = self.cupy.cuda.runtime.memGetInfo()
        return min(int(free), available() // 3)

    def _read_text(self, address: int, size: int) -> str:
        text = np.empty(size, np.uint8)
        runtime = self.cupy.cuda.runtime
        runtime.memcpy(text.ctypes.data, address, size, runtime.memcpyDeviceToHost)
        return text.tobytes().decode()

    @cached_property
    def compiler(self) -> Compiler:
        return Compiler(
            self.cupy.cuda.nvrtc, self.cupy.cuda.Device().compute_capability, include_folders(self.cupy)
        )

    def _wait(self, request: Request) -> None:
        """Waits for the GPU, but not for ever: a kernel whose threads wait for each other never ends."""
        event = self.cupy.cuda.Event()
        event.record()
        begun, pause = time.monotonic(), 0.0001
        while not event.done:
            if time.monotonic() - begun > _LONGEST:
                # Nothing stops the kernel now but the end of this process, which must not wait for it either.
                atexit.register(os._exit, 2)
                raise BackendError(
                    f"{request.source.name} has run for {_LONGEST:.0f} s and does not end: some threads may wait at a "
                    "barrier that others never reach; trace it with --backend cpu to see the lines"
                )
            time.sleep(pause)
            pause = min(2 * pause, 0.05)
        self.cupy.cuda.runtime.deviceSynchronize()

    def memory(self, request: Request) -> Memory:
        starts, at = {}, _GAP
        for name, array in request.arrays.items():
            starts[name] = at
            at += -(-array.nbytes // _ALIGN) * _ALIGN + _GAP
        whole = self.cupy.empty(at, np.uint8)
        views = {name: whole[start : start + request.arrays[name].nbytes] for name, start in starts.items()}
        for name, view in views.items():
            if view.nbytes:
                view.set(np.ascontiguousarray(request.arrays[name]).reshape(-1).view(np.uint8))
        return Memory(whole, views)

    def _arrays(self, request: Request, memory: Memory) -> dict[str, Array]:
        return {
            name: self.cupy.asnumpy(view).view(request.arrays[name].dtype).reshape(request.arrays[name].shape)
            for name, view in memory.views.items()
        }

    @contextlib.contextmanager
    def _errors(self, request: Request) -> Iterator[None]:
        cuda, name = self.cupy.cuda, request.source.name
        try:
            yield
        except (cuda.runtime.CUDARuntimeError, cuda.driver.CUDADriverError) as error:
            raise BackendError(f"{name} failed on the GPU: {error}") from error
        except cuda.memory.OutOfMemoryError as error:
            raise BackendError(f"{name} needs more memory than the GPU has free: {error}") from error


@dataclass(frozen=True)
class Logged:
    """What a traced launch left in the GPU's memory."""

    requests: Any
    payload: Any
    left: Any  # counts of each block: requests, words
    strays: Any
    stray_count: Any
    most: tuple[int, int]

    def counts(self) -> npt.NDArray[np.uint32]:
        """Requests and words of payload of each block recorded: (blocks, 2)."""
        return np.asarray(self.left.get()).reshape(-1, 2)

    def faults(self, sites: Any) -> tuple[Fault, ...]:
        """The accesses that were not let happen."""
        count = min(int(self.stray_count.get()[0]), MOST_STRAYS)
        strays = np.asarray(self.strays.get()).view(STRAY)[:count]
        return tuple(
            Fault(
                address=int(one["address"]),
                size=int(one["size"]),
                line=sites[int(one["site"])].line,
                block=tuple(one["block"].tolist()),
                thread=tuple(one["thread"].tolist()),
                writes=int(one["kind"]) != Kind.READ,
            )
            for one in strays
        )

    def blocks(
        self, decoder: Decoder, launch: Launch, first: int, counts: npt.NDArray[np.uint32]
    ) -> list[Any]:
        """The log of each block recorded."""
        found = []
        for number, (requests, words) in enumerate(counts.tolist()):
            start, words_start = number * self.most[0] * REQUEST.itemsize, number * self.most[1]
            of_block = self.requests[start : start + requests * REQUEST.itemsize].get().view(REQUEST)
            payload = self.payload[words_start : words_start + words].get()
            found.append(decoder.block(block_at(launch, first + number), of_block, payload))
        return found


@dataclass(frozen=True)
class Ready:
    """A traced launch that is ready to go, as often as wanted, and where it leaves its log."""

    call: Callable[[], None]
    logged: Logged


class Traced:
    """The traced kernels of a request, loaded, and, of a window, the plain ones for the blocks outside it."""

    def __init__(self, cupy: Any, compiler: Compiler, request: Request) -> None:
        self.cupy = cupy
        source = request.source
        names = _names(request)
        self._steps, self._shows_itself = request.steps[1] if request.steps else 0, shows_itself(source)
        code, self._names = compiler.compiled(
            traced_text(source), source, names, "ptx", "--relocatable-device-code=true"
        )
        bounds = {self._names[launch.kernel]: math.prod(launch.block) for launch in request.launches}
        self.listening: Listening = listen(code.decode().rstrip("\0"), compiler.logger, source.name)
        self.sites = self.listening.sites
        self._module: Any = load(cupy, bounded(self.listening.ptx, bounds).encode())
        self._others: Any = None
        if request.blocks is not None:
            plain, self._plain_names = compiler.compiled(plain_text(source), source, names, "ptx")
            text = leave_out(plain.decode().rstrip("\0"), source.name)
            self._others = load(cupy, bounded(text, bounds).encode())

    def launch(
        self,
        launch: Launch,
        arena: Any,
        addresses: Mapping[str, tuple[int, int]],
        blocks: tuple[int, int],
        most: list[int],
    ) -> Logged:
        """Launch once, logging the blocks of a half-open range, at most so many requests and words each."""
        ready = self.prepared(launch, arena, addresses, blocks, most)
        ready.call()
        return ready.logged

    def prepared(
        self,
        launch: Launch,
        arena: Any,
        addresses: Mapping[str, tuple[int, int]],
        blocks: tuple[int, int],
        most: list[int],
    ) -> Ready:
        """All that is done before a launch."""
        cupy = self.cupy
        first, last = blocks
        count = last - first
        logged = Logged(
            requests=cupy.empty(max(1, count * most[0] * REQUEST.itemsize), np.uint8),
            payload=cupy.empty(max(1, count * most[1]), np.uint32),
            left=cupy.zeros(2 * count, np.uint32),
            strays=cupy.zeros(MOST_STRAYS * STRAY.itemsize, np.uint8),
            stray_count=cupy.zeros(1, np.uint32),
            most=(most[0], most[1]),
        )
        config = np.zeros(1, CONFIG)
        for field, array in (
            ("requests", logged.requests),
            ("payload", logged.payload),
            ("counts", logged.left),
            ("strays", logged.strays),
            ("stray_count", logged.stray_count),
            ("arena", arena),
        ):
            config[field] = array.data.ptr
        config["arena_bytes"] = arena.nbytes
        known = [variable for variable in self.listening.globals if variable.bytes][:MOST_GLOBALS]
        for number, variable in enumerate(known):
            config["global_at"][0, number] = self._module.get_global(variable.name).ptr
            config["global_bytes"][0, number] = variable.bytes
        config["globals"], config["first"], config["blocks"] = len(known), first, count
        config["most_requests"], config["most_words"] = most
        config["steps"], config["barriers_end"] = self._steps, not self._shows_itself
        self._put(self._module, "kim_config", config)
        if self._others is not None:
            self._put(self._others, "kim_window", np.array([first, count], np.uint32))
        mine = self._module.get_function(self._names[launch.kernel])
        others = self._others and self._others.get_function(self._plain_names[launch.kernel])

        def call() -> None:
            if others is None:
                go(mine, launch, addresses)
                return
            # The blocks outside the window run beside, on a stream of their own, so that the traced one holds none up.
            stream, begun = cupy.cuda.Stream(non_blocking=True), cupy.cuda.get_current_stream().record()
            with stream:
                stream.wait_event(begun)
                go(others, launch, addresses)
                ended = stream.record()
            go(mine, launch, addresses)
            cupy.cuda.get_current_stream().wait_event(ended)

        return Ready(call, logged)

    def _put(self, module: Any, name: str, values: npt.NDArray[Any]) -> None:
        runtime = self.cupy.cuda.runtime
        kept = np.ascontiguousarray(values)
        runtime.deviceSynchronize()
        runtime.memcpy(module.get_global(name).ptr, kept.ctypes.data, kept.nbytes, runtime.memcpyHostToDevice)


def _names(request: Request) -> tuple[str, ...]:
    return tuple(dict.fromkeys(launch.kernel for launch in request.launches))


def window(request: Request, launch: Launch) -> tuple[int, int]:
    """The blocks of a launch to record; ParameterError if there are none."""
    count = math.prod(launch.grid)
    first, last = request.blocks or (0, count)
    if first >= count:
        raise ParameterError(
            f"the window of blocks {first}:{last} is empty: {launch.kernel} has {count} blocks"
        )
    return first, min(last, count)


def block_at(launch: Launch, number: int) -> tuple[int, int, int]:
    """The index of a block by its linear number, x fastest."""
    x, y, _ = launch.grid
    return number % x, number // x % y, number // (x * y)


def load(cupy: Any, code: bytes) -> Any:
    """A module of PTX or machine code."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(
            folder, "kernel.ptx" if code.lstrip().startswith((b"//", b".version")) else "kernel.cubin"
        )
        path.write_bytes(code)
        module = cupy.RawModule(path=str(path))
        module.compile()
    return module


def go(kernel: Any, launch: Launch, addresses: Mapping[str, tuple[int, int]]) -> None:
    """Launch a kernel on arrays at these addresses."""
    if launch.shared_bytes > 48 * 1024:
        kernel.max_dynamic_shared_size_bytes = launch.shared_bytes
    values: list[Any] = []
    for argument in launch.arguments:
        if argument.value is None:
            values.append(np.uint64(addresses[argument.name][0]))
        elif argument.value.dtype.kind == "V" or argument.value.dtype.name == "bfloat16":
            values.append(np.asarray(argument.value).view(np.uint16)[()])
        else:
            values.append(argument.value)
    kernel(launch.grid, launch.block, tuple(values), shared_mem=launch.shared_bytes)


def bounded(ptx: str, threads: Mapping[str, int]) -> str:
    """The module with the number of threads that each entry is launched with, so that its registers suffice."""
    for name, count in threads.items():
        entry = re.search(rf"\.entry\s+{re.escape(name)}\s*\([^)]*\)([^{{]*)\{{", ptx)
        if entry and ".maxntid" not in entry[1]:
            ptx = f"{ptx[: entry.start(1)]}\n.maxntid {count}, 1, 1\n{ptx[entry.start(1) :]}"
    return ptx


def include_folders(cupy: Any) -> tuple[Path, ...]:
    """Where CUDA's own headers are, as far as CuPy knows."""
    found = []
    path = cupy.cuda.get_cuda_path()
    candidates = [Path(path, "include")] if path else []
    candidates.append(Path("/usr/local/cuda/include"))
    for folder in candidates:
        if (folder / "cuda_fp16.h").is_file() and folder not in found:
            found += [folder, *([folder / "cccl"] if (folder / "cccl").is_dir() else [])]
    return tuple(found)
