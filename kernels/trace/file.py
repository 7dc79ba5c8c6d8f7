"""The trace file of version 3: a manifest of what is few, and of each array, accesses among them, a packed column.

Coming back, nothing is taken on trust: every name, range and shape is checked.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from kernels import container
from kernels.container import Container, guarded, pack, unpack
from kernels.errors import TraceError
from kernels.listen.log import Site, Source
from kernels.memory import available
from kernels.trace.check import check
from kernels.trace.column import Column, from_column, to_column
from kernels.trace.model import (
    ACCESS,
    SCOPE,
    Argument,
    Array,
    Dim3,
    Launch,
    Place,
    StepRecord,
    Trace,
    dtype_of,
)
from kernels.trace.version2 import Provenance, Window

_ODD = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}  # numbers that JSON has no word for
_RECORDS = ("kind", "launch", "block", "rows", "loops")


class _Argument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    dtype: str
    shape: tuple[int, ...]
    value: int | float | bool | str | None
    origin: str


class _Launch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    kernel: str
    grid: Dim3
    block: Dim3
    shared_bytes: int
    arguments: tuple[_Argument, ...]


class _Place(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    memory: Literal["HBM", "SRAM", "registers"]
    dtype: str
    shape: tuple[int, ...]
    held: bool
    launch: int | None
    line: int


class _Site(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    line: int
    made_of: tuple[tuple[int, bool], ...] | None


class _Kind(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a SNAPSHOT says but for the values of its counters."""

    name: str
    loops: tuple[str, ...]
    line: int


