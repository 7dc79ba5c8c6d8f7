"""The file around a trace of any version: safetensors with a manifest as JSON under one key, read and written whole.

A file is an input like any other: whatever it holds, loading it gives a trace or a TraceError of one sentence.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import stat
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, deserialize
from safetensors.numpy import save as serialize

from kernels.errors import TraceError
from kernels.memory import available

VERSIONS = (2, 3)
_KEY = "kernels-in-motion"
_END = ',"crc32":'  # of all that stands before it in the manifest
_MOST_HEADER = 100_000_000  # bytes that safetensors reads


@dataclass(frozen=True)
class Container:
    """What a file holds: its manifest, which matches its checksum, as JSON text and as values, and its tensors.

    `entries` are (name, {"dtype", "shape", "data"}) as safetensors gives them.
    """

    text: str
    manifest: Mapping[str, Any]
    entries: list[tuple[str, Any]]


def pack(text: str, tensors: Mapping[str, npt.NDArray[Any]]) -> bytes:
    """A file of these tensors and this JSON object, which gets a checksum."""
    text = text[:-1]
    data: bytes = serialize(dict(tensors), {_KEY: f"{text}{_END}{zlib.crc32(text.encode())}}}"})
    return data


def unpack(data: bytes, name: str) -> Container:
    """The parts of a file called `name`; TraceError, or what `guarded` turns into one."""
    entries: list[tuple[str, Any]] = deserialize(data)  # type: ignore[no-untyped-call]
    size = int.from_bytes(data[:8], "little")
    header = _json(data[8 : 8 + size].decode())
    metadata = header.get("__metadata__") or {}
    if _KEY not in metadata:
        raise TraceError(f"{name} is no trace: it is a safetensors file without our manifest")
    text = metadata[_KEY]
    manifest = _json(text)
    version = manifest.get("version")
    if version not in VERSIONS:
        raise TraceError(
            f"{name} is a trace of version {str(version)[:20]}; this program reads version "
            f"{' and '.join(map(str, VERSIONS))}: record it again"
        )
    before, _, checksum = text.rpartition(_END)
    if checksum != f"{zlib.crc32(before.encode())}}}":
        raise TraceError(f"{name} is damaged: its manifest does not match its checksum")
    return Container(before + "}", manifest, entries)


@contextlib.contextmanager
def guarded(name: str) -> Iterator[None]:
    """Whatever goes wrong with the bytes of the file called `name` inside is a TraceError of one sentence."""
    try:
        yield
    except TraceError:
        raise
    except MemoryError as error:
        raise TraceError(f"{name} needs more memory than there is") from error
    except (
        SafetensorError,
        ArithmeticError,
        ValueError,
        RecursionError,
        LookupError,
        TypeError,
        AttributeError,
    ) as error:
        why = " ".join(str(error).split())[:200]
        raise TraceError(f"{name} is no trace, or is cut short or damaged: {why}") from error


def checksum(values: npt.NDArray[Any]) -> int:
    """A CRC-32 of an array's dtype, shape and bytes."""
    about = zlib.crc32(f"{values.dtype} {values.shape}".encode())
    return zlib.crc32(np.ascontiguousarray(values).reshape(-1).view(np.uint8).data, about)


def read(path: Path) -> bytes:
    """The bytes of a file; TraceError if there is none, or no room for it."""
    try:
        # Opening a pipe that nobody writes to must not wait; on a file the flag does nothing.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        with open(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise TraceError(f"{path} is not a file: give the path of a trace that `record` wrote")
            if status.st_size > (room := available() // 3):
                raise TraceError(f"{path} has {status.st_size:,} bytes; there is room for {room:,}")
            return file.read(status.st_size)
    except FileNotFoundError as error:
        raise TraceError(f"{path} does not exist: give the path of a trace that `record` wrote") from error
    except IsADirectoryError as error:
        raise TraceError(f"{path} is not a file: give the path of a trace that `record` wrote") from error
    except TraceError:
        raise
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise TraceError(f"{str(path)!r} cannot be read: {why}") from error


def write(path: Path, data: bytes, steps: int) -> None:
    """Write the bytes of a file, that has so many steps, wholly or not at all; TraceError if that cannot be done."""
    if int.from_bytes(data[:8], "little") > _MOST_HEADER:
        raise TraceError(
            f"{path} cannot be written: {steps:,} steps are too many for a file: record a window of them"
        )
    scratch = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        if path.exists() and not path.is_file():
            raise TraceError(
                f"{path} cannot be written: {'Is a directory' if path.is_dir() else 'it is not a file'}"
            )
        with open(scratch, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(scratch, path)
    except (OSError, ValueError) as error:
        if isinstance(error, TraceError):
            raise
        with contextlib.suppress(OSError, ValueError):
            os.unlink(scratch)
        why = error.strerror if isinstance(error, OSError) else error
        raise TraceError(f"{path} cannot be written: {why}") from error


def _json(text: str) -> dict[str, Any]:
    """A JSON object in which no name occurs twice and every number is finite."""

    def object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(pairs)
        if len(result) != len(pairs):
            raise ValueError("a name occurs twice")
        return result

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is no number")

    value = json.loads(text, object_pairs_hook=object_of, parse_constant=refuse)
    if not isinstance(value, dict):
        raise ValueError("it holds no JSON object")
    return value
