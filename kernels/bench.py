"""``python -m kernels bench``: how fast the kernels are on a GPU, beside what a user would pick instead.

They are written to be read, and this is what that costs. All times are of the GPU alone, by its own events: inputs
are there already, outputs stay there, the clocks are as they were found.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from kernels.backend import check_fit, find_backend
from kernels.backend.cupy import Cupy
from kernels.job import Job, make_job
from kernels.registry import find_kernel
from kernels.run import provenance
from kernels.source import read_source

RUNS = 50

_ATTENTION = {"batch_heads": 192, "d": 64, "Br": 32, "Bc": 32}
_RIVALLED: list[tuple[str, dict[str, int]]] = [
    ("fa1", {**_ATTENTION, "N": 1024}),
    ("fa2", {**_ATTENTION, "Nq": 1024, "Nk": 1024}),
    ("flash_decoding", {**_ATTENTION, "Nq": 1, "Nk": 16384, "Br": 1, "splits": 16}),
    ("online_softmax", {"rows": 8192, "N": 4096, "b": 1024}),
]
_TRACED: list[tuple[str, dict[str, int]]] = [
    ("fa1", {**_ATTENTION, "batch_heads": 16, "N": 256}),
    ("fa2", {**_ATTENTION, "batch_heads": 16, "Nq": 256, "Nk": 256}),
    ("flash_decoding", {**_ATTENTION, "batch_heads": 16, "Nq": 1, "Nk": 4096, "Br": 1, "splits": 16}),
    ("online_softmax", {"rows": 512, "N": 4096, "b": 1024}),
]


@dataclass(frozen=True)
class Timing:
    """Milliseconds of many runs: the median, and the 5th and 95th percentiles.

    `error` is the largest distance from the float64 definition in the first head; None where it was not measured.
    """

    what: str
    params: Mapping[str, int]
    median_ms: float
    low_ms: float
    high_ms: float
    runs: int
    error: float | None = None


@dataclass(frozen=True)
class Tracing:
    """One kernel with tracing off and on, and how long copying as many bytes as the trace has takes."""

    plain: Timing
    traced: Timing
    trace_bytes: int
    copy_ms: float


def bench(runs: int = RUNS) -> dict[str, Any]:
    """All timings, as plain JSON values with where they were made.

    Raises BackendError if there is no GPU.
    """
    machine = find_backend("cupy")
    assert isinstance(machine, Cupy)
    return {
        "runs": runs,
        "provenance": {
            name: asdict(provenance(machine, read_source(find_kernel(name).source))) for name, _ in _RIVALLED
        },
        "torch": _torch_version(),
        "beside": [
            asdict(timing)
            for name, params in _RIVALLED
            for timing in _beside(machine, _job(machine, name, params), runs)
        ],
        "tracing": [asdict(_tracing(machine, _job(machine, name, params), runs)) for name, params in _TRACED],
    }


def _job(machine: Cupy, name: str, params: Mapping[str, int]) -> Job:
    """A job on normal numbers of full precision: the inputs a kernel draws itself are made to be looked at."""
    kernel = find_kernel(name)
    settled = {**{parameter.name: parameter.default for parameter in kernel.parameters}, **params}
    shapes = {array.name: array.shape for array in kernel.layout(settled, 1).arrays}
    rng = np.random.default_rng(0)
    inputs = {array.name: rng.normal(size=shapes[array.name]).astype(np.float32) for array in kernel.inputs}
    job = make_job(kernel, inputs, params, threads=None, default_threads=machine.default_threads)
    check_fit(job, machine)
    return job


def _timing(what: str, job: Job, times: list[float], error: float | None = None) -> Timing:
    low, median, high = (float(value) for value in np.percentile(times, (5, 50, 95)))
    return Timing(what, dict(job.params), median, low, high, len(times), error)


def _beside(machine: Cupy, job: Job, runs: int) -> list[Timing]:
    """The kernel, plain calls of CuPy and PyTorch's own function, on the same inputs."""
    output = "y" if "x" in job.arrays else "O"
    one = {name: array[:1] for name, array in job.arrays.items()}
    exact = job.kernel.outputs({**job.params, "batch_heads": 1, "rows": 1}, one, np.float64)[output][0]

    def error(values: npt.NDArray[Any]) -> float:
        return float(np.abs(values[0].astype(np.float64) - exact).max())

    own = machine.run(job)[output]
    timings = [_timing(job.kernel.name, job, machine.time(job, False, runs), error(own))]
    times, values = machine.time_array_calls(job, runs)
    timings.append(_timing("CuPy", job, times, error(values)))
    for what, call in _torch_calls(job):
        timings.append(_timing(what, job, _torch_times(call, runs), error(call().float().cpu().numpy())))
    return timings


def _tracing(machine: Cupy, job: Job, runs: int) -> Tracing:
    raw, _ = machine.trace(job)
    words = (launch.counts.sum() * (launch.records.shape[-1] + launch.slots.shape[-1]) for launch in raw)
    size = 4 * int(sum(words))
    return Tracing(
        plain=_timing(f"{job.kernel.name}, tracing off", job, machine.time(job, False, runs)),
        traced=_timing(f"{job.kernel.name}, tracing on", job, machine.time(job, True, runs)),
        trace_bytes=size,
        copy_ms=float(np.median(machine.time_copy(size, runs))),
    )


def _torch() -> Any:
    return importlib.import_module("torch") if importlib.util.find_spec("torch") else None


def _torch_version() -> str | None:
    torch = _torch()
    return None if torch is None else str(torch.__version__)


def _torch_calls(job: Job) -> list[tuple[str, Callable[[], Any]]]:
    """What PyTorch has for the same, in float32 and float16."""
    torch = _torch()
    if torch is None:
        return []
    attention = torch.nn.functional.scaled_dot_product_attention
    calls: list[tuple[str, Callable[[], Any]]] = []
    for dtype in ("float32", "float16"):
        given = [
            torch.from_numpy(array).cuda().to(getattr(torch, dtype))[None] for array in job.arrays.values()
        ]
        if len(given) == 1:
            calls.append((f"PyTorch softmax {dtype}", partial(torch.softmax, given[0][0], dim=-1)))
        else:
            calls.append((f"PyTorch scaled_dot_product_attention {dtype}", _first(attention, given)))
    return calls


def _first(function: Callable[..., Any], given: list[Any]) -> Callable[[], Any]:
    return lambda: function(*given)[0]


def _torch_times(call: Callable[[], Any], runs: int) -> list[float]:
    torch = _torch()
    times = []
    with torch.inference_mode():
        for number in range(-3, runs):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            call()
            end.record()
            end.synchronize()
            if number >= 0:
                times.append(float(begin.elapsed_time(end)))
    return times


def rows(results: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The results as lines to print: what, and its time."""
    lines = [
        (timing["what"], f"{timing['median_ms']:.3f} ms ({timing['low_ms']:.3f} to {timing['high_ms']:.3f})")
        for timing in results["beside"]
    ]
    for tracing in results["tracing"]:
        plain, traced = tracing["plain"]["median_ms"], tracing["traced"]["median_ms"]
        lines.append(
            (
                tracing["traced"]["what"],
                f"{traced:.3f} ms against {plain:.3f} ms, {traced / plain:.2f} times; copying its "
                f"{tracing['trace_bytes']:,} bytes takes {tracing['copy_ms']:.3f} ms",
            )
        )
    return lines
