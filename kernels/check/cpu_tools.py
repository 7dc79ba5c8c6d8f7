"""The compiler's own sanitizers: thread, address and undefined behaviour, over the CPU build of a kernel.

Races are looked for in the build without tracing alone, since a SNAPSHOT's barriers would hide them; addresses and
undefined behaviour also in the traced build, whose pointers know the bounds of each head.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np

from kernels.backend.compiler import built, compiler, version
from kernels.check.outcome import Outcome
from kernels.check.program import FAULT, STUCK, contents, program
from kernels.errors import BackendError
from kernels.job import Job
from kernels.recording import FAULT as FAULT_WORDS
from kernels.recording import check_fault

_LONGEST = 300  # seconds of one run
_FLAGS = ("-O1", "-g", "-fno-omit-frame-pointer")
_PLANTED = {
    "thread": "#include <thread>\nint x; int main() { std::thread other([] { x++; }); x++; other.join(); }",
    "address": "int main(int n, char**) { int* x = new int[4]; x[0] = n; return x[n + 3]; }",
    "undefined": "int main(int n, char**) { struct { int x[4], y[4]; } s = {}; return s.x[n + 3]; }",
}
_EACH = {  # environment variables; a finding must not end the program before it has said all
    "TSAN_OPTIONS": "exitcode=66 report_thread_leaks=0",
    "ASAN_OPTIONS": "exitcode=66 detect_leaks=0",
    "UBSAN_OPTIONS": "print_stacktrace=0",
}


def check_cpu(jobs: Sequence[Job]) -> list[dict[str, Outcome]]:
    """What `thread`, `address` and `undefined` say of each of `jobs`, which are of one declaration.

    Many jobs are far cheaper together than one by one. Raises BackendError if one does not compile.
    """
    races = watch(jobs, ("thread",), traced=False)
    faults = watch(jobs, ("address", "undefined"), traced=False)
    traced = watch(jobs, ("address", "undefined"), traced=True)
    return [
        {
            **race,
            **{tool: Outcome(_merged(fault[tool], more[tool]), fault[tool].missing) for tool in fault},
        }
        for race, fault, more in zip(races, faults, traced, strict=True)
    ]


def watch(jobs: Sequence[Job], tools: tuple[str, ...], traced: bool) -> list[dict[str, Outcome]]:
    """What `tools`, built into one program, say of each of `jobs`, which are of one declaration."""
    ready = {tool: why for tool in tools if (why := _missing(tool))}
    usable = tuple(tool for tool in tools if tool not in ready)
    missing = {tool: Outcome(missing=why) for tool, why in ready.items()}
    if not usable:
        return [missing for _ in jobs]
    binary = built(program(jobs, traced), _flags(usable))
    return [{**missing, **_watched(binary, number, job, usable)} for number, job in enumerate(jobs)]


def _merged(one: Outcome, other: Outcome) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*one.findings, *other.findings)))


def _flags(tools: tuple[str, ...]) -> tuple[str, ...]:
    """The sanitizers' flags; GCC leaves the bounds of a struct's last array alone unless asked to be strict."""
    strict = "undefined" in tools and "clang" not in version(compiler())
    return (*_FLAGS, f"-fsanitize={','.join([*tools, *(['bounds-strict'] if strict else [])])}")


@cache
def _missing(tool: str) -> str | None:
    """Why a sanitizer cannot be relied on here; None if it finds a planted fault."""
    try:
        binary = built(_PLANTED[tool], _flags((tool,)))
    except BackendError as error:
        return f"the compiler cannot build with -fsanitize={tool} ({str(error).split(': ', 1)[-1]})"
    result = _run([str(binary)])
    if _findings(tool, result.stderr):
        return None
    said = (result.stderr.strip().splitlines() or [f"exit status {result.returncode}"])[0]
    return f"it misses a planted fault here ({said})"


@cache
def _fixed_addresses() -> tuple[str, ...]:
    """The command that starts a program at fixed addresses, which ThreadSanitizer needs on some kernels."""
    command = ("setarch", "-R")
    able = shutil.which("setarch") and not subprocess.run([*command, "true"], capture_output=True).returncode
    return command if able else ()


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*_fixed_addresses(), *command],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        timeout=_LONGEST,
        env={**os.environ, **_EACH},
    )


def _watched(binary: Path, number: int, job: Job, tools: tuple[str, ...]) -> dict[str, Outcome]:
    with tempfile.NamedTemporaryFile() as file:
        file.write(contents(job))
        file.flush()
        try:
            result = _run([str(binary), str(number), file.name])
        except subprocess.TimeoutExpired:
            return {tool: Outcome(missing=f"it took more than {_LONGEST} s") for tool in tools}
    outcomes = {tool: Outcome(_findings(tool, result.stderr)) for tool in tools}
    if own := _own_finding(job, result):
        outcomes[tools[0]] = Outcome((*outcomes[tools[0]].findings, own))
    elif result.returncode and all(outcome.clean for outcome in outcomes.values()):
        why = f"the program ended with status {result.returncode}: {result.stderr.strip()[:200]}"
        return {tool: Outcome(missing=why) for tool in tools}
    return outcomes


def _own_finding(job: Job, result: subprocess.CompletedProcess[str]) -> str | None:
    """What the program itself says is wrong."""
    if result.returncode == STUCK:
        return "some threads wait at a barrier that others never reach"
    if result.returncode == FAULT:
        words = next(line for line in result.stdout.splitlines() if line.startswith("fault "))
        fault = np.array([tuple(map(int, words.split()[1:]))], FAULT_WORDS)
        try:
            check_fault(job, fault)
        except BackendError as error:
            return str(error)
    return None


def _findings(tool: str, text: str) -> tuple[str, ...]:
    """The findings in a sanitizer's report, each once, with the lines of the source."""
    return tuple(
        dict.fromkeys({"thread": _races, "address": _addresses, "undefined": _undefined}[tool](text))
    )


def _races(text: str) -> list[str]:
    found = []
    for report in text.split("WARNING: ThreadSanitizer: ")[1:]:
        kind = report.split(" (")[0]
        accesses = re.findall(
            r"^ +(?:Previous )?(\w+) of size \d+ .*\n((?: +#\d.*\n)+)", report, re.MULTILINE
        )
        found.append(
            f"{kind}: {' against '.join(f'{act.lower()} at {_place(stack)}' for act, stack in accesses)}"
        )
    return found


def _addresses(text: str) -> list[str]:
    kind = re.search(r"ERROR: AddressSanitizer: (.*)", text)
    access = re.search(r"^(READ|WRITE) of size \d+ .*\n((?: +#\d.*\n)+)", text, re.MULTILINE)
    if kind and access:
        return [f"{kind[1].split()[0]}: {access[1].lower()} at {_place(access[2])}"]
    return [kind[1]] if kind else []


def _undefined(text: str) -> list[str]:
    return [
        f"{what} at {Path(file).name}:{line}"
        for file, line, what in re.findall(r"^(\S+?):(\d+):\d+: runtime error: (.*)$", text, re.MULTILINE)
    ]


def _place(stack: str) -> str:
    """The innermost place in a ``.cu`` file, or else the innermost place."""
    places = re.findall(r"([^\s/]+:\d+)(?::\d+)?(?= |$)", stack, re.MULTILINE)
    return next((place for place in places if ".cu:" in place), places[0] if places else "an unknown place")
