"""Sanitizers over a kernel's source: races, accesses out of bounds, undefined behaviour, memory nobody wrote.

The CPU's are built into programs of their own; the GPU's watch a process that runs the kernel there. A tool counts as
having run only if it has been seen to find a planted fault, or says itself that it watched to the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernels.check.cpu_tools import check_cpu
from kernels.check.gpu_tools import check_gpu
from kernels.check.outcome import Outcome
from kernels.job import make_job
from kernels.registry import find_kernel

__all__ = ["Outcome", "check"]

_THREADS = 4  # per block: enough to race, few enough for a CPU


def check(kernel: str, *, seed: int = 0, threads: int | None = None, **params: Any) -> Mapping[str, Outcome]:
    """What each sanitizer says of one run of a kernel, by the sanitizer's name.

    `thread`, `address` and `undefined` watch the CPU build; `memcheck`, `racecheck`, `initcheck` and `synccheck` the
    GPU's. Parameters are those of `kernels.record`.

    Raises ParameterError if the kernel cannot run with these parameters, BackendError if it does not compile.
    """
    job = make_job(find_kernel(kernel), None, params, threads=threads, default_threads=_THREADS, seed=seed)
    return {**check_cpu([job])[0], **check_gpu(kernel, seed, job)}
