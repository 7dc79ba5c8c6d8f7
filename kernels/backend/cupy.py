"""The GPU backend: the ``.cu`` file compiled by NVRTC and launched through CuPy. The one module that imports CuPy."""

from __future__ import annotations

import contextlib
import importlib
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kernels.backend import Machine
from kernels.errors import BackendError
from kernels.job import Job
from kernels.memory import available
from kernels.recording import FAULT, RawLaunch, check_fault, config, record_shape
from kernels.source import function, layout_checks, parameter_types, traced_call, whole_source

_OPTIONS = ("--std=c++17", "--generate-line-info")  # so that a sanitizer or a profiler can name the line
_REGISTERS = (
    65536  # of a block; a thread has at most 255 (CUDA C++ Programming Guide, "Technical Specifications")
)


def open_backend() -> Cupy:
    """The GPU backend; BackendError if CuPy is not installed or finds no GPU."""
    return Cupy(open_cupy())


def open_cupy() -> Any:
    """The module CuPy; BackendError if it is not installed or finds no GPU."""
    try:
        import cupy
    except ImportError as error:
        raise BackendError(
            "the cupy backend needs CuPy: `.venv/bin/pip install -e '.[cuda13]'` (or cuda12, to match the driver)"
        ) from error
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise BackendError(
            f"the cupy backend found no usable NVIDIA GPU ({error}): use the cpu backend"
        ) from error
    if not count:
        raise BackendError("the cupy backend found no NVIDIA GPU: use the cpu backend")
    return cupy


def entry_source(job: Job) -> str:
    """The traced kernel with an entry point ``kim_trace_<launch>`` for each of its launches."""
    text = [whole_source(job.kernel, "cuda.cuh", traced=True)]
    for launch in range(len(job.layout.launches)):
        parameters = [f"{kind} p{n}" for n, kind in enumerate(parameter_types(job, launch))]
        text += [
            layout_checks(job, launch, str(launch)),
            f'extern "C" __global__ void __launch_bounds__({job.layout.launches[launch].threads}) '
            f"kim_trace_{launch}({', '.join(parameters)}, const __grid_constant__ kim::Config config) {{",
            f"    kim::Tracer tracer(config);\n    {traced_call(job, launch)};\n}}",
        ]
    return "\n".join(text)


def plain_options(threads: int) -> tuple[str, ...]:
    """NVRTC's options for an untraced kernel: one that wants more registers than a large block has would not launch."""
    most = _REGISTERS // (32 * -(-threads // 32)) // 8 * 8  # they are given out to whole warps, by the 8
    return _OPTIONS if most >= 255 else (*_OPTIONS, f"--maxrregcount={most}")


