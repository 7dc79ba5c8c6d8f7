"""Trips across HBM, `/// trips | fa1`: what each array was read and written, as formula and as the trace counted it.

The options `read` and `written` say how often each array should cross: a number, a size of the run (`Q: Tc`), or
`part of Tr` where it is less. The build fails if the trace counted anything else, or anything but
what the kernel's own formula says, so the page cannot state it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import kernels
from docs.blocks.html_block import HtmlBlock, HtmlBlockExtension, wide_table
from docs.numbers import counted
from docs.sizes import sizes_of
from kernels.layout import ArrayLayout
from kernels.registry import find_kernel
from kernels.trace import Trace

Times = Mapping[str, int | str]
COUNTED = "part of "
SUMMED = ("reads", "writes", "bytes_read", "bytes_written", "transfers")


class TripsError(Exception):
    """The trace did not count what the page says."""


class Trips(HtmlBlock):
    """`/// trips | RECORDING`, with the options `read` and `written`."""

    NAME = "trips"
    OPTIONS: ClassVar = {"read": [{}, dict], "written": [{}, dict]}

    def attributes(self) -> dict[str, str]:
        return wide_table("trips", f"Trips across HBM, {self.argument}")

    def html(self) -> str:
        """The table, summed over all blocks of the recording."""
        return trips_table(kernels.recorded(self.argument), self.options["read"], self.options["written"])


def trips_table(trace: Trace, read: Times, written: Times) -> str:
    """A row for each array that crossed; TripsError if a count is not times × elements."""
    sizes, totals = sizes_of(trace), trace.traffic
    check_formula(trace)
    rows = []
    for array in trace.layout.arrays:
        total = totals[array.name]
        rows.append(
            f'<tr><th scope="row" class="term-{array.symbol}">{array.name}</th><td>{_size(array)}</td>'
            f"<td>{_trips(array, read.get(array.name, 0), sizes, total.reads, 'read')}</td>"
            f"<td>{_trips(array, written.get(array.name, 0), sizes, total.writes, 'written')}</td>"
            f"<td>{counted(total.transfers)}</td></tr>"
        )
    sums = {name: sum(getattr(total, name) for total in totals.values()) for name in SUMMED}
    foot = (
        f'<tr><th scope="row">all</th><td></td><td>{counted(sums["reads"])}</td><td>{counted(sums["writes"])}</td>'
        f'<td>{counted(sums["transfers"])}</td></tr><tr><th scope="row">bytes</th><td></td>'
        f"<td>{counted(sums['bytes_read'])}</td><td>{counted(sums['bytes_written'])}</td><td></td></tr>"
    )
    head = "".join(
        f'<th scope="col">{name}</th>' for name in ("array", "elements", "read", "written", "transfers")
    )
    names = dict.fromkeys(
        times.removeprefix(COUNTED) for times in (*read.values(), *written.values()) if isinstance(times, str)
    )
    caption = ", ".join(f"{name} = {sizes[name]}" for name in names)
    return (
        f'<table class="numbers"><caption>{caption}</caption><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody><tfoot>{foot}</tfoot></table>"
    )


def check_formula(trace: Trace) -> None:
    """Raise TripsError unless `trace` counted for each array what its kernel's formula says."""
    params = {name: int(value) for name, value in trace.params.items()}
    formula = find_kernel(trace.kernel).traffic(params)
    for name, total in trace.traffic.items():
        if formula[name] != (total.reads, total.writes):
            raise TripsError(
                f"by the formula of {trace.kernel}, {formula[name]} elements of {name} are read and written; "
                f"the trace counted {(total.reads, total.writes)}"
            )


def _size(array: ArrayLayout) -> str:
    return " × ".join(map(str, array.shape)) + f" = {counted(math.prod(array.shape))}"


def _trips(array: ArrayLayout, times: int | str, sizes: Mapping[str, int], count: int, verb: str) -> str:
    elements = math.prod(array.shape)
    if isinstance(times, str) and times.startswith(COUNTED):
        whole = times.removeprefix(COUNTED)
        return (
            f"of {whole} × {counted(elements)} = {counted(elements * sizes[whole])}: <b>{counted(count)}</b>"
        )
    turns = sizes[times] if isinstance(times, str) else times
    if count != elements * turns:
        raise TripsError(
            f"the page says that {array.name} is {verb} {times} times, {elements * turns} elements; "
            f"the trace counted {count}"
        )
    return f"{times} × {counted(elements)} = <b>{counted(count)}</b>" if turns else "never"


def makeExtension(**options: Any) -> HtmlBlockExtension:
    """What Markdown calls to load `docs.blocks.trips`."""
    return HtmlBlockExtension(Trips, **options)
