"""From the log of a launch to a trace: places, cells, steps, epochs, and what is refused."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from kernels.errors import BackendError, ParameterError
from kernels.listen.log import Fault, Kind, Space
from kernels.trace.ends import parts
from tests.kernels.logs import (
    HBM,
    REGISTERS,
    SRAM,
    Act,
    atomic,
    barrier,
    drop,
    hold,
    launch_log,
    read,
    snapshot,
    trace_of,
    warp_barrier,
    write,
)

F = np.float32


def load_and_scale(t: int, thread: int) -> list[Act]:
    """Thread `thread` of two puts A[2 t + thread] into its cell of s, then twice the other's cell into B."""
    return [
        read(thread, 0, HBM + 4 * (2 * t + thread)),
        write(thread, 1, SRAM + 4 * thread, F(2 * t + thread)),
        barrier(thread, 2),
        snapshot(thread, 3, "load, t", t),
        read(thread, 4, SRAM + 4 * (1 - thread)),
        write(thread, 5, HBM + 0x1000 + 4 * (2 * t + thread), F(2 * (2 * t + 1 - thread))),
        barrier(thread, 6),
        snapshot(thread, 7, "store, t", t),
    ]


A = np.arange(4, dtype=F)
ARRAYS = {"A": (HBM, 16), "B": (HBM + 0x1000, 16)}


def two_tiles(*, shown: bool = True) -> list[Act]:
    """Each thread's whole program, with a barrier between; thread 1 after thread 0 in each part, as fibers run."""
    acts = [hold(thread, 8, "s", SRAM, extents=(2,), hidden=not shown) for thread in (0, 1)]
    for t in (0, 1):
        of = [load_and_scale(t, thread) for thread in (0, 1)]
        acts += of[0][:3] + of[1][:3] + of[0][3:7] + of[1][3:7] + of[0][7:] + of[1][7:]
    return acts


LINES = (10, 11, 12, 13, 14, 15, 16, 17, 5)


def test_steps_are_named_by_their_snapshots_and_hold_what_was_written_by_then() -> None:
    trace = trace_of(
        launch_log(two_tiles(), LINES, ARRAYS), {"A": A, "B": np.zeros(4, F)}, {"B": F([2, 0, 6, 4])}
    )
    assert [(s.name, s.loop, s.line) for s in trace.steps] == [
        ("load", {"t": 0}, 13),
        ("store", {"t": 0}, 17),
        ("load", {"t": 1}, 13),
        ("store", {"t": 1}, 17),
    ]
    held = [s.slots["s"] for s in trace.steps]
    assert [list(c.values) for c in held if c] == [[0, 1], [0, 1], [2, 3], [2, 3]]
    assert [list(s.hbm["B"]) for s in trace.steps] == [[0, 0, 0, 0], [2, 0, 0, 0], [2, 0, 0, 0], [2, 0, 6, 4]]
    assert list(trace.outputs) == ["B"]
    assert list(trace.inputs) == ["A"]
    assert trace.name == "hand"


def test_each_step_says_which_cells_it_touched_and_what_crossed() -> None:
    trace = trace_of(
        launch_log(two_tiles(), LINES, ARRAYS), {"A": A, "B": np.zeros(4, F)}, {"B": F([2, 0, 6, 4])}
    )
    load, store = trace.steps[2:]
    assert load.read["A"].tolist() == [False, False, True, True]
    assert load.written["s"].all()
    assert not store.written["s"].any()
    assert store.read["s"].all()
    assert load.traffic["A"].reads == 2
    assert load.traffic["A"].bytes_read == 8
    assert load.traffic["A"].box_read == ((2, 4),)
    assert load.traffic["A"].box_written is None
    assert "B" not in load.traffic
    total = trace.traffic["B"]
    assert (total.reads, total.writes, total.bytes_written, total.transfers) == (0, 4, 16, 2)


def test_without_a_hold_the_shared_variables_are_shown_and_with_one_they_are_not() -> None:
    hidden = trace_of(launch_log(two_tiles(shown=False), LINES, ARRAYS), {"A": A, "B": A * 0})
    assert [p.name for p in hidden.held] == ["s"]
    acts = [
        hold(0, 8, "t", SRAM + 64, extents=(1,)),
        hold(1, 8, "t", SRAM + 64, extents=(1,)),
        *two_tiles(shown=False),
    ]
    both = trace_of(launch_log(acts, LINES, ARRAYS), {"A": A, "B": A * 0})
    assert [p.name for p in both.held] == ["t"]
    assert both.steps[0].slots["t"] is None
    assert both.steps[0].written["s"].all()


