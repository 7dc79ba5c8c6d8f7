"""The CPU backend: the ``.cu`` file compiled by the system's C++ compiler, real threads with a real barrier."""

from __future__ import annotations

import atexit
import ctypes
import hashlib
import importlib.util
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kernels.backend import Machine
from kernels.errors import BackendError
from kernels.job import Job
from kernels.recording import FAULT, RawLaunch, check_fault, config, record_shape
from kernels.source import function, layout_checks, parameter_types, plain_source, traced_call, traced_source

# What an H100 or H200 allows a block: a kernel that runs here at all then runs there.
_SHARED_LIMIT = 232448
_FLAGS = (
    "-std=c++17",
    "-O2",
    "-ffp-contract=off",
    "-fno-strict-aliasing",
    "-fvisibility=hidden",
    "-pthread",
    "-w",
)
_launching = threading.Lock()  # a library keeps the running launch in globals

_Instance = tuple[str, bool, tuple[str, ...]]  # source hash, traced or not, template arguments


def open_backend() -> Cpu:
    """The CPU backend; BackendError if there is no C++ compiler."""
    return Cpu(compiler())


@cache
def compiler() -> tuple[str, ...]:
    """The command of a C++17 compiler: ``$CXX``, the system's, or that of the ``ziglang`` package.

    Raises BackendError if there is none.
    """
    if chosen := shlex.split(os.environ.get("CXX", "")):
        if shutil.which(chosen[0]):
            return tuple(chosen)
        raise BackendError(
            f"CXX={os.environ['CXX']!r} names no program: point it to a C++ compiler, or unset it"
        )
    for name in ("c++", "g++", "clang++"):
        if shutil.which(name):
            return (name,)
    if importlib.util.find_spec("ziglang"):
        return (sys.executable, "-m", "ziglang", "c++")
    raise BackendError(
        "the cpu backend needs a C++ compiler: install g++ or clang++, or `pip install ziglang`"
    )


def entries(job: Job, tag: str, traced: bool) -> str:
    """The functions ``kim_<tag>_<launch>`` that a library offers for one job."""
    text = []
    for launch in range(len(job.layout.launches)):
        parameters = "".join(
            f"{kind} p{n} = *static_cast<{kind}*>(arguments[{n}]); "
            for n, kind in enumerate(parameter_types(job, launch))
        )
        if traced:
            call = f"kim::Tracer tracer(config); {traced_call(job, launch)};"
            text.append(layout_checks(job, launch, f"{tag}_{launch}"))
        else:
            count = len(job.arguments(launch))
            call = f"{function(job, launch)}({', '.join(f'p{n}' for n in range(count))});"
        last = ", const kim::Config* config" if traced else ""
        text.append(
            f'extern "C" __attribute__((visibility("default"))) bool kim_{tag}_{launch}'
            f"(const unsigned* grid, unsigned threads, size_t bytes, void** arguments{last}) {{\n"
            f"    {parameters}\n"
            f"    return kim::launch(dim3{{grid[0], grid[1], grid[2]}}, threads, bytes, [&] {{ {call} }});\n}}"
        )
    return "\n".join(text)


