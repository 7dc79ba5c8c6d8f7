"""A plain ``.cu`` file as it is read: its kernels and their parameters, and where it says what to show."""

from __future__ import annotations

from pathlib import Path

from kernels.errors import ParameterError
from kernels.launch.functions import Function, Macro, Parameter, Source, find_function, functions, macros
from kernels.launch.refusals import refuse_on_cpu
from kernels.launch.syntax import parse
from kernels.launch.texts import cpu_text, device_text, listening_text, own_headers

__all__ = [
    "Function",
    "Macro",
    "Parameter",
    "Source",
    "cpu_text",
    "device_text",
    "find_function",
    "listening_text",
    "own_headers",
    "parse_source",
    "read_source",
    "refuse_on_cpu",
    "shows_itself",
]


def read_source(path: Path | str) -> Source:
    """The source in a file; ParameterError if it cannot be read."""
    path = Path(path)
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ParameterError(f"the source {path} cannot be read: {reason}") from error
    return parse_source(text, path.name, path.resolve().parent)


def parse_source(text: str, name: str = "kernel.cu", folder: Path | None = None) -> Source:
    """The source in a text; `name` is how it is called in messages. ParameterError if it is no text."""
    if "\0" in text:
        raise ParameterError(f"the source {name} cannot be read: it has a NUL character, so it is no text")
    parsed = parse(text)
    holds = [*macros(parsed, "HOLD")]
    holds += [Macro(macro.line, macro.names[:1]) for macro in macros(parsed, "HOLD_AT")]
    return Source(
        name=name,
        text=text,
        folder=folder,
        functions=functions(parsed),
        snapshots=macros(parsed, "SNAPSHOT"),
        holds=tuple(sorted(holds, key=lambda macro: macro.line)),
    )


def shows_itself(source: Source) -> bool:
    """Whether the source says by SNAPSHOT where its steps end."""
    return bool(source.snapshots)
