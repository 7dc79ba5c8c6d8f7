"""What was measured on a GPU and is kept as JSON beside the recordings: three counts of the same traffic, and times."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import kernels
from kernels.registry import find_kernel

RECORDINGS = Path(kernels.__file__).parent / "recordings"
ELEMENT, SECTOR = 4, 32  # bytes of a float32, and of the piece in which L1 and L2 are asked
WAYS = ("read", "written")
SIZES = ("rows", "N", "Nq", "Nk", "d", "Br", "Bc", "splits", "b")  # in the order a page names them
RIVALS = ("CuPy", "float32", "float16")  # how the names of what stands beside a kernel end


class MeasuredError(Exception):
    """A page asks for what was not measured, or says what a measurement contradicts."""


@cache
def counters() -> dict[str, Any]:
    """What `python -m kernels.counters` wrote."""
    return _read("traffic-counters.json")


@cache
def bench() -> dict[str, Any]:
    """What `python -m kernels bench` wrote."""
    return _read("bench.json")


@cache
def fuzz() -> dict[str, Any]:
    """What `python -m tests.kernels.fuzz` wrote."""
    return _read("trace-fuzz.json")


def _read(name: str) -> dict[str, Any]:
    results: dict[str, Any] = json.loads((RECORDINGS / name).read_text(encoding="utf-8"))
    return results


def check_case(case: Mapping[str, Any]) -> None:
    """Raise MeasuredError unless formula, count and the bytes the GPU was asked for are the same."""
    if case["formula"] != case["count"]:
        raise MeasuredError(f"{case['kernel']}: formula {case['formula']}, count {case['count']}")
    for way in WAYS:
        asked = case["hardware"][f"requested_{way}"]
        if not moved(case, "formula", way) == moved(case, "count", way) == asked:
            raise MeasuredError(
                f"{case['kernel']}: the GPU was asked for {asked} bytes {way}, not as counted"
            )


def moved(case: Mapping[str, Any], what: str, way: str) -> int:
    """Bytes of all arrays one way, by `formula` or by `count`."""
    return ELEMENT * sum(int(pair[WAYS.index(way)]) for pair in case[what].values())


def read_once(case: Mapping[str, Any]) -> int:
    """Bytes of the arrays that the case reads, each taken once."""
    kernel, shapes = find_kernel(case["kernel"]), {}
    params = {parameter.name: parameter.default for parameter in kernel.parameters} | case["params"]
    for array in kernel.layout(params, 1).arrays:
        shapes[array.name] = array.shape
    return ELEMENT * sum(math.prod(shapes[name]) for name, (reads, _) in case["formula"].items() if reads)


def timings(kernel: str) -> list[dict[str, Any]]:
    """The times of `kernel`, and after it of what was run on the same inputs."""
    found: list[dict[str, Any]] = []
    for timing in bench()["beside"]:
        if timing["what"] == kernel or (found and timing["what"].endswith(RIVALS)):
            found.append(timing)
        elif found:
            break
    if not found:
        raise MeasuredError(f"{kernel!r} was not timed")
    return found


def timed_kernels() -> list[str]:
    """The kernels that were timed, in their order."""
    return [timing["what"] for timing in bench()["beside"] if not timing["what"].endswith(RIVALS)]


def tracing(kernel: str) -> dict[str, Any]:
    """The times of `kernel` with tracing off and on."""
    for found in bench()["tracing"]:
        if found["plain"]["what"].partition(",")[0] == kernel:
            pair: dict[str, Any] = found
            return pair
    raise MeasuredError(f"{kernel!r} was not timed with tracing on")


def times_as_long(kernel: str, beside: str) -> float:
    """How many times as long `kernel` takes as `CuPy`, `float32` or `float16` beside it.

    `tracing`: a traced run, as one that is not. `copying`: what tracing adds, as copying the bytes of the trace.
    """
    if beside in ("tracing", "copying"):
        pair = tracing(kernel)
        plain, traced = pair["plain"]["median_ms"], pair["traced"]["median_ms"]
        return float(traced / plain if beside == "tracing" else (traced - plain) / pair["copy_ms"])
    own, *others = timings(kernel)
    for other in others:
        if other["what"].endswith(beside):
            return float(own["median_ms"] / other["median_ms"])
    raise MeasuredError(f"nothing called {beside!r} was timed beside {kernel!r}")


def title(kernel: str) -> str:
    """The kernel's name as the pages write it."""
    return find_kernel(kernel).title


def shape(params: Mapping[str, int]) -> str:
    """The sizes of a run in one line."""
    parts = [f"{name} = {params[name]}" for name in SIZES if name in params]
    if "batch_heads" in params:
        parts.insert(0, f"{params['batch_heads']} heads")
    return ", ".join(parts) + (", causal" if params.get("causal") else "")


def where(provenances: Mapping[str, Mapping[str, str]], tool: str) -> str:
    """Where a set of measurements was made, in one line: what they share, and the hash of each kernel's source."""
    shared = {
        name: " / ".join(dict.fromkeys(made[name] for made in provenances.values()))
        for name in ("device", "driver", "runtime", "compiler")
    }
    days = " / ".join(dict.fromkeys(made["recorded_at"][:10] for made in provenances.values()))
    hashes = ", ".join(f"{name} {made['source_hash'][:12]}" for name, made in provenances.items())
    return (
        f"Measured on an {shared['device']}, driver {shared['driver']}, {shared['runtime']}, {shared['compiler']}, "
        f"{tool}, on {days}. Sources: {hashes}."
    )
