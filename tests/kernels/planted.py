"""Kernels with a planted fault: a copy of a source with one place changed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from kernels.backend import find_backend
from kernels.declaration import Kernel
from kernels.job import Job, make_job
from kernels.registry import find_kernel


def planted(folder: Path, old: str, new: str, kernel: str = "fa1") -> Kernel:
    """The kernel with the one place `old` of its source replaced by `new`."""
    declared = find_kernel(kernel)
    source = declared.source.read_text(encoding="utf-8")
    assert source.count(old) == 1, f"{old!r} occurs {source.count(old)} times"
    path = folder / declared.source.name
    path.write_text(source.replace(old, new), encoding="utf-8")
    return replace(declared, source=path)


def job_of(kernel: Kernel, threads: int = 3, **params: Any) -> Job:
    """A job for the CPU with the kernel's own inputs."""
    return make_job(kernel, None, params, threads=threads, default_threads=3)


CPU = find_backend("cpu")
