"""The sanitizers: clean kernels are said to be clean, planted faults found with their line, missing tools missed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernels.check import Outcome, check, cpu_tools
from kernels.check.cpu_tools import check_cpu
from kernels.check.gpu_tools import check_gpu, read_report
from kernels.registry import find_kernel, kernel_names

from .mutants import RUNS
from .planted import job_of

CPU_TOOLS = ("thread", "address", "undefined")


def _own_kernel(folder: Path, old: str, new: str) -> Path:
    """A declaration of one's own beside a fa1.cu with one place changed."""
    source = find_kernel("fa1").source.read_text(encoding="utf-8")
    assert source.count(old) == 1
    (folder / "fa1.cu").write_text(source.replace(old, new), encoding="utf-8")
    (folder / "own.py").write_text(
        "from dataclasses import replace\nfrom pathlib import Path\nfrom kernels.registry import find_kernel\n"
        "KERNEL = replace(find_kernel('fa1'), source=Path(__file__).with_name('fa1.cu'))\n"
    )
    return folder / "own.py"


def _line(folder: Path, text: str) -> int:
    lines = (folder / "fa1.cu").read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, start=1) if text in line)


def _check(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kernels", "check", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )


@pytest.mark.parametrize("kernel", kernel_names())
def test_every_kernel_is_clean_on_ragged_causal_and_lopsided_shapes(kernel: str) -> None:
    for outcomes in check_cpu([job_of(find_kernel(kernel), threads=4, **run) for run in RUNS[kernel]]):
        for tool in CPU_TOOLS:
            if outcomes[tool].missing:
                pytest.skip(f"{tool}: {outcomes[tool]}")
            assert outcomes[tool].clean, (tool, outcomes[tool])


@pytest.mark.parametrize(
    ("old", "new", "tool", "finding", "lines"),
    [
        (
            "            __syncthreads();\n            SNAPSHOT(compute, j, i);",
            "            SNAPSHOT(compute, j, i);",
            "thread",
            "data race: write at fa1.cu:{} against read at fa1.cu:{}",
            ["Sij[r][c] = masked", "m_new = fmaxf"],
        ),
        (
            "min(Br, N - i * Br)",
            "Br",
            "address",
            "heap-buffer-overflow: read at fa1.cu:{}",
            ["Qi[x / d][x % d] = Q["],
        ),
        (
            "first_row * d;\n    K +=",
            "first_row * d + 1;\n    K +=",
            "address",
            "fa1 touched Q at element {}, which is another head's than before, in block 0",
            [],
        ),
        (
            "c < columns; c++) l_new",
            "c <= columns; c++) l_new",
            "undefined",
            "index 4 out of bounds for type 'float [4]' at fa1.cu:{}",
            ["l_new += expf"],
        ),
    ],
    ids=["race", "overflow", "another head", "another field"],
)
def test_a_planted_fault_is_found_with_its_line(
    tmp_path: Path, old: str, new: str, tool: str, finding: str, lines: list[str]
) -> None:
    own = _own_kernel(tmp_path, old, new)
    outcome = check(str(own), N=9, batch_heads=2)[tool]
    if outcome.missing:
        pytest.skip(str(outcome))
    expected = finding.format(*(_line(tmp_path, text) for text in lines) if lines else (36,))
    assert any(found.startswith(expected) for found in outcome.findings), outcome.findings


def test_the_command_prints_a_line_for_each_tool_and_exits_with_1_on_a_finding(tmp_path: Path) -> None:
    own = _own_kernel(tmp_path, "min(Br, N - i * Br)", "Br")
    result = _check(str(own), "--N", "9", "--batch-heads", "2")
    names = [line.split()[0] for line in result.stdout.splitlines()]
    assert names == [*CPU_TOOLS, "memcheck", "racecheck", "initcheck", "synccheck"]
    if "could not run" not in result.stdout.splitlines()[1]:
        assert result.returncode == 1
        assert "address    heap-buffer-overflow: read at fa1.cu:" in result.stdout


def test_a_clean_kernel_exits_with_0() -> None:
    result = _check("online_softmax")
    assert (result.returncode, result.stderr) == (0, "")


def test_a_kernel_that_does_not_compile_is_one_line_and_status_2(tmp_path: Path) -> None:
    own = _own_kernel(tmp_path, "float s = 0;", "float s = nothing;")
    result = _check(str(own))
    assert (result.returncode, len(result.stderr.splitlines())) == (2, 1)
    assert "the kernel does not compile: fa1.cu:" in result.stderr


def test_a_tool_that_cannot_run_is_never_called_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(cpu_tools._PLANTED, "address", "int main() { return 0; }")
    cpu_tools._missing.cache_clear()
    try:
        outcome = check("online_softmax")["address"]
    finally:
        cpu_tools._missing.cache_clear()
    assert not outcome.clean
    assert str(outcome).startswith("could not run: it misses a planted fault here")


def test_a_compiler_without_sanitizers_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_tools, "_FLAGS", ("-fno-such-flag",))
    cpu_tools._missing.cache_clear()
    try:
        outcomes = check("online_softmax")
    finally:
        cpu_tools._missing.cache_clear()
    for tool in CPU_TOOLS:
        assert f"could not run: the compiler cannot build with -fsanitize={tool}" in str(outcomes[tool])


REPORTS: list[tuple[str, Outcome]] = [
    (
        "ran to the end\n========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n",
        Outcome(),
    ),
    (
        "ran to the end\n========= COMPUTE-SANITIZER\n"
        "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n",
        Outcome(),
    ),
    (
        "ran to the end\n========= COMPUTE-SANITIZER\n========= Invalid __global__ read of size 4 bytes\n"
        "=========     at fa1<4, 4, 4>(const float *)+0x540 in fa1.cu:43\n"
        "=========     by thread (0,0,0) in block (0,0,0)\n========= \n========= ERROR SUMMARY: 1 error\n",
        Outcome(("Invalid __global__ read of size 4 bytes at fa1.cu:43",)),
    ),
    (
        "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n",
        Outcome(missing="it did not watch to the end (ERROR SUMMARY: 0 errors)"),
    ),
    (
        "========= Error: Device not supported\n",
        Outcome(missing="it did not watch to the end (Error: Device not supported)"),
    ),
    ("", Outcome(missing="it did not watch to the end (it said nothing)")),
]


@pytest.mark.parametrize(("text", "outcome"), REPORTS)
def test_a_report_of_compute_sanitizer_is_read_for_what_it_says(text: str, outcome: Outcome) -> None:
    assert read_report(text) == outcome


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("old", "new", "tool", "says"),
    [
        (
            "            __syncthreads();\n            SNAPSHOT(compute, j, i);",
            "            SNAPSHOT(compute, j, i);",
            "racecheck",
            "Race",
        ),
        ("O += first_row * d;", "O += first_row * d + (1 << 22);", "memcheck", "Invalid"),
    ],
    ids=["race", "overflow"],
)
def test_a_planted_fault_is_found_on_a_gpu(tmp_path: Path, old: str, new: str, tool: str, says: str) -> None:
    own = _own_kernel(tmp_path, old, new)
    outcome = check_gpu(str(own), 0, job_of(find_kernel(str(own)), threads=64, N=9, batch_heads=2))[tool]
    if outcome.missing and "CuPy" in outcome.missing:
        pytest.skip(str(outcome))
    assert any(says in finding and "fa1.cu:" in finding for finding in outcome.findings), outcome
