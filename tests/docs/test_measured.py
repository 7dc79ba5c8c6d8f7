"""What was measured on a GPU, as the pages show it: every figure is the file's, and every claim in prose holds."""

from __future__ import annotations

import copy
import json
import math
import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from markdown import markdown

import kernels
from docs.blocks.measured import beside_dots, counters_table, tracing_dots
from docs.dot_chart import chart
from docs.measured import MeasuredError
from kernels.registry import find_kernel, kernel_names
from tests.docs.conftest import ROOT

FOLDER = Path(kernels.__file__).parent / "recordings"
COUNTERS: dict[str, Any] = json.loads((FOLDER / "traffic-counters.json").read_text(encoding="utf-8"))
BENCH: dict[str, Any] = json.loads((FOLDER / "bench.json").read_text(encoding="utf-8"))


def table(site: Path, page: str, label: str) -> list[list[str]]:
    """The text of each row of a table, cell by cell, without the thin spaces of long numbers."""
    html = (site / page / "index.html").read_text(encoding="utf-8")
    found = re.search(
        rf'<div aria-label="{label}".*?</table>|<div [^>]*aria-label="{label}".*?</table>', html, re.S
    )
    assert found, label
    return [
        [unescape(re.sub("<.*?>", " ", cell)).replace("\u202f", "").strip() for cell in cells]
        for row in re.findall(r"<tr>(.*?)</tr>", found[0], re.S)
        if (cells := re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.S))
    ]


def case_of(kernel: str, **params: int) -> dict[str, Any]:
    return next(
        case
        for case in COUNTERS["cases"]
        if case["kernel"] == kernel and params.items() <= case["params"].items()
    )


def beside(kernel: str) -> dict[str, dict[str, Any]]:
    """What was timed on the inputs of a kernel, by the last word of its name."""
    timings, start = BENCH["beside"], [timing["what"] for timing in BENCH["beside"]].index(kernel)
    assert all(timing["params"] == timings[start]["params"] for timing in timings[start : start + 4])
    return {timing["what"].split()[-1]: timing for timing in timings[start : start + 4]}


def times(kernel: str, other: str) -> float:
    timed = beside(kernel)
    return timed[kernel]["median_ms"] / timed[other]["median_ms"]


def once(case: dict[str, Any]) -> int:
    """The bytes of the arrays a case reads: a matrix of d columns, or a vector, for each head."""
    p = case["params"]
    if case["kernel"] == "online_softmax":
        return 4 * p["rows"] * p["N"]
    heads, d, Nq, Nk = p["batch_heads"], p["d"], p.get("Nq", p.get("N")), p.get("Nk", p.get("N"))
    numbers = Nq * d + 2 * Nk * d
    if case["kernel"] == "fa1":
        numbers += Nq * d + 2 * Nq
    if case["kernel"] == "flash_decoding":
        numbers += p["splits"] * Nq * (d + 2)
    return 4 * heads * numbers


def test_the_three_counts_on_the_page_are_those_of_the_file(site: Path) -> None:
    rows = table(site, "traffic", "Three counts of the same traffic")[1:]
    for case in COUNTERS["cases"]:
        name, *both = (rows.pop(0) for _ in range(3))
        title = find_kernel(case["kernel"]).title
        assert name[0].startswith(title)
        sizes = name[0].removeprefix(title).strip().split(", ")
        for key, value in case["params"].items():
            said = {"batch_heads": f"{value} heads", "causal": "causal"}.get(key, f"{key} = {value}")
            assert said in sizes, name
        for way, index, row in zip(("read", "written"), (0, 1), both, strict=True):
            hardware = case["hardware"]
            formula, count = (
                4 * sum(pair[index] for pair in case[of].values()) for of in ("formula", "count")
            )
            caches = [
                32 * hardware[f"l1_sectors_{way}"],
                32 * hardware[f"l2_sectors_{way}"],
                hardware[f"dram_{way}"],
            ]
            expected = [way, *map(str, (formula, count, hardware[f"requested_{way}"]))]
            assert row == expected + [f"{value} {100 * value / formula:.1f} %" for value in caches]
    assert rows == []


def test_what_dram_delivered_on_the_page_is_that_of_the_file(site: Path) -> None:
    rows = table(site, "traffic", "What DRAM delivered of what was read")[1:]
    for case, row in zip(COUNTERS["cases"], rows[1::2], strict=True):
        hardware, size = case["hardware"], once(case)
        ratios = [f"{hardware[name] / size:.2f} ×" for name in ("requested_read", "dram_read")]
        assert row == [str(size), *ratios]


