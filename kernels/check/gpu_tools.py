"""NVIDIA's compute-sanitizer over a GPU run of a kernel: memcheck, racecheck, initcheck and synccheck."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys

from kernels.backend import find_backend
from kernels.check.outcome import Outcome
from kernels.errors import BackendError
from kernels.job import Job

_TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
_LONGEST = 600  # seconds of one run
_NO_FINDING = (
    "COMPUTE-SANITIZER",
    "ERROR SUMMARY",
    "RACECHECK SUMMARY",
    "Program hit",
    "Error",
    "Internal",
    "Target",
)
_ENDS = re.compile(r"(?:ERROR SUMMARY|RACECHECK SUMMARY): (\d+) (?:error|hazard)")


def check_gpu(kernel: str, seed: int, job: Job) -> dict[str, Outcome]:
    """What each tool says of the job on the GPU; `kernel` and `seed` are what it was made from."""
    if missing := _missing():
        return {tool: Outcome(missing=missing) for tool in _TOOLS}
    settings = {"kernel": kernel, "seed": seed, "threads": job.layout.launches[0].threads}
    return {tool: _watched(tool, json.dumps({**settings, "params": dict(job.params)})) for tool in _TOOLS}


def _missing() -> str | None:
    try:
        find_backend("cupy")
    except BackendError as error:
        return str(error)
    return (
        None
        if shutil.which("compute-sanitizer")
        else "compute-sanitizer is not on the PATH: install the CUDA toolkit"
    )


def _watched(tool: str, settings: str) -> Outcome:
    command = [
        "compute-sanitizer",
        f"--tool={tool}",
        "--print-limit=20",
        *(["--racecheck-report=analysis"] if tool == "racecheck" else []),
        *[sys.executable, "-m", "kernels.check.gpu_run", settings],
    ]
    try:
        result = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=_LONGEST,
        )
    except subprocess.TimeoutExpired:
        return Outcome(missing=f"it took more than {_LONGEST} s")
    return read_report(result.stdout + result.stderr)


def read_report(text: str) -> Outcome:
    """The findings in a report of compute-sanitizer, each once, with the lines of the source where it gives them."""
    findings = []
    for first, more in re.findall(r"^========= (\S.*)\n((?:=========  .*\n)*)", text, re.MULTILINE):
        if not first.startswith(_NO_FINDING):
            places = re.findall(r"[\w.-]+\.cuh?:\d+", first + more)
            findings.append(" at ".join(filter(None, [_bare(first), " and ".join(dict.fromkeys(places))])))
    if findings:  # a faulty kernel may not live to its end
        return Outcome(tuple(dict.fromkeys(findings)))
    ended = _ENDS.search(text)
    if not ended or "ran to the end" not in text:
        lines = [line for line in text.splitlines() if line.strip(" =")]
        said = lines[-1].strip(" =") if lines else "it said nothing"
        return Outcome(missing=f"it did not watch to the end ({said})")
    return Outcome() if ended[1] == "0" else Outcome((f"{ended[1]} findings",))


def _bare(line: str) -> str:
    return re.split(r" (?:at|between) | access | by thread ", line)[0].strip()
