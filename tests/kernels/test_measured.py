"""What was measured on a GPU and is kept: three counts of the same traffic, and a benchmark that says where."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import kernels
from kernels.registry import find_kernel, kernel_names

from .fuzz import ROOT

FOLDER = Path(kernels.__file__).parent / "recordings"
COUNTERS: dict[str, Any] = json.loads((FOLDER / "traffic-counters.json").read_text(encoding="utf-8"))
BENCH: dict[str, Any] = json.loads((FOLDER / "bench.json").read_text(encoding="utf-8"))
FUZZ: dict[str, Any] = json.loads((FOLDER / "trace-fuzz.json").read_text(encoding="utf-8"))
CASES = pytest.mark.parametrize(
    "case", COUNTERS["cases"], ids=lambda case: f"{case['kernel']}-{case['params']}"
)


@CASES
def test_formula_and_count_agree_exactly(case: dict[str, Any]) -> None:
    kernel = find_kernel(case["kernel"])
    params = {**{parameter.name: parameter.default for parameter in kernel.parameters}, **case["params"]}
    formula = {name: list(counts) for name, counts in kernel.traffic(params).items()}
    assert case["formula"] == case["count"] == formula
    assert case["bytes_read"] == 4 * sum(reads for reads, _ in formula.values())
    assert case["bytes_written"] == 4 * sum(writes for _, writes in formula.values())


@CASES
def test_the_bytes_the_gpu_was_asked_for_are_those_bytes(case: dict[str, Any]) -> None:
    assert case["hardware"]["requested_read"] == pytest.approx(case["bytes_read"], rel=0.01)
    assert case["hardware"]["requested_written"] == pytest.approx(case["bytes_written"], rel=0.01)


@CASES
def test_sectors_overcount_only_where_rows_are_not_whole_sectors(case: dict[str, Any]) -> None:
    whole = case["params"].get("d", 8) % 8 == 0
    for way in ("read", "written"):
        sectors = 32 * case["hardware"][f"l1_sectors_{way}"] / case["hardware"][f"requested_{way}"]
        assert (
            sectors == pytest.approx(1, rel=0.001)
            if whole and case["kernel"] != "flash_decoding"
            else sectors > 1
        )


def test_the_realistic_shape_and_others_were_counted_for_every_kernel() -> None:
    shapes = [case["params"] for case in COUNTERS["cases"] if case["kernel"] == "fa1"]
    assert {"batch_heads": 192, "N": 1024, "d": 64, "Br": 32, "Bc": 32} in shapes
    assert len(shapes) >= 3
    assert {case["kernel"] for case in COUNTERS["cases"]} == set(kernel_names())


def test_every_measurement_says_where_it_was_made() -> None:
    for made in [*(case["provenance"] for case in COUNTERS["cases"]), *BENCH["provenance"].values()]:
        assert made["backend"] == "cupy"
        assert "NVIDIA" in made["device"]
        assert all(made.values())


def test_what_was_timed_was_right() -> None:
    for timing in BENCH["beside"]:
        assert timing["error"] < (2e-2 if "float16" in timing["what"] else 1e-4), timing["what"]
        assert 0 < timing["low_ms"] <= timing["median_ms"] <= timing["high_ms"]


def test_a_million_cases_of_the_fuzz_passed() -> None:
    assert FUZZ["cases"] >= 10**6
    assert all(
        FUZZ[name] for name in ("processes", "seconds", "hypothesis", "python", "platform", "recorded_at")
    )


def test_the_nightly_run_is_that_of_the_record() -> None:
    nightly = (ROOT / ".github" / "workflows" / "nightly.yml").read_text(encoding="utf-8")
    assert "python -m tests.kernels.fuzz 1000000 " in nightly


def test_the_page_on_checks_says_what_the_record_of_the_fuzz_says() -> None:
    markdown = pytest.importorskip("markdown").markdown
    page = (ROOT / "docs" / "guides" / "checks.md").read_text(encoding="utf-8")
    shown = re.sub("<.*?>", "", markdown(page, extensions=["docs.blocks.measured"]))
    cases = f"{FUZZ['cases']:,}".replace(",", "\u202f")
    assert f"The one on record, of {FUZZ['recorded_at'][:10]}, had {cases} cases" in shown
