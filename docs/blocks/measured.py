"""Measurements on a page: `/// traffic-counters`, `/// traffic-caches`, `/// speed-table`, `/// speed-chart`, others.

`[=bench.fa1.CuPy]` in prose is how many times as long a kernel takes; also `float32`, `float16`, `tracing`, `copying`.
`[=fuzz.cases]` is a field of the record of the long fuzz; `[=fuzz.day]` is its day.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from re import Match
from typing import Any, ClassVar
from xml.etree.ElementTree import Element

from markdown import Markdown
from markdown.inlinepatterns import InlineProcessor
from pymdownx.blocks.block import type_string

from docs import measured
from docs.blocks.html_block import HtmlBlock, HtmlBlockExtension
from docs.dot_chart import Dot, chart, milliseconds
from docs.measured import SECTOR, WAYS
from docs.numbers import counted

COUNTS = ("formula", "count", "asked for", "L1, in sectors", "L2, in sectors", "DRAM")
HARDWARE = ("requested", "l1_sectors", "l2_sectors", "dram")


class _Table(HtmlBlock):
    """A table that scrolls in itself where it is too wide."""

    ARGUMENT = False
    LABEL = ""

    def attributes(self) -> dict[str, str]:
        return {"class": "trips measured", "tabindex": "0", "role": "group", "aria-label": self.LABEL}


class TrafficCounters(_Table):
    """`/// traffic-counters`: by formula, as counted, and what the GPU's own counters say, in bytes."""

    NAME = "traffic-counters"
    LABEL = "Three counts of the same traffic"

    def html(self) -> str:
        return counters_table(measured.counters())


def counters_table(results: Mapping[str, Any]) -> str:
    """Two rows for each case, what was read and what was written; MeasuredError if the first three counts differ."""
    bodies = []
    for case in results["cases"]:
        measured.check_case(case)
        name = _run(case["kernel"], case["params"])
        rows = "".join(f"<tr><td>{way}</td>{_counts(case, way)}</tr>" for way in WAYS)
        bodies.append(
            f'<tbody><tr><th scope="rowgroup" colspan="{len(COUNTS) + 1}">{name}</th></tr>{rows}</tbody>'
        )
    head = "".join(f'<th scope="col">{name}</th>' for name in COUNTS)
    return (
        '<table class="numbers">'
        f'<thead><tr><th scope="col">run</th>{head}</tr></thead>{"".join(bodies)}</table>'
        '<p class="where">Bytes, and in small print their part of the formula’s.</p>'
        f"{_counters_from(results)}"
    )


def _counts(case: Mapping[str, Any], way: str) -> str:
    hardware, formula = case["hardware"], measured.moved(case, "formula", way)
    exact = (formula, measured.moved(case, "count", way), hardware[f"requested_{way}"])
    caches = (
        SECTOR * hardware[f"l1_sectors_{way}"],
        SECTOR * hardware[f"l2_sectors_{way}"],
        hardware[f"dram_{way}"],
    )
    return "".join(f"<td>{counted(value)}</td>" for value in exact) + "".join(
        f"<td>{counted(value)}<small>{100 * value / formula:.1f} %</small></td>" for value in caches
    )


class TrafficCaches(_Table):
    """`/// traffic-caches`: what was read, and what of it DRAM delivered, against the arrays themselves."""

    NAME = "traffic-caches"
    LABEL = "What DRAM delivered of what was read"

    def html(self) -> str:
        return caches_table(measured.counters())


def caches_table(results: Mapping[str, Any]) -> str:
    """A row for each case: its arrays once, and how many times that much was asked for and came from DRAM."""
    bodies = []
    for case in results["cases"]:
        once, hardware = measured.read_once(case), case["hardware"]
        bodies.append(
            f'<tbody><tr><th scope="rowgroup" colspan="3">{_run(case["kernel"], case["params"])}</th></tr>'
            f"<tr><td>{counted(once)}</td><td>{hardware['requested_read'] / once:.2f} ×</td>"
            f"<td>{hardware['dram_read'] / once:.2f} ×</td></tr></tbody>"
        )
    names = ("arrays, each once", "asked for", "from DRAM")
    head = "".join(f'<th scope="col">{name}</th>' for name in names)
    return (
        f'<table class="numbers"><thead><tr>{head}</tr></thead>{"".join(bodies)}</table>'
        '<p class="where">Bytes of the arrays that a run reads, and how many times as many it asked for and DRAM '
        "delivered.</p>"
    )