class _Provenance(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    backend: str
    device: str
    driver: str
    runtime: str
    compiler: str
    source_hash: str
    recorded_at: str


class _Window(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    blocks: tuple[int, int] | None
    steps: tuple[int, int] | None


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What stands in the file beside its columns."""

    version: Literal[3]
    name: str
    source_name: str
    source_text: str
    launches: tuple[_Launch, ...]
    places: tuple[_Place, ...]
    sites: tuple[tuple[_Site, ...], ...]
    kinds: tuple[_Kind, ...]
    provenance: _Provenance
    window: _Window | None
    columns: dict[str, Column]


def save(trace: Trace, path: Path) -> None:
    """Write `trace` to `path`, wholly or not at all; TraceError if it cannot be written."""
    container.write(path, to_bytes(trace), len(trace.records))


def load(path: str | Path) -> Trace:
    """The trace in a file; TraceError as of `kernels.load`, and if it is one of version 2."""
    return from_bytes(container.read(Path(path)), str(path))


def to_bytes(trace: Trace) -> bytes:
    """The file of a trace."""
    return packed(*to_manifest(trace))


def packed(manifest: Manifest, data: Mapping[str, npt.NDArray[np.uint8]]) -> bytes:
    """The file of these parts."""
    return pack(msgspec.json.encode(manifest).decode(), data)


def from_bytes(data: bytes, name: str) -> Trace:
    """The trace in the bytes of a file called `name`; TraceError as in `load`."""
    with guarded(name):
        held = unpack(data, name)
        if held.manifest["version"] != 3:
            raise TraceError(f"{name} is a trace of version 2, not of a plain kernel: record it again")
        return from_container(held, name)


def from_container(held: Container, name: str) -> Trace:
    """The trace in a container; TraceError, or what `guarded` turns into one."""
    try:
        manifest = msgspec.json.decode(held.text, type=Manifest, strict=True)
    except msgspec.MsgspecError as error:
        raise ValueError(str(error)) from error
    needed = sum(column.nbytes for column in manifest.columns.values())
    needed += sum(max(0, math.prod(p.shape)) * dtype_of(p.dtype).itemsize for p in manifest.places)
    if needed > (room := available() // 3):
        raise TraceError(f"{name} needs {needed:,} bytes of memory; there is room for {room:,}")
    entries = dict(held.entries)
    if manifest.columns.keys() != entries.keys():
        raise TraceError(f"{name} is damaged: its tensors are not those its manifest lists")
    columns = {}
    for key, column in manifest.columns.items():
        entry = entries[key]
        if entry["dtype"] != "U8":
            raise TraceError(f"{name} is damaged: the tensor {key[:80]} is no bytes")
        try:
            columns[key] = from_column(column, entry["data"])
        except ValueError as error:
            raise TraceError(f"{name} is damaged: the tensor {key[:80]} is no column: {error}") from error
    return _trace(manifest, columns)


def to_manifest(trace: Trace) -> tuple[Manifest, dict[str, npt.NDArray[np.uint8]]]:
    """The manifest of a trace and the bytes of its columns."""
    columns: dict[str, Column] = {}
    data: dict[str, npt.NDArray[np.uint8]] = {}

    def put(key: str, values: Array, *, delta: bool = False, width: int | None = None) -> None:
        columns[key], data[key] = to_column(values, delta=delta, width=width)

    for number, arrays in enumerate((trace.before, *trace.later)):
        for name, array in arrays.items():
            put(f"before/{number}/{name}", array)
    for name, array in trace.outputs.items():
        put(f"output/{name}", array)
    for field in ACCESS.names or ():
        values = trace.accesses[field]
        put(
            f"access/{field}",
            values[_by_place(trace.accesses["place"])] if field == "cell" else values,
            delta=True,
        )
    for field in SCOPE.names or ():
        put(f"scope/{field}", trace.scopes[field], delta=True)
    sizes = {dtype_of(place.dtype).itemsize for place in trace.places}
    size = max(sizes, default=1)
    put("values", trace.values, width=size if len(trace.values) % size == 0 else 1)
    kinds: dict[_Kind, int] = {}
    which = [
        kinds.setdefault(_Kind(record.name, tuple(record.loop), record.line), len(kinds))
        for record in trace.records
    ]
    loops = [value for record in trace.records for value in record.loop.values()]
    put("record/kind", np.array(which, np.int64), delta=True)
    put("record/launch", np.array([r.launch for r in trace.records], np.int64), delta=True)
    put("record/block", np.array([r.block for r in trace.records], np.int64).reshape(-1, 3), delta=True)
    put("record/rows", np.array([r.rows for r in trace.records], np.int64).reshape(-1, 2), delta=True)
    put("record/loops", np.array(loops, np.int64), delta=True)
    manifest = Manifest(
        version=3,
        name=trace.name,
        source_name=trace.source_name,
        source_text=trace.source_text,
        launches=tuple(_plain_launch(launch) for launch in trace.launches),
        places=tuple(_Place(**vars(place)) for place in trace.places),
        sites=tuple(tuple(_plain_site(site) for site in sites) for sites in trace.sites),
        kinds=tuple(kinds),
        provenance=_Provenance(**vars(trace.provenance)),
        window=None if trace.window is None else _Window(**vars(trace.window)),
        columns=columns,
    )
    return manifest, data


def _plain_launch(launch: Launch) -> _Launch:
    arguments = []
    for argument in launch.arguments:
        value = argument.value
        odd = isinstance(value, float) and not math.isfinite(value)
        arguments.append(
            _Argument(
                argument.name, argument.dtype, argument.shape, str(value) if odd else value, argument.origin
            )
        )
    return _Launch(launch.kernel, launch.grid, launch.block, launch.shared_bytes, tuple(arguments))


def _plain_site(site: Site) -> _Site:
    made_of = site.made_of
    return _Site(site.line, None if made_of is None else tuple((one.site, one.via_warp) for one in made_of))


def _trace(manifest: Manifest, columns: Mapping[str, Array]) -> Trace:
    """The trace of these parts; ValueError if they do not fit each other."""
    arrays: list[dict[str, Array]] = [{} for _ in manifest.launches]
    outputs = {}
    for key, values in columns.items():
        role, _, rest = key.partition("/")
        if role == "output":
            outputs[rest] = values
        elif role == "before":
            number, _, name = rest.partition("/")
            arrays[int(number)][name] = values
        elif role not in ("access", "scope", "record", "values"):
            raise ValueError(f"a trace has no {key[:80]}")
    window = manifest.window
    trace = Trace(
        name=manifest.name,
        source_name=manifest.source_name,
        source_text=manifest.source_text,
        launches=tuple(_launch(launch) for launch in manifest.launches),
        places=tuple(Place(**msgspec.structs.asdict(place)) for place in manifest.places),
        before=arrays[0],
        later=tuple(arrays[1:]),
        outputs=outputs,
        sites=tuple(tuple(_site(site) for site in sites) for sites in manifest.sites),
        accesses=_table({**columns, "access/cell": _cells(columns)}, "access", ACCESS),
        values=columns["values"],
        scopes=_table(columns, "scope", SCOPE),
        records=_records(manifest, columns),
        provenance=Provenance(**msgspec.structs.asdict(manifest.provenance)),
        window=None if window is None else Window(window.blocks, window.steps),
    )
    check(trace)
    return trace


def _by_place(place: Array) -> Array:
    """The order of the cells in the file: those of each place together, for then they follow each other."""
    order: Array = np.argsort(place, kind="stable")
    return order


def _cells(columns: Mapping[str, Array]) -> Array:
    """The cells in the order of the accesses."""
    stored, place = columns["access/cell"], columns["access/place"]
    if stored.shape != place.shape or place.ndim != 1:
        raise ValueError(f"there are {stored.shape} cells for {place.shape} accesses")
    cells = np.empty_like(stored)
    cells[_by_place(place)] = stored
    return cells


def _table(columns: Mapping[str, Array], name: str, dtype: np.dtype[Any]) -> Array:
    fields = dtype.names or ()
    table = np.empty(len(columns[f"{name}/{fields[0]}"]), dtype)
    for field in fields:
        values = columns[f"{name}/{field}"]
        if values.dtype != dtype[field] or values.shape != table.shape:
            raise ValueError(f"the column {field} is {values.dtype} {values.shape}")
        table[field] = values
    table.flags.writeable = False
    return table


def _records(manifest: Manifest, columns: Mapping[str, Array]) -> tuple[StepRecord, ...]:
    kind, launch, block, rows, loops = (columns[f"record/{name}"] for name in _RECORDS)
    many = len(kind)
    shapes = {"kind": (many,), "launch": (many,), "block": (many, 3), "rows": (many, 2)}
    for name, shape in shapes.items():
        if columns[f"record/{name}"].dtype != np.int64 or columns[f"record/{name}"].shape != shape:
            raise ValueError(f"the steps have no {name}")
    if many and not (kind.min() >= 0 and kind.max() < len(manifest.kinds)):
        raise ValueError("a step is of no kind")
    counts = np.array([len(one.loops) for one in manifest.kinds], np.int64)[kind]
    if loops.dtype != np.int64 or loops.shape != (int(counts.sum()),):
        raise ValueError("the loop counters are not those of the steps")
    begins = (np.cumsum(counts) - counts).tolist()
    counters = loops.tolist()
    return tuple(
        StepRecord(
            name=one.name,
            loop=dict(zip(one.loops, counters[begin : begin + len(one.loops)], strict=True)),
            line=one.line,
            launch=number,
            block=tuple(place),
            rows=tuple(part),
        )
        for one, number, place, part, begin in zip(
            (manifest.kinds[n] for n in kind.tolist()),
            launch.tolist(),
            block.tolist(),
            rows.tolist(),
            begins,
            strict=True,
        )
    )


def _launch(launch: _Launch) -> Launch:
    arguments = tuple(
        Argument(a.name, a.dtype, a.shape, _ODD[a.value] if isinstance(a.value, str) else a.value, a.origin)
        for a in launch.arguments
    )
    return Launch(launch.kernel, launch.grid, launch.block, launch.shared_bytes, arguments)


def _site(site: _Site) -> Site:
    return Site(site.line, None if site.made_of is None else tuple(Source(*one) for one in site.made_of))