def test_a_hold_and_the_declaration_of_one_variable_are_one_place() -> None:
    acts = [
        hold(0, 0, "s", SRAM, extents=(2,), hidden=True),
        write(0, 2, SRAM, F(1)),
        hold(0, 1, "r, s", SRAM, extents=(2,), index=1),
        write(0, 2, SRAM + 4, F(2)),
        snapshot(0, 3, "only"),
    ]
    trace = trace_of(launch_log(acts, (4, 9, 10, 11)))
    (place,) = trace.places
    assert (place.name, place.held, place.line, place.memory) == ("s", True, 9, "SRAM")
    content = trace.steps[0].slots["s"]
    assert content is not None
    assert content.values.tolist() == [1, 2]


def test_without_a_snapshot_each_barrier_ends_a_step_named_by_its_line() -> None:
    acts = [act for act in two_tiles() if act.kind != Kind.SNAPSHOT]
    acts.append(write(0, 4, SRAM, F(9)))
    trace = trace_of(launch_log(acts, LINES, ARRAYS), {"A": A, "B": A * 0})
    assert [(s.name, s.loop, s.line) for s in trace.steps] == [
        ("line 12", {}, 12),
        ("line 16", {}, 16),
        ("line 12", {}, 12),
        ("line 16", {}, 16),
        ("end", {}, 14),
    ]


def test_registers_of_a_block_of_two_by_three_threads_make_one_tile() -> None:
    acts = []
    for thread in range(6):
        acts += [
            hold(thread, 0, "acc", REGISTERS + 64 * thread, extents=(2,)),
            write(thread, 1, REGISTERS + 64 * thread + 4, F(thread)),
        ]
    acts += [snapshot(thread, 2, "only") for thread in range(6)]
    trace = trace_of(launch_log(acts, (3, 4, 5)), block=(3, 2, 1))
    content = trace.steps[0].slots["acc"]
    assert content is not None
    assert content.values.shape == (2, 3, 2)
    assert content.values[..., 1].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert not content.known[..., 0].any()


def test_the_same_address_of_two_threads_is_two_registers() -> None:
    acts = [
        act
        for thread in (0, 1)
        for act in (hold(thread, 0, "x", REGISTERS), write(thread, 1, REGISTERS, F(thread + 5)))
    ]
    trace = trace_of(launch_log([*acts, snapshot(0, 2, "only"), snapshot(1, 2, "only")], (1, 2, 3)))
    content = trace.steps[0].slots["x"]
    assert content is not None
    assert content.values.tolist() == [5, 6]


def test_a_register_is_unknown_again_when_its_scope_is_entered_again() -> None:
    acts = [
        hold(0, 0, "x", REGISTERS),
        write(0, 1, REGISTERS, F(5)),
        snapshot(0, 2, "first"),
        drop(0, 0, REGISTERS),
        hold(0, 0, "x", REGISTERS),
        snapshot(0, 3, "second"),
        write(0, 1, REGISTERS, F(6)),
        snapshot(0, 3, "third"),
        drop(0, 0, REGISTERS),
    ]
    trace = trace_of(launch_log(acts, (1, 2, 3, 4)), block=(1, 1, 1))
    assert [None if (c := s.slots["x"]) is None else c.values.tolist() for s in trace.steps] == [
        [5],
        None,
        [6],
    ]


def test_what_a_thread_wrote_to_a_variable_before_its_hold_counts_but_not_after_its_drop() -> None:
    acts = []
    for turn in (0, 1):
        acts += [
            write(0, 1, REGISTERS, F(turn)),
            hold(0, 0, "x", REGISTERS),
            snapshot(0, 2, "turn, t", turn),
            drop(0, 0, REGISTERS),
        ]
    acts += [write(0, 1, REGISTERS, F(7)), snapshot(0, 2, "turn, t", 2)]
    trace = trace_of(launch_log(acts, (1, 2, 3)), block=(1, 1, 1))
    assert [c.values.tolist() for s in trace.steps if (c := s.slots["x"])] == [[0], [1], [1]]


def test_two_variables_in_one_place_of_a_thread_one_after_another_are_two() -> None:
    acts = [
        hold(0, 0, "x", REGISTERS),
        write(0, 1, REGISTERS, F(5)),
        drop(0, 0, REGISTERS),
        hold(0, 2, "y", REGISTERS, "int32"),
        write(0, 3, REGISTERS, np.int32(6)),
        drop(0, 2, REGISTERS),
        snapshot(0, 4, "only"),
    ]
    trace = trace_of(launch_log(acts, (1, 2, 3, 4, 5)), block=(1, 1, 1))
    assert {name: c.values.tolist() for name, c in trace.steps[0].slots.items() if c} == {"x": [5], "y": [6]}


