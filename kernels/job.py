"""A job: one kernel with every size and array of one run settled and checked, ready for a backend."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kernels.declaration import Kernel
from kernels.errors import ParameterError
from kernels.layout import LaunchLayout, Layout
from kernels.trace import Window

MOST_THREADS = (
    1024  # per block, on every CUDA device (CUDA C++ Programming Guide, "Technical Specifications")
)
_MOST_ELEMENTS = 2**31 - 1  # a kernel's indices are int


@dataclass(frozen=True)
class Job:
    """One run to make. `arrays` holds the inputs, C-contiguous float32; `params` the declaration's parameters.

    `window` is the part of it to record, all of it if None.
    """

    kernel: Kernel
    params: Mapping[str, int]
    layout: Layout
    arrays: Mapping[str, npt.NDArray[np.float32]]
    window: Window | None = None

    def shared_bytes(self, launch: LaunchLayout) -> int:
        """Bytes of shared memory one block of `launch` asks for."""
        return 4 * sum(math.prod(slot.shape) for slot in launch.slots)

    def template(self, launch: int) -> str:
        """The template arguments of a launch as CUDA writes them, e.g. ``<4, 4, 4>``."""
        return f"<{', '.join(str(self.params[name]) for name in self.kernel.launches[launch].template)}>"

    def arguments(self, launch: int) -> list[str | np.generic]:
        """The arguments of a launch, in order: the name of an array, or a scalar of the right type."""
        names = {array.name for array in self.kernel.arrays}
        scalars = self.kernel.scalars(self.params)
        switches = {parameter.name for parameter in self.kernel.parameters if parameter.switch}
        result: list[str | np.generic] = []
        for name in self.kernel.launches[launch].arguments:
            if name in names:
                result.append(name)
            elif name in scalars:
                result.append(scalars[name])
            elif name in switches:
                result.append(np.bool_(self.params[name]))
            else:
                result.append(np.int32({**self.params, **self.kernel.derive(self.params)}[name]))
        return result

    def initial(self, name: str) -> npt.NDArray[np.float32]:
        """What the array `name` holds before the first launch."""
        if name in self.arrays:
            return self.arrays[name]
        fill = {array.name: array.fill for array in self.kernel.arrays}[name]
        shape = self.layout.array(name).shape
        if fill is None:
            return np.full(shape, POISON, np.uint32).view(np.float32)
        return np.full(shape, fill, np.float32)


POISON = np.uint32(0x7F85A110)  # kim::poison of instrument.cuh


def make_job(
    kernel: Kernel,
    arrays: Mapping[str, Any] | None,
    params: Mapping[str, Any],
    *,
    threads: int | None,
    default_threads: int,
    seed: int = 0,
    window: Window | None = None,
) -> Job:
    """Settle a run: sizes from `arrays` and `params`, else the defaults; inputs drawn from `seed` if none are given.

    Raises ParameterError with the value and what would be right.
    """
    known = {parameter.name: parameter for parameter in kernel.parameters}
    if unknown := set(params) - set(known):
        raise ParameterError(
            f"{kernel.name} takes no {', '.join(sorted(unknown))}: its parameters are {', '.join(known)}"
        )
    chosen = {
        name: _switch(name, value) if known[name].switch else whole(name, value)
        for name, value in params.items()
        if value is not None
    }
    threads = default_threads if threads is None else whole("threads", threads)
    if threads > MOST_THREADS:
        raise ParameterError(f"threads={threads} per block: a CUDA device takes at most {MOST_THREADS}")
    given = None if arrays is None else _checked_inputs(kernel, arrays, chosen)
    settled = {name: chosen.get(name, parameter.default) for name, parameter in known.items()}
    layout = kernel.layout(settled, threads)
    for array in layout.arrays:
        if math.prod(array.shape) > _MOST_ELEMENTS:
            raise ParameterError(
                f"{array.name} of shape {array.shape} has {math.prod(array.shape)} elements: "
                f"at most {_MOST_ELEMENTS} can be addressed"
            )
    if given is None:
        given = {
            name: np.ascontiguousarray(values, np.float32)
            for name, values in kernel.make_inputs(settled, whole("seed", seed, 0)).items()
        }
    return Job(kernel, settled, layout, given, window)


def whole(name: str, value: Any, least: int = 1) -> int:
    """`value` as an int of at least `least`; ParameterError otherwise."""
    if isinstance(value, int | np.integer) and not isinstance(value, bool) and value >= least:
        return int(value)
    raise ParameterError(f"{name}={value}: must be a whole number of at least {least}")


def _switch(name: str, value: Any) -> int:
    if isinstance(value, bool | np.bool_) or value in (0, 1):
        return int(value)
    raise ParameterError(f"{name}={value}: must be True or False")


def _checked_inputs(
    kernel: Kernel, arrays: Mapping[str, Any], chosen: dict[str, int]
) -> dict[str, npt.NDArray[np.float32]]:
    """The inputs as C-contiguous float32; the sizes read off their shapes are added to `chosen`."""
    wanted = [array.name for array in kernel.inputs]
    if set(arrays) != set(wanted):
        raise ParameterError(
            f"{kernel.name} takes the arrays {', '.join(wanted)}; given were {', '.join(arrays) or 'none'}"
        )
    result = {}
    for declared in kernel.inputs:
        array = np.asarray(arrays[declared.name])
        if array.dtype.kind != "f" or array.dtype.itemsize != 4:
            raise ParameterError(f"{declared.name} is {array.dtype}: must be float32")
        axes = ", ".join(declared.shape)
        if array.ndim != len(declared.shape):
            raise ParameterError(f"{declared.name} has shape {array.shape}: must be ({axes})")
        for axis, size in zip(declared.shape, array.shape, strict=True):
            if chosen.setdefault(axis, size) != size:
                raise ParameterError(
                    f"{declared.name} has shape {array.shape}: must be ({axes}) with {axis}={chosen[axis]}"
                )
            whole(axis, size)
        array = np.ascontiguousarray(array, np.float32)
        if not np.isfinite(array).all():
            bad = tuple(int(n) for n in np.argwhere(~np.isfinite(array))[0])
            raise ParameterError(
                f"{declared.name}[{', '.join(map(str, bad))}] is {array[bad]}: inputs must be finite"
            )
        result[declared.name] = array
    return result
