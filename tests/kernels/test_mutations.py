"""The tests are able to fail: each kernel changed in one place, and each change noticed, on a CPU alone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import kernels
from kernels.check.cpu_tools import watch
from kernels.errors import KernelsError
from kernels.job import Job
from kernels.registry import find_kernel, kernel_names
from kernels.run import record_job

from .mutants import Mutant, faults, guards, jobs, races
from .planted import CPU


@pytest.mark.parametrize("kernel", kernel_names())
def test_each_barrier_is_one_whose_removal_is_a_race(kernel: str, tmp_path: Path) -> None:
    unharmed = Mutant("unharmed", find_kernel(kernel).source.read_text(encoding="utf-8"))
    mutants = [unharmed, *races(kernel)]
    assert len(mutants) >= 3
    runs = jobs(tmp_path, kernel, mutants, threads=4)
    outcomes = iter(watch([job for group in runs for job in group], ("thread",), traced=False))
    for mutant, group in zip(mutants, runs, strict=True):
        found = [next(outcomes)["thread"] for _ in group]
        if missing := [race.missing for race in found if race.missing]:
            pytest.skip(f"the thread sanitizer could not run: {missing[0]}")
        if mutant is unharmed:
            assert all(race.clean for race in found), found
        else:
            named = [finding for race in found for finding in race.findings if "data race" in finding]
            assert any(
                re.search(rf"{kernel}\.cu:\d+ against .*{kernel}\.cu:\d+", finding) for finding in named
            ), f"{mutant.what} is no race: the kernel does not need it"


def _noticed(group: list[Job]) -> str | None:
    """What the bounds of the traced pointers or the definition say against a kernel, in any of its runs."""
    for job in group:
        try:
            report = kernels.verify(record_job(job, CPU), job.kernel)
        except KernelsError as error:
            return str(error)
        if not report.ok:
            return report.findings[0].what
    return None


@pytest.mark.parametrize("kernel", kernel_names())
def test_each_guard_removed_and_each_fault_planted_is_noticed(kernel: str, tmp_path: Path) -> None:
    unharmed = Mutant("unharmed", find_kernel(kernel).source.read_text(encoding="utf-8"))
    mutants = [unharmed, *guards(kernel), *faults(kernel)]
    runs = jobs(tmp_path, kernel, mutants)
    CPU.prepare([job for group in runs for job in group], traced=True)  # type: ignore[attr-defined]
    said = {mutant.what: _noticed(group) for mutant, group in zip(mutants, runs, strict=True)}
    assert said.pop("unharmed") is None
    assert [what for what, finding in said.items() if finding is None] == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Q[i * Br * d + x];", "Q.at[i * Br * d + x];"),
        ("Q[i * Br * d + x];", "((const float*)Q)[i * Br * d + x];"),
        ("Oi[x / d][x % d] = O[i * Br * d + x];", "Oi[x / d][x % d] = (&O[0])[i * Br * d + x].at[0];"),
    ],
)
def test_a_bare_pointer_is_out_of_reach(old: str, new: str, tmp_path: Path) -> None:
    source = find_kernel("fa1").source.read_text(encoding="utf-8")
    assert source.count(old) == 1
    [[job, _]] = jobs(tmp_path, "fa1", [Mutant("a bare pointer", source.replace(old, new))])
    with pytest.raises(kernels.BackendError, match="does not compile"):
        record_job(job, CPU)


@pytest.mark.parametrize(
    ("kernel", "old", "new", "slot"),
    [
        ("fa1", "float Qi[Br][d], Kj[Bc][d], Vj[Bc][d];", "float Qi[Br][d], Vj[Bc][d], Kj[Bc][d];", "Kj"),
        ("fa2", "mi[Br], li[Br], Li[Br];", "li[Br], mi[Br], Li[Br];", "mi"),
        ("flash_decoding", "ms[Br], ls[Br];", "ls[Br], ms[Br];", "ms"),
        ("online_softmax", "float m[1], d[1];", "float d[1], m[1];", "m"),
    ],
)
def test_two_fields_of_the_struct_swapped_do_not_compile(
    kernel: str, old: str, new: str, slot: str, tmp_path: Path
) -> None:
    source = find_kernel(kernel).source.read_text(encoding="utf-8")
    assert source.count(old) == 1
    [[job, *_]] = jobs(tmp_path, kernel, [Mutant("fields swapped", source.replace(old, new))])
    with pytest.raises(kernels.BackendError, match=f"disagree on the slot {slot}"):
        record_job(job, CPU)
