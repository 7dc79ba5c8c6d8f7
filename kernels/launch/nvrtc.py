"""From a plain source to PTX or machine code, by NVRTC as CuPy brings it."""

from __future__ import annotations

import re
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from kernels.errors import BackendError
from kernels.launch.source import Source, device_text, listening_text, own_headers

HERE = Path(__file__).resolve().parent.parent / "listen"
_COMMON = ("--std=c++17", "--device-as-default-execution-space", "-w")
_WORDS = "#include <gpu/words.h>\n"


def traced_text(source: Source) -> str:
    """What the compiler takes of a source that is traced: the header in front, line numbers as in the file."""
    before = f"#define KIM_TRACED\n{_WORDS}#include <kernels_in_motion.h>"
    return f'{before}\n#line 1 "{source.name}"\n{listening_text(source)}\n'


def plain_text(source: Source) -> str:
    """What the compiler takes of a source that is not: the file's own device code."""
    return f'{_WORDS}#line 1 "{source.name}"\n{device_text(source)}\n'


def _headers(source: Source, traced: bool) -> dict[str, str]:
    """The file's own headers as the compiler takes them, by the name that they are included by."""
    treat = listening_text if traced else device_text
    return {name: treat(header) for name, header in own_headers(source).items()}


class Compiler:
    """NVRTC for one device: `architecture` such as ``90``, and the folders of CUDA's own headers."""

    def __init__(self, nvrtc: Any, architecture: str, include: tuple[Path, ...]) -> None:
        self._nvrtc = nvrtc
        self._architecture = architecture
        self._include = include

    def compiled(
        self,
        text: str,
        source: Source | None,
        names: tuple[str, ...],
        kind: Literal["ptx", "cubin"],
        *more: str,
    ) -> tuple[bytes, dict[str, str]]:
        """The code of `text`, and for each name expression the name it has there.

        Raises BackendError with the compiler's first error.
        """
        folders = [HERE, *self._include]
        target = "compute" if kind == "ptx" else "sm"
        options = (
            *_COMMON,
            *(("--generate-line-info",) if source else ()),
            *more,
            f"--gpu-architecture={target}_{self._architecture}",
            *(f"--include-path={folder}" for folder in folders),
        )
        nvrtc = self._nvrtc
        name = source.name if source else "logger.cu"
        headers = _headers(source, "KIM_TRACED" in text) if source else {}
        program = nvrtc.createProgram(text, name, tuple(headers.values()), tuple(headers))
        try:
            for expression in names:
                nvrtc.addNameExpression(program, expression)
            try:
                nvrtc.compileProgram(program, options)
            except nvrtc.NVRTCError as error:
                raise BackendError(first_error(nvrtc.getProgramLog(program), name)) from error
            lowered = {expression: _text(nvrtc.getLoweredName(program, expression)) for expression in names}
            code = nvrtc.getPTX(program) if kind == "ptx" else nvrtc.getCUBIN(program)
            return (code.encode() if isinstance(code, str) else bytes(code)), lowered
        finally:
            nvrtc.destroyProgram(program)

    @cached_property
    def logger(self) -> str:
        """The PTX of the logger."""
        text = (HERE / "gpu" / "logger.cuh").read_text(encoding="utf-8")
        code, _ = self.compiled(text, None, (), "ptx", "--relocatable-device-code=true")
        return code.decode().rstrip("\0")


def _text(name: Any) -> str:
    return name.decode() if isinstance(name, bytes) else str(name)


def first_error(log: Any, name: str) -> str:
    """The first error of NVRTC's output as one sentence with its place in the user's file."""
    lines = _text(log).strip("\0").splitlines()
    for number, line in enumerate(lines):
        match = re.match(r"(.*)\((\d+)\): (?:catastrophic )?error(?: #\S+)?: (.*)", line)
        if not match:
            continue
        file, at, says = match.groups()
        if Path(file).name != Path(name).name:
            for later in lines[number:]:
                if outer := re.search(rf"at line (\d+)(?: of \S*{re.escape(Path(name).name)})?\s*$", later):
                    file, at = name, outer[1]
        says = re.sub(r'^static assertion failed with "(.*)"$', r"\1", says)
        return f"{Path(file).name}:{at}: {says}"
    return f"{name} does not compile: {next((line for line in lines if 'error' in line), 'NVRTC gave no reason')}"
