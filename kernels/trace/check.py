"""Whether the parts of a trace that came from a file fit each other."""

from __future__ import annotations

import math

import numpy as np

from kernels.layout import as_count, as_names, as_text
from kernels.trace.column import DTYPES
from kernels.trace.model import Array, Place, Trace, shape_of_registers

_MOST_THREADS = 2**16


def check(trace: Trace) -> None:
    """ValueError if a name, a range or a shape of the trace does not fit the others."""
    _texts(trace)
    _launches(trace)
    for launch in range(len(trace.launches)):
        as_names(place.name for place in trace.places if place.launch in (None, launch))
    for place in trace.places:
        _place(trace, place)
    if {place.name for place in trace.places if place.memory == "HBM"} != set(trace.before):
        raise ValueError("its arrays are not those that its launches have")
    for arrays in (*trace.later, trace.outputs):
        for name, array in arrays.items():
            if not _alike(array, trace.before[name]):
                raise ValueError(f"the array {name} changes its shape")
    _steps(trace)
    _rows(trace)


def _texts(trace: Trace) -> None:
    as_text(trace.name)
    as_text(trace.source_name)
    for text in (*vars(trace.provenance).values(), *trace.before):
        as_text(text)
    for record in trace.records:
        as_text(record.name)
        as_names(record.loop)
        as_count(record.line, 0)
    if trace.window is not None:
        for part in (trace.window.blocks, trace.window.steps):
            if part is not None and not 0 <= part[0] < part[1]:
                raise ValueError(f"its window is {part[0]}:{part[1]}")


def _launches(trace: Trace) -> None:
    if not trace.launches or len(trace.sites) != len(trace.launches):
        raise ValueError("its launches and their sites are not as many")
    for launch, sites in zip(trace.launches, trace.sites, strict=True):
        as_text(launch.kernel)
        as_count(launch.shared_bytes, 0)
        for size in (*launch.grid, *launch.block):
            as_count(size)
        as_count(math.prod(launch.block), 1, _MOST_THREADS)
        for argument in launch.arguments:
            as_text(argument.name)
            as_text(argument.origin)
            if argument.dtype not in DTYPES:
                raise ValueError(f"{argument.dtype[:20]} is no dtype of an argument")
            array = trace.before.get(argument.name)
            if argument.value is None and (
                array is None or (array.dtype.name, array.shape) != (argument.dtype, argument.shape)
            ):
                raise ValueError(f"the argument {argument.name} is no array of the trace")
        for site in sites:
            as_count(site.line, 0)
            for source in site.made_of or ():
                as_count(source.site, 0, len(sites) - 1)


def _place(trace: Trace, place: Place) -> None:
    as_text(place.name)
    as_count(place.line, 0)
    if place.dtype not in DTYPES or min(place.shape, default=1) < 0:
        raise ValueError(f"{place.name} is {place.dtype[:20]} {place.shape}")
    if place.memory == "HBM":
        array = trace.before.get(place.name)
        if place.launch is not None or place.held or array is None:
            raise ValueError(f"{place.name} is no array of the trace")
        if (array.dtype.name, array.shape) != (place.dtype, place.shape):
            raise ValueError(f"the array {place.name} is {array.dtype} {array.shape}")
        return
    launch = trace.launches[as_count(place.launch, 0, len(trace.launches) - 1)]
    threads = shape_of_registers(launch.block, ())
    if place.memory == "registers" and place.shape[: len(threads)] != threads:
        raise ValueError(f"{place.name} is not one value a thread")


def _steps(trace: Trace) -> None:
    before, end = None, 0
    for record in trace.records:
        launch = trace.launches[as_count(record.launch, 0, len(trace.launches) - 1)]
        for at, size in zip(record.block, launch.grid, strict=True):
            as_count(at, 0, size - 1)
        here = (record.launch, *reversed(record.block))
        begin, stop = record.rows
        fits = end == begin if here == before else end <= begin
        if not fits or stop < begin or (before is not None and here < before):
            raise ValueError("its steps are not in the order launch, block, time")
        if trace.accesses["write"][end:begin].size and not trace.accesses["write"][end:begin].all():
            raise ValueError("there are reads before a block's first step")
        before, end = here, stop
    if end != len(trace.accesses):
        raise ValueError("there are accesses of no step")


def _rows(trace: Trace) -> None:
    rows = trace.accesses
    ends = [0]
    for launch in range(len(trace.launches)):
        ends.append(max((r.rows[1] for r in trace.records if r.launch == launch), default=ends[-1]))
    launch_of = np.repeat(np.arange(len(trace.launches)), np.diff(ends))
    threads = np.array([math.prod(launch.block) for launch in trace.launches])
    sites = np.array([len(sites) for sites in trace.sites])
    cells = np.array([math.prod(place.shape) for place in trace.places] or [0], np.uint64)
    launches = np.array([-1 if p.launch is None else p.launch for p in trace.places] or [-2])
    registers = np.array([place.memory == "registers" for place in trace.places] or [False])
    _inside(rows["place"], len(trace.places), "place")
    _inside(rows["write"], 3, "kind")
    _inside(rows["cell"], cells[rows["place"]], "cell")
    _inside(rows["thread"], threads[launch_of], "thread")
    _inside(rows["site"], sites[launch_of], "site")
    if np.any((launches[rows["place"]] != -1) & (launches[rows["place"]] != launch_of)):
        raise ValueError("an access is to a place of another launch")
    per_thread = np.maximum(1, cells[rows["place"]] // threads[launch_of].astype(np.uint64))
    own = registers[rows["place"]]
    if np.any(own & (rows["cell"] // per_thread != rows["thread"])):
        raise ValueError("an access is to another thread's registers")
    scopes = trace.scopes
    _inside(scopes["record"], len(trace.records), "step")
    _inside(scopes["place"], len(trace.places), "place")
    launch_of = np.array([record.launch for record in trace.records] or [0])[scopes["record"]]
    _inside(scopes["thread"], threads[launch_of], "thread")
    if not np.all(registers[scopes["place"]] & (launches[scopes["place"]] == launch_of)):
        raise ValueError("a scope is of no registers")
    if trace.values.dtype != np.uint8 or trace.values.shape != (int(trace.value_starts[-1]),):
        raise ValueError("the values are not those of the cells written")


def _inside(values: Array, end: Array | int, what: str) -> None:
    if np.any(values >= end):
        raise ValueError(f"an access has no {what}")


def _alike(one: Array, other: Array) -> bool:
    return one.dtype == other.dtype and one.shape == other.shape
