"""What the steps of a film hold and move, as one script that a player loads: a large one only when asked.

A script and not JSON, because a page opened from a file may load scripts but not fetch. Numbers travel as the bytes
of float32, so the page shows what the trace holds. A step names only the slots it acted on or that changed.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from docs.film import Film, traced_step
from kernels.layout import Clear, LaunchLayout, Load, Store, Update
from kernels.trace import Array, Block, Step, Trace

LARGE = 100_000  # bytes of a script from which on a player loads it only when asked

Plain = dict[str, Any]
Held = Mapping[str, Array | None]


def snapshots_script(film: Film, trace: Trace) -> str:
    """The script that hands the snapshots of `film` to its players."""
    data = {
        "slots": [
            [
                {"name": slot.name, "symbol": slot.symbol, "carry": slot.name in carries(launch)}
                for slot in launch.slots
            ]
            for launch in trace.layout.launches
        ],
        "notWritten": _not_written(trace),
        "arrays": [{"name": array.name, "symbol": array.symbol} for array in trace.layout.arrays],
        "steps": _steps(film, trace),
    }
    return f"kernelPlayer.receive({json.dumps(film.recording)}, {json.dumps(data, separators=(',', ':'))});\n"


def _steps(film: Film, trace: Trace) -> dict[str, Plain]:
    """What changes at each step of the film; at a block's first, which has `launch`, all starts empty."""
    steps: dict[str, Plain] = {}
    block: tuple[int, Block] | None = None
    sram: Held = {}
    hbm: Held = {}
    for shown in film.steps:
        step = traced_step(film, trace, shown)
        if step is None:
            continue
        plain: Plain = {}
        if block != (step.launch, step.block):
            block, sram, hbm = (step.launch, step.block), {}, step.hbm.start
            plain = {"launch": step.launch, "start": _changes({}, hbm, set())}
        if shown.trace_step is not None:
            sram_now = {name: step.held(name) for name in step.sram}
            plain |= {
                "sram": _changes(sram, sram_now, _acted_on(step, "slot")),
                "hbm": _changes(hbm, step.hbm, _acted_on(step, "array")),
                "rows": first_rows(trace, step),
                "traffic": {name: [moved.reads, moved.writes] for name, moved in step.traffic.items()},
            }
            sram, hbm = sram_now, step.hbm
        steps[shown.id] = plain
    return steps


def carries(launch: LaunchLayout) -> set[str]:
    """The slots that a step of `launch` changes in place."""
    return {action.slot for step in launch.steps for action in step.actions if isinstance(action, Update)}


def _not_written(trace: Trace) -> int | None:
    """The bits that an array has before the run where nothing is to be read: a NaN; None if it has none."""
    for step in trace.steps:
        for values in step.hbm.start.values():
            if np.isnan(values).any():
                return int(values[np.isnan(values)].view(np.uint32)[0])
    return None


def first_rows(trace: Trace, step: Step) -> dict[str, int]:
    """For each slot that `step` loads or sets, the number of its first row in its head's matrix."""
    first: dict[str, int] = {}
    for action in step.kind.actions:
        if isinstance(action, Load) and action.array in step.traffic:
            first[action.slot] = step.traffic[action.array].rows[0]
        elif isinstance(action, Clear):
            first[action.slot] = first.get(action.rows or "", _stored_at(trace, step, action.slot))
    return first


def _stored_at(trace: Trace, step: Step, slot: str) -> int:
    """The first row that the block of `step` stores `slot` to; 0 if it stores it nowhere."""
    for later in trace.steps_of(step.block, step.launch):
        for action in later.kind.actions:
            if isinstance(action, Store) and action.slot == slot and action.array in later.traffic:
                return later.traffic[action.array].rows[0]
    return 0


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