def test_a_page_cannot_show_counts_that_differ() -> None:
    for spoil in ("count", "hardware"):
        results = copy.deepcopy(COUNTERS)
        if spoil == "count":
            results["cases"][1]["count"]["Q"][0] += 1
        else:
            results["cases"][1]["hardware"]["requested_written"] -= 4
        with pytest.raises(MeasuredError, match="fa1"):
            counters_table(results)


def test_the_claims_on_sectors_hold() -> None:
    for case in COUNTERS["cases"]:
        for way in ("read", "written"):
            l1, l2 = (32 * case["hardware"][f"{level}_sectors_{way}"] for level in ("l1", "l2"))
            asked = case["hardware"][f"requested_{way}"]
            if case["params"].get("d") == 59:
                assert l1 > l2 > asked
            elif case["kernel"] != "flash_decoding":
                assert l1 == asked
    decoding = case_of("flash_decoding", Nq=1)
    alone = sum(decoding["count"][name][1] for name in ("lp", "mp", "L"))
    whole = sum(decoding["count"][name][1] for name in ("Op", "O"))
    assert decoding["hardware"]["l1_sectors_written"] == whole // 8 + alone


def test_the_claims_on_dram_hold() -> None:
    fa1 = sorted((case for case in COUNTERS["cases"] if case["kernel"] == "fa1"), key=once)
    shares = [case["hardware"]["dram_read"] / case["bytes_read"] for case in fa1]
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1, rel=0.001)
    fa2, decoding, softmax = (case_of(name) for name in ("fa2", "flash_decoding", "online_softmax"))
    for case in (fa1[0], fa2, decoding):
        assert case["hardware"]["dram_read"] == pytest.approx(once(case), rel=0.006)
    largest = case_of("fa1", **{name: fa2["params"][name] for name in ("batch_heads", "d")})
    assert fa2["bytes_read"] == pytest.approx(largest["bytes_read"], rel=0.05)
    assert 32 * fa2["hardware"]["l2_sectors_read"] < 0.9 * fa2["bytes_read"]
    assert decoding["bytes_read"] == pytest.approx(once(decoding), rel=0.001)
    assert softmax["bytes_read"] == 2 * once(softmax)
    assert once(softmax) < softmax["hardware"]["dram_read"] < softmax["bytes_read"]
    for case in COUNTERS["cases"]:
        more = case["hardware"]["dram_written"] > case["bytes_written"]
        assert more == (case is decoding), "the page says what DRAM wrote beside what was stored"
    assert decoding["hardware"]["dram_written"] > 2 * decoding["bytes_written"]


def test_the_times_on_the_page_are_those_of_the_file(site: Path) -> None:
    rows = table(site, "speed", "Times of the kernels and of others")[1:]
    own: dict[str, Any] = {}
    for timing in BENCH["beside"]:
        if timing["what"] in kernel_names():
            own = timing
            assert rows.pop(0)[0].startswith(find_kernel(timing["what"]).title)
        row = rows.pop(0)
        assert row[0].split()[-1] == (timing["what"].split()[-1] if timing is not own else "kernel")
        shown = [float(value) for value in (row[1], *row[2].split(" to "))]
        assert shown == pytest.approx(
            [timing[name] for name in ("median_ms", "low_ms", "high_ms")], rel=0.005
        )
        if timing is not own:
            assert float(row[3]) == pytest.approx(own["median_ms"] / timing["median_ms"], rel=0.05)
        digits, power = row[4].replace("−", "-").split(" · 10 ")
        assert float(f"{digits}e{power.strip()}") == pytest.approx(timing["error"], rel=0.5)
    assert rows == []


def test_the_times_of_tracing_on_the_page_are_those_of_the_file(site: Path) -> None:
    rows = table(site, "speed", "Times with tracing off and on")[1:]
    for pair in BENCH["tracing"]:
        _, off, on, copied = (rows.pop(0) for _ in range(4))
        for row, timing in ((off, pair["plain"]), (on, pair["traced"])):
            shown = [float(value) for value in (row[1], *row[2].split(" to "))]
            assert shown == pytest.approx(
                [timing[name] for name in ("median_ms", "low_ms", "high_ms")], rel=0.005
            )
        assert float(on[3]) == pytest.approx(
            pair["traced"]["median_ms"] / pair["plain"]["median_ms"], rel=0.05
        )
        assert int(on[4]) == pair["trace_bytes"]
        assert float(copied[1]) == pytest.approx(pair["copy_ms"], rel=0.005)
    assert rows == []


