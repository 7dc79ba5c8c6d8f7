"""What places hold after each step, wound forwards and back, against a replay one write at a time."""

from __future__ import annotations

import numpy as np
import pytest

from kernels.listen.log import Kind
from kernels.trace.model import Trace
from tests.kernels.logs import (
    HBM,
    REGISTERS,
    SRAM,
    Act,
    atomic,
    drop,
    hold,
    launch_log,
    read,
    snapshot,
    trace_of,
    write,
)

THREADS, STEPS, CELLS = 4, 5, 6
F = np.float32


def programs(random: np.random.Generator) -> list[list[Act]]:
    """Of each thread: reads and writes of SRAM, HBM and a register at random, with a new scope of it here and there."""
    result = []
    for thread in range(THREADS):
        acts = [hold(thread, 0, "s", SRAM, extents=(2, 3)), hold(thread, 1, "r", REGISTERS, extents=(2,))]
        for step in range(STEPS):
            for _ in range(random.integers(0, 5)):
                value = F(random.integers(1, 100))
                place = random.choice(
                    [SRAM + 4 * random.integers(CELLS), HBM + 4 * random.integers(CELLS), REGISTERS + 4]
                )
                make = random.choice([write, atomic])
                acts.append(
                    read(thread, 3, int(place))
                    if random.random() < 0.3
                    else make(thread, 2, int(place), value)
                )
            if random.random() < 0.3:
                acts += [drop(thread, 1, REGISTERS), hold(thread, 1, "r", REGISTERS, extents=(2,))]
            acts.append(snapshot(thread, 4, "go, t", step))
        result.append(acts)
    return result


def merged(random: np.random.Generator, threads: list[list[Act]]) -> list[Act]:
    """The threads' acts in a random order that keeps each one's own."""
    turns = random.permutation(np.repeat(np.arange(len(threads)), [len(acts) for acts in threads]))
    left = [iter(acts) for acts in threads]
    return [next(left[turn]) for turn in turns]


def replayed(acts: list[Act], last: int) -> dict[str, np.ndarray]:
    """What each place holds after the step `last`, by doing the writes of the steps up to it in the log's order."""
    held = {"s": np.full(CELLS, np.nan, F), "B": np.zeros(CELLS, F), "r": np.full((THREADS, 2), np.nan, F)}
    step = [0] * THREADS
    for act in acts:
        if act.kind == Kind.SNAPSHOT:
            step[act.thread] += 1
        elif step[act.thread] <= last:
            if act.kind == Kind.HOLD and act.address == REGISTERS:
                held["r"][act.thread] = np.nan
            elif act.kind in (Kind.WRITE, Kind.ATOMIC):
                if act.address >= HBM:
                    held["B"][(act.address - HBM) // 4] = act.values
                elif act.address >= REGISTERS:
                    held["r"][act.thread, (act.address - REGISTERS) // 4] = act.values
                else:
                    held["s"][(act.address - SRAM) // 4] = act.values
    return held


def made(seed: int, window: tuple[int, int] | None = None) -> tuple[Trace, list[Act]]:
    random = np.random.default_rng(seed)
    acts = merged(random, programs(random))
    log = launch_log(acts, (1, 2, 3, 4, 5), {"B": (HBM, 4 * CELLS)})
    return trace_of(log, {"B": np.zeros(CELLS, F)}, block=(THREADS, 1, 1), steps=window), acts


def agrees(trace: Trace, acts: list[Act], index: int) -> None:
    step = trace.steps[index]
    held = replayed(acts, step.loop["t"])
    for name in ("s", "r"):
        content = step.slots[name]
        known = ~np.isnan(held[name])
        if content is None:
            assert not known.any()
            continue
        assert content.known.reshape(known.shape).tolist() == known.tolist()
        assert content.values.reshape(known.shape).tolist() == np.nan_to_num(held[name]).tolist()
    assert step.hbm["B"].tolist() == held["B"].tolist()


@pytest.mark.parametrize("seed", range(20))
def test_each_step_holds_what_a_replay_of_one_write_after_another_gives(seed: int) -> None:
    trace, acts = made(seed)
    for index in (*range(STEPS), 2, 0, 3):
        agrees(trace, acts, index)


@pytest.mark.parametrize("seed", range(10))
def test_a_window_of_steps_holds_the_same_as_the_whole(seed: int) -> None:
    trace, acts = made(seed, window=(2, 4))
    assert [step.loop["t"] for step in trace.steps] == [2, 3]
    for index in (1, 0):
        agrees(trace, acts, index)


def test_what_a_step_gives_cannot_be_written_to() -> None:
    trace, _ = made(0)
    step = trace.steps[-1]
    content = step.slots["s"]
    assert content is not None
    for array in (
        content.values,
        content.known,
        step.hbm["B"],
        step.written["B"],
        step.accesses,
        trace.values,
    ):
        assert not array.flags.writeable
