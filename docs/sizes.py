"""The sizes of a run by their names in the paper: its parameters, and what they come to (`Tr`, `Tc`)."""

from __future__ import annotations

from kernels.registry import find_kernel
from kernels.trace import Trace


def sizes_of(trace: Trace) -> dict[str, int]:
    """The parameters of `trace` and what its kernel derives from them."""
    params = {name: int(value) for name, value in trace.params.items()}
    return {**params, **find_kernel(trace.kernel).derive(params)}
