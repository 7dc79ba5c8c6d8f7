"""The CPU backend: the ``.cu`` file compiled by the system's C++ compiler, real threads with a real barrier."""

from __future__ import annotations

import ctypes
import platform
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kernels.backend import Machine
from kernels.backend.compiler import built, compiler, version
from kernels.errors import BackendError
from kernels.job import Job
from kernels.memory import available
from kernels.recording import FAULT, RawLaunch, check_fault, config, record_shape
from kernels.source import body, function, layout_checks, parameter_types, preamble, traced_call

# What an H100 or H200 allows a block: a kernel that runs here at all then runs there.
_SHARED_LIMIT = 232448
_FLAGS = ("-O2", "-fvisibility=hidden", "-shared", "-fPIC")
_launching = threading.Lock()  # a library keeps the running launch in globals

_Instance = tuple[str, bool, tuple[str, ...]]  # source, traced or not, template arguments


def open_backend() -> Cpu:
    """The CPU backend; BackendError if there is no C++ compiler."""
    compiler()
    return Cpu()


def entries(job: Job, tag: str, traced: bool) -> str:
    """The functions ``kim_<tag>_<launch>`` that a library offers for one job."""
    text = []
    for launch in range(len(job.layout.launches)):
        parameters = "".join(
            f"{kind} p{n} = *static_cast<{kind}*>(arguments[{n}]); "
            for n, kind in enumerate(parameter_types(job, launch))
        )
        if traced:
            call = f"kim::Tracer tracer(*config); {traced_call(job, launch)};"
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

    def machine(self) -> Machine:
        """The processor, the system, and the compiler's own name and version."""
        return Machine(
            device=_processor(),
            driver=f"{platform.system()} {platform.release()}",
            runtime=f"threads of Python {platform.python_version()}",
            compiler=version(compiler()),
        )

    def shared_limit(self) -> int:
        """What an H200 allows, in bytes."""
        return _SHARED_LIMIT

    def room(self) -> int:
        """Bytes that a run may record: a third of the memory that is free, since saving copies them twice."""
        return available() // 3

    def prepare(self, jobs: Sequence[Job], traced: bool) -> None:
        """Compile the instances of many jobs together, far faster than one by one.

        The jobs are of one declaration; their sources may differ.
        """
        missing = {key: job for key, job in {_instance(job, traced): job for job in jobs}.items()}
        missing = {key: job for key, job in missing.items() if key not in _libraries}
        if not missing:
            return
        tags = {key: str(number) for number, key in enumerate(missing)}
        text = [preamble(next(iter(missing.values())).kernel, "cpu.h", traced)]
        for number, source in enumerate({source for source, _, _ in missing}):
            instances = {tags[key]: job for key, job in missing.items() if key[0] == source}
            functions = [entries(job, tag, traced) for tag, job in instances.items()]
            text += [f"namespace kim_source_{number} {{", source, *functions, "}"]
        library = ctypes.CDLL(str(built("\n".join(text), _FLAGS)))
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
        for number in range(len(job.layout.launches)):
            shape = record_shape(job, number)
            records, slots = np.zeros(shape.records, np.uint32), np.zeros(shape.slots, np.uint32)
            counts, fault = np.zeros(len(records), np.int32), np.zeros(1, FAULT)
            bases = {name: array.ctypes.data for name, array in memory.items()}
            written = [array.ctypes.data for array in (records, slots, counts, fault)]
            settings = config(job, shape, written, bases)
            before = {name: array.copy() for name, array in memory.items()}
            self._launch(job, number, memory, settings)
            check_fault(job, fault)
            raw.append(RawLaunch(records, slots, counts, before))
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


_libraries: dict[_Instance, tuple[ctypes.CDLL, str]] = {}


def _instance(job: Job, traced: bool) -> _Instance:
    templates = tuple(job.template(launch) for launch in range(len(job.layout.launches)))
    return body(job.kernel, traced), traced, templates


def _memory(job: Job) -> dict[str, npt.NDArray[np.float32]]:
    return {array.name: job.initial(array.name).copy() for array in job.layout.arrays}


def _outputs(job: Job, memory: Mapping[str, npt.NDArray[np.float32]]) -> dict[str, npt.NDArray[np.float32]]:
    return {array.name: memory[array.name] for array in job.layout.arrays if array.role == "output"}


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