def test_a_dot_stands_at_its_time() -> None:
    tracing = [timing for pair in BENCH["tracing"] for timing in (pair["plain"], pair["traced"])]
    for groups, timings in ((beside_dots(), BENCH["beside"]), (tracing_dots(), tracing)):
        svg = chart(groups, "")
        at = [float(x) for x in re.findall(r'<circle cx="([\d.]+)"', svg)]
        ticks = re.findall(r'<text class="tick" x="([\d.]+)"[^>]*>([\d.]+)<', svg)
        (begin, first), (end, last) = (map(float, tick) for tick in (ticks[0], ticks[-1]))
        one = (end - begin) / math.log10(last / first)
        for x, timing in zip(at, timings, strict=True):
            apart = math.log10(timing["median_ms"] / first) * one
            assert x - begin == pytest.approx(apart, abs=0.11)
        assert [float(value) for value in re.findall(r"([\d.]+) ms<", svg)] == pytest.approx(
            [timing["median_ms"] for timing in timings], rel=0.005
        )


def test_the_conclusions_on_speed_hold() -> None:
    for kernel in ("fa1", "fa2", "flash_decoding", "online_softmax"):
        for other in ("CuPy", "float32", "float16"):
            assert times(kernel, other) > 1
        assert beside(kernel)["float16"]["error"] > 100 * beside(kernel)[kernel]["error"]
    fa1, fa2 = beside("fa1"), beside("fa2")
    assert fa1["fa1"]["params"]["batch_heads"] == fa2["fa2"]["params"]["batch_heads"]
    assert fa1["fa1"]["params"]["N"] == fa2["fa2"]["params"]["Nq"] == fa2["fa2"]["params"]["Nk"]
    assert fa2["fa2"]["median_ms"] < fa1["fa1"]["median_ms"]
    little, much = ("flash_decoding", "online_softmax"), ("fa1", "fa2")
    for other in ("CuPy", "float32"):
        assert max(times(kernel, other) for kernel in little) < min(times(kernel, other) for kernel in much)
    for kernel in ("fa1", "fa2", "flash_decoding"):
        errors = [beside(kernel)[other]["error"] for other in (kernel, "CuPy", "float32")]
        assert max(errors) < 2.5 * min(errors)
    softmax = beside("online_softmax")
    assert softmax["online_softmax"]["error"] > 10 * max(
        softmax[other]["error"] for other in ("CuPy", "float32")
    )
    assert softmax["online_softmax"]["error"] < 1e-7


def test_the_conclusions_on_tracing_hold() -> None:
    by = {pair["plain"]["what"].partition(",")[0]: pair for pair in BENCH["tracing"]}
    ratios = {name: pair["traced"]["median_ms"] / pair["plain"]["median_ms"] for name, pair in by.items()}
    assert max(ratios, key=lambda name: ratios[name]) == "flash_decoding"
    copies = {
        name: (pair["plain"]["median_ms"] / pair["copy_ms"], pair["traced"]["median_ms"] / pair["copy_ms"])
        for name, pair in by.items()
    }
    added = {name: traced - plain for name, (plain, traced) in copies.items()}
    assert copies["online_softmax"][0] < 1.5
    assert copies["flash_decoding"][0] < 3
    assert max(added, key=lambda name: added[name]) == "fa1"
    assert copies["fa1"][0] > 20
    assert ratios["fa1"] < 1.5
    text = markdown("[=bench.fa1.copying]", extensions=["docs.blocks.measured"])
    assert f">{added['fa1']:.1f}</span>" in text


def test_a_number_of_the_bench_in_prose_is_the_ratio() -> None:
    html = markdown("[=bench.fa1.CuPy] times", extensions=["docs.blocks.measured"])
    assert f">{times('fa1', 'CuPy'):.1f}</span> times" in html
    for wrong in ("fa1.nobody", "fa9.CuPy", "fa9.tracing"):
        with pytest.raises(MeasuredError):
            markdown(f"[=bench.{wrong}]", extensions=["docs.blocks.measured"])


@pytest.mark.parametrize("page", ["speed", "traffic"])
def test_no_ratio_is_typed_by_hand(page: str) -> None:
    text = (ROOT / "docs" / page / "index.md").read_text(encoding="utf-8")
    assert not re.findall(r"\d[\d.]* times|\d[\d.]* (?:ms|MB|GB|%)", text)


@pytest.mark.parametrize("page", ["speed", "traffic"])
def test_the_page_says_where_it_was_measured(site: Path, page: str) -> None:
    html = unescape((site / page / "index.html").read_text(encoding="utf-8"))
    made = (
        [*BENCH["provenance"].values()]
        if page == "speed"
        else [case["provenance"] for case in COUNTERS["cases"]]
    )
    for each in made:
        for said in ("device", "driver", "runtime", "compiler"):
            assert each[said] in html
        assert each["recorded_at"][:10] in html
        assert each["source_hash"][:12] in html
    more = (
        [BENCH["torch"], f"{BENCH['runs']} runs"]
        if page == "speed"
        else [COUNTERS["profiler"].split()[1], *COUNTERS["metrics"].values()]
    )
    for said in more:
        assert said in html
