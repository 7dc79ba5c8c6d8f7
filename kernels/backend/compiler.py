"""The system's C++ compiler, and a folder that keeps what it built."""

from __future__ import annotations

import atexit
import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from kernels.errors import BackendError

# The same arithmetic everywhere: no contraction, and memory that may be read as other types.
LANGUAGE = ("-std=c++17", "-ffp-contract=off", "-fno-strict-aliasing", "-pthread", "-w")


@cache
def compiler() -> tuple[str, ...]:
    """The command of a C++17 compiler: ``$CXX``, the system's, or that of the ``ziglang`` package.

    Raises BackendError if there is none.
    """
    if chosen := shlex.split(os.environ.get("CXX", "")):
        if shutil.which(chosen[0]):
            return tuple(chosen)
        raise BackendError(
            f"CXX={os.environ['CXX']!r} names no program: point it to a C++ compiler, or unset it"
        )
    for name in ("c++", "g++", "clang++"):
        if shutil.which(name):
            return (name,)
    if importlib.util.find_spec("ziglang"):
        return (sys.executable, "-m", "ziglang", "c++")
    raise BackendError(
        "the cpu backend needs a C++ compiler: install g++ or clang++, or `pip install ziglang`"
    )


@cache
def version(command: tuple[str, ...]) -> str:
    """The compiler's own name and version."""
    output = subprocess.run([*command, "--version"], capture_output=True, text=True, check=False).stdout
    return (output.splitlines() or [command[-1]])[0]


def built(text: str, flags: Sequence[str]) -> Path:
    """The file that the compiler makes of the C++ source `text`, from the cache if it was made before.

    Raises BackendError with the compiler's first error if it makes none.
    """
    command = [*compiler(), *LANGUAGE, *flags]
    key = hashlib.sha256("\0".join([text, *command, version(compiler())]).encode()).hexdigest()
    folder = cache_folder()
    kept = folder / key
    if kept.exists():
        return kept
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        source, made = Path(scratch, "kernel.cpp"), Path(scratch, "kernel")
        source.write_text(text, encoding="utf-8")
        result = subprocess.run(
            [*command, str(source), "-o", str(made)], capture_output=True, text=True, check=False
        )
        if result.returncode:
            raise BackendError(f"the kernel does not compile: {first_error(result.stderr)}")
        os.replace(made, kept)
    return kept


def linked(objects: Sequence[Path], flags: Sequence[str]) -> Path:
    """The file that the compiler links of object files that `built` made, from the cache if it was made before.

    Raises BackendError with the linker's first error if it makes none.
    """
    command = [*compiler(), "-pthread"]
    key = hashlib.sha256("\0".join([*(one.name for one in objects), *command, *flags]).encode()).hexdigest()
    folder = cache_folder()
    kept = folder / key
    if kept.exists():
        return kept
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        made = Path(scratch, "library")
        named = [Path(scratch, f"{number}.o") for number in range(len(objects))]  # zig goes by the ending
        for name, one in zip(named, objects, strict=True):
            name.symlink_to(one)
        result = subprocess.run(
            [*command, *map(str, named), *flags, "-o", str(made)],
            capture_output=True,
            text=True,
            check=False,
        )
        if result.returncode:
            raise BackendError(f"the kernel does not link: {first_error(result.stderr)}")
        os.replace(made, kept)
    return kept


def first_error(output: str) -> str:
    """The first line of a compiler's output that reports an error, at the line where a macro in it was written."""
    lines = output.splitlines()
    errors = [number for number, line in enumerate(lines) if "error" in line]
    if not errors:
        return (lines or ["the compiler said nothing"])[0].strip()
    first = lines[errors[0]].strip()
    until = errors[1] if len(errors) > 1 else len(lines)
    for line in lines[errors[0] + 1 : until]:
        if used := re.match(r"(\S+?:\d+:\d+): note: (?:in expansion of|expanded from) macro", line):
            return re.sub(r"^\S+?:\d+:\d+", used[1], first)
    return first


@cache
def cache_folder() -> Path:
    """Where built files are kept between runs: the user's cache, or a folder of this process's own."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kernels-in-motion"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError:
        folder = Path(tempfile.mkdtemp(prefix="kernels-in-motion-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        return folder
