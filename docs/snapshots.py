"""What the steps of a film hold and move, as one script that a player loads when its reader comes near.

A script and not JSON, because a page opened from a file may load scripts but not fetch. Numbers travel as the bytes
of float32, so the page shows what the trace holds. A step names only the slots it acted on or that changed.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from docs.film import Film
from kernels.layout import Store
from kernels.trace import Array, Block, Step, Trace

Plain = dict[str, Any]
Held = Mapping[str, Array | None]


def snapshots_script(film: Film, trace: Trace) -> str:
    """The script that hands the snapshots of `film` to its players."""
    data = {"places": list(_places(film, trace)), "steps": _steps(film, trace)}
    return f"kernelPlayer.receive({json.dumps(film.recording)}, {json.dumps(data, separators=(',', ':'))});\n"


def _places(film: Film, trace: Trace) -> Iterator[Plain]:
    """The slots of SRAM, then the arrays in HBM, of the launches the film shows."""
    launches = sorted(
        {trace.steps[step.trace_step].launch for step in film.steps if step.trace_step is not None}
    )
    for launch in launches:
        for slot in trace.layout.launches[launch].slots:
            yield {"name": slot.name, "symbol": slot.symbol, "memory": "SRAM"}
    for array in trace.layout.arrays:
        yield {"name": array.name, "symbol": array.symbol, "memory": "HBM"}


def _steps(film: Film, trace: Trace) -> dict[str, Plain]:
    steps: dict[str, Plain] = {}
    block: tuple[int, Block] | None = None
    sram: Held = {}
    hbm: Held = {}
    for shown in film.steps:
        if shown.trace_step is None:
            continue
        step = trace.steps[shown.trace_step]
        fresh = block != (step.launch, step.block)
        if fresh:
            block, sram, hbm = (step.launch, step.block), {}, {}
        sram_now = {name: step.held(name) for name in step.sram}
        steps[shown.id] = {
            "fresh": fresh,
            "sram": _changes(sram, sram_now, _acted_on(step, "slot")),
            "hbm": _changes(hbm, step.hbm, _acted_on(step, "array")),
            "traffic": {name: [moved.reads, moved.writes] for name, moved in step.traffic.items()},
        }
        sram, hbm = sram_now, step.hbm
    return steps


def _acted_on(step: Step, place: Literal["slot", "array"]) -> set[str]:
    """The slots of SRAM that `step` filled or changed, or the arrays it stored to."""
    stores = place == "array"
    return {getattr(action, place) for action in step.kind.actions if isinstance(action, Store) == stores}


def _changes(before: Held, now: Held, acted_on: set[str]) -> Plain:
    """What is new, by place: `[rows, columns, base64 of float32]`."""
    return {
        name: _encoded(values)
        for name, values in now.items()
        if values is not None and (name in acted_on or not _same(before.get(name), values))
    }


def _same(a: Array | None, b: Array) -> bool:
    return a is not None and a.shape == b.shape and a.tobytes() == b.tobytes()


def _encoded(values: Array) -> list[int | str]:
    rows, columns = values.reshape(values.shape[0], -1).shape
    return [rows, columns, base64.b64encode(values.astype("<f4").tobytes()).decode("ascii")]
