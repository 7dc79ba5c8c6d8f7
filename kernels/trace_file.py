"""The trace file of version 2, and the way to that of version 3: `load` reads both."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from kernels import container
from kernels.container import Container, checksum, guarded, pack, unpack
from kernels.errors import TraceError
from kernels.manifest import Tensors, from_manifest, to_manifest
from kernels.trace import Trace

VERSION = 2
_TYPES = {"F32": np.float32, "I32": np.int32}


def save(trace: Trace, path: Path) -> None:
    """Write `trace` to `path`, wholly or not at all; TraceError if it cannot be written."""
    container.write(path, to_bytes(*to_manifest(trace)), len(trace.steps))


def load(path: str | Path) -> Any:
    """The trace in a file: a `kernels.Trace`, or of a plain kernel a `kernels.trace.model.Trace`.

    Raises TraceError if the file cannot be read, is not a trace, is cut short or damaged, or is of another version.
    """
    return from_bytes(container.read(Path(path)), str(path))


def to_bytes(manifest: Mapping[str, Any], tensors: Tensors) -> bytes:
    """A trace file of these parts, with the version and the checksums that belong to them."""
    checksums = {name: checksum(values) for name, values in tensors.items()}
    whole = {"version": VERSION, **manifest, "checksums": checksums}
    return pack(json.dumps(whole, separators=(",", ":")), tensors)


def from_bytes(data: bytes, name: str) -> Any:
    """The trace in the bytes of a file called `name`; TraceError as in `load`."""
    with guarded(name):
        held = unpack(data, name)
        if held.manifest["version"] != VERSION:
            from kernels.trace.file import from_container

            return from_container(held, name)
        return from_manifest(held.manifest, _tensors(held, name))


def _tensors(held: Container, name: str) -> Tensors:
    """The tensors, each checked against its checksum."""
    tensors = {}
    for key, entry in held.entries:
        values = np.frombuffer(entry["data"], _TYPES[entry["dtype"]]).reshape(entry["shape"])
        values.flags.writeable = False
        tensors[key] = values
    checksums = held.manifest["checksums"]
    if set(checksums) != set(tensors):
        raise TraceError(f"{name} is damaged: its tensors are not those its manifest lists")
    for key, values in tensors.items():
        if checksum(values) != checksums[key]:
            raise TraceError(f"{name} is damaged: the tensor {key[:80]} does not match its checksum")
    return tensors
