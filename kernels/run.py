"""Running a kernel, and recording a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import numpy as np
import numpy.typing as npt

from kernels.backend import Backend, check_fit, find_backend
from kernels.errors import BackendError, ParameterError
from kernels.job import POISON, Job, make_job, whole
from kernels.recording import check_size, read_steps
from kernels.registry import find_kernel
from kernels.source import read_source, source_hash
from kernels.trace import Provenance, Trace, Window


def run(
    kernel: str,
    arrays: Mapping[str, Any],
    *,
    backend: str = "auto",
    threads: int | None = None,
    **params: Any,
) -> dict[str, npt.NDArray[np.float32]]:
    """Run a kernel without tracing and give back its outputs, by name.

    Parameters
    ----------
    kernel
        The name of a kernel, or the path of a ``.py`` file that declares one.
    arrays
        Its inputs by name: float32, finite, in the declared shape, e.g. ``(batch_heads, N, d)``. Other memory layouts
        are copied.
    backend
        ``cupy``, ``cpu``, or ``auto``: the GPU if there is one.
    threads
        Threads per block; the backend's default if None.
    **params
        Sizes and switches of the kernel that the arrays' shapes do not say, e.g. ``Br=4``.

    Raises
    ------
    ParameterError
        If a size, a switch or an array is not one the kernel can run with.
    BackendError
        If the kernel cannot be compiled or run here.

    """
    found = find_kernel(kernel)
    machine = find_backend(backend)
    job = make_job(found, arrays, params, threads=threads, default_threads=machine.default_threads)
    check_fit(job, machine)
    outputs = machine.run(job)
    _check_written(job, outputs)
    return outputs


def record(
    kernel: str,
    arrays: Mapping[str, Any] | None = None,
    *,
    seed: int = 0,
    backend: str = "auto",
    threads: int | None = None,
    blocks: tuple[int, int] | None = None,
    steps: tuple[int, int] | None = None,
    **params: Any,
) -> Trace:
    """Run a kernel with tracing and give back the trace.

    As `run`; with `arrays` None the kernel draws its own inputs from `seed`. Of a large run `blocks` and `steps`
    record a window: half-open ranges of the blocks of each launch, and of the steps of each block. A trace larger than
    memory is refused with a ParameterError before anything runs.
    """
    found = find_kernel(kernel)
    machine = find_backend(backend)
    window = (
        None if blocks is None and steps is None else Window(_range("blocks", blocks), _range("steps", steps))
    )
    job = make_job(
        found,
        arrays,
        params,
        threads=threads,
        default_threads=machine.default_threads,
        seed=seed,
        window=window,
    )
    check_fit(job, machine)
    check_size(job, machine.room())
    return record_job(job, machine)


def record_job(job: Job, backend: Backend) -> Trace:
    """The trace of a job that is known to fit."""
    source = read_source(job.kernel.source)
    raw, outputs = backend.trace(job)
    return Trace(
        kernel=job.kernel.name,
        title=job.kernel.title,
        params=dict(job.params),
        layout=job.layout,
        inputs=dict(job.arrays),
        outputs=outputs,
        steps=read_steps(job, raw),
        provenance=provenance(backend, source),
        window=job.window,
    )


def provenance(backend: Backend, source: str) -> Provenance:
    """Where a run of `source` is made, and that it is made now."""
    return Provenance(
        backend=backend.name,
        **asdict(backend.machine()),
        source_hash=source_hash(source),
        recorded_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _range(name: str, wanted: tuple[int, int] | None) -> tuple[int, int] | None:
    if wanted is None:
        return None
    first, last = (whole(name, number, 0) for number in wanted)
    if first >= last:
        raise ParameterError(f"{name}={first}:{last}: must be FIRST:END with FIRST below END")
    return first, last


def _check_written(job: Job, outputs: Mapping[str, npt.NDArray[np.float32]]) -> None:
    for name, values in outputs.items():
        if (values.view(np.uint32) == POISON).any():
            raise BackendError(
                f"{job.kernel.name} left elements of {name} unwritten, or made them of memory nobody wrote"
            )
