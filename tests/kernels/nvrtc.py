"""NVRTC by ctypes: compiles CUDA for a device this machine need not have."""

from __future__ import annotations

import ctypes
import importlib.util
from functools import cache
from pathlib import Path


class CompileError(Exception):
    """What NVRTC said of a source it refused."""


@cache
def library() -> ctypes.CDLL | None:
    """NVRTC from its wheel; None where it is not installed."""
    for package in ("nvidia.cu13", "nvidia.cuda_nvrtc"):
        try:
            spec = importlib.util.find_spec(package)
        except ModuleNotFoundError:
            continue
        for folder in spec.submodule_search_locations or () if spec else ():
            for file in sorted(Path(folder, "lib").glob("libnvrtc.so.*")):
                return ctypes.CDLL(str(file))
    return None


def compile_cubin(source: str, *names: str, name: str = "kernel.cu") -> bytes:
    """The machine code of `source` for sm_90, with the instances in `names`; CompileError if it does not compile."""
    nvrtc = library()
    assert nvrtc is not None
    program = ctypes.c_void_p()
    _check(nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), name.encode(), 0, None, None))
    for expression in names:
        _check(nvrtc.nvrtcAddNameExpression(program, expression.encode()))
    options = [b"--std=c++17", b"--gpu-architecture=sm_90"]
    result = nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    if result:
        size = ctypes.c_size_t()
        _check(nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size)))
        log = ctypes.create_string_buffer(size.value)
        _check(nvrtc.nvrtcGetProgramLog(program, log))
        raise CompileError(log.value.decode())
    size = ctypes.c_size_t()
    _check(nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size)))
    cubin = ctypes.create_string_buffer(size.value)
    _check(nvrtc.nvrtcGetCUBIN(program, cubin))
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return cubin.raw


def _check(result: int) -> None:
    if result:
        raise CompileError(f"NVRTC returned {result}")
