"""Runs of the gallery and of the four plain sources, traced: what the tests about them have in common."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import kernels
from kernels.attention import draw_inputs
from kernels.conclude.actions import actions
from kernels.errors import BackendError
from kernels.gallery import Example, find
from kernels.launch.machines import find_backend
from kernels.launch.record import record
from kernels.launch.request import Argument, Backend, Launch, Request
from kernels.launch.settle import Call, settle_words
from kernels.launch.source import Source, parse_source, read_source
from kernels.trace.model import Step, Trace

Array = npt.NDArray[Any]
Told = set[tuple[str, str, frozenset[str]]]  # actions: kind, target, sources

FOLDER = Path(kernels.__file__).parent
SOURCES = FOLDER / "sources"
FOUR = ("fa1", "fa2", "flash_decoding", "online_softmax")
BACKENDS = ["cpu", pytest.param("cupy", marks=pytest.mark.gpu)]
GPU_ONLY = {"wmma_gemm"}


@dataclass(frozen=True)
class Mutant:
    """A source that differs in one place, and where."""

    what: str
    text: str


@cache
def backend(name: str) -> Backend:
    """The backend called `name`; skips the test if it cannot work here."""
    try:
        return find_backend(name)
    except BackendError as error:
        pytest.skip(str(error))


def request_of(source: Source, example: Example, seed: int = 0) -> Request:
    """The request that the command line would make of an example."""
    call = Call(example.kernel, example.grid, example.block, example.shared, example.arguments)
    return settle_words(source, [call], seed=seed)


@cache
def run(name: str, number: int, machine: str = "cpu") -> tuple[Request, Trace]:
    """Example `number` of the gallery's `name`, traced."""
    exhibit = find(name)
    request = request_of(read_source(exhibit.source), exhibit.examples[number])
    return request, record(request, backend(machine))[0]


def arguments(request: Request, launch: int = 0) -> dict[str, Any]:
    """What a truth takes: arrays as they are before the launch, and scalars, by parameter name."""
    given = request.launches[launch].arguments
    return {a.name: request.arrays[a.name] if a.value is None else a.value for a in given}


def every_example(exhibits: tuple[str, ...]) -> list[Any]:
    """Each example of each of the `exhibits`, as (name, number), with a readable id."""
    return [
        pytest.param(name, number, id=f"{example.kernel}-{number}")
        for name in exhibits
        for number, example in enumerate(find(name).examples)
    ]


def told(trace: Trace, step: Step) -> Told:
    """The actions of a step on what is shown, without their order."""
    shown = {place.name for place in trace.places if place.memory == "HBM" or place.held}
    return {
        (action.kind, action.target, frozenset(action.sources))
        for action in actions(trace, step)
        if action.target in shown
    }


def acts(*texts: str) -> Told:
    """Actions by hand: ``acts("load As A", "update acc As Bs", "clear bins")``."""
    return {(kind, target, frozenset(sources)) for kind, target, *sources in map(str.split, texts)}


def step_at(trace: Trace, name: str, block: tuple[int, int, int] = (0, 0, 0), **loop: int) -> Step:
    """The one step of a block that is called `name` and stands at these loop counters."""
    [step] = [s for s in trace.steps_of(block) if s.name == name and dict(s.loop) == loop]
    return step


def box(shape: tuple[int, ...], *ranges: tuple[int, int]) -> Array:
    """A mask of `shape` that is true in a box of half-open ranges."""
    mask = np.zeros(shape, np.bool_)
    mask[tuple(slice(*ends) for ends in ranges)] = True
    return mask


# The four kernels: how their launches are made from sizes, as kernels.declaration does.

DEFAULTS: dict[str, dict[str, int]] = {
    "fa1": {"N": 8, "d": 4, "Br": 4, "Bc": 4, "batch_heads": 6, "causal": 0},
    "fa2": {"Nq": 8, "Nk": 8, "d": 4, "Br": 4, "Bc": 4, "batch_heads": 3, "causal": 0},
    "flash_decoding": {
        "Nq": 2, "Nk": 24, "d": 4, "Br": 2, "Bc": 4, "splits": 3, "batch_heads": 2, "causal": 0
    },
    "online_softmax": {"rows": 6, "N": 12, "b": 4},
}  # fmt: skip


def _floats(*shape: int, fill: float = math.nan) -> Array:
    return np.full(shape, fill, np.float32)


