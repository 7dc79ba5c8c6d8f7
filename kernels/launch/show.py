"""What is printed of a trace of a plain kernel: its steps, its accesses line by line, and what was found in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kernels.check.outcome import Outcome
from kernels.conclude.actions import Action, actions, sentence
from kernels.conclude.lines import lines
from kernels.errors import ParameterError
from kernels.launch.check import findings
from kernels.launch.values import DTYPES
from kernels.trace.model import Argument, Content, Launch, Step, Trace, dtype_of
from kernels.verify import Report

Array = npt.NDArray[Any]

_MOST_CELLS = 64  # of a slot whose numbers are printed


def print_trace(console: Console, trace: Trace, block: int) -> None:
    """Where a trace was made and of what, the steps of one of its blocks with what changed, and its traffic."""
    if not 0 <= block < len(trace.blocks):
        raise ParameterError(f"block={block}: the trace holds the blocks 0 to {len(trace.blocks) - 1}")
    length = _counted(len(trace.source_text.splitlines()), "line")
    console.print(Text(f"{trace.name}, of {trace.source_name} ({length})", style="bold"))
    for line in provenance_lines(trace):
        console.print(line, markup=False)
    if trace.window:
        console.print(
            f"a window of the run: {trace.window}; the traffic is that of these alone", markup=False
        )
    for number, launch in enumerate(trace.launches):
        console.print(_launch_line(number, launch), markup=False)
    _print_arguments(console, trace)
    launched, index = trace.blocks[block]
    steps = trace.steps_of(index, launched)
    where = f" ({', '.join(map(str, index))})" + (f" of launch {launched}" if len(trace.launches) > 1 else "")
    console.print(
        f"\nblock {block} of {len(trace.blocks)}{where}, {_counted(len(steps), 'step')}",
        style="bold",
        markup=False,
    )
    for step in steps:
        _print_step(console, trace, step)
    _print_traffic(console, trace)


def provenance_lines(trace: Trace) -> list[str]:
    """Where and when a trace was made, in two lines; a CPU run says so."""
    p = trace.provenance
    kind = "a GPU run" if p.backend == "cupy" else "a CPU run, not a GPU's"
    parts = ", ".join(part for part in (p.device, p.driver, p.runtime, p.compiler) if part)
    return [f"{kind}: {parts}", f"recorded {p.recorded_at}, source {p.source_hash[:12]}"]


def print_access(console: Console, trace: Trace) -> None:
    """What each source line asked of the memories, and the faults that the accesses show."""
    if trace.window:
        console.print(f"a window of the run: {trace.window}", markup=False)
    table = Table(
        title="accesses by line of the source",
        box=box.SIMPLE_HEAD,
        title_justify="left",
        pad_edge=False,
        collapse_padding=True,
    )
    for heading in ("line", "place", "act"):
        table.add_column(heading, overflow="fold")
    for heading in ("elements", "bytes", "requests", "sectors", "ideal", "bank ways", "conflicts"):
        table.add_column(heading, justify="right", min_width=len(heading.split()[-1]))
    text = trace.source_text.splitlines()
    uses = lines(trace)
    for use in uses:
        moved = (use.elements, use.bytes, use.requests)
        sectors = (f"{use.sectors:,}", f"{use.ideal_sectors:,}") if use.sectors else ("", "")
        banks = (f"{use.bank_ways:,}", f"{use.bank_conflicts:,}") if use.bank_ways else ("", "")
        counts = (*(f"{count:,}" for count in moved), *sectors, *banks)
        table.add_row(str(use.line), Text(use.place), use.act, *counts)
    console.print(table)
    for line in sorted({use.line for use in uses if 0 < use.line <= len(text)}):
        console.print(f"{line:4} {text[line - 1].strip()}", markup=False)
    found = findings(trace)
    console.print()
    for finding in found:
        console.print(finding, markup=False)
    if not found:
        console.print("no races between barriers, no reads of what nobody wrote", markup=False)


def print_report(console: Console, trace: Trace, report: Report, most: int = 10) -> None:
    """What a truth says of a trace, at most `most` findings in full."""
    run = f"{trace.name} on {trace.provenance.device} ({trace.provenance.backend})"
    names = ", ".join(trace.outputs)
    if report.ok:
        console.print(
            f"{run}: {names} as the truth says; the worst error is {report.worst:.0%} of its bound",
            markup=False,
        )
        return
    if not report.checks:
        console.print(f"{run}: nothing to hold against the truth, no array was written", markup=False)
    else:
        said = f"{_counted(len(report.findings), 'finding')} in {_counted(report.checks, 'array')}"
        console.print(f"{run}: {said}", markup=False)
    for finding in report.findings[:most]:
        console.print(f"  {finding.what}", markup=False)
    if len(report.findings) > most:
        console.print(f"  … and {len(report.findings) - most} more", markup=False)


def print_outcome(console: Console, name: str, outcome: Outcome, most: int = 10) -> None:
    """What was found in a run at one place, one line for each finding."""
    if not outcome.findings:
        console.print(f"{name:5} {outcome}", markup=False)
        return
    console.print(f"{name:5} {_counted(len(outcome.findings), 'finding')}", markup=False)
    for finding in outcome.findings[:most]:
        console.print(f"  {finding}", markup=False)
    if len(outcome.findings) > most:
        console.print(f"  … and {len(outcome.findings) - most} more", markup=False)


def array_line(name: str, values: Array) -> str:
    """An array in a line or a few: its numbers if they are few, else its shape and range."""
    start = f"{name} = "
    return f"{start}{_numbers(values, len(start))}"


def _launch_line(number: int, launch: Launch) -> str:
    grid, block = (_short(extents) for extents in (launch.grid, launch.block))
    shared = f", {launch.shared_bytes:,} bytes of dynamic shared memory" if launch.shared_bytes else ""
    arguments = ", ".join(argument.name for argument in launch.arguments)
    return f"launch {number}: {launch.kernel} <<<{grid}, {block}>>> ({arguments}){shared}"


def _short(extents: Sequence[int]) -> str:
    kept = list(extents)
    while len(kept) > 1 and kept[-1] == 1:
        kept.pop()
    return " × ".join(map(str, kept))


def _print_arguments(console: Console, trace: Trace) -> None:
    table = Table(box=box.SIMPLE_HEAD)
    for heading in ("argument", "type", "shape or value", "from"):
        table.add_column(heading, overflow="fold")
    seen: set[tuple[str, object]] = set()
    for launch in trace.launches:
        for argument in launch.arguments:
            if (argument.name, argument.value) not in seen:
                seen.add((argument.name, argument.value))
                origin = argument.origin + (", written" if argument.name in trace.outputs else "")
                table.add_row(argument.name, argument.dtype, _value(argument), Text(origin))
    console.print(table)


def _value(argument: Argument) -> str:
    if argument.value is None:
        return " × ".join(map(str, argument.shape)) or "1"
    if argument.dtype in DTYPES:
        return str(dtype_of(argument.dtype).type(argument.value))  # of a float no more digits than it has
    return str(argument.value)


def _print_step(console: Console, trace: Trace, step: Step) -> None:
    loops = ", ".join(f"{name} = {value}" for name, value in step.loop.items())
    acts = actions(trace, step)
    said = "; ".join(sentence(act) for act in acts) or "nothing written"
    head = f"{step.index}  {step.name}" + (f"  ({loops})" if loops else "")
    console.print(f"\n{head}  {said}", style="bold", markup=False)
    if step.traffic:
        moved = "; ".join(_moved(name, t.reads, t.writes) for name, t in step.traffic.items())
        console.print(f"   traffic in elements: {moved}", markup=False)
    held = {place.name: place for place in trace.held_in(step.launch)}
    for name in dict.fromkeys(act.target for act in acts):
        if name in held:
            start = f"   {name} = "
            console.print(f"{start}{_content(step.slots[name], len(start))}", markup=False)
    for act in acts:
        if act.kind == "store":
            start = f"   {act.boxes[0].text} = "
            console.print(f"{start}{_numbers(_stored(step, act), len(start))}", markup=False)


def _stored(step: Step, act: Action) -> Array:
    """The cells that a store wrote: as a box where they fill one, else in a row."""
    window = step.hbm[act.target]
    if act.boxes[0].full:
        return window[tuple(slice(*ends) for ends in act.boxes[0].ranges)]
    return window[step.written[act.target]]


def _moved(name: str, reads: int, writes: int) -> str:
    parts = [f"{count} {word}" for count, word in ((reads, "read"), (writes, "written")) if count]
    return f"{name}: {', '.join(parts)}"


def _content(content: Content | None, indent: int) -> str:
    if content is None:
        return "empty"
    known = int(np.count_nonzero(content.known))
    if content.values.size > _MOST_CELLS:
        part = "" if known == content.values.size else f", {known:,} of them written"
        return f"{_shape(content.values)} numbers{part}, {_range(content.values[content.known])}"
    if known == content.values.size:
        return _numbers(content.values, indent)
    shown = np.where(content.known, _printed(content.values).astype(object), "·")
    width = max(len(_cell(value)) for value in shown.reshape(-1))
    return np.array2string(
        shown,
        formatter={"all": lambda value: _cell(value).rjust(width)},
        separator=" ",
        prefix=" " * indent,
        max_line_width=200,
    )


def _cell(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _printed(values: Array) -> Array:
    """The values in a dtype that NumPy can print: bfloat16 as float32."""
    return values.astype(np.float32) if values.dtype.name == "bfloat16" else values


def _numbers(values: Array, indent: int) -> str:
    if values.size <= _MOST_CELLS:
        return np.array2string(
            _printed(values),
            precision=3,
            suppress_small=True,
            separator=" ",
            prefix=" " * indent,
            max_line_width=200,
        )
    return f"{_shape(values)} numbers {_range(values)}"


def _shape(values: Array) -> str:
    return " × ".join(map(str, values.shape))


def _range(values: Array) -> str:
    printed = _printed(values)
    if printed.dtype == np.bool_:
        return f"{int(printed.sum()):,} of them true"
    finite = printed[np.isfinite(printed)] if printed.dtype.kind == "f" else printed
    odd = printed.size - finite.size
    said = f"from {finite.min():.4g} to {finite.max():.4g}" if finite.size else "none of them finite"
    return said + (f", {odd:,} not finite" if odd and finite.size else "")


def _print_traffic(console: Console, trace: Trace) -> None:
    table = Table(title="traffic across HBM, all blocks", box=box.SIMPLE_HEAD, title_justify="left")
    for heading in ("array", "reads", "writes", "bytes read", "bytes written", "transfers"):
        table.add_column(heading, justify="left" if heading == "array" else "right")
    for name, total in trace.traffic.items():
        counts = (total.reads, total.writes, total.bytes_read, total.bytes_written, total.transfers)
        table.add_row(name, *(f"{count:,}" for count in counts))
    console.print(table)


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
