"""A plain kernel that is called as CuPy calls a raw kernel, and gives back a trace."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernels.errors import ParameterError
from kernels.launch.machines import BACKENDS, find_backend
from kernels.launch.record import record
from kernels.launch.request import Backend
from kernels.launch.settle import Call, kernel_name, settle_values, write_back
from kernels.launch.source import Source, find_function, parse_source, read_source
from kernels.trace.model import Trace


class RawKernel:
    """A ``__global__`` function of a CUDA source.

    Parameters
    ----------
    source
        The text of a source, or the path of a ``.cu`` file.
    name
        A name expression: ``gemm``, ``gemm<16>``; may be left out if the source has one kernel.
    backend
        ``cupy``, ``cpu``, or ``auto``: the GPU if there is one.

    Raises
    ------
    ParameterError
        If the source cannot be read, or has no such kernel.

    Examples
    --------
    >>> traced = RawKernel("gemm.cu", "gemm")
    >>> trace = traced((4, 4), (16, 16), (A, B, C, 64))

    """

    def __init__(
        self, source: str | Path, name: str | None = None, *, backend: str | Backend = "auto"
    ) -> None:
        if isinstance(backend, str) and backend not in BACKENDS:
            raise ParameterError(f"backend={backend!r}: must be one of {', '.join(BACKENDS)}")
        self.source = _read(source)
        self.name = kernel_name(self.source, name)
        find_function(self.source, self.name)
        self._backend = backend

    def __call__(
        self,
        grid: Sequence[int],
        block: Sequence[int],
        args: Sequence[Any],
        *,
        shared_mem: int = 0,
        blocks: tuple[int, int] | None = None,
        steps: tuple[int, int] | None = None,
    ) -> Trace:
        """Launch the kernel traced.

        Parameters
        ----------
        grid, block
            Blocks of the grid and threads of a block: one to three numbers each, x first.
        args
            An argument for each parameter, in order: NumPy or CuPy arrays, and numbers, which become the parameter's
            own type. Arrays that are not C-contiguous are copied; what the kernel writes is written in place. None is
            a null pointer.
        shared_mem
            Bytes of dynamic shared memory.
        blocks, steps
            Of a large run, what to record: half-open ranges of the blocks, x fastest, and of each block's steps.

        Raises
        ------
        ParameterError
            If an argument is not what its parameter takes, or the launch is beyond what a device allows.
        BackendError
            If the kernel cannot be compiled or run, or goes outside its arrays.

        """
        call = Call(self.name, grid, block, shared_mem, {})
        request, given = settle_values(self.source, call, args, blocks=blocks, steps=steps)
        machine = find_backend(self._backend) if isinstance(self._backend, str) else self._backend
        trace, after = record(request, machine)
        write_back(request, given, after)
        return trace


def _read(source: str | Path) -> Source:
    """A path, or the text itself: what has a line break or a brace is no path."""
    if isinstance(source, Path) or not ("\n" in source or "{" in source):
        return read_source(Path(source))
    return parse_source(source)
