"""The traffic page: its formulas against declarations and counts, its condition, and its form."""

from __future__ import annotations

import re
from html import unescape
from math import ceil

import pytest

import kernels
from docs.blocks.traffic import START, compare_table, counted_per_head, sizes_for
from docs.blocks.trips import TripsError
from docs.traffic_chart import last_that_moves_more, ratio
from docs.traffic_formulas import FA1, FA2, FLASH_DECODING, METHODS, STANDARD, all_sizes, fa1_moves_more
from kernels.registry import find_kernel
from tests.docs.conftest import OpenPage

SHAPES = [
    (8, 8, 4, 4, 4, 1),
    (7, 7, 3, 2, 3, 2),
    (70, 70, 64, 16, 32, 3),
    (1, 33, 5, 1, 4, 5),
    (5, 2, 1, 3, 7, 2),
]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("method", [FA1, FA2, FLASH_DECODING], ids=lambda method: method.name)
def test_a_formula_is_that_of_the_kernel(method, shape: tuple[int, ...]) -> None:
    Nq, Nk, d, Br, Bc, splits = shape
    if method is FA1:
        Nk = Nq  # it takes as many queries as keys
    params = {"N": Nq, "Nq": Nq, "Nk": Nk, "d": d, "Br": Br, "Bc": Bc, "splits": splits}
    declared = find_kernel(method.kernel).traffic({**params, "batch_heads": 1, "causal": 0})
    assert method.counts(all_sizes(Nq, Nk, d, Br, Bc, splits)) == declared


def test_the_sums_in_the_text_are_those_of_the_tables() -> None:
    for Nq, Nk, d, Br, Bc, splits in SHAPES:
        Tr, Tc = ceil(Nq / Br), ceil(Nk / Bc)
        sizes = all_sizes(Nq, Nk, d, Br, Bc, splits)
        assert STANDARD.total(sizes) == 2 * Nq * d + 2 * Nk * d + 4 * Nq * Nk
        assert FA2.total(sizes) == 2 * Nq * d + Nq + 2 * Tr * Nk * d
        assert FLASH_DECODING.total(sizes) == Nq * d + Nq + 2 * Tr * Nk * d + splits * Nq * (3 * d + 4)
        if Nq == Nk:
            assert FA1.total(sizes) == 2 * Nq * d + Tc * Nq * (3 * d + 4)


def test_fa1_moves_more_exactly_where_the_page_says() -> None:
    for N in range(1, 40):
        for d in range(1, 40):
            for Bc in range(1, N + 1):
                sizes = all_sizes(N, N, d, 1, Bc)
                assert fa1_moves_more(N, d, Bc) == (FA1.total(sizes) > STANDARD.total(sizes)), (N, d, Bc)


def test_fa1_moves_more_with_any_tile_where_d_is_larger_than_4N_less_4() -> None:
    for N in range(1, 12):
        assert fa1_moves_more(N, 4 * N - 3, N)
        assert not fa1_moves_more(N, 4 * N - 4, N)


@pytest.mark.parametrize("d", [4, 16, 64, 128])
def test_for_long_sequences_the_edge_is_three_quarters_of_d_and_one(d: int) -> None:
    assert last_that_moves_more(1 << 16, d) == pytest.approx(0.75 * d + 1, abs=1)


def test_fa2_with_tiles_of_one_height_never_moves_more_than_fa1() -> None:
    for N in range(1, 40):
        for d in range(1, 20):
            for B in range(1, N + 1):
                sizes = all_sizes(N, N, d, B, B)
                assert FA2.total(sizes) < FA1.total(sizes)


def test_the_edge_of_the_chart_is_where_the_ratio_passes_one() -> None:
    for d in (16, 64, 128):
        edge = last_that_moves_more(1024, d)
        assert ratio(1024, d, edge) > 1 >= ratio(1024, d, edge + 1)