def four(kernel: str, sizes: Mapping[str, int], threads: int, text: str | None = None) -> Request:
    """A request for one of the four kernels; `text` is a source in place of its own."""
    path = SOURCES / f"{kernel}.cu"
    source = read_source(path) if text is None else parse_source(text, path.name, SOURCES)
    p = DEFAULTS[kernel] | dict(sizes)
    arrays, launches = _LAUNCHES[kernel](p)
    return Request(
        source,
        tuple(
            Launch(
                kernel=name,
                grid=(*grid, 1, 1)[:3],
                block=(threads, 1, 1),
                shared_bytes=4 * floats,
                arguments=tuple(
                    Argument(argument, None, "drawn")
                    if argument in arrays
                    else Argument(argument, _scalar(argument, p), "sizes")
                    for argument in names.split()
                ),
            )
            for name, grid, floats, names in launches
        ),
        arrays,
    )


def _scalar(name: str, p: Mapping[str, int]) -> np.generic:
    if name == "scale":
        return np.float32(p["d"] ** -0.5)
    return np.bool_(p["causal"]) if name == "causal" else np.int32(p[name])


_Launches = tuple[dict[str, Array], list[tuple[str, tuple[int, ...], int, str]]]


def _inputs(p: Mapping[str, int], queries: int, keys: int) -> dict[str, Array]:
    drawn = draw_inputs(p["batch_heads"], queries, keys, p["d"], p["Bc"], bool(p["causal"]), seed=0)
    return {name: np.ascontiguousarray(drawn[name], np.float32) for name in "QKV"}


def _fa1(p: Mapping[str, int]) -> _Launches:
    N, d, Br, Bc, heads = (p[n] for n in ("N", "d", "Br", "Bc", "batch_heads"))
    arrays = _inputs(p, N, N) | {
        "O": _floats(heads, N, d, fill=0),
        "l": _floats(heads, N, fill=0),
        "m": _floats(heads, N, fill=-math.inf),
    }
    floats = 2 * Br * d + 2 * Bc * d + Br * Bc + 2 * Br
    return arrays, [(f"fa1<{Br}, {Bc}, {d}>", (heads,), floats, "Q K V O l m N scale causal")]


def _fa2(p: Mapping[str, int]) -> _Launches:
    Nq, Nk, d, Br, Bc, heads = (p[n] for n in ("Nq", "Nk", "d", "Br", "Bc", "batch_heads"))
    arrays = _inputs(p, Nq, Nk) | {"O": _floats(heads, Nq, d), "L": _floats(heads, Nq)}
    floats = 2 * Br * d + 2 * Bc * d + Br * Bc + 3 * Br
    grid = (-(-Nq // Br), heads)
    return arrays, [(f"fa2<{Br}, {Bc}, {d}>", grid, floats, "Q K V O L Nq Nk scale causal")]


def _flash_decoding(p: Mapping[str, int]) -> _Launches:
    names = ("Nq", "Nk", "d", "Br", "Bc", "splits", "batch_heads")
    Nq, Nk, d, Br, Bc, splits, heads = (p[n] for n in names)
    arrays = _inputs(p, Nq, Nk) | {
        "Op": _floats(heads, splits, Nq, d),
        "lp": _floats(heads, splits, Nq),
        "mp": _floats(heads, splits, Nq),
        "O": _floats(heads, Nq, d),
        "L": _floats(heads, Nq),
    }
    tiles = -(-Nq // Br)
    return arrays, [
        (
            f"flash_decoding<{Br}, {Bc}, {d}>",
            (splits, tiles, heads),
            2 * Br * d + 2 * Bc * d + Br * Bc + 2 * Br,
            "Q K V Op lp mp Nq Nk splits scale causal",
        ),
        (f"combine<{Br}, {d}>", (tiles, heads), 2 * Br * d + 5 * Br, "Op lp mp O L Nq splits"),
    ]


def _online_softmax(p: Mapping[str, int]) -> _Launches:
    rows, N, b = p["rows"], p["N"], p["b"]
    x = (3 * np.random.default_rng(0).normal(size=(rows, N)).round(1)).astype(np.float32)
    return {"x": x, "y": _floats(rows, N)}, [(f"online_softmax<{b}>", (rows,), 2 * b + 2, "x y N")]


_LAUNCHES = {
    "fa1": _fa1,
    "fa2": _fa2,
    "flash_decoding": _flash_decoding,
    "online_softmax": _online_softmax,
}


def everywhere(text: str, patterns: Mapping[str, str]) -> Iterator[Mutant]:
    """A mutant for each place of the code where one of the patterns occurs, with that place replaced."""
    for pattern, new in patterns.items():
        for found in re.finditer(pattern, text):
            line = text.count("\n", 0, found.start()) + 1
            if text[text.rfind("\n", 0, found.start()) + 1 :].lstrip().startswith("//"):
                continue
            changed = text[: found.start()] + found.expand(new) + text[found.end() :]
            yield Mutant(f"line {line}: {found[0]} → {found.expand(new) or 'nothing'}", changed)