def _run(kernel: str, params: Mapping[str, int]) -> str:
    return f"{measured.title(kernel)}<small>{measured.shape(params)}</small>"


def _counters_from(results: Mapping[str, Any]) -> str:
    made = {case["kernel"]: case["provenance"] for case in results["cases"]}
    said = measured.where(made, f"Nsight Compute {results['profiler'].removeprefix('Version ').split()[0]}")
    pairs = zip(COUNTS[2:], HARDWARE, strict=True)
    names = "; ".join(
        f"{name}: " + ", ".join(f"<code>{results['metrics'][f'{key}_{way}']}</code>" for way in WAYS)
        for name, key in pairs
    )
    return f'<p class="where">{escape(said)}</p><p class="where">Counters, {names}.</p>'


class SpeedTable(_Table):
    """`/// speed-table`: each kernel and what a user would pick instead, on the same inputs."""

    NAME = "speed-table"
    LABEL = "Times of the kernels and of others"

    def html(self) -> str:
        return speed_table()


def speed_table() -> str:
    """Four rows for each kernel: median, spread, how many times as fast as the kernel, and the error."""
    bodies = []
    for kernel in measured.timed_kernels():
        own, *others = timings = measured.timings(kernel)
        rows = "".join(
            f'<tr><th scope="row">{_name(timing)}</th>{_times(timing)}'
            f"<td>{'' if timing is own else _ratio(own['median_ms'] / timing['median_ms'])}</td>"
            f"<td>{_error(timing['error'])}</td></tr>"
            for timing in timings
        )
        assert others
        name = _run(kernel, own["params"])
        bodies.append(f'<tbody><tr><th scope="rowgroup" colspan="5">{name}</th></tr>{rows}</tbody>')
    names = ("median, ms", "5 % to 95 %", "times as fast", "largest error")
    return _table(
        names,
        bodies,
        "Times as fast: as this kernel. Error: the largest distance from the definition in float64, in one head.",
    )


class TracingTable(_Table):
    """`/// tracing-table`: each kernel with tracing off and on."""

    NAME = "tracing-table"
    LABEL = "Times with tracing off and on"

    def html(self) -> str:
        return tracing_table()


def tracing_table() -> str:
    """A row for off and on of each kernel, and what copying the trace's bytes once takes."""
    bodies = []
    for pair in measured.bench()["tracing"]:
        plain, traced = pair["plain"], pair["traced"]
        kernel = plain["what"].partition(",")[0]
        name = _run(kernel, plain["params"])
        bodies.append(
            f'<tbody><tr><th scope="rowgroup" colspan="5">{name}</th></tr>'
            f'<tr><th scope="row">tracing off</th>{_times(plain)}<td></td><td></td></tr>'
            f'<tr><th scope="row">tracing on</th>{_times(traced)}'
            f"<td>{_ratio(measured.times_as_long(kernel, 'tracing'))}</td><td>{counted(pair['trace_bytes'])}</td></tr>"
            f'<tr><th scope="row">copying as many bytes</th><td>{milliseconds(pair["copy_ms"])}</td>'
            "<td></td><td></td><td></td></tr></tbody>"
        )
    names = ("median, ms", "5 % to 95 %", "times as long", "bytes written by the trace")
    return _table(names, bodies, "Copying reads those bytes and writes them; a trace only writes.")


def _table(names: Iterable[str], bodies: Iterable[str], caption: str) -> str:
    head = "".join(f'<th scope="col">{name}</th>' for name in names)
    return (
        f'<table class="numbers"><thead><tr><th scope="col">run</th>{head}</tr></thead>{"".join(bodies)}</table>'
        f'<p class="where">{caption}</p>{_bench_from(measured.bench())}'
    )


def _bench_from(results: Mapping[str, Any]) -> str:
    torch = f"PyTorch {results['torch']}" if results["torch"] else "no PyTorch"
    said = measured.where(results["provenance"], f"{torch}, {results['runs']} runs of each")
    return f'<p class="where">{escape(said)}</p>'


def _name(timing: Mapping[str, Any]) -> str:
    """What was timed: ours, CuPy, or PyTorch in one of two types."""
    what: str = timing["what"]
    return (
        f"PyTorch, {what.split()[-1]}"
        if what.startswith("PyTorch")
        else what
        if what == "CuPy"
        else "this kernel"
    )