class Cupy:
    """Runs kernels on the current CUDA device."""

    name = "cupy"
    default_threads = 128

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy

    def machine(self) -> Machine:
        """The GPU, its driver, the CUDA runtime and NVRTC."""
        runtime = self._cupy.cuda.runtime
        properties = runtime.getDeviceProperties(runtime.getDevice())
        return Machine(
            device=properties["name"].decode(),
            driver=f"{_driver()}CUDA {_version(runtime.driverGetVersion())}",
            runtime=f"CUDA {_version(runtime.runtimeGetVersion())}, CuPy {self._cupy.__version__}",
            compiler="NVRTC {}.{}".format(*self._cupy.cuda.nvrtc.getVersion()),
        )

    def shared_limit(self) -> int:
        """What a block may opt in to on this device, in bytes."""
        attributes: Mapping[str, int] = self._cupy.cuda.Device().attributes
        return attributes["MaxSharedMemoryPerBlockOptin"]

    def room(self) -> int:
        """Bytes that a run may record: what the GPU has free, or a third of what the host has."""
        free, _ = self._cupy.cuda.runtime.memGetInfo()
        return min(int(free), available() // 3)

    def run(self, job: Job) -> dict[str, npt.NDArray[np.float32]]:
        """Run all launches without tracing; the output arrays."""
        with self._errors(job):
            memory = self._memory(job)
            for launch in self._plain(job, memory):
                launch()
            self._cupy.cuda.runtime.deviceSynchronize()
            return self._outputs(job, memory)

    def trace(self, job: Job) -> tuple[list[RawLaunch], dict[str, npt.NDArray[np.float32]]]:
        """Run all launches with tracing; what each left, and the output arrays."""
        cupy = self._cupy
        raw = []
        with self._errors(job):
            memory = self._memory(job)
            for launch, (records, slots, counts, fault) in self._traced(job, memory):
                before = {name: cupy.asnumpy(array) for name, array in memory.items()}
                launch()
                cupy.cuda.runtime.deviceSynchronize()
                check_fault(job, cupy.asnumpy(fault).view(FAULT))
                left = [cupy.asnumpy(array) for array in (records, slots, counts)]
                raw.append(RawLaunch(left[0], left[1], left[2], before))
            return raw, self._outputs(job, memory)

    def time(self, job: Job, traced: bool, runs: int) -> list[float]:
        """Milliseconds that all launches of a job take on the GPU, for each of many runs after some to warm up."""
        with self._errors(job):
            memory = self._memory(job)
            ready = self._plain(job, memory) if not traced else [run for run, _ in self._traced(job, memory)]
            return self._times(lambda: [launch() for launch in ready], runs)

    def time_array_calls(self, job: Job, runs: int) -> tuple[list[float], npt.NDArray[np.float32]]:
        """The same for plain calls of CuPy on the same inputs: a softmax, between two products for attention.

        With what they give, in the shape of the kernel's first output of that kind.
        """
        softmax = importlib.import_module("cupyx.scipy.special").softmax
        on_device = {name: self._cupy.asarray(array) for name, array in job.arrays.items()}
        if "x" in on_device:
            return self._called(lambda: softmax(on_device["x"], axis=-1), runs)
        Q, K, V = (on_device[name] for name in "QKV")
        scale = np.float32(Q.shape[-1] ** -0.5)
        return self._called(lambda: softmax(Q @ K.swapaxes(1, 2) * scale, axis=-1) @ V, runs)

    def time_copy(self, size: int, runs: int) -> list[float]:
        """Milliseconds that copying `size` bytes within the GPU's memory takes."""
        source = self._cupy.zeros(size, np.uint8)
        target = self._cupy.empty_like(source)
        return self._times(lambda: self._cupy.copyto(target, source), runs)

    def _called(self, call: Callable[[], Any], runs: int) -> tuple[list[float], npt.NDArray[np.float32]]:
        return self._times(call, runs), self._cupy.asnumpy(call())

    def _times(self, call: Callable[[], object], runs: int) -> list[float]:
        times = []
        for number in range(-3, runs):
            begin, end = self._cupy.cuda.Event(), self._cupy.cuda.Event()
            begin.record()
            call()
            end.record()
            end.synchronize()
            if number >= 0:
                times.append(float(self._cupy.cuda.get_elapsed_time(begin, end)))
        return times

    def _plain(self, job: Job, memory: Mapping[str, Any]) -> list[Callable[[], None]]:
        names = [function(job, launch) for launch in range(len(job.layout.launches))]
        source = whole_source(job.kernel, "cuda.cuh", traced=False)
        options = plain_options(job.layout.launches[0].threads)
        module = self._cupy.RawModule(code=source, options=options, name_expressions=names)
        return [
            self._launch(job, number, module.get_function(name), memory) for number, name in enumerate(names)
        ]

    def _traced(self, job: Job, memory: Mapping[str, Any]) -> Iterator[tuple[Callable[[], None], list[Any]]]:
        """Each launch, with what it will write: records, slots, counts and fault."""
        cupy = self._cupy
        module = cupy.RawModule(code=entry_source(job), options=_OPTIONS)
        for number in range(len(job.layout.launches)):
            shape = record_shape(job, number)
            records, slots = cupy.zeros(shape.records, np.uint32), cupy.zeros(shape.slots, np.uint32)
            counts, fault = cupy.zeros(len(records), np.int32), cupy.zeros(FAULT.itemsize, np.uint8)
            written = [records, slots, counts, fault]
            bases = {name: array.data.ptr for name, array in memory.items()}
            settings = config(job, shape, [array.data.ptr for array in written], bases)
            kernel = module.get_function(f"kim_trace_{number}")
            yield self._launch(job, number, kernel, memory, settings, *written), written

    def _launch(
        self, job: Job, launch: int, kernel: Any, memory: Mapping[str, Any], *more: Any
    ) -> Callable[[], None]:
        """A call that launches; of `more`, the first is the kernel's last argument, the rest must outlive it."""
        layout = job.layout.launches[launch]
        size = job.shared_bytes(layout)
        if size > 48 * 1024:
            kernel.max_dynamic_shared_size_bytes = size
        values = [
            memory[argument] if isinstance(argument, str) else argument for argument in job.arguments(launch)
        ]

        def launched(kept: tuple[Any, ...] = more) -> None:
            kernel(layout.grid, (layout.threads,), (*values, *kept[:1]), shared_mem=size)

        return launched

    def _memory(self, job: Job) -> dict[str, Any]:
        return {array.name: self._cupy.asarray(job.initial(array.name)) for array in job.layout.arrays}

    def _outputs(self, job: Job, memory: Mapping[str, Any]) -> dict[str, npt.NDArray[np.float32]]:
        return {
            array.name: self._cupy.asnumpy(memory[array.name])
            for array in job.layout.arrays
            if array.role == "output"
        }

    @contextlib.contextmanager
    def _errors(self, job: Job) -> Iterator[None]:
        cuda = self._cupy.cuda
        try:
            yield
        except cuda.compiler.CompileException as error:
            raise BackendError(f"{job.kernel.name} does not compile: {_first_error(str(error))}") from error
        except (cuda.runtime.CUDARuntimeError, cuda.driver.CUDADriverError) as error:
            raise BackendError(f"{job.kernel.name} failed on the GPU: {error}") from error
        except cuda.memory.OutOfMemoryError as error:
            raise BackendError(
                f"{job.kernel.name} needs more memory than the GPU has free: {error}"
            ) from error


def _first_error(output: str) -> str:
    return next(
        (line.strip() for line in output.splitlines() if "error" in line), output.strip().splitlines()[0]
    )


def _version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"


def _driver() -> str:
    try:
        text = Path("/proc/driver/nvidia/version").read_text(encoding="utf-8")
    except OSError:
        return ""
    found = re.search(r"\b\d{3}\.\d+(\.\d+)?\b", text)
    return f"{found[0]}, " if found else ""
