"""Jobs as a C++ program of their own: what a sanitizer can watch, and Python with a library inside it cannot.

``PROGRAM NUMBER FILE`` runs one of its jobs on the float32 numbers in a file. It exits with 3 if a thread got stuck,
and with 4 after a line ``fault kind array step block index`` if the traced pointers met a fault.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from kernels.job import Job
from kernels.recording import array_numbers, config_numbers, record_shape
from kernels.source import body, function, parameter_types, preamble, traced_call

STUCK, FAULT = 3, 4

_MAIN = """
#include <cstdio>
#include <cstdlib>

int main(int, char** words) {
    std::FILE* file = std::fopen(words[2], "rb");
    const kim::Job& job = kim_jobs[std::atoi(words[1])];
    kim::Hbm hbm;
    for (const size_t* size = job.sizes; *size; size++) {
        hbm.emplace_back(*size);
        if (!file || std::fread(hbm.back().data(), 4, *size, file) != *size) return 2;
    }
    return job.run(hbm);
}
"""

_PRELUDE = """
#include <cstdio>

namespace kim {
using Hbm = std::vector<std::vector<float>>;
struct Job {
    const size_t* sizes;
    int (*run)(Hbm&);
};
}  // namespace kim
"""


def program(jobs: Sequence[Job], traced: bool) -> str:
    """The source of a program that runs any one of `jobs`, which are of one declaration; their sources may differ."""
    parts = [preamble(jobs[0].kernel, "cpu.h", traced), _PRELUDE]
    for number, job in enumerate(jobs):
        sizes = ", ".join(str(math.prod(array.shape)) for array in job.layout.arrays)
        parts += [
            f"namespace job_{number} {{",
            body(job.kernel, traced),
            '#line 1 "program.cpp"',
            f"constexpr size_t kim_sizes[] = {{{sizes}, 0}};",
            "int kim_run(kim::Hbm& hbm) {",
            *(_launch(job, launch, traced) for launch in range(len(job.layout.launches))),
            "    return 0;\n}\n}",
        ]
    table = ", ".join(f"{{job_{number}::kim_sizes, job_{number}::kim_run}}" for number in range(len(jobs)))
    return "\n".join([*parts, f"const kim::Job kim_jobs[] = {{{table}}};", _MAIN])


def contents(job: Job) -> bytes:
    """What the program reads: every array as it is before the first launch."""
    return b"".join(job.initial(array.name).tobytes() for array in job.layout.arrays)


def _launch(job: Job, launch: int, traced: bool) -> str:
    layout = job.layout.launches[launch]
    numbers = {array.name: number for number, array in enumerate(job.layout.arrays)}
    arguments = job.arguments(launch)
    lines = [
        f"{kind} p{n} = {f'hbm[{numbers[argument]}].data()' if isinstance(argument, str) else _literal(argument)};"
        for n, (argument, kind) in enumerate(zip(arguments, parameter_types(job, launch), strict=True))
    ]
    call = f"{function(job, launch)}({', '.join(f'p{n}' for n in range(len(arguments)))})"
    after = ""
    if traced:
        shape = record_shape(job, launch)
        arrays = ", ".join(
            f"{{hbm[{n}].data(), {', '.join(map(str, values))}}}"
            for n, (_, values) in enumerate(array_numbers(job, shape))
        )
        lines += [
            f"std::vector<unsigned> records({math.prod(shape.records)}), slots({math.prod(shape.slots)});",
            f"std::vector<int> steps({shape.records[0]});",
            "kim::Fault fault{};",
            "const kim::Config config{records.data(), slots.data(), steps.data(), &fault, "
            f"{', '.join(map(str, config_numbers(shape)))}, {{{arrays}}}}};",
        ]
        call = f"kim::Tracer tracer(config); {traced_call(job, launch)}"
        after = (
            'if (fault.kind) { std::printf("fault %d %d %d %d %lld\\n", fault.kind, fault.array, fault.step, '
            f"fault.block, fault.index); return {FAULT}; }}"
        )
    grid = ", ".join(map(str, layout.grid))
    run = f"kim::launch(dim3{{{grid}}}, {layout.threads}, {job.shared_bytes(layout)}, [&] {{ {call}; }})"
    return "\n    ".join(["    {", *lines, f"if (!{run}) return {STUCK};", after, "}"])


def _literal(value: np.generic) -> str:
    if isinstance(value, np.bool_):
        return "true" if value else "false"
    return f"{float(value).hex()}f" if isinstance(value, np.float32) else str(value)
