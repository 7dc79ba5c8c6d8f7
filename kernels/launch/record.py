"""Running a request traced: the trace, and what every array holds afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import numpy.typing as npt

from kernels.launch.request import Backend, Request
from kernels.source import source_hash
from kernels.trace.assemble import assemble
from kernels.trace.model import Trace
from kernels.trace.version2 import Provenance


def record(request: Request, backend: Backend) -> tuple[Trace, Mapping[str, npt.NDArray[Any]]]:
    """Run all launches of a request traced.

    Raises BackendError if they cannot be compiled or run there, or go outside their arrays.
    """
    logs, after = backend.trace(request)
    return assemble(request, logs, after, _provenance(request, backend)), after


def _provenance(request: Request, backend: Backend) -> Provenance:
    return Provenance(
        backend=backend.name,
        **asdict(backend.machine()),
        source_hash=source_hash(request.source.text),
        recorded_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )
