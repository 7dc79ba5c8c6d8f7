"""The trace: what one run was seen to do.

A trace of version 3 (`kernels.trace.model`) is of any kernel; one of version 2 (`kernels.trace.version2`), of the four
kernels that are written for the tracer.
"""

from kernels.trace.version2 import (
    Array,
    Block,
    Patch,
    Provenance,
    Step,
    TotalTraffic,
    Trace,
    Traffic,
    Window,
    Windows,
    total_traffic,
)

__all__ = [
    "Array",
    "Block",
    "Patch",
    "Provenance",
    "Step",
    "TotalTraffic",
    "Trace",
    "Traffic",
    "Window",
    "Windows",
    "total_traffic",
]
