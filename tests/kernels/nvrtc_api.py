"""NVRTC without a GPU, with the calls that CuPy gives it: for what `kernels.launch.nvrtc` compiles."""

from __future__ import annotations

import ctypes
from typing import Any

from tests.kernels.nvrtc import library


class NVRTCError(Exception):
    """A call of NVRTC that failed."""


class Nvrtc:
    """What `cupy.cuda.nvrtc` offers, as far as it is used."""

    NVRTCError = NVRTCError

    def createProgram(self, text: str, name: str, headers: Any, names: Any) -> Any:
        program = ctypes.c_void_p()
        texts = (ctypes.c_char_p * len(headers))(*(header.encode() for header in headers))
        called = (ctypes.c_char_p * len(names))(*(each.encode() for each in names))
        made = library().nvrtcCreateProgram(
            ctypes.byref(program), text.encode(), name.encode(), len(headers), texts, called
        )
        _check(made)
        return program

    def addNameExpression(self, program: Any, expression: str) -> None:
        _check(library().nvrtcAddNameExpression(program, expression.encode()))

    def compileProgram(self, program: Any, options: tuple[str, ...]) -> None:
        texts = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        _check(library().nvrtcCompileProgram(program, len(options), texts))

    def getLoweredName(self, program: Any, expression: str) -> bytes:
        name = ctypes.c_char_p()
        _check(library().nvrtcGetLoweredName(program, expression.encode(), ctypes.byref(name)))
        return name.value or b""

    def getPTX(self, program: Any) -> bytes:
        return _bytes(program, "PTX")

    def getCUBIN(self, program: Any) -> bytes:
        return _bytes(program, "CUBIN")

    def getProgramLog(self, program: Any) -> str:
        return _bytes(program, "ProgramLog").decode()

    def destroyProgram(self, program: Any) -> None:
        library().nvrtcDestroyProgram(ctypes.byref(program))


def _bytes(program: Any, what: str) -> bytes:
    size = ctypes.c_size_t()
    _check(getattr(library(), f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
    data = ctypes.create_string_buffer(size.value)
    _check(getattr(library(), f"nvrtcGet{what}")(program, data))
    return data.raw


def _check(result: int) -> None:
    if result:
        raise NVRTCError(f"NVRTC returned {result}")