def test_memory_carved_by_hand_is_the_inner_variable_while_that_is_held() -> None:
    acts = [
        hold(0, 0, "pool", SRAM, extents=(4,), hidden=True),
        hold(0, 1, "p", SRAM + 8, extents=(1, 2)),
        write(0, 2, SRAM, F([1, 2, 3, 4])[:2]),
        write(0, 2, SRAM + 8, F([3, 4])),
        drop(0, 1, SRAM + 8),
        write(0, 2, SRAM + 8, F(9)),
        snapshot(0, 3, "only"),
    ]
    trace = trace_of(launch_log(acts, (1, 2, 3, 4)), block=(1, 1, 1))
    step = trace.steps[0]
    assert step.slots["p"].values.tolist() == [[3, 4]]  # type: ignore[union-attr]
    assert step.content("pool").values.tolist() == [1, 2, 9, 0]  # type: ignore[union-attr]
    assert list(step.slots) == ["p"]


def test_a_wide_access_is_one_request_on_each_of_its_cells() -> None:
    acts = [
        hold(0, 0, "h", SRAM, "float16", (4,)),
        read(0, 1, HBM, 16),
        write(0, 2, SRAM + 4, np.float16([1, 2])),
        snapshot(0, 3, "only"),
    ]
    trace = trace_of(launch_log(acts, (1, 2, 3, 4), {"A": (HBM, 16)}), {"A": A}, block=(1, 1, 1))
    rows = trace.accesses
    assert rows["cell"].tolist() == [0, 1, 2, 3, 2, 3]
    assert len(set(rows["request"][:4])) == 1
    assert trace.values.tobytes() == np.float16([1, 2]).tobytes()


def test_an_access_across_two_variables_is_one_of_each() -> None:
    acts = [
        hold(0, 0, "a, b", SRAM, extents=(1,)),
        hold(0, 0, "a, b", SRAM + 4, extents=(1,), index=1),
        write(0, 1, SRAM, F([1, 2])),
        snapshot(0, 2, "only"),
    ]
    step = trace_of(launch_log(acts, (1, 2, 3)), block=(1, 1, 1)).steps[0]
    assert [c.values.tolist() for c in step.slots.values() if c] == [[1], [2]]


def test_a_write_to_a_part_of_a_cell_leaves_the_rest_of_it() -> None:
    half = np.array([1.5], F).view(np.uint8)
    acts = [
        hold(0, 0, "s", SRAM, extents=(2,)),
        write(0, 1, SRAM + 6, half[2:]),
        write(0, 1, SRAM + 4, half[:2]),
        write(0, 1, HBM + 6, np.array([2.5], F).view(np.uint8)[2:]),
        snapshot(0, 2, "only"),
    ]
    before = F([7, np.nan])
    step = trace_of(launch_log(acts, (1, 2, 3), {"B": (HBM, 8)}), {"B": before}, block=(1, 1, 1)).steps[0]
    content = step.slots["s"]
    assert content is not None
    assert content.values.tolist() == [0, 1.5]
    assert content.known.tolist() == [False, True]
    patched = before.copy()
    patched.view(np.uint8)[6:] = np.array([2.5], F).view(np.uint8)[2:]
    assert step.hbm["B"].tobytes() == patched.tobytes()


def test_two_threads_that_write_parts_of_one_cell_in_one_instruction_write_one_value() -> None:
    halves = np.array([1.5], F).view(np.uint8)
    acts = [
        hold(0, 0, "x", SRAM),
        hold(1, 0, "x", SRAM),
        write(0, 1, SRAM, F([7.25])),
        write(1, 1, SRAM, halves[:2], request=40),
        write(0, 1, SRAM + 2, halves[2:], request=40),
        snapshot(0, 2, "only"),
        snapshot(1, 2, "only"),
    ]
    trace = trace_of(launch_log(acts, (1, 2, 3)))
    assert trace.values.view(F).tolist() == [
        0,
        1.5,
        1.5,
    ]  # nothing is kept of what a thread overwrote in its step


