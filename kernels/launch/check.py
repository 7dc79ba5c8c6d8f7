"""Faults that a traced run shows: races between two barriers, reads of what nobody wrote, accesses outside an array."""

from __future__ import annotations

from collections.abc import Mapping

from kernels.check.outcome import Outcome
from kernels.conclude.races import races
from kernels.conclude.unwritten import unwritten
from kernels.errors import BackendError
from kernels.launch.machines import find_backend
from kernels.launch.record import record
from kernels.launch.request import Backend, Request
from kernels.trace.model import Trace


def check(request: Request, backends: Mapping[str, Backend] | None = None) -> Mapping[str, Outcome]:
    """What a traced run shows on the CPU, and on the GPU if there is one, by the backend's name."""
    found = {}
    for name in ("cpu", "cupy"):
        try:
            backend = backends[name] if backends is not None else find_backend(name)
        except (BackendError, KeyError) as error:
            found[name] = Outcome(missing=str(error))
            continue
        found[name] = _check(request, backend)
    return found


def _check(request: Request, backend: Backend) -> Outcome:
    try:
        trace, _ = record(request, backend)
    except BackendError as error:
        # What went wrong in a run, unlike what kept it from running, has a block where it happened.
        return Outcome((str(error),)) if "of block (" in str(error) else Outcome(missing=str(error))
    return Outcome(findings=findings(trace))


def findings(trace: Trace) -> tuple[str, ...]:
    """The races and the reads of what nobody wrote, each in a sentence."""
    raced = (_counted(race.text, race.cells) for race in races(trace))
    read = (_counted(one.text, one.cells) for one in unwritten(trace))
    return (*raced, *read)


def _counted(text: str, cells: int) -> str:
    return text if cells == 1 else f"{text} So it is with {cells:,} elements."
