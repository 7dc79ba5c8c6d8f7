"""The library that a CPU runs plain kernels from: CUDA's words, the user's text, and a way in for each kernel."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import kernels.listen
from kernels.backend.compiler import built, cache_folder, compiler, linked, version
from kernels.launch.functions import Source, find_function
from kernels.launch.refusals import refuse_on_cpu
from kernels.launch.texts import cpu_text, own_headers

_LISTEN = Path(kernels.listen.__file__).parent
_CPU = _LISTEN / "cpu"

# addr2line 2.40 mistakes a lone file of DWARF 5 for the one that was compiled.
# -O1 keeps the accesses of the source; what a loop adds up stays in memory, where its reads and writes are seen.
_ALWAYS = (
    "-O1",
    "-gdwarf-4",
    "-g1",
    "-fPIC",
    "-fvisibility=hidden",
    "-fno-optimize-sibling-calls",
    "-fstack-clash-protection",
    "-fno-delete-null-pointer-checks",
    "-c",
)
_TRACED = ("-fsanitize=thread",)
_GCC = ("-fno-gnu-unique", "-fno-move-loop-stores", "-fstack-reuse=none")
_GCC_TRACED = ("--param", "tsan-instrument-func-entry-exit=0")
_CLANG_TRACED = (
    "-fno-unroll-loops",
    *("-mllvm", "-unroll-full-max-count=0"),
    *("-mllvm", "-disable-licm-promotion"),
    *("-mllvm", "-tsan-instrument-func-entry-exit=0"),
    *("-mllvm", "-tsan-instrument-read-before-write=1"),
)


def built_library(source: Source, kernels: Sequence[str], traced: bool) -> Path:
    """The shared library with ``kim_start_<n>(void** arguments)`` for each of the name expressions `kernels`.

    Raises BackendError with the compiler's first error, in the user's file and line, or if the CPU cannot run a kernel.
    """
    clang = "clang" in version(compiler()).lower()
    flags = [*_ALWAYS]
    for folder in (_headers(source), _CPU / "include", _LISTEN, source.folder):
        flags += ["-I", str(folder)] if folder is not None else []
    flags += () if clang else _GCC
    if traced:
        flags += [*_TRACED, *(_CLANG_TRACED if clang else _GCC_TRACED)]
    kernel = built(_text(source, kernels, traced), flags)
    return linked([kernel, runtime_object()], ("-shared", "-ldl"))


def runtime_object() -> Path:
    """What is linked to every kernel."""
    text = (_CPU / "runtime.cpp").read_text(encoding="utf-8")
    return built(text, ("-O2", "-fPIC", "-fvisibility=hidden", "-c"))


def _text(source: Source, kernels: Sequence[str], traced: bool) -> str:
    starts = []
    for number, expression in enumerate(kernels):
        function = find_function(source, expression)
        refuse_on_cpu(source, function)
        starts.append(
            f'extern "C" __attribute__((visibility("default"), no_sanitize("thread"))) '
            f"void kim_start_{number}(void** arguments) {{ kim_cpu::call({function.expression}, arguments); }}"
        )
    name = source.name.replace("\\", "\\\\").replace('"', '\\"')
    return "\n".join(
        [
            "#define KIM_TRACED" if traced else "",
            (_CPU / "runtime.h").read_text(encoding="utf-8").replace("#pragma once", ""),
            (_LISTEN / "kernels_in_motion.h").read_text(encoding="utf-8"),
            f'#line 1 "{name}"',
            cpu_text(source),
            f'#line 1 "the launch of {name}"',
            *starts,
        ]
    )


def _headers(source: Source) -> Path | None:
    """A folder with the user's own headers as the compiler takes them; None if there are none."""
    texts = {
        name: f'#line 1 "{name}"\n{cpu_text(header)}' for name, header in sorted(own_headers(source).items())
    }
    if not texts:
        return None
    key = hashlib.sha256("\0".join(part for one in texts.items() for part in one).encode()).hexdigest()
    # As deep as the names go up, so that "../common.h" stays inside.
    inner = Path(*["up"] * max(name.count("..") for name in texts))
    kept = cache_folder() / f"{key}.headers"
    if not kept.exists():
        with tempfile.TemporaryDirectory(dir=cache_folder()) as scratch:
            made = Path(scratch, "headers")
            for name, text in texts.items():
                path = Path(os.path.normpath(made / inner / name))
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            (made / inner).mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(OSError):  # another process was faster
                os.replace(made, kept)
    return kept / inner
