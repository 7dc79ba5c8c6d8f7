"""A request: one or more launches of plain kernels of one source, with every argument settled and checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from kernels.launch.source import Source
from kernels.listen.log import LaunchLog

Dim3 = tuple[int, int, int]
Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Argument:
    """An argument as it was given: an array's name in the run, or a scalar with the dtype of its parameter.

    `origin` says where it came from: a file, a word such as ``normal:64,64`` with its seed, the caller.
    """

    name: str
    value: np.generic | None  # None for an array, which stands in Request.arrays under `name`
    origin: str


@dataclass(frozen=True)
class Launch:
    """One launch: `kernel` is a name expression such as ``gemm<16>``; arguments in the function's order."""

    kernel: str
    grid: Dim3
    block: Dim3
    shared_bytes: int  # dynamic
    arguments: tuple[Argument, ...]


@dataclass(frozen=True)
class Request:
    """All that a backend needs. `arrays` are C-contiguous, as they are before the first launch.

    Of a window, `blocks` and `steps` are half-open ranges of the linear block numbers (x fastest) of each launch and of
    the steps of each block; all if None. Steps before the window are logged too (what a slot holds comes from them);
    steps after it need not be.
    """

    source: Source
    launches: tuple[Launch, ...]
    arrays: Mapping[str, Array]
    blocks: tuple[int, int] | None = None
    steps: tuple[int, int] | None = None


@dataclass(frozen=True)
class Machine:
    """Where a backend runs kernels, in words."""

    device: str
    driver: str
    runtime: str
    compiler: str


class Backend(Protocol):
    """What runs a request. Each call raises BackendError or ParameterError with one sentence."""

    name: str

    def machine(self) -> Machine:
        """Where it runs."""
        ...

    def run(self, request: Request) -> dict[str, Array]:
        """Run all launches untraced; what every array holds afterwards."""
        ...

    def trace(self, request: Request) -> tuple[tuple[LaunchLog, ...], dict[str, Array]]:
        """Run all launches traced; the log of each, and what every array holds afterwards."""
        ...