@pytest.mark.parametrize(
    "recording", ["fa1", "fa1-n64", "fa2", "fa2-n64", "flash-decoding", "flash-decoding-n128"]
)
def test_a_formula_is_what_the_recording_counted(recording: str) -> None:
    trace = kernels.recorded(recording)
    method = next(method for method in METHODS.values() if method.kernel == trace.kernel)
    heads = trace.params["batch_heads"]
    for name, (read, written) in counted_per_head(trace, method).items():
        assert (trace.traffic[name].reads, trace.traffic[name].writes) == (heads * read, heads * written)


def test_the_page_cannot_state_a_formula_that_was_not_counted() -> None:
    with pytest.raises(TripsError, match="counted"):
        counted_per_head(kernels.recorded("fa2-causal"), FA2)


def test_the_comparison_shows_what_was_counted() -> None:
    html = compare_table(["fa1", "fa2"])
    rows = {
        row[0]: row[1:]
        for row in (
            [unescape(re.sub("<.*?>", "", cell)) for cell in re.findall(r"<t[hd].*?>(.*?)</t[hd]>", row)]
            for row in re.findall(r"<tr>(.*?)</tr>", html)
        )
    }
    standard = STANDARD.counts(sizes_for(kernels.recorded("fa1")))
    fa1, fa2 = (kernels.recorded(name) for name in ("fa1", "fa2"))
    for name in ("Q", "K", "V", "O", "L", "l", "m", "S", "P"):
        counts = [standard.get(name, (0, 0))]
        for trace in (fa1, fa2):
            total = trace.traffic.get(name)
            heads = trace.params["batch_heads"]
            counts.append((total.reads // heads, total.writes // heads) if total else (0, 0))
        assert rows[name] == [str(count) if count else "·" for pair in counts for count in pair]


@pytest.mark.parametrize(("fa1", "fa2"), [("fa1", "fa2"), ("fa1-n64", "fa2-n64")])
def test_fa1_counts_the_same_on_the_inputs_of_fa2(fa1: str, fa2: str) -> None:
    recorded, other = kernels.recorded(fa1), kernels.recorded(fa2)
    run = kernels.record(
        "fa1", dict(other.inputs), Br=other.params["Br"], Bc=other.params["Bc"], backend="cpu"
    )
    for name, total in recorded.traffic.items():
        per_head = [
            (trace.traffic[name].reads / heads, trace.traffic[name].writes / heads)
            for trace, heads in (
                (run, other.params["batch_heads"]),
                (recorded, recorded.params["batch_heads"]),
            )
        ]
        assert per_head[0] == per_head[1], (name, total)


@pytest.mark.browser
def test_the_form_answers_with_the_formulas(open_page: OpenPage, with_ranges: str) -> None:
    page = open_page(f"{with_ranges}/traffic/index.html")
    form = page.locator("form.traffic-form")
    for shape in ({}, {"Nq": 70, "Nk": 70, "d": 64, "Br": 16, "Bc": 31, "splits": 3, "heads": 2}, {"Nq": 1}):
        for name, value in shape.items():
            form.locator(f"input[name={name}]").fill(str(value))
        picked = {name: int(form.locator(f"input[name={name}]").input_value()) for name in START}
        sizes = all_sizes(*(picked[name] for name in ("Nq", "Nk", "d", "Br", "Bc", "splits")))
        rows = form.locator(".result > .trips tbody tr").evaluate_all(
            "rows => rows.map(row => [...row.cells].map(cell => cell.textContent.replaceAll('\\u202f', '')))"
        )
        expected = []
        for method in METHODS.values():
            if method is FA1 and picked["Nq"] != picked["Nk"]:
                continue
            read, written = (
                picked["heads"] * sum(pair[way] for pair in method.counts(sizes).values()) for way in (0, 1)
            )
            share = f"{method.total(sizes) / STANDARD.total(sizes):.2f}"
            expected.append([method.title, share, str(4 * (read + written)), str(read), str(written)])
        assert rows == expected[: len(rows)]
        assert len(rows) == len(expected)
    form.locator("input[name=d]").fill("0")
    assert form.locator("input[name=d]").evaluate("input => !input.validity.valid")