def test_values_that_lanes_wrote_to_one_cell_in_one_instruction_are_kept() -> None:
    acts = [
        *(hold(thread, 0, "x", SRAM) for thread in (0, 1)),
        write(0, 1, SRAM, F([3]), request=40),
        write(0, 1, SRAM, F([4])),
        write(1, 1, SRAM, F([5]), request=40),
        write(1, 1, SRAM, F([6])),
        *(snapshot(thread, 2, "only") for thread in (0, 1)),
    ]
    assert trace_of(launch_log(acts, (1, 2, 3))).values.view(F).tolist() == [3, 4, 5, 6]


def test_shared_memory_in_no_known_variable_is_shown_as_bytes() -> None:
    acts = [write(0, 0, SRAM + 32, F(1)), write(0, 0, SRAM + 40, F(2)), snapshot(0, 1, "only")]
    trace = trace_of(launch_log(acts, (1, 2)), block=(1, 1, 1))
    content = trace.steps[0].slots["shared memory"]
    assert content is not None
    assert content.values.view(F)[[0, 2]].tolist() == [1, 2]
    assert content.known.reshape(3, 4).all(axis=1).tolist() == [True, False, True]


def test_a_thread_s_memory_that_no_hold_names_is_left_out() -> None:
    acts = [write(0, 0, REGISTERS, F(1)), read(0, 0, REGISTERS), snapshot(0, 1, "only")]
    trace = trace_of(launch_log(acts, (1, 2)), block=(1, 1, 1))
    assert not len(trace.accesses)
    assert len(trace.steps) == 1


def test_epochs_count_the_barriers_that_each_thread_has_passed() -> None:
    acts = [
        hold(0, 0, "s", SRAM, extents=(2,)),
        hold(1, 0, "s", SRAM, extents=(2,)),
        write(1, 1, SRAM, F(1)),
        barrier(0, 2),
        write(0, 1, SRAM, F(2)),
        warp_barrier(0, 2),
        read(0, 1, SRAM),
        barrier(1, 2),
        warp_barrier(1, 2),
        warp_barrier(1, 2),
        read(1, 1, SRAM),
        snapshot(0, 2, "only"),
        snapshot(1, 2, "only"),
    ]
    rows = trace_of(launch_log(acts, (1, 2, 3))).accesses
    assert rows[["thread", "epoch", "warp_epoch"]].tolist() == [(1, 0, 0), (0, 1, 0), (0, 1, 1), (1, 1, 2)]
    assert rows["order"].tolist() == [2, 4, 6, 10]


def test_a_thread_that_runs_ahead_of_the_others_is_in_its_own_step() -> None:
    acts = [hold(t, 0, "s", SRAM, "int32", (1,)) for t in (0, 1)]
    acts += [atomic(0, 1, SRAM, np.int32(1)), snapshot(0, 2, "add, i", 0)]
    acts += [atomic(0, 1, SRAM, np.int32(2)), snapshot(0, 2, "add, i", 1)]
    acts += [atomic(1, 1, SRAM, np.int32(3)), snapshot(1, 2, "add, i", 0)]
    acts += [atomic(1, 1, SRAM, np.int32(4)), snapshot(1, 2, "add, i", 1)]
    trace = trace_of(launch_log(acts, (1, 2, 3)))
    assert [s.accesses["thread"].tolist() for s in trace.steps] == [[0, 1], [0, 1]]
    assert [c.values.tolist() for s in trace.steps if (c := s.slots["s"])] == [[3], [4]]


def test_a_thread_that_left_early_is_missed_in_no_later_step() -> None:
    acts = [hold(t, 0, "s", SRAM, extents=(1,)) for t in (0, 1)]
    acts += [snapshot(0, 1, "one"), snapshot(1, 1, "one"), write(1, 2, SRAM, F(1)), snapshot(1, 1, "two")]
    trace = trace_of(launch_log(acts, (1, 2, 3)))
    assert [s.name for s in trace.steps] == ["one", "two"]


@pytest.mark.parametrize(("text", "counter"), [("other, t", 0), ("load, t", 1)])
def test_threads_that_end_a_step_in_different_ways_are_refused(text: str, counter: int) -> None:
    acts = [snapshot(0, 0, "load, t", 0), snapshot(1, 1, text, counter)]
    with pytest.raises(BackendError) as error:
        trace_of(launch_log(acts, (14, 20)))
    name = text.split(",")[0]
    assert str(error.value) == (
        f"hand.cu line 20: thread (1, 0, 0) of block (0, 0, 0) ends its step 0 with SNAPSHOT({name}, t = {counter}), "
        "but thread (0, 0, 0) with SNAPSHOT(load, t = 0) in line 14: let all threads of a block pass the same SNAPSHOTs"
    )


