"""``python -m kernels.measure.fibers``: what a barrier costs on the CPU, where the threads of a block are fibers."""

from __future__ import annotations

import time

import numpy as np

from kernels.launch.cpu import open_backend
from kernels.launch.request import Argument, Launch, Request
from kernels.launch.source import parse_source

_SOURCE = parse_source(
    "__global__ void f(int n, int* y) { for (int i = 0; i < n; i++) __syncthreads(); }", "f.cu"
)
_MANY, _RUNS = 500, 5


def barrier_ms(threads: int, traced: bool) -> float:
    """Milliseconds of one barrier of a block: the least of several runs, launch and log left out."""
    backend = open_backend()

    def seconds(barriers: int) -> float:
        arguments = (Argument("n", np.int32(barriers), ""), Argument("y", None, ""))
        launch = Launch("f", (1, 1, 1), (threads, 1, 1), 0, arguments)
        request = Request(_SOURCE, (launch,), {"y": np.zeros(1, np.int32)})
        times = []
        for _ in range(_RUNS):
            begun = time.perf_counter()
            _ = backend.trace(request) if traced else backend.run(request)
            times.append(time.perf_counter() - begun)
        return min(times)

    return 1000 * (seconds(_MANY + 1) - seconds(1)) / _MANY


def main() -> None:
    """Print a table."""
    for threads in (32, 256, 1024):
        plain, traced = barrier_ms(threads, False), barrier_ms(threads, True)
        print(f"{threads:5} threads: {plain:.3f} ms a barrier, traced {traced:.3f} ms")


if __name__ == "__main__":
    main()
