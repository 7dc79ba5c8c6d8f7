"""What is concluded of plain kernels that ran on the CPU."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kernels.conclude.actions import actions, sentence
from kernels.conclude.arrows import arrows
from kernels.conclude.lines import LineUse, lines
from kernels.conclude.races import races
from kernels.conclude.unwritten import unwritten
from kernels.gallery import Example, find, words
from kernels.launch.record import record
from kernels.launch.source import Source, parse_source, read_source
from kernels.trace.model import Trace

from .gallery_runs import backend, four, request_of

GEMM = Example(
    "gemm<4>", (3, 2), (4, 4), words(A="normal:7,9", B="normal:9,10", C="zeros:7,10", M="7", N="10", K="9")
)


def run(source: Source, example: Example) -> Trace:
    return record(request_of(source, example), backend("cpu"))[0]


def text_of(name: str) -> str:
    return find(name).source.read_text()


def transposed(kernel: str) -> list[LineUse]:
    example = Example(
        kernel, (1, 1), (32, 32), words(A="normal:32,32", B="zeros:32,32", rows="32", columns="32")
    )
    return list(lines(run(read_source(find("transpose").source), example)))


def test_the_sentences_of_a_ragged_tile_of_a_gemm() -> None:
    trace = run(read_source(find("gemm").source), GEMM)
    told = [[sentence(action) for action in actions(trace, step)] for step in trace.steps_of((2, 1, 0))]
    assert told == [
        ["clear acc", "load As ← A[4:7, 0:4]", "load Bs ← B[0:4, 8:10]"],
        ["update acc with As, Bs"],
        ["load As ← A[4:7, 4:8]", "load Bs ← B[4:8, 8:10]"],
        ["update acc with As, Bs"],
        ["load As ← A[4:7, 8]", "load Bs ← B[8, 8:10]"],
        ["update acc with As, Bs"],
        ["store C[4:7, 8:10] ← acc"],
    ]


def test_arrows_of_an_update_of_fa1() -> None:
    trace = record(four("fa1", {}, 64), backend("cpu"))[0]
    step = next(step for step in trace.steps if step.name == "update" and step.index > 2)
    found = arrows(trace, step)
    row = {("Sij", (1, c)) for c in range(4)}
    column = {("Vj", (c, 2)) for c in range(4)}
    assert set(found.of("mi", (1,))) == {("mi", (1,))} | row
    assert set(found.of("li", (1,))) == {("li", (1,)), ("mi", (1,))} | row
    assert set(found.of("Oi", (1, 2))) == {("Oi", (1, 2)), ("li", (1,)), ("mi", (1,))} | row | column


@pytest.mark.parametrize(
    "name", ["gemm", "transpose", "reduce", "convolve", "histogram", "layer_norm", "pipeline"]
)
def test_the_kernels_of_the_gallery_have_no_race_and_read_nothing_unwritten(name: str) -> None:
    trace = run(read_source(find(name).source), find(name).examples[-1])
    assert races(trace) == ()
    assert unwritten(trace) == ()


def line_of(text: str, part: str) -> int:
    return text[: text.index(part)].count("\n") + 1


@pytest.mark.parametrize("nth", [1, 2])
def test_each_barrier_left_out_of_a_gemm_is_a_race_of_its_loads_with_its_product(nth: int) -> None:
    parts = text_of("gemm").split("__syncthreads();")
    text = "__syncthreads();".join(parts[:nth]) + "__syncthreads();".join(parts[nth:])
    four_warps = replace(GEMM, kernel="gemm<8>", grid=(2, 1), block=(8, 8))
    found = races(run(parse_source(text, "gemm.cu"), four_warps))
    loads = [line_of(text, f"{name}[ty][tx] =") for name in ("As", "Bs")]
    product = line_of(text, "acc +=")
    assert {(race.place, race.lines, race.acts) for race in found} == {
        (name, (load, product), ("write", "read")) for name, load in zip(("As", "Bs"), loads, strict=True)
    }


def test_a_tile_that_nobody_loads_is_read_unwritten() -> None:
    text = text_of("gemm").replace("Bs[ty][tx] =", "const float unused =")
    found = unwritten(run(parse_source(text, "gemm.cu"), GEMM))
    assert [(read.place, read.line, read.cells) for read in found] == [
        ("Bs", line_of(text, "acc +="), 6 * 16)
    ]


def test_the_numbers_of_a_transpose_are_those_of_its_layout() -> None:
    tile = [use for use in transposed("transpose<0>") if use.place == "tile" and use.act == "read"]
    assert [(use.bank_ways, use.bank_conflicts) for use in tile] == [(32, 32 * 31)]
    padded = [use for use in transposed("transpose<1>") if use.place == "tile" and use.act == "read"]
    assert [(use.bank_ways, use.bank_conflicts) for use in padded] == [(1, 0)]
    naive = [use for use in transposed("transpose_naive") if use.place == "B"]
    assert [(use.sectors, use.ideal_sectors) for use in naive] == [(1024, 128)]
