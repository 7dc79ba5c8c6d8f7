"""What the command line prints: traces, reports and lists, as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kernels.declaration import Kernel
from kernels.errors import ParameterError
from kernels.layout import Action, Clear, Compute, Load, Store
from kernels.trace import Array, Step, Trace
from kernels.verify import Report

_MOST_CELLS = 64  # of a slot whose numbers are printed


def print_trace(console: Console, trace: Trace, block: int) -> None:
    """Where a trace was made, the steps of one of its blocks with what changed, and its traffic."""
    if not 0 <= block < len(trace.blocks):
        raise ParameterError(f"block={block}: the trace holds the blocks 0 to {len(trace.blocks) - 1}")
    console.print(Text(f"{trace.title}: {_params(trace)}", style="bold"))
    for line in provenance_lines(trace):
        console.print(line, markup=False)
    if trace.window:
        console.print(
            f"a window of the run: {trace.window}; the traffic is that of these alone", markup=False
        )
    launch, index = trace.blocks[block]
    steps = trace.steps_of(index, launch)
    console.print(f"\nblock {block} of {len(trace.blocks)}, {len(steps)} steps", style="bold", markup=False)
    for step in steps:
        _print_step(console, step)
    _print_traffic(console, trace)


def provenance_lines(trace: Trace) -> list[str]:
    """Where and when a trace was made, in two lines; a CPU run says so."""
    p = trace.provenance
    kind = "a GPU run" if p.backend == "cupy" else "a CPU run, not a GPU's"
    return [
        f"{kind}: {p.device}, {p.driver}, {p.runtime}, {p.compiler}",
        f"recorded {p.recorded_at}, source {p.source_hash[:12]}, {trace.layout.launches[0].threads} threads per block",
    ]


def _params(trace: Trace) -> str:
    return ", ".join(f"{name} = {value}" for name, value in trace.params.items())


def _said(action: Action) -> str:
    if isinstance(action, Load):
        return f"{action.array} → {action.slot}"
    if isinstance(action, Store):
        return f"{action.slot} → {action.array}"
    if isinstance(action, Clear):
        return f"{action.slot} cleared"
    if isinstance(action, Compute):
        return f"{action.slot} ← {', '.join(name for name in (action.rows, action.columns) if name)}"
    return f"{action.slot} updated"


def _moved(name: str, reads: int, writes: int) -> str:
    parts = [f"{count} {word}" for count, word in ((reads, "read"), (writes, "written")) if count]
    return f"{name}: {', '.join(parts)}"


def _print_step(console: Console, step: Step) -> None:
    loops = ", ".join(f"{name} = {value}" for name, value in step.loop.items())
    acts = ", ".join(_said(action) for action in step.kind.actions)
    console.print(f"\n{step.index}  {step.name}  ({loops})  {acts}", style="bold", markup=False)
    if step.traffic:
        moved = "; ".join(_moved(name, t.reads, t.writes) for name, t in step.traffic.items())
        console.print(f"   traffic in elements: {moved}", markup=False)
    for slot in dict.fromkeys(action.slot for action in step.kind.actions):
        held = step.held(slot)
        name = f"   {slot} = "
        console.print(f"{name}{'empty' if held is None else _numbers(held, len(name))}", markup=False)


def _numbers(values: Array, indent: int) -> str:
    if values.size <= _MOST_CELLS:
        return np.array2string(values, precision=3, suppress_small=True, separator=" ", prefix=" " * indent)
    return f"{' × '.join(map(str, values.shape))} numbers from {values.min():.3g} to {values.max():.3g}"


def _print_traffic(console: Console, trace: Trace) -> None:
    table = Table(title="traffic across HBM, all blocks", box=box.SIMPLE_HEAD, title_justify="left")
    for heading in ("array", "reads", "writes", "bytes read", "bytes written", "transfers"):
        table.add_column(heading, justify="left" if heading == "array" else "right")
    for name, total in trace.traffic.items():
        counts = (total.reads, total.writes, total.bytes_read, total.bytes_written, total.transfers)
        table.add_row(name, *(f"{count:,}" for count in counts))
    console.print(table)


def print_report(console: Console, trace: Trace, report: Report, most: int = 10) -> None:
    """What `verify` found, at most `most` findings in full."""
    run = f"{trace.title} on {trace.provenance.device} ({trace.provenance.backend})"
    if report.ok:
        console.print(
            f"{run}: {report.checks} checks passed over {len(trace.steps)} steps; "
            f"the worst error is {report.worst:.0%} of its bound"
            f"{'; of a window the counts of each step are checked, not their sum' if trace.window else ''}",
            markup=False,
        )
        return
    console.print(f"{run}: {len(report.findings)} findings in {report.checks} checks", markup=False)
    for finding in report.findings[:most]:
        where = (
            "the run" if finding.step is None else f"step {finding.step} ({trace.steps[finding.step].name})"
        )
        console.print(f"  {where}: {finding.what}", markup=False)
    if len(report.findings) > most:
        console.print(f"  … and {len(report.findings) - most} more", markup=False)


def print_kernels(console: Console, kernels: Sequence[Kernel]) -> None:
    """The kernels with their parameters and steps."""
    table = Table(title="kernels", box=box.SIMPLE_HEAD, title_justify="left")
    for heading in ("name", "title", "parameters", "steps"):
        table.add_column(heading, overflow="fold")
    for kernel in kernels:
        parameters = ", ".join(p.name if p.switch else f"{p.name}={p.default}" for p in kernel.parameters)
        steps = ", ".join(step.name for launch in kernel.launches for step in launch.steps)
        table.add_row(kernel.name, kernel.title, parameters, steps)
    console.print(table)


def print_recordings(console: Console, recordings: Mapping[str, Trace]) -> None:
    """The recordings with their sizes and where they were made."""
    table = Table(title="recordings", box=box.SIMPLE_HEAD, title_justify="left")
    for heading in ("name", "kernel", "parameters", "steps", "recorded on"):
        table.add_column(heading, overflow="fold")
    for name, trace in recordings.items():
        where = f"{trace.provenance.device} ({trace.provenance.backend}), {trace.provenance.recorded_at[:10]}"
        table.add_row(name, trace.kernel, _params(trace), str(len(trace.steps)), where)
    console.print(table)
