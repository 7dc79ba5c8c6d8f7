"""Traffic by formula and as counted: `/// traffic-formulas | fa1`, `/// traffic-compare`, `/// traffic-form`.

A formula that a recording did not count fails the build, so no page can state it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, ClassVar

from markdown import Markdown
from pymdownx.blocks.block import type_string

import kernels
from docs.blocks.html_block import HtmlBlock, HtmlBlockExtension, wide_table
from docs.blocks.trips import TripsError
from docs.numbers import counted
from docs.sizes import sizes_of
from docs.traffic_chart import chart
from docs.traffic_formulas import METHODS, STANDARD, Method, Product, all_sizes
from kernels.trace import Trace

Counts = Mapping[str, tuple[int, int]]

# What the form begins with, and the sizes it takes.
START = {"Nq": 1024, "Nk": 1024, "d": 64, "Br": 32, "Bc": 32, "splits": 4, "heads": 12}
LARGEST = {"Nq": 1 << 20, "Nk": 1 << 20, "d": 1024, "Br": 1024, "Bc": 1024, "splits": 4096, "heads": 1 << 16}
MEANINGS = {
    "Nq": "rows of Q",
    "Nk": "rows of K and V",
    "d": "columns",
    "Br": "rows of a tile of Q",
    "Bc": "rows of a tile of K and V",
    "splits": "of K and V",
    "heads": "batch times heads",
}


def sizes_for(trace: Trace) -> dict[str, int]:
    """The sizes of a run by the names the formulas use."""
    sizes = sizes_of(trace)
    Nq, Nk = (sizes.get(name, sizes.get("N", 0)) for name in ("Nq", "Nk"))
    return all_sizes(Nq, Nk, sizes["d"], sizes["Br"], sizes["Bc"], sizes.get("splits", 1))


def counted_per_head(trace: Trace, method: Method) -> Counts:
    """What `trace` counted for one head of it; TripsError if that is not the formula of `method`."""
    if trace.kernel != method.kernel:
        raise TripsError(f"{method.title} is not what a recording of {trace.kernel} shows")
    heads, formula = sizes_of(trace)["batch_heads"], method.counts(sizes_for(trace))
    found = {name: (total.reads, total.writes) for name, total in trace.traffic.items()}
    expected = {name: (heads * read, heads * written) for name, (read, written) in formula.items()}
    if found != expected:
        raise TripsError(f"by the page's formula {method.title} moves {expected}; the trace counted {found}")
    return formula


class TrafficFormulas(HtmlBlock):
    """`/// traffic-formulas | METHOD`, with the option `recordings`: a formula for each array, and what was counted."""

    NAME = "traffic-formulas"
    OPTIONS: ClassVar = {"recordings": [[], list]}

    def attributes(self) -> dict[str, str]:
        return wide_table("trips", f"Traffic of {METHODS[self.argument].title}")

    def html(self) -> str:
        return formulas_table(METHODS[self.argument], self.options["recordings"])


def formulas_table(method: Method, recordings: Sequence[str]) -> str:
    """A row for each array: its formulas, and for each recording what one head of it counted (or would, by formula)."""
    traces = [(name, kernels.recorded(name)) for name in recordings]
    columns = [
        method.counts(sizes_for(trace)) if method.kernel is None else counted_per_head(trace, method)
        for _, trace in traces
    ]
    groups = ["formula"] + [
        f"by formula<small>{_shape(trace)}</small>"
        if method.kernel is None
        else f"counted, {name}<small>{_shape(trace)}</small>"
        for name, trace in traces
    ]
    head, second = _heads(groups)
    rows = "".join(
        f'<tr><th scope="row" class="term-{crossing.symbol}">{crossing.array}</th>'
        f'<td class="start">{_product(crossing.read)}</td><td>{_product(crossing.written)}</td>'
        f"{''.join(_pair(counts[crossing.array]) for counts in columns)}</tr>"
        for crossing in method.crossings
    )
    sums = "".join(_pair(_sum(counts.values())) for counts in columns)
    return (
        f'<table class="numbers"><thead>{head}{second}</thead><tbody>{rows}</tbody>'
        f'<tfoot><tr><th scope="row">all</th><td class="start"></td><td></td>{sums}</tr></tfoot></table>'
    )


class TrafficCompare(HtmlBlock):
    """`/// traffic-compare | RECORDING, RECORDING`: what one head of each counted, array by array."""

    NAME = "traffic-compare"

    def attributes(self) -> dict[str, str]:
        return wide_table("trips", f"Traffic side by side, {self.argument}")

    def html(self) -> str:
        return compare_table([name.strip() for name in self.argument.split(",")])


def compare_table(recordings: Sequence[str]) -> str:
    """A column pair for standard attention and for each recording; TripsError if the recordings differ in shape."""
    traces = [kernels.recorded(name) for name in recordings]
    shapes = [sizes_for(trace) for trace in traces]
    if any({**shape, "splits": 1} != {**shapes[0], "splits": 1} for shape in shapes):
        raise TripsError(f"{', '.join(recordings)} are not of the same shape: {shapes}")
    methods = [
        STANDARD,
        *(next(m for m in METHODS.values() if m.kernel == trace.kernel) for trace in traces),
    ]
    columns = [STANDARD.counts(shapes[0])] + [
        counted_per_head(trace, method) for trace, method in zip(traces, methods[1:], strict=True)
    ]
    says = ["by formula", *(f"counted, {name}" for name in recordings)]
    head, second = _heads(
        [f"{method.title}<small>{what}</small>" for method, what in zip(methods, says, strict=True)]
    )
    symbols = {crossing.array: crossing.symbol for method in methods for crossing in method.crossings}
    order: list[str] = [name for name in ("Q", "K", "V", "S", "P", "O", "l", "m", "L") if name in symbols]
    order += [name for name in symbols if name not in order]
    rows = "".join(
        f'<tr><th scope="row" class="term-{symbols[name]}">{name}</th>'
        f"{''.join(_pair(counts.get(name, (0, 0))) for counts in columns)}</tr>"
        for name in order
    )
    sums = [_sum(counts.values()) for counts in columns]
    foot = "".join(map(_pair, sums))
    both = "".join(f'<td class="start"></td><td><b>{counted(sum(pair))}</b></td>' for pair in sums)
    return (
        f'<table class="numbers"><caption>{_shape(traces[0])}; one head</caption>'
        f"<thead>{head}{second}</thead><tbody>{rows}</tbody>"
        f'<tfoot><tr><th scope="row">all</th>{foot}</tr><tr><th scope="row">both ways</th>{both}</tr></tfoot></table>'
    )


class TrafficChart(HtmlBlock):
    """`/// traffic-chart | N`: FlashAttention-1 against standard attention over Bc, for the `d` listed."""

    NAME = "traffic-chart"
    TAG = "figure"
    OPTIONS: ClassVar = {"d": [[64], list], "caption": ["", type_string]}

    def attributes(self) -> dict[str, str]:
        return {"class": "chart"}

    def html(self) -> str:
        drawing = chart(int(self.argument), [int(d) for d in self.options["d"]])
        return f"{drawing}<figcaption>{escape(self.options['caption'])}</figcaption>"


class TrafficForm(HtmlBlock):
    """`/// traffic-form`: a shape the reader picks, and what the formulas say it moves."""

    NAME = "traffic-form"
    TAG = "form"
    ARGUMENT = False

    def attributes(self) -> dict[str, str]:
        methods = [
            {
                "title": method.title,
                "square": method.name == "fa1",
                "arrays": [
                    [crossing.array, crossing.symbol, crossing.read, crossing.written]
                    for crossing in method.crossings
                ],
            }
            for method in METHODS.values()
        ]
        return {"class": "traffic-form", "data-methods": json.dumps(methods, separators=(",", ":"))}

    def html(self) -> str:
        return form(START)


def form(shape: Mapping[str, int]) -> str:
    """The fields, and the table for `shape`, which `docs/assets/traffic.js` keeps up to date."""
    fields = "".join(
        f'<label><span>{name} <small>{MEANINGS[name]}</small></span><input type="number" name="{name}" min="1" '
        f'max="{LARGEST[name]}" step="1" value="{value}" required disabled></label>'
        for name, value in shape.items()
    )
    sizes = all_sizes(*(shape[name] for name in ("Nq", "Nk", "d", "Br", "Bc", "splits")))
    standard = STANDARD.total(sizes)
    rows = []
    for method in METHODS.values():
        read, written = (shape["heads"] * count for count in _sum(method.counts(sizes).values()))
        rows.append(
            f'<tr><th scope="row">{method.title}</th><td><b>{method.total(sizes) / standard:.2f}</b></td>'
            f"<td>{counted(4 * (read + written))}</td><td>{counted(read)}</td><td>{counted(written)}</td></tr>"
        )
    head = "".join(
        f'<th scope="col">{name}</th>'
        for name in ("method", "of standard", "bytes", "elements read", "elements written")
    )
    return (
        f'<fieldset><legend>A shape of your own: by formula only, nothing ran</legend><div class="fields">{fields}'
        '</div></fieldset><div class="result" aria-live="polite">'
        '<div class="trips" tabindex="0" role="group" aria-label="Traffic at this shape"><table class="numbers">'
        f"<thead><tr>{head}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table></div>"
        f'<p class="says">{_verdict(sizes)}</p><details><summary>Array by array</summary>'
        '<div class="trips arrays" tabindex="0" role="group" aria-label="Array by array"></div></details></div>'
    )


def _heads(groups: Sequence[str]) -> tuple[str, str]:
    """The two rows of a head: a group for each pair of columns, and what the two are."""
    over = "".join(f'<th scope="colgroup" colspan="2" class="start">{group}</th>' for group in groups)
    under = '<th scope="col" class="start">read</th><th scope="col">written</th>' * len(groups)
    return f"<tr><td></td>{over}</tr>", f'<tr><th scope="col">array</th>{under}</tr>'


def _verdict(sizes: Mapping[str, int]) -> str:
    totals = {method.title: method.total(sizes) for method in METHODS.values()}
    fa1, standard = totals["FlashAttention-1"], totals[STANDARD.title]
    against = "more than" if fa1 > standard else "less than" if fa1 < standard else "just as much as"
    return (
        f"Tr = {sizes['Tr']}, Tc = {sizes['Tc']}. {min(totals, key=lambda name: totals[name])} moves the least. "
        f"At this shape FlashAttention-1 moves {against} standard attention."
    )


def _shape(trace: Trace) -> str:
    sizes = sizes_for(trace)
    names = ["N"] if sizes["Nq"] == sizes["Nk"] else ["Nq", "Nk"]
    names += ["d", "Br", "Bc"] + (["splits"] if "splits" in trace.params else [])
    return ", ".join(f"{name} = {sizes[name]}" for name in names)


def _product(product: Product | None) -> str:
    return "never" if product is None else " · ".join(product)


def _pair(counts: tuple[int, int]) -> str:
    read, written = (counted(count) if count else "·" for count in counts)
    return f'<td class="start">{read}</td><td>{written}</td>'


def _sum(pairs: Iterable[tuple[int, int]]) -> tuple[int, int]:
    pairs = list(pairs)
    return sum(read for read, _ in pairs), sum(written for _, written in pairs)


class TrafficExtension(HtmlBlockExtension):
    """Registers the blocks of this module."""

    def extendMarkdownBlocks(self, md: Markdown, block_mgr: Any) -> None:
        """Register each."""
        for block in (TrafficFormulas, TrafficCompare, TrafficChart, TrafficForm):
            block_mgr.register(block, self.getConfigs())


def makeExtension(**options: Any) -> TrafficExtension:
    """What Markdown calls to load `docs.blocks.traffic`."""
    return TrafficExtension(TrafficFormulas, **options)
