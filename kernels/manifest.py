"""A trace as a manifest of plain JSON values and a set of named tensors, and back.

Each slot's contents and each window's patches are stored once, however many steps they last; a step's entry in the
manifest says which one it shows. Coming back, nothing is taken on trust: every name, range and shape is checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from kernels.layout import ArrayLayout, LaunchLayout, Layout, as_count, as_text
from kernels.trace import Array, Patch, Provenance, Step, Trace, Traffic, Window, Windows

Tensors = Mapping[str, npt.NDArray[Any]]


def to_manifest(trace: Trace) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """The manifest and the tensors of a trace."""
    tensors = {f"input/{name}": np.ascontiguousarray(values) for name, values in trace.inputs.items()}
    tensors |= {f"output/{name}": np.ascontiguousarray(values) for name, values in trace.outputs.items()}
    steps = _Steps(tensors)
    manifest = {
        "kernel": trace.kernel,
        "title": trace.title,
        "params": dict(trace.params),
        "provenance": asdict(trace.provenance),
        "layout": trace.layout.to_manifest(),
        "window": None if trace.window is None else asdict(trace.window),
        "steps": [steps.entry(step) for step in trace.steps],
    }
    steps.finish()
    return manifest, tensors


class _Contents:
    """What slots hold, each content once, so that a slot that kept it from step to step is seen to have kept it."""

    def __init__(self, tensors: Tensors) -> None:
        self._tensors = tensors
        self._contents: dict[tuple[str, int], Array] = {}

    def __call__(self, name: str, number: int) -> Array:
        if (name, number) not in self._contents:
            self._contents[name, number] = self._tensors[name][number]
        return self._contents[name, number]


def from_manifest(manifest: Mapping[str, Any], tensors: Tensors) -> Trace:
    """The trace that `to_manifest` took apart.

    Raises KeyError, IndexError, TypeError, ValueError or AttributeError if they are anything else.
    """
    layout = Layout.from_manifest(manifest["layout"])
    patches = {
        name.removesuffix("/at"): _split(tensors[name], tensors[name.removesuffix("at") + "values"])
        for name in tensors
        if name.endswith("/at")
    }
    contents = _Contents(tensors)
    steps = tuple(
        _step(index, entry, layout, tensors, patches, contents)
        for index, entry in enumerate(_list(manifest["steps"]))
    )
    order = [(step.launch, *reversed(step.block)) for step in steps]
    if not steps or order != sorted(order):
        raise ValueError("its steps are not in the order launch, block, time")

    def arrays(role: str) -> dict[str, Array]:
        return {a.name: _array(tensors, f"{role}/{a.name}", a.shape) for a in layout.arrays if a.role == role}

    return Trace(
        kernel=as_text(manifest["kernel"]),
        title=as_text(manifest["title"]),
        params={as_text(name): as_count(value, 0) for name, value in manifest["params"].items()},
        layout=layout,
        inputs=arrays("input"),
        outputs=arrays("output"),
        steps=steps,
        provenance=Provenance(
            **{field.name: as_text(manifest["provenance"][field.name]) for field in fields(Provenance)}
        ),
        window=_window(manifest["window"]),
    )


class _Steps:
    """Gathers what the steps hold into one tensor for each block and slot or array."""

    def __init__(self, tensors: dict[str, npt.NDArray[Any]]) -> None:
        self._tensors = tensors
        self._contents: dict[str, list[Array]] = {}
        self._patches: dict[str, list[Patch]] = {}

    def entry(self, step: Step) -> dict[str, Any]:
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


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r} is no list")
    return value


def _window(plain: Any) -> Window | None:
    if plain is None:
        return None

    def part(value: Any) -> tuple[int, int] | None:
        if value is None:
            return None
        first, end = (as_count(number, 0) for number in _list(value))
        if first >= end:
            raise ValueError(f"its window is {first}:{end}")
        return first, end

    return Window(blocks=part(plain["blocks"]), steps=part(plain["steps"]))


def _array(tensors: Tensors, name: str, shape: tuple[int, ...]) -> Array:
    values = tensors[name]
    if values.shape != shape or values.dtype != np.float32:
        raise ValueError(f"{name} is {values.dtype} {values.shape}, not float32 {shape}")
    return values


def _split(at: npt.NDArray[Any], values: npt.NDArray[Any]) -> tuple[Patch, ...]:
    if (
        at.dtype != np.int32
        or at.ndim != 2
        or at.shape[1] != 4
        or values.dtype != np.float32
        or values.ndim != 1
    ):
        raise ValueError(f"its patches are {values.dtype} {values.shape} at {at.dtype} {at.shape}")
    patches = []
    begun = 0
    for row, column, rows, columns in at.tolist():
        if min(row, column) < 0 or min(rows, columns) < 1 or begun + rows * columns > len(values):
            raise ValueError("its patches do not fill their boxes")
        patches.append(Patch(row, column, values[begun : begun + rows * columns].reshape(rows, columns)))
        begun += rows * columns
    if begun != len(values):
        raise ValueError("its patches do not fill their boxes")
    return tuple(patches)


def _step(
    index: int,
    entry: Mapping[str, Any],
    layout: Layout,
    tensors: Tensors,
    patches: Mapping[str, tuple[Patch, ...]],
    contents: _Contents,
) -> Step:
    number = as_count(entry["launch"], 0)
    launch = layout.launches[number]
    kind = launch.step(entry["name"])
    x, y, z = (
        as_count(place, 0, size - 1) for place, size in zip(_list(entry["block"]), launch.grid, strict=True)
    )
    where = f"{number}/{x}.{y}.{z}"
    valid = _valid(entry["valid"], launch)
    hbm = {
        name: _written(layout.array(name), f"hbm/{where}/{name}", as_count(count, 0), tensors, patches)
        for name, count in entry["hbm"].items()
    }
    return Step(
        index=index,
        name=kind.name,
        loop={name: as_count(value, 0) for name, value in zip(kind.loops, _list(entry["loop"]), strict=True)},
        block=(x, y, z),
        launch=number,
        kind=kind,
        sram=_sram(entry["sram"], launch, where, contents),
        valid=valid,
        hbm=Windows(
            {name: start for name, (start, _) in hbm.items()}, {name: done for name, (_, done) in hbm.items()}
        ),
        traffic={
            name: _traffic(layout.array(name), _list(plain)) for name, plain in entry["traffic"].items()
        },
    )


def _sram(
    plain: Mapping[str, Any], launch: LaunchLayout, where: str, contents: _Contents
) -> dict[str, Array | None]:
    held: dict[str, Array | None] = {}
    for slot in launch.slots:
        number = plain[slot.name]
        if number is None:
            held[slot.name] = None
            continue
        content = contents(f"sram/{where}/{slot.name}", as_count(number, 0))
        if content.shape != slot.shape or content.dtype != np.float32:
            raise ValueError(
                f"the slot {slot.name} is {content.dtype} {content.shape}, not float32 {slot.shape}"
            )
        held[slot.name] = content
    return held


def _valid(plain: Mapping[str, Any], launch: LaunchLayout) -> dict[str, tuple[int, ...]]:
    return {
        slot.name: tuple(
            as_count(extent, 0, most)
            for extent, most in zip(_list(plain[slot.name]), slot.shape, strict=True)
        )
        for slot in launch.slots
    }


def _written(
    array: ArrayLayout, where: str, count: int, tensors: Tensors, patches: Mapping[str, tuple[Patch, ...]]
) -> tuple[Array, tuple[Patch, ...]]:
    """A block's window of an array before the launch, and its first `count` patches."""
    start = _array(tensors, f"{where}/start", array.shape[array.lead :])
    done = patches.get(where, ())[:count]
    if len(done) != count or any(
        patch.row + patch.values.shape[0] > array.rows or patch.column + patch.values.shape[1] > array.columns
        for patch in done
    ):
        raise ValueError(f"the window of {array.name} lacks patches, or they lie outside it")
    return start, done


def _traffic(array: ArrayLayout, plain: list[Any]) -> Traffic:
    reads, writes, row, row_end, column, column_end, head = (as_count(number, 0) for number in plain)
    if not (row < row_end <= array.rows and column < column_end <= array.columns and head < array.heads):
        raise ValueError(f"the traffic of {array.name} lies outside it")
    return Traffic(reads, writes, (row, row_end), (column, column_end), head)
