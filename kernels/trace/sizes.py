"""The parameters that a kernel was run with, read off the launches of a trace."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kernels.declaration import Kernel
from kernels.errors import TraceError
from kernels.trace.model import Launch, Trace


def sizes_of(trace: Trace, kernel: Kernel) -> Mapping[str, int]:
    """The parameters of `kernel`, and what it derives from them, by name.

    They are in the shapes of the arrays, the template arguments and the scalars. TraceError if the launches of the
    trace are not those of `kernel`, or contradict each other.
    """
    known = {parameter.name for parameter in kernel.parameters}
    found: dict[str, int] = {}
    if len(trace.launches) != len(kernel.launches):
        raise TraceError(
            f"the trace has {len(trace.launches)} launches and {kernel.name} {len(kernel.launches)}: it is of another "
            "kernel"
        )
    for name, value in _said(trace, kernel):
        if name in known and found.setdefault(name, value) != value:
            raise TraceError(
                f"the trace has both {name}={found[name]} and {name}={value}: it is no run of {kernel.name}"
            )
    if missing := known - set(found):
        raise TraceError(
            f"the trace does not say {', '.join(sorted(missing))}: it is no run of {kernel.name}"
        )
    params = {parameter.name: found[parameter.name] for parameter in kernel.parameters}
    sizes = {**params, **kernel.derive(params)}
    for array in kernel.arrays:
        shape = tuple(sizes[name] for name in array.shape)
        if trace.before[array.name].shape != shape:
            raise TraceError(
                f"{array.name} has shape {trace.before[array.name].shape} and must have {shape}: "
                f"the trace is no run of {kernel.name}"
            )
    return sizes


def _said(trace: Trace, kernel: Kernel) -> Iterator[tuple[str, int]]:
    """Every name and number that the launches give."""
    shapes = {array.name: array.shape for array in kernel.arrays}
    for launch, declared in zip(trace.launches, kernel.launches, strict=True):
        if len(launch.arguments) != len(declared.arguments):
            raise TraceError(
                f"{launch.kernel} has {len(launch.arguments)} arguments and must have {len(declared.arguments)}: the "
                f"trace is no run of {kernel.name}"
            )
        yield from zip(declared.template, _template(launch), strict=False)
        for name, argument in zip(declared.arguments, launch.arguments, strict=True):
            if argument.value is None:
                yield from zip(shapes.get(name, ()), argument.shape, strict=False)
            else:
                yield name, int(argument.value)


def _template(launch: Launch) -> Iterator[int]:
    inside = launch.kernel.partition("<")[2].rpartition(">")[0]
    for word in filter(None, (part.strip() for part in inside.split(","))):
        if not word.isdecimal():
            raise TraceError(f"{launch.kernel} has the template argument {word}, which is no size")
        yield int(word)
