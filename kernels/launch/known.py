"""The request to run a declared kernel as plain CUDA: its own source, and launches with every size of a job put in."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from kernels.declaration import Kernel
from kernels.job import Job
from kernels.launch.request import Argument, Launch, Request
from kernels.launch.source import Source, read_source
from kernels.trace.version2 import Window

_SOURCES = Path(__file__).parent.parent / "sources"


def request_of(job: Job, source: Source | None = None) -> Request:
    """The request that a job comes to; `source` is that of the kernel if none is given.

    Raises ParameterError if the source cannot be read.
    """
    window = job.window or Window()
    return Request(
        source=source or read_source(source_of(job.kernel)),
        launches=tuple(_launch(job, number) for number in range(len(job.kernel.launches))),
        arrays={array.name: np.ascontiguousarray(job.initial(array.name)) for array in job.layout.arrays},
        blocks=window.blocks,
        steps=window.steps,
    )


def source_of(kernel: Kernel) -> Path:
    """The plain source of a kernel."""
    return _SOURCES / kernel.source.name


def _launch(job: Job, number: int) -> Launch:
    layout = job.layout.launches[number]
    return Launch(
        kernel=f"{layout.function}{job.template(number)}",
        grid=layout.grid,
        block=(layout.threads, 1, 1),
        shared_bytes=job.shared_bytes(layout),
        arguments=tuple(
            Argument(name, None, "the kernel's inputs" if name in job.arrays else "not yet written")
            if isinstance(value, str)
            else Argument(name, value, "a parameter")
            for name, value in zip(job.kernel.launches[number].arguments, job.arguments(number), strict=True)
        ),
    )
