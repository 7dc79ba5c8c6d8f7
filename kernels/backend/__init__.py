"""What runs a kernel: ``cupy`` on a GPU, ``cpu`` anywhere; both take the very same source."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from kernels.errors import BackendError, ParameterError
from kernels.job import Job
from kernels.recording import RawLaunch


@dataclass(frozen=True)
class Machine:
    """Where a backend runs kernels: the part of a provenance that does not depend on the kernel."""

    device: str
    driver: str
    runtime: str
    compiler: str


class Backend(Protocol):
    """All that is needed of a backend. Each call raises BackendError if the kernel cannot be compiled or run."""

    name: str
    default_threads: int

    def machine(self) -> Machine:
        """Where it runs."""
        ...

    def shared_limit(self) -> int:
        """The most bytes of shared memory a block may ask for."""
        ...

    def room(self) -> int:
        """The most bytes that a run may record."""
        ...

    def run(self, job: Job) -> dict[str, npt.NDArray[np.float32]]:
        """Run all launches without tracing; the output arrays."""
        ...

    def trace(self, job: Job) -> tuple[list[RawLaunch], dict[str, npt.NDArray[np.float32]]]:
        """Run all launches with tracing; what each left, and the output arrays."""
        ...


BACKENDS = ("auto", "cupy", "cpu")


def find_backend(name: str) -> Backend:
    """The backend called `name`; ``auto`` is the GPU if there is one, else the CPU.

    Raises ParameterError for another name, BackendError if the backend cannot work here.
    """
    if name not in BACKENDS:
        raise ParameterError(f"backend={name!r}: must be one of {', '.join(BACKENDS)}")
    if name == "auto":
        try:
            return _open("cupy")
        except BackendError:
            return _open("cpu")
    return _open(name)


def _open(name: str) -> Backend:
    backend: Backend = importlib.import_module(f"kernels.backend.{name}").open_backend()
    return backend


def check_fit(job: Job, backend: Backend) -> None:
    """Raises ParameterError if a launch asks for more shared memory than a block may have."""
    limit = backend.shared_limit()
    for number, launch in enumerate(job.layout.launches):
        needed = job.shared_bytes(launch)
        if needed > limit:
            sizes = [name for name in job.kernel.launches[number].template if name in job.params]
            said = ", ".join(f"{name}={job.params[name]}" for name in sizes)
            raise ParameterError(
                f"{said} need {needed} bytes of shared memory; this device allows {limit}: "
                f"choose smaller tiles ({', '.join(sizes)})"
            )
