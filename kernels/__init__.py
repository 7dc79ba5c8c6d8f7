"""Run CUDA kernels, record every step of a run, and check it against the definition."""

from __future__ import annotations

from pathlib import Path

from kernels.declaration import Kernel
from kernels.errors import BackendError, KernelsError, ParameterError, TraceError
from kernels.launch import truth as _truths
from kernels.launch.raw_kernel import RawKernel
from kernels.run import record, run
from kernels.trace import Trace
from kernels.trace import model as _model
from kernels.trace_file import load
from kernels.verify import Finding, Report
from kernels.verify import verify as _verify_declared

__all__ = [
    "BackendError",
    "Finding",
    "KernelsError",
    "ParameterError",
    "RawKernel",
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
    trace: Trace = load(Path(__file__).parent / "recordings" / f"{name}.trace")
    return trace


def verify(
    trace: Trace | _model.Trace,
    kernel: Kernel | None = None,
    *,
    truth: _truths.Truth | str | Path | None = None,
) -> Report:
    """Check a trace against its definition.

    Parameters
    ----------
    trace
        Of a declared kernel, whose definition is in its declaration; or of a plain kernel.
    kernel
        The declaration; found by the trace's name if it is not given.
    truth
        Of a plain kernel: a function that takes its arguments by name and returns a dict with every array written, or
        the name of a ``.py`` file that has one called ``truth`` (or another, as ``FILE.py:FUNCTION``).

    Raises
    ------
    ParameterError
        If a plain kernel has no truth, or one that does not fit it, or a declared one is given one.

    """
    if not isinstance(trace, _model.Trace):
        if truth is not None:
            raise ParameterError(
                f"the trace of {trace.kernel} is held against its declaration: leave truth out"
            )
        return _verify_declared(trace, kernel)
    if truth is None or isinstance(truth, str | Path):
        word = None if truth is None else str(truth)
        truth = _truths.find_truth(word, _truths.source_beside(trace, Path()))
    return _truths.verify(trace, truth)
