"""The trace file: safetensors, with a manifest as JSON under one metadata key and a checksum for each tensor.

Each slot's contents and each window's patches are stored once, however many steps they last; a step's entry in the
manifest says which one it shows.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import zlib
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as serialize

from kernels.errors import TraceError
from kernels.layout import Layout
from kernels.trace import Array, Patch, Provenance, Step, Trace, Traffic, Windows

VERSION = 1
_KEY = "kernels-in-motion"
_MOST_BYTES = 8 * 1024**3


def save(trace: Trace, path: Path) -> None:
    """Write `trace` to `path`, wholly or not at all; TraceError if it cannot be written."""
    tensors = {f"input/{name}": np.ascontiguousarray(values) for name, values in trace.inputs.items()}
    tensors |= {f"output/{name}": np.ascontiguousarray(values) for name, values in trace.outputs.items()}
    steps = _Steps(tensors)
    manifest = {
        "version": VERSION,
        "kernel": trace.kernel,
        "title": trace.title,
        "params": dict(trace.params),
        "provenance": asdict(trace.provenance),
        "layout": trace.layout.to_manifest(),
        "steps": [steps.entry(trace, step) for step in trace.steps],
    }
    steps.finish()
    manifest["checksums"] = {name: zlib.crc32(values.tobytes()) for name, values in tensors.items()}
    _write(path, serialize(tensors, {_KEY: json.dumps(manifest, separators=(",", ":"))}))


def load(path: str | Path) -> Trace:
    """The trace in a file.

    Raises TraceError if the file cannot be read, is not a trace, is cut short or damaged, or is of another version.
    """
    path = Path(path)
    manifest, tensors = _read(path)
    try:
        return _trace(manifest, tensors)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise TraceError(f"{path} is damaged: its manifest and its tensors do not fit ({error!r})") from error


class _Steps:
    """Gathers what the steps hold into one tensor for each block and slot or array."""

    def __init__(self, tensors: dict[str, npt.NDArray[Any]]) -> None:
        self._tensors = tensors
        self._contents: dict[str, list[Array]] = {}
        self._patches: dict[str, list[Patch]] = {}

    def entry(self, trace: Trace, step: Step) -> dict[str, Any]:
        block = f"{step.launch}/{'.'.join(map(str, step.block))}"
        return {
            "name": step.name,
            "loop": list(step.loop.values()),
            "block": list(step.block),
            "launch": step.launch,
            "sram": {slot: self._content(f"sram/{block}/{slot}", held) for slot, held in step.sram.items()},
            "valid": {slot: list(valid) for slot, valid in step.valid.items()},
            "hbm": {name: self._window(f"hbm/{block}/{name}", step.hbm, name) for name in step.hbm},
            "traffic": {
                name: [t.reads, t.writes, *t.rows, *t.columns, t.head] for name, t in step.traffic.items()
            },
        }

    def finish(self) -> None:
        for name, contents in self._contents.items():
            self._tensors[name] = np.stack(contents)
        for name, patches in self._patches.items():
            self._tensors[f"{name}/at"] = np.array(
                [(p.row, p.column, *p.values.shape) for p in patches], np.int32
            )
            self._tensors[f"{name}/values"] = np.concatenate([patch.values.ravel() for patch in patches])

    def _content(self, name: str, held: Array | None) -> int | None:
        if held is None:
            return None
        contents = self._contents.setdefault(name, [])
        if not contents or contents[-1] is not held:
            contents.append(held)
        return len(contents) - 1

    def _window(self, name: str, windows: Windows, array: str) -> int:
        self._tensors[f"{name}/start"] = np.ascontiguousarray(windows.start[array])
        patches = windows.patches.get(array, ())
        if patches:
            self._patches[name] = list(patches)
        return len(patches)


def _write(path: Path, data: bytes) -> None:
    scratch = None
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            scratch = file.name
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(scratch, 0o666 & ~_umask())
        os.replace(scratch, path)
    except OSError as error:
        if scratch:
            with contextlib.suppress(OSError):
                os.unlink(scratch)
        raise TraceError(f"{path} cannot be written: {error.strerror or error}") from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _read(path: Path) -> tuple[Mapping[str, Any], dict[str, npt.NDArray[Any]]]:
    try:
        if not path.is_file():
            why = "is not a file" if path.exists() else "does not exist"
            raise TraceError(f"{path} {why}: give the path of a trace that `record` wrote")
        if path.stat().st_size > _MOST_BYTES:
            raise TraceError(f"{path} has {path.stat().st_size:,} bytes; a trace has at most {_MOST_BYTES:,}")
        with safe_open(path, framework="numpy") as file:
            text = (file.metadata() or {}).get(_KEY)
            if text is None:
                raise TraceError(f"{path} is no trace: it is a safetensors file without our manifest")
            manifest = json.loads(text)
            if not isinstance(manifest, dict) or manifest.get("version") != VERSION:
                version = manifest.get("version") if isinstance(manifest, dict) else manifest
                raise TraceError(
                    f"{path} is a trace of version {version!r}; this program reads version {VERSION}: record it again"
                )
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError, RecursionError) as error:
        if isinstance(error, TraceError):
            raise
        raise TraceError(f"{path} is no trace, or is cut short or damaged: {error}") from error
    checksums = manifest.get("checksums")
    if not isinstance(checksums, dict) or set(checksums) != set(tensors):
        raise TraceError(f"{path} is damaged: its tensors are not those its manifest lists")
    for name, values in tensors.items():
        if zlib.crc32(values.tobytes()) != checksums[name]:
            raise TraceError(f"{path} is damaged: the tensor {name} does not match its checksum")
        values.flags.writeable = False
    return manifest, tensors


def _trace(manifest: Mapping[str, Any], tensors: Mapping[str, npt.NDArray[Any]]) -> Trace:
    layout = Layout.from_manifest(manifest["layout"])
    patches = {
        name.removesuffix("/at"): _split(tensors[name], tensors[name.removesuffix("at") + "values"])
        for name in tensors
        if name.endswith("/at")
    }
    steps = tuple(
        _step(index, entry, layout, tensors, patches) for index, entry in enumerate(manifest["steps"])
    )
    return Trace(
        kernel=str(manifest["kernel"]),
        title=str(manifest["title"]),
        params=dict(manifest["params"]),
        layout=layout,
        inputs={
            a.name: _array(tensors, f"input/{a.name}", a.shape) for a in layout.arrays if a.role == "input"
        },
        outputs={
            a.name: _array(tensors, f"output/{a.name}", a.shape) for a in layout.arrays if a.role == "output"
        },
        steps=steps,
        provenance=Provenance(**manifest["provenance"]),
    )


def _array(tensors: Mapping[str, npt.NDArray[Any]], name: str, shape: tuple[int, ...]) -> Array:
    values = tensors[name]
    if values.shape != shape or values.dtype != np.float32:
        raise ValueError(f"{name} is {values.dtype} {values.shape}, not float32 {shape}")
    return values


def _split(at: npt.NDArray[Any], values: npt.NDArray[Any]) -> tuple[Patch, ...]:
    ends = np.cumsum([rows * columns for _, _, rows, columns in at.tolist()])
    if len(values) != ends[-1] or (at < 0).any():
        raise ValueError("its patches do not fill their boxes")
    pieces = np.split(values, ends[:-1])
    return tuple(
        Patch(row, column, piece.reshape(rows, columns))
        for (row, column, rows, columns), piece in zip(at.tolist(), pieces, strict=True)
    )


def _step(
    index: int,
    entry: Mapping[str, Any],
    layout: Layout,
    tensors: Mapping[str, npt.NDArray[Any]],
    patches: Mapping[str, tuple[Patch, ...]],
) -> Step:
    launch = layout.launches[entry["launch"]]
    kind = launch.step(entry["name"])
    x, y, z = entry["block"]
    where = f"{entry['launch']}/{x}.{y}.{z}"
    sram: dict[str, Array | None] = {}
    valid: dict[str, tuple[int, ...]] = {}
    for slot in launch.slots:
        number = entry["sram"][slot.name]
        content = None if number is None else tensors[f"sram/{where}/{slot.name}"][number]
        if content is not None and (content.shape != slot.shape or content.dtype != np.float32):
            raise ValueError(
                f"the slot {slot.name} is {content.dtype} {content.shape}, not float32 {slot.shape}"
            )
        sram[slot.name] = content
        extent = tuple(int(n) for n in entry["valid"][slot.name])
        if len(extent) != len(slot.shape) or not all(
            0 <= n <= most for n, most in zip(extent, slot.shape, strict=True)
        ):
            raise ValueError(f"the slot {slot.name} of shape {slot.shape} has {extent} valid")
        valid[slot.name] = extent
    start: dict[str, Array] = {}
    done: dict[str, tuple[Patch, ...]] = {}
    for name, count in entry["hbm"].items():
        array = layout.array(name)
        start[name] = _array(tensors, f"hbm/{where}/{name}/start", array.shape[array.lead :])
        done[name] = patches.get(f"hbm/{where}/{name}", ())[:count]
        if len(done[name]) != count or any(
            p.row + p.values.shape[0] > array.rows or p.column + p.values.shape[1] > array.columns
            for p in done[name]
        ):
            raise ValueError(f"the window of {name} lacks patches, or they lie outside it")
    return Step(
        index=index,
        name=kind.name,
        loop={name: int(value) for name, value in zip(kind.loops, entry["loop"], strict=True)},
        block=(int(x), int(y), int(z)),
        launch=int(entry["launch"]),
        kind=kind,
        sram=sram,
        valid=valid,
        hbm=Windows(start, done),
        traffic={name: _traffic(layout, name, numbers) for name, numbers in entry["traffic"].items()},
    )


def _traffic(layout: Layout, name: str, numbers: list[int]) -> Traffic:
    array = layout.array(name)
    if not all(isinstance(number, int) and number >= 0 for number in numbers):
        raise ValueError(f"the traffic of {name} is {numbers}")
    reads, writes, row, row_end, column, column_end, head = numbers
    if (
        row >= row_end
        or row_end > array.rows
        or column >= column_end
        or column_end > array.columns
        or head >= array.heads
    ):
        raise ValueError(f"the traffic of {name} lies outside it")
    return Traffic(reads, writes, (row, row_end), (column, column_end), head)