def test_an_access_in_no_array_is_refused_with_array_index_line_and_thread() -> None:
    acts = [read(0, 0, HBM), write(3, 1, HBM + 16, F(1))]
    log = launch_log({(1, 0, 0): acts}, (14, 20), {"A": (HBM, 16)})
    with pytest.raises(BackendError) as error:
        trace_of(log, {"A": A.reshape(2, 2)}, block=(2, 2, 1), grid=(2, 1, 1))
    assert str(error.value) == (
        "hand.cu line 20: thread (1, 1, 0) of block (1, 0, 0) writes A[4], outside the 4 elements of A of shape 2×2: "
        "guard the index, or give a larger array"
    )


@pytest.mark.parametrize(
    ("address", "words"),
    [
        (HBM - 4, "reads A[-1], outside"),
        (HBM + 14, "reads A[4], outside"),
        (8, "reads the address 0x8, which"),
    ],
)
def test_a_fault_that_the_backend_saw_is_refused_as_such(address: int, words: str) -> None:
    log = launch_log([], (), {"A": (HBM, 16)}, faults=(Fault(address, 4, 7, (0, 0, 0), (1, 0, 0), False),))
    with pytest.raises(BackendError, match=r"hand.cu line 7: thread \(1, 0, 0\) of block") as error:
        trace_of(log, {"A": A})
    assert words in str(error.value)


def test_a_window_of_steps_keeps_the_writes_before_it_and_drops_what_is_after() -> None:
    arrays = {"A": A, "B": np.zeros(4, F)}
    trace = trace_of(launch_log(two_tiles(), LINES, ARRAYS), arrays, {"B": F([2, 0, 6, 4])}, steps=(1, 3))
    assert [(s.name, s.loop) for s in trace.steps] == [("store", {"t": 0}), ("load", {"t": 1})]
    assert trace.records[0].rows[0] == 2
    assert trace.accesses["write"][:2].tolist() == [1, 1]
    assert trace.steps[0].slots["s"].values.tolist() == [0, 1]  # type: ignore[union-attr]
    assert trace.steps[1].hbm["B"].tolist() == [2, 0, 0, 0]
    assert trace.traffic["A"].reads == 2
    assert str(trace.window) == "steps 1:3"


def test_a_window_without_a_step_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"no step of hand\.cu lies in the window of steps 4:9"):
        trace_of(launch_log(two_tiles(), LINES, ARRAYS), {"A": A, "B": A * 0}, steps=(4, 9))


def test_blocks_come_in_their_order_whatever_the_log_s() -> None:
    blocks = {
        b: [write(0, 0, HBM + 4 * n, F(n)), snapshot(0, 1, "only")]
        for n, b in enumerate([(1, 1, 0), (0, 1, 0), (1, 0, 0), (0, 0, 0)])
    }
    trace = trace_of(launch_log(blocks, (1, 2), {"A": (HBM, 16)}), {"A": A * 0}, {"A": A}, grid=(2, 2, 1))
    assert [s.block for s in trace.steps] == [(0, 0, 0), (1, 0, 0), (0, 1, 0), (1, 1, 0)]
    assert [s.hbm["A"].tolist() for s in trace.steps] == [
        [0, 0, 0, 3],
        [0, 0, 2, 0],
        [0, 1, 0, 0],
        [0, 0, 0, 0],
    ]
    assert trace.steps_of((1, 0, 0))[0] is trace.steps[1]


def test_a_later_launch_begins_from_what_the_earlier_ones_wrote() -> None:
    logs = tuple(
        launch_log([write(0, 0, HBM + 4 * n, F(n + 1)), snapshot(0, 1, "only")], (1, 2), {"A": (HBM, 16)})
        for n in (0, 1)
    )
    trace = trace_of(logs, {"A": A * 0}, {"A": F([1, 2, 0, 0])})
    assert [s.hbm["A"].tolist() for s in trace.steps] == [[1, 0, 0, 0], [1, 2, 0, 0]]
    given = launch_log([snapshot(0, 1, "only")], (1, 2), {"A": (HBM, 16)}, before={"A": F([9, 9, 9, 9])})
    trace = trace_of((logs[0], given), {"A": A * 0})
    assert trace.steps[1].hbm["A"].tolist() == [9, 9, 9, 9]
    assert trace.before["A"].tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "int8", "uint16", "int64", "bool"])
