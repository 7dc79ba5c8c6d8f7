"""Run attention kernels, record every step of a run, and check it against the definition."""

from __future__ import annotations

from pathlib import Path

from kernels.errors import BackendError, KernelsError, ParameterError, TraceError
from kernels.run import record, run
from kernels.trace import Trace
from kernels.trace_file import load
from kernels.verify import Finding, Report, verify

__all__ = [
    "BackendError",
    "Finding",
    "KernelsError",
    "ParameterError",
    "Report",
    "Trace",
    "TraceError",
    "load",
    "record",
    "recorded",
    "recordings",
    "run",
    "verify",
]


def recordings() -> tuple[str, ...]:
    """The names of the recordings that come with this package."""
    folder = Path(__file__).parent / "recordings"
    return tuple(sorted(file.stem for file in folder.glob("*.trace")))


def recorded(name: str) -> Trace:
    """The recording called `name`; ParameterError if there is none."""
    if name not in recordings():
        raise ParameterError(
            f"there is no recording {name!r}: choose one of {', '.join(recordings()) or 'none yet'}"
        )
    return load(Path(__file__).parent / "recordings" / f"{name}.trace")
