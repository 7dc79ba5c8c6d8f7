"""The memory of a library of kernels: which of it a kernel may touch, beside what its threads share."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

from kernels.launch.cpu_build import runtime_object
from kernels.launch.cpu_library import Image
from kernels.launch.functions import Source
from kernels.launch.texts import knows_all_shared, shared_names

_SYMBOL = re.compile(r"^([0-9a-f]+) ([0-9a-f]+) [bBdDuVvs] (.*)$", re.MULTILINE)
_WORDS = ("threadIdx", "blockIdx", "blockDim", "gridDim")  # the runtime's, which kernels read


def image_of(library: Path, source: Source) -> Image | None:
    """The memory of a library built of `source`; None where that cannot be told, or not all that is shared is known."""
    program = next((found for one in ("nm", "llvm-nm") if (found := shutil.which(one))), None)
    if program is None or not knows_all_shared(source):
        return None
    shared = shared_names(source)
    parts = _variables(program, library)
    if not parts:
        return None
    runtime = Counter((size, name) for _, size, name in _variables(program, runtime_object()))
    there = Counter((size, name) for _, size, name in parts)
    kernels = [
        (at, size)
        for at, size, name in parts
        if name in _WORDS
        or (there[size, name] != runtime[size, name] and not ("(" in name and _last(name) in shared))
    ]
    low, high = min(at for at, _, _ in parts), max(at + size for at, size, _ in parts)
    return Image(low, high - low, tuple(sorted(kernels)))


def _variables(program: str, path: Path) -> list[tuple[int, int, str]]:
    """Address, bytes and name of each variable of an object or a library."""
    told = subprocess.run(
        [program, "-S", "-C", "--defined-only", str(path)], capture_output=True, text=True, check=False
    ).stdout
    return [(int(at, 16), int(size, 16), name) for at, size, name in _SYMBOL.findall(told)]


def _last(name: str) -> str:
    """Of ``void f<16>(float*)::tile`` the last name."""
    return re.sub(r"[.\[].*", "", name.rpartition("::")[2])
