"""The trace file: safetensors, with a manifest as JSON under one metadata key, and checksums of both.

A file is an input like any other: whatever it holds, loading it gives a trace or a TraceError of one sentence.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import stat
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, deserialize
from safetensors.numpy import save as serialize

from kernels.errors import TraceError
from kernels.manifest import Tensors, from_manifest, to_manifest
from kernels.memory import available
from kernels.trace import Trace

VERSION = 2
_KEY = "kernels-in-motion"
_END = ',"crc32":'  # of all that stands before it in the manifest
_MOST_HEADER = 100_000_000  # bytes that safetensors reads
_TYPES = {"F32": np.float32, "I32": np.int32}


def save(trace: Trace, path: Path) -> None:
    """Write `trace` to `path`, wholly or not at all; TraceError if it cannot be written."""
    manifest, tensors = to_manifest(trace)
    data = to_bytes(manifest, tensors)
    if len(data) - sum(values.nbytes for values in tensors.values()) > _MOST_HEADER:
        raise TraceError(
            f"{path} cannot be written: {len(trace.steps):,} steps are too many for a file: record a window of them"
        )
    _write(path, data)


def load(path: str | Path) -> Trace:
    """The trace in a file.

    Raises TraceError if the file cannot be read, is not a trace, is cut short or damaged, or is of another version.
    """
    return from_bytes(_read(Path(path)), str(path))


def to_bytes(manifest: Mapping[str, Any], tensors: Tensors) -> bytes:
    """A trace file of these parts, with the version and the checksums that belong to them."""
    checksums = {name: _checksum(values) for name, values in tensors.items()}
    text = json.dumps({"version": VERSION, **manifest, "checksums": checksums}, separators=(",", ":"))[:-1]
    data: bytes = serialize(dict(tensors), {_KEY: f"{text}{_END}{zlib.crc32(text.encode())}}}"})
    return data


def from_bytes(data: bytes, name: str) -> Trace:
    """The trace in the bytes of a file called `name`; TraceError as in `load`."""
    try:
        return from_manifest(*_parts(data, name))
    except TraceError:
        raise
    except MemoryError as error:
        raise TraceError(f"{name} needs more memory than there is") from error
    except (SafetensorError, ValueError, RecursionError, LookupError, TypeError, AttributeError) as error:
        why = " ".join(str(error).split())[:200]
        raise TraceError(f"{name} is no trace, or is cut short or damaged: {why}") from error


def _checksum(values: npt.NDArray[Any]) -> int:
    return zlib.crc32(values.tobytes(), zlib.crc32(f"{values.dtype} {values.shape}".encode()))


def _parts(data: bytes, name: str) -> tuple[Mapping[str, Any], Tensors]:
    """The manifest and the tensors, each checked against its checksum."""
    plain: list[tuple[str, Any]] = deserialize(data)  # type: ignore[no-untyped-call]
    size = int.from_bytes(data[:8], "little")
    header = _json(data[8 : 8 + size].decode())
    metadata = header.get("__metadata__") or {}
    if _KEY not in metadata:
        raise TraceError(f"{name} is no trace: it is a safetensors file without our manifest")
    text = metadata[_KEY]
    manifest = _json(text)
    if manifest.get("version") != VERSION:
        raise TraceError(
            f"{name} is a trace of version {str(manifest.get('version'))[:20]}; this program reads version {VERSION}: "
            "record it again"
        )
    before, _, checksum = text.rpartition(_END)
    if checksum != f"{zlib.crc32(before.encode())}}}":
        raise TraceError(f"{name} is damaged: its manifest does not match its checksum")
    tensors = {}
    for key, entry in plain:
        values = np.frombuffer(entry["data"], _TYPES[entry["dtype"]]).reshape(entry["shape"])
        values.flags.writeable = False
        tensors[key] = values
    checksums = manifest["checksums"]
    if set(checksums) != set(tensors):
        raise TraceError(f"{name} is damaged: its tensors are not those its manifest lists")
    for key, values in tensors.items():
        if _checksum(values) != checksums[key]:
            raise TraceError(f"{name} is damaged: the tensor {key[:80]} does not match its checksum")
    return manifest, tensors


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


def _read(path: Path) -> bytes:
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


def _write(path: Path, data: bytes) -> None:
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
