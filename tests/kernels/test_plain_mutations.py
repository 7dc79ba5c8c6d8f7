"""A barrier, a guard or a wait taken out of a plain kernel, and each such fault found in its trace, without luck.

What finds it is the trace alone: a race, a read of what was never written, an access outside of an array, threads that
wait for each other in vain. No number is compared with any truth.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from kernels.conclude.races import races
from kernels.conclude.unwritten import unwritten
from kernels.errors import BackendError
from kernels.gallery import find, names
from kernels.launch.record import record
from kernels.launch.request import Request
from kernels.launch.source import parse_source
from kernels.launch.truth import verify

from .gallery_runs import (
    BACKENDS,
    FOUR,
    GPU_ONLY,
    SOURCES,
    Mutant,
    backend,
    everywhere,
    four,
    request_of,
)
from .mutants import GUARDS
from .mutants import RUNS as RAGGED

BARRIERS = {
    r"__syncthreads\(\);": "",
    r"__syncwarp\(\);": "",
    r"__pipeline_wait_prior\(1\);": "",
    r"if \(threadIdx\.x == 0\)": "if (threadIdx.x < 2)",
}

# Where each tile is ragged, cells beyond its edge were never written; elsewhere they may be left from the tile before.
RUNS = RAGGED | {"fa1": [*RAGGED["fa1"], {"N": 3, "d": 3, "batch_heads": 2}]}

# Guards by hand: the text, which occurs once, and what is left of it.
PLANTED = {
    "gemm": [
        ("row < M && first + tx < K ?", "row < M ?"),
        ("row < M && first + tx < K ?", "first + tx < K ?"),
        ("first + ty < K && column < N ?", "first + ty < K ?"),
        ("first + ty < K && column < N ?", "column < N ?"),
        ("if (row < M && column < N) C", "if (row < M) C"),
        ("if (row < M && column < N) C", "if (column < N) C"),
    ],
    "transpose": [
        ("if (y + j < rows && x < columns)", "if (y + j < rows)"),
        ("if (y + j < rows && x < columns)", "if (x < columns)"),
        ("if (y + j < columns && x < rows)", "if (y + j < columns)"),
        ("if (y + j < columns && x < rows)", "if (x < rows)"),
        ("if (y < rows && x < columns)", "if (y < rows)"),
        ("if (y < rows && x < columns)", "if (x < columns)"),
    ],
    "reduce": [
        ("c < columns;", "c < columns + 1;"),
        ("lane < blockDim.x / 32 ? warps[lane] : 0", "warps[lane]"),
        ("if (lane == 0) warps", "if (lane < 2) warps"),
        ("if (warp == 0) {", "{"),
    ],
    "convolve": [
        ("i >= 0 && i < n ?", "i < n ?"),
        ("i >= 0 && i < n ?", "i >= 0 ?"),
        ("if (i < n) {", "{"),
        ("t < RADIUS + BLOCK + RADIUS", "t < RADIUS + BLOCK"),
    ],
    "histogram": [
        ("if (x[i] < BINS) atomicAdd", "atomicAdd"),
        ("i < n;", "i < n + 1;"),
        ("bins[b] = 0;", ""),
        ("b < BINS; b += blockDim.x) atomicAdd", "b < BINS + 1; b += blockDim.x) atomicAdd"),
    ],
    "layer_norm": [
        ("if (mine) v = reinterpret", "v = reinterpret"),
        ("if (mine) {", "{"),
        ("w < blockDim.x / 32;", "w < 32;"),
    ],
    "axpy_half2": [
        ("if (2 * i + 1 < n)", "if (2 * i < n)"),
        ("else if (2 * i < n)", "else"),
    ],
    "pipeline": [
        ("rows = min(ROWS, rows - int(blockIdx.x) * ROWS);", "rows = ROWS;"),
        ("rows, min(TILE, columns), columns", "rows, TILE, columns"),
        ("rows, min(TILE, columns - next), columns", "rows, TILE, columns"),
        ("k < min(TILE, columns - t * TILE)", "k < TILE"),
        ("if (threadIdx.x < rows)\n", ""),
        ("if (threadIdx.x < rows) y", "y"),
    ],
    "wmma_gemm": [
        ("row + r < M && first + k < K ?", "first + k < K ?"),
        ("first + r < K && column + k < N ?", "column + k < N ?"),
        ("if (row + r < M && column + k < N) C", "C"),
    ],
    "bare_gemm": [
        ("row < n && a_col < n", "row < n"),
        ("row < n && a_col < n", "a_col < n"),
        ("b_row < n && col < n", "b_row < n"),
        ("b_row < n && col < n", "col < n"),
        ("if (row < n && col < n)", "if (row < n)"),
        ("if (row < n && col < n)", "if (col < n)"),
    ],
}

# Guards whose removal changes no output: what is done besides stays in cells that nothing uses.
HARMLESS = {
    "fa2": ["line 34: < rows; → < Br;"],  # carries of rows that there are not are cleared
    "flash_decoding": [
        "line 39: < rows; → < Br;",
        "line 130: < rows; → < Br;",
        "line 48: min((s + 1) * tiles, Tc) → (s + 1) * tiles",  # steps without a key: all their loops are empty
    ],
    "online_softmax": [
        "line 24: if (threadIdx.x == 0) → if (threadIdx.x < 2)"
    ],  # both write the same, at once
    "reduce": ["if (warp == 0) { → {"],  # each warp folds the same sums in registers of its own
}

# Guards whose removal makes no access wrong, but the numbers: those only a truth finds.
WRONG_NUMBERS = {"layer_norm": [("if (mine) v = {v.x - mean", "v = {v.x - mean")]}

# The examples that mutants run, the smaller ones where one would take seconds.
SMALL = {"gemm": (1, 2), "reduce": (0, 1, 2), "transpose": (2, 3, 5)}


@dataclass(frozen=True)
class Found:
    """What a trace says against a kernel: sentences, the same in every run."""

    texts: tuple[str, ...]


def _found(requests: list[Request], machine: str) -> Found:
    texts: list[str] = []
    for request in requests:
        try:
            trace, _ = record(request, backend(machine))
        except BackendError as error:
            texts.append(str(error))
            continue
        texts += [race.text for race in races(trace)]
        texts += [read.text for read in unwritten(trace)]
    return Found(tuple(texts))


def _text(name: str) -> str:
    path = SOURCES / f"{name}.cu" if name in FOUR else find(name).source
    return path.read_text(encoding="utf-8")


def _requests(name: str, mutant: Mutant, threads: int = 4) -> list[Request]:
    if name in FOUR:
        return [four(name, sizes, threads, mutant.text) for sizes in RUNS[name]]
    exhibit = find(name)
    source = parse_source(mutant.text, exhibit.source.name, exhibit.source.parent)
    numbers = SMALL.get(name, range(len(exhibit.examples)))
    return [request_of(source, exhibit.examples[number]) for number in numbers]


def _planted(name: str, places: list[tuple[str, str]]) -> list[Mutant]:
    text = _text(name)
    mutants = []
    for old, new in places:
        assert text.count(old) == 1, f"{name}: {old!r} occurs {text.count(old)} times"
        mutants.append(Mutant(f"{old} → {new}", text.replace(old, new)))
    return mutants


def _mutants(name: str) -> list[Mutant]:
    text = _text(name)
    guards = [*everywhere(text, GUARDS)] if name in FOUR else _planted(name, PLANTED[name])
    return [*everywhere(text, BARRIERS), *guards]


def _case(name: str, mutant: Mutant) -> Any:
    return pytest.param(name, mutant, id=f"{name}: {mutant.what}")


CASES = [
    _case(name, mutant)
    for name in (*names(), *FOUR)
    for mutant in _mutants(name)
    if mutant.what not in HARMLESS.get(name, ())
]


def _skip_if_of_tensor_cores(name: str, machine: str) -> None:
    if machine == "cpu" and name in GPU_ONLY:
        pytest.skip("tensor cores: there are none on a CPU")


@pytest.mark.parametrize("machine", BACKENDS)
@pytest.mark.parametrize("name", [*names(), *FOUR])
def test_nothing_is_said_against_a_kernel_as_it_is(name: str, machine: str) -> None:
    _skip_if_of_tensor_cores(name, machine)
    for threads in (1, 4, 37) if name in FOUR else (4,):
        assert _found(_requests(name, Mutant("unharmed", _text(name)), threads), machine).texts == ()


@pytest.mark.parametrize("machine", BACKENDS)
@pytest.mark.parametrize(("name", "mutant"), CASES)
def test_each_barrier_guard_and_wait_that_is_taken_out_is_found(
    name: str, mutant: Mutant, machine: str
) -> None:
    _skip_if_of_tensor_cores(name, machine)
    found = _found(_requests(name, mutant), machine)
    assert found.texts
    assert all("line" in text for text in found.texts), found


@pytest.mark.parametrize(("name", "whats"), HARMLESS.items())
def test_a_guard_whose_removal_is_not_found_changes_no_bit_of_the_outputs(
    name: str, whats: list[str]
) -> None:
    mutants = {mutant.what: mutant for mutant in _mutants(name)}
    plain = [backend("cpu").run(request) for request in _requests(name, Mutant("unharmed", _text(name)))]
    for what in whats:
        requests = _requests(name, mutants[what])
        assert _found(requests, "cpu").texts == ()
        for before, request in zip(plain, requests, strict=True):
            after = backend("cpu").run(request)
            assert {n: v.tobytes() for n, v in before.items()} == {n: v.tobytes() for n, v in after.items()}


@pytest.mark.parametrize(("name", "places"), WRONG_NUMBERS.items())
def test_a_guard_whose_removal_makes_wrong_numbers_alone_is_found_by_the_truth(
    name: str, places: list[tuple[str, str]]
) -> None:
    for mutant in _planted(name, places):
        requests = _requests(name, mutant)
        assert _found(requests, "cpu").texts == ()
        reports = [verify(record(request, backend("cpu"))[0], find(name).truth) for request in requests]
        assert not all(report.ok for report in reports)


@pytest.mark.parametrize(("name", "number"), [("gemm", 0), ("pipeline", 2), ("fa1", 2)])
def test_what_is_found_is_the_same_in_every_run(name: str, number: int) -> None:
    mutant = _mutants(name)[number]
    requests = _requests(name, mutant)
    first = _found(requests, "cpu")
    assert first.texts
    assert _found(requests, "cpu") == first


def test_there_are_as_many_barriers_as_the_sources_have() -> None:
    counts = {
        name: len(list(everywhere(_text(name), {r"__syncthreads\(\);": ""}))) for name in (*names(), *FOUR)
    }
    assert counts == {
        "axpy_half2": 0,
        "bare_gemm": 2,
        "convolve": 1,
        "gemm": 2,
        "histogram": 2,
        "layer_norm": 2,
        "pipeline": 2,
        "reduce": 1,
        "transpose": 1,
        "wmma_gemm": 0,
        "fa1": 3,
        "fa2": 4,
        "flash_decoding": 6,
        "online_softmax": 2,
    }