def test_every_dtype_is_held_as_it_is(dtype: str) -> None:
    kind = np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else np.dtype(dtype)
    values = np.array([0, 1], kind)
    acts = [
        hold(0, 0, "s", SRAM, dtype, (2,)),
        write(0, 1, SRAM, values),
        write(0, 1, HBM, values[1:]),
        snapshot(0, 2, "only"),
    ]
    array = np.zeros(3, kind)
    trace = trace_of(launch_log(acts, (1, 2, 3), {"B": (HBM, array.nbytes)}), {"B": array}, block=(1, 1, 1))
    content = trace.steps[0].slots["s"]
    assert content is not None
    assert content.values.dtype == kind
    assert content.values.tobytes() == values.tobytes()
    assert trace.steps[0].hbm["B"].tobytes() == np.array([1, 0, 0], kind).tobytes()


def test_variables_of_one_name_in_two_lines_are_told_apart() -> None:
    acts = [
        hold(0, 0, "s", SRAM, extents=(1,)),
        hold(0, 1, "s", SRAM + 8, extents=(1,)),
        hold(0, 1, "A", SRAM + 16, extents=(1,)),
        snapshot(0, 2, "only"),
    ]
    trace = trace_of(launch_log(acts, (1, 2, 3), {"A": (HBM, 16)}), {"A": A}, block=(1, 1, 1))
    assert [p.name for p in trace.places] == ["A", "s", "s (line 2)", "A (line 2)"]


def test_of_a_value_overwritten_by_its_own_thread_in_the_same_step_nothing_is_kept() -> None:
    acts = [
        *(hold(thread, 0, "s", SRAM, extents=(1,)) for thread in (0, 1)),
        write(0, 1, SRAM, F([5])),
        write(0, 1, SRAM, F([6])),
        snapshot(0, 2, "one"),
        write(0, 1, SRAM, F([7])),
        write(1, 1, SRAM, F([8])),
        snapshot(0, 2, "two"),
        snapshot(1, 2, "one"),
        snapshot(1, 2, "two"),
    ]
    trace = trace_of(launch_log(acts, (1, 2, 3), {"A": (HBM, 16)}), {"A": A}, block=(2, 1, 1))
    assert sorted(trace.values.view(F).tolist()) == [0, 6, 7, 8]
    assert [step.slots["s"].values.tolist() for step in trace.steps] == [[8], [8]]


def test_the_text_of_a_macro_is_split_at_its_outer_commas() -> None:
    assert parts("load, f(a,  b), x[i, j]") == ["load", "f(a, b)", "x[i, j]"]


def test_a_block_of_a_million_accesses_is_assembled() -> None:
    from dataclasses import replace

    from kernels.listen.log import ROW, SNAPSHOT_INFO, BlockLog

    threads, steps, each = 256, 8, 488
    begin = [hold(t, 0, "s", SRAM, extents=(256,)) for t in range(threads)]
    log = launch_log(begin, (1, 2, 3), {"A": (HBM, 4 * 2**20)})
    head = log.blocks[0]
    step = np.zeros(threads * (each + 1), ROW)
    kinds = np.tile([*[int(Kind.READ), int(Kind.WRITE)] * (each // 2), int(Kind.SNAPSHOT)], threads)
    step["kind"] = kinds
    step["thread"] = np.repeat(np.arange(threads), each + 1)
    step["size"] = 4
    step["space"] = np.where(kinds == Kind.READ, Space.HBM, Space.SRAM)
    step["address"] = np.where(
        kinds == Kind.READ, HBM + 4 * np.arange(len(step)), SRAM + 4 * step["thread"].astype(int)
    )
    rows = [head.rows]
    payload = bytearray(head.payload.tobytes())
    for n in range(steps):
        info = np.zeros((), SNAPSHOT_INFO)
        info["text"], info["count"], info["loops"][0] = 1, 1, n
        one = step.copy()
        one["value"] = np.where(kinds == Kind.SNAPSHOT, len(payload), 0)
        payload += info.tobytes()
        rows.append(one)
    block = BlockLog((0, 0, 0), np.concatenate(rows), np.frombuffer(bytes(payload), np.uint8))
    log = replace(log, blocks=(block,), texts=(*log.texts, "go, i"))
    trace = trace_of(log, {"A": np.zeros(2**20, F)}, block=(256, 1, 1))
    assert trace.steps[-1].slots["s"] is not None
    assert len(trace.accesses) == threads * steps * each
    assert [s.loop["i"] for s in trace.steps] == list(range(8))
