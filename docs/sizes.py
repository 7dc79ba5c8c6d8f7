"""The figures of a recording by their names: its sizes as in the paper, and what its run counted."""

from __future__ import annotations

from kernels.registry import find_kernel
from kernels.trace import Trace


class FigureError(Exception):
    """A page asks a recording for a figure it does not have."""


def sizes_of(trace: Trace) -> dict[str, int]:
    """The parameters of `trace` and what its kernel derives from them."""
    params = {name: int(value) for name, value in trace.params.items()}
    return {**params, **find_kernel(trace.kernel).derive(params)}


def figure(trace: Trace, name: str) -> int:
    """A figure of `trace`: `N`, `Tc`, `blocks`, `threads`, `steps`, `read.K`, `written.O`, `transfers.K`, `bytes`.

    `blocks.1` and `threads.1` are those of the second launch. Raises FigureError if there is no such figure.
    """
    match name.split("."):
        case ["bytes"]:
            return sum(total.bytes_read + total.bytes_written for total in trace.traffic.values())
        case ["steps"]:
            return len(trace.steps)
        case ["blocks", *launch]:
            return sum(turn == int(launch[0] if launch else 0) for turn, _ in trace.blocks)
        case ["threads", *launch]:
            return trace.layout.launches[int(launch[0] if launch else 0)].threads
        case [("read" | "written" | "transfers") as way, array] if array in trace.traffic:
            total = trace.traffic[array]
            return {"read": total.reads, "written": total.writes, "transfers": total.transfers}[way]
        case [size] if size in sizes_of(trace):
            return sizes_of(trace)[size]
    raise FigureError(f"the recording of {trace.kernel} has no figure {name!r}")