def _times(timing: Mapping[str, Any]) -> str:
    return (
        f"<td><b>{milliseconds(timing['median_ms'])}</b></td>"
        f"<td>{milliseconds(timing['low_ms'])} to {milliseconds(timing['high_ms'])}</td>"
    )


def _ratio(value: float) -> str:
    return f"{value:.1f}" if value < 10 else f"{value:.0f}"


def _error(value: float | None) -> str:
    if value is None:
        return ""
    digits, power = f"{value:.0e}".split("e")
    return f"{digits} · 10<sup>{int(power)}</sup>".replace("-", "−")


class SpeedChart(HtmlBlock):
    """`/// speed-chart | beside` or `| tracing`: the same times as dots on one scale."""

    NAME = "speed-chart"
    TAG = "figure"
    OPTIONS: ClassVar = {"caption": ["", type_string]}

    def attributes(self) -> dict[str, str]:
        return {"class": "chart dots"}

    def html(self) -> str:
        drawing = {"beside": beside_chart, "tracing": tracing_chart}[self.argument]()
        return f"{drawing}<figcaption>{escape(self.options['caption'])}</figcaption>"


def beside_chart() -> str:
    """Each kernel and its rivals."""
    return chart(
        beside_dots(), "Times of the kernels and of what a user would pick instead: the table above in dots."
    )


def beside_dots() -> list[tuple[str, list[Dot]]]:
    """A dot for each time, under the name of its kernel."""
    return [
        (
            measured.title(kernel),
            [_dot(_name(timing), timing["what"] == kernel, timing) for timing in measured.timings(kernel)],
        )
        for kernel in measured.timed_kernels()
    ]


def tracing_chart() -> str:
    """Each kernel with tracing off and on."""
    return chart(tracing_dots(), "Times of the kernels with tracing off and on: the table above in dots.")


def tracing_dots() -> list[tuple[str, list[Dot]]]:
    """Two dots for each kernel, under its name."""
    return [
        (
            measured.title(pair["plain"]["what"].partition(",")[0]),
            [_dot("off", False, pair["plain"]), _dot("on", True, pair["traced"])],
        )
        for pair in measured.bench()["tracing"]
    ]


def _dot(name: str, filled: bool, timing: Mapping[str, Any]) -> Dot:
    return Dot(name, filled, timing["median_ms"])


class FromBench(InlineProcessor):
    """Replaces `[=bench.KERNEL.BESIDE]` by how many times as long the kernel takes."""

    def handleMatch(self, m: Match[str], data: str) -> tuple[Element, int, int]:  # type: ignore[override]
        """The value, as text; MeasuredError if it was not measured."""
        element = Element("span", {"class": "from-trace", "title": "from kernels/recordings/bench.json"})
        element.text = _ratio(measured.times_as_long(m[1], m[2]))
        return element, m.start(), m.end()


class FromFuzz(InlineProcessor):
    """Replaces `[=fuzz.FIELD]` by a field of the record of the long fuzz."""

    def handleMatch(self, m: Match[str], data: str) -> tuple[Element, int, int]:  # type: ignore[override]
        """The value, as text; MeasuredError if the record has no such field."""
        record = measured.fuzz()
        value = record["recorded_at"][:10] if m[1] == "day" else record.get(m[1])
        if value is None:
            raise measured.MeasuredError(f"the record of the fuzz has no {m[1]!r}")
        element = Element("span", {"class": "from-trace", "title": "from kernels/recordings/trace-fuzz.json"})
        element.text = counted(value) if isinstance(value, int) else str(value)
        return element, m.start(), m.end()


class MeasuredExtension(HtmlBlockExtension):
    """Registers the blocks of this module, and its numbers in prose."""

    def extendMarkdown(self, md: Markdown) -> None:
        """Before the figures of recordings (185), which look alike."""
        super().extendMarkdown(md)
        md.inlinePatterns.register(FromBench(r"\[=bench\.(\w+)\.(\w+)\]", md), "from-bench", 186)
        md.inlinePatterns.register(FromFuzz(r"\[=fuzz\.(\w+)\]", md), "from-fuzz", 186)

    def extendMarkdownBlocks(self, md: Markdown, block_mgr: Any) -> None:
        """Register each."""
        for block in (TrafficCounters, TrafficCaches, SpeedTable, SpeedChart, TracingTable):
            block_mgr.register(block, self.getConfigs())


def makeExtension(**options: Any) -> MeasuredExtension:
    """What Markdown calls to load `docs.blocks.measured`."""
    return MeasuredExtension(TrafficCounters, **options)
