"""Accesses that lie in no array, or in no variable of shared memory."""

from __future__ import annotations

import math
from collections.abc import Mapping

from kernels.errors import BackendError
from kernels.listen.log import Fault
from kernels.trace.model import Array

_NEAR = 2**32  # bytes


def outside(
    fault: Fault, arrays: Mapping[str, Array], at: Mapping[str, tuple[int, int]], source: str
) -> BackendError:
    """The error that says which array, index, line and thread: of the array that is nearest."""
    who = f"{source} line {fault.line}: thread {fault.thread} of block {fault.block}"
    does = "writes" if fault.writes else "reads"

    def away(name: str) -> int:
        begin, size = at[name]
        return max(begin - fault.address, fault.address + fault.size - begin - size, 0)

    near = min((name for name in at if name in arrays), key=away, default=None)
    if near is None or away(near) > _NEAR:
        return BackendError(f"{who} {does} the address {fault.address:#x}, which lies in no array")
    array = arrays[near]
    first = (fault.address - at[near][0]) // array.dtype.itemsize
    last = (fault.address + fault.size - 1 - at[near][0]) // array.dtype.itemsize
    index = first if first < 0 or first >= array.size else last
    shape = f" of shape {'×'.join(map(str, array.shape))}" if array.ndim > 1 else ""
    return BackendError(
        f"{who} {does} {near}[{index}], outside the {math.prod(array.shape)} elements of {near}{shape}: "
        "guard the index, or give a larger array"
    )


def outside_shared(
    fault: Fault, name: str, at: int, size: int, itemsize: int, source: str, *, dynamic: bool = False
) -> BackendError:
    """The error for SRAM outside every variable: `name` is the nearest, with `size` bytes at the address `at`.

    `itemsize` is that of its elements, `dynamic` whether the launch gave it its size; no name if it was given nothing.
    """
    who = f"{source} line {fault.line}: thread {fault.thread} of block {fault.block}"
    does = "writes" if fault.writes else "reads"
    first = (fault.address - at) // itemsize
    index = (
        first if first < 0 or first * itemsize >= size else (fault.address + fault.size - 1 - at) // itemsize
    )
    if dynamic and not (name and size):
        return BackendError(
            f"{who} {does} byte {fault.address - at} of the dynamic shared memory, of which the launch has {size} "
            "bytes: give it more (--shared)"
        )
    do = (
        "guard the index, or give the launch more (--shared)"
        if dynamic
        else "guard the index, or make it larger"
    )
    return BackendError(
        f"{who} {does} {name}[{index}], outside the {size // itemsize} elements of {name} in shared memory: {do}"
    )