class Cpu:
    """Runs kernels as compiled libraries; a library holds one job, or many that `prepare` was given at once."""

    name = "cpu"
    default_threads = 4

    def __init__(self, compiler: tuple[str, ...]) -> None:
        self._compiler = compiler

    def machine(self) -> Machine:
        """The processor, the system, and the compiler's own name and version."""
        return Machine(
            device=_processor(),
            driver=f"{platform.system()} {platform.release()}",
            runtime=f"threads of Python {platform.python_version()}",
            compiler=_version(self._compiler),
        )

    def shared_limit(self) -> int:
        """What an H200 allows, in bytes."""
        return _SHARED_LIMIT

    def prepare(self, jobs: Sequence[Job], traced: bool) -> None:
        """Compile the instances of many jobs of one kernel together: far faster than one by one."""
        wanted = {_instance(job, traced): job for job in jobs}
        missing = {key: job for key, job in wanted.items() if key not in _libraries}
        if not missing:
            return
        kernel = next(iter(missing.values())).kernel
        source = traced_source(kernel, "cpu.h") if traced else plain_source(kernel, "cpu.h")
        tags = {key: str(number) for number, key in enumerate(missing)}
        text = "\n".join([source, *(entries(job, tags[key], traced) for key, job in missing.items())])
        library = ctypes.CDLL(str(self._compiled(text)))
        _libraries.update({key: (library, tag) for key, tag in tags.items()})

    def run(self, job: Job) -> dict[str, npt.NDArray[np.float32]]:
        """Run all launches without tracing; the output arrays."""
        self.prepare([job], traced=False)
        memory = _memory(job)
        for launch in range(len(job.layout.launches)):
            self._launch(job, launch, memory, None)
        return _outputs(job, memory)

    def trace(self, job: Job) -> tuple[list[RawLaunch], dict[str, npt.NDArray[np.float32]]]:
        """Run all launches with tracing; what each left, and the output arrays."""
        self.prepare([job], traced=True)
        memory = _memory(job)
        raw = []
        for number, layout in enumerate(job.layout.launches):
            shape = record_shape(job, layout)
            records = np.zeros((shape.blocks, shape.capacity, shape.words), np.uint32)
            counts, fault = np.zeros(shape.blocks, np.int32), np.zeros(1, FAULT)
            bases = {name: array.ctypes.data for name, array in memory.items()}
            settings = config(job, shape, records.ctypes.data, counts.ctypes.data, fault.ctypes.data, bases)
            before = {name: array.copy() for name, array in memory.items()}
            self._launch(job, number, memory, settings)
            check_fault(job, fault)
            raw.append(RawLaunch(records, counts, before))
        return raw, _outputs(job, memory)

    def _launch(
        self,
        job: Job,
        launch: int,
        memory: Mapping[str, npt.NDArray[np.float32]],
        settings: npt.NDArray[np.void] | None,
    ) -> None:
        layout = job.layout.launches[launch]
        library, tag = _libraries[_instance(job, settings is not None)]
        entry = getattr(library, f"kim_{tag}_{launch}")
        entry.restype = ctypes.c_bool
        values = [
            np.array(memory[argument].ctypes.data, np.uintp)
            if isinstance(argument, str)
            else np.array(argument)
            for argument in job.arguments(launch)
        ]
        arguments = (ctypes.c_void_p * len(values))(*(value.ctypes.data for value in values))
        grid = (ctypes.c_uint * 3)(*layout.grid)
        size = ctypes.c_size_t(job.shared_bytes(layout))
        extra = [] if settings is None else [ctypes.c_void_p(settings.ctypes.data)]
        with _launching:
            finished = entry(grid, ctypes.c_uint(layout.threads), size, arguments, *extra)
        if not finished:
            raise BackendError(
                f"{layout.function} got stuck: of its {layout.threads} threads some wait at a barrier "
                "that others never reach"
            )

    def _compiled(self, text: str) -> Path:
        key = hashlib.sha256(
            "\0".join([text, *self._compiler, *_FLAGS, _version(self._compiler)]).encode()
        ).hexdigest()
        folder = _cache_folder()
        library = folder / f"{key}.so"
        if library.exists():
            return library
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            source, built = Path(scratch, "kernel.cpp"), Path(scratch, "kernel.so")
            source.write_text(text, encoding="utf-8")
            command = [*self._compiler, *_FLAGS, "-shared", "-fPIC", str(source), "-o", str(built)]
            result = subprocess.run(command, capture_output=True, text=True, check=False)
            if result.returncode:
                raise BackendError(f"the kernel does not compile: {first_error(result.stderr)}")
            os.replace(built, library)
        return library


_libraries: dict[_Instance, tuple[ctypes.CDLL, str]] = {}


def _instance(job: Job, traced: bool) -> _Instance:
    source = traced_source(job.kernel, "cpu.h") if traced else plain_source(job.kernel, "cpu.h")
    templates = tuple(job.template(launch) for launch in range(len(job.layout.launches)))
    return hashlib.sha256(source.encode()).hexdigest(), traced, templates


def _memory(job: Job) -> dict[str, npt.NDArray[np.float32]]:
    return {array.name: job.initial(array.name).copy() for array in job.layout.arrays}


def _outputs(job: Job, memory: Mapping[str, npt.NDArray[np.float32]]) -> dict[str, npt.NDArray[np.float32]]:
    return {array.name: memory[array.name] for array in job.layout.arrays if array.role == "output"}


def first_error(output: str) -> str:
    """The first line of a compiler's output that reports an error."""
    lines = [line for line in output.splitlines() if "error" in line]
    return (lines or output.splitlines() or ["the compiler said nothing"])[0].strip()


@cache
def _version(command: tuple[str, ...]) -> str:
    output = subprocess.run([*command, "--version"], capture_output=True, text=True, check=False).stdout
    return (output.splitlines() or [command[-1]])[0]


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


@cache
def _cache_folder() -> Path:
    """Where compiled libraries are kept between runs: the user's cache, or a folder of this process's own."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kernels-in-motion"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError:
        folder = Path(tempfile.mkdtemp(prefix="kernels-in-motion-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        return folder
