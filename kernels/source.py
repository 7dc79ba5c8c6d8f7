"""From a kernel's source to what a compiler takes: the instrumentation put in front, the entry point behind."""

from __future__ import annotations

import hashlib
import re
from functools import cache
from pathlib import Path

import numpy as np

from kernels.declaration import Kernel
from kernels.errors import ParameterError
from kernels.job import Job

_C_TYPES = {np.dtype(np.int32): "int", np.dtype(np.float32): "float", np.dtype(np.bool_): "bool"}


def read_source(path: Path) -> str:
    """The text of a ``.cu`` file; ParameterError if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ParameterError(f"the kernel's source {path} cannot be read: {error}") from error


def source_hash(source: str) -> str:
    """SHA-256 of a source without its comments and blank space at line ends, as 64 hex digits."""
    bare = re.sub(r"//[^\n]*|/\*.*?\*/", "", source, flags=re.DOTALL)
    lines = (line.rstrip() for line in bare.splitlines())
    return hashlib.sha256("\n".join(line for line in lines if line).encode()).hexdigest()


def sections(source: str) -> dict[str, range]:
    """The line numbers (from 1, markers left out) of each ``--8<-- [start:…]`` section of a source."""
    found: dict[str, range] = {}
    begun: dict[str, int] = {}
    for number, line in enumerate(source.splitlines(), start=1):
        if marker := re.search(r"--8<-- \[(start|end):(\w+)\]", line):
            kind, name = marker.groups()
            if kind == "start":
                begun[name] = number + 1
            else:
                found[name] = range(begun[name], number)
    return found


@cache
def _header(name: str) -> str:
    return (Path(__file__).parent / "instrument" / name).read_text(encoding="utf-8")


def whole_source(kernel: Kernel, target: str, traced: bool) -> str:
    """The kernel as a compiler takes it; `target` is the header of the machine, ``cuda.cuh`` or ``cpu.h``."""
    return f"{preamble(kernel, target, traced)}\n{body(kernel, traced)}\n"


def preamble(kernel: Kernel, target: str, traced: bool) -> str:
    """What stands before the kernel: the header of the machine and the instrumentation."""
    if not traced:
        return f"{_header(target)}\n{_header('instrument.cuh')}"
    return "\n".join(
        [
            _header(target),
            "#define KIM_TRACE",
            f"#define KIM_ARRAYS {len(kernel.arrays)}",
            f"namespace kim_step {{ enum {{ {', '.join(step_names(kernel))} }}; }}",
            _header("instrument.cuh"),
        ]
    )


def body(kernel: Kernel, traced: bool) -> str:
    """The kernel's own source, its lines numbered as in its file.

    With tracing its functions are device functions: a backend adds the entry points that call them.
    """
    start = f'#line 1 "{kernel.source.name}"'
    source = read_source(kernel.source)
    if not traced:
        return f"{start}\n{source}"
    arrays = {array.name for array in kernel.arrays}
    lines = [start]
    for number, line in enumerate(source.splitlines(), start=1):
        for launch in kernel.launches:
            if re.search(rf"__global__\s+void\s+{launch.function}\s*\(", line):
                first = next(name for name in launch.arguments if name in arrays)
                lines += [
                    "#undef KIM_HBM",
                    f"#define KIM_HBM {first}",
                    f'#line {number} "{kernel.source.name}"',
                ]
                line = line.replace("__global__", "static __device__", 1)
        lines.append(line)
    return "\n".join(lines)


def step_names(kernel: Kernel) -> list[str]:
    """The names of all kinds of step, each once; a record counts them from here."""
    return list(dict.fromkeys(step.name for launch in kernel.launches for step in launch.steps))


def function(job: Job, launch: int) -> str:
    """The instance of a launch's function template, e.g. ``fa1<4, 4, 4>``."""
    return f"{job.kernel.launches[launch].function}{job.template(launch)}"


def parameter_types(job: Job, launch: int) -> list[str]:
    """The C types of a launch's parameters, in order, e.g. ``const float*`` for an input."""
    roles = {array.name: array.role for array in job.kernel.arrays}
    return [
        ("const float*" if roles[argument] == "input" else "float*")
        if isinstance(argument, str)
        else _C_TYPES[argument.dtype]
        for argument in job.arguments(launch)
    ]


def traced_call(job: Job, launch: int) -> str:
    """The call of a launch's function on parameters ``p0`` … with a `tracer`, each array under its number."""
    numbers = {array.name: number for number, array in enumerate(job.kernel.arrays)}
    values = [
        f"Hbm<{kind[:-1]}>(p{n}, {numbers[argument]}, &tracer)" if isinstance(argument, str) else f"p{n}"
        for n, (argument, kind) in enumerate(
            zip(job.arguments(launch), parameter_types(job, launch), strict=True)
        )
    ]
    return f"{function(job, launch)}({', '.join(values)})"


def layout_checks(job: Job, launch: int, tag: str) -> str:
    """Static assertions that hold the declaration's slots against the struct's fields, so that no label can lie."""
    declared, struct = job.kernel.launches[launch], f"KimSram_{tag}"
    lines = [f"using {struct} = {declared.sram}{job.template(launch)};"]
    offset = 0
    for slot in job.layout.launches[launch].slots:
        size = 4 * int(np.prod(slot.shape))
        says = f"the declaration of {job.kernel.name} and its struct {declared.sram} disagree on the slot {slot.name}"
        lines.append(
            f"static_assert(KIM_OFFSET({struct}, {slot.name}) == {offset} && "
            f'sizeof({struct}::{slot.name}) == {size}, "{says}");'
        )
        offset += size
    lines.append(
        f"static_assert(sizeof({struct}) == {offset}, "
        f'"the struct {declared.sram} has a field that the declaration of {job.kernel.name} leaves out");'
    )
    return "\n".join(lines)
