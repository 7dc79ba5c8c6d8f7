"""Races and reads of what nobody wrote, planted in traces written by hand."""

from __future__ import annotations

import numpy as np
import pytest

from kernels.conclude.races import Race, races
from kernels.conclude.unwritten import Unwritten, unwritten
from kernels.trace.model import Trace

from .handwritten import Hand


def reduction(barriers: bool, threads: int = 128) -> Trace:
    """A tree over SRAM: x[t] += x[t + n], with or without a barrier after each level."""
    hand = Hand((threads, 1, 1))
    data, x = hand.place("data", "HBM", (threads,)), hand.place("x", "SRAM", (threads,))
    load, own, other = hand.site(1), hand.site(3), hand.site(3)
    fill, add = hand.site(1, [load]), hand.site(3, [own, other])
    hand.read(load, data, {t: (t,) for t in range(threads)})
    hand.write(fill, x, {t: (t,) for t in range(threads)})
    n = threads // 2
    while n:
        if barriers:
            hand.barrier()
        hand.read(own, x, {t: (t,) for t in range(n)})
        hand.read(other, x, {t: (t + n,) for t in range(n)})
        hand.write(add, x, {t: (t,) for t in range(n)})
        n //= 2
    hand.step()
    return hand.trace()


def test_a_reduction_with_its_barriers_has_no_race() -> None:
    assert races(reduction(barriers=True)) == ()


def test_a_barrier_left_out_is_found_with_lines_threads_and_cell() -> None:
    found = races(reduction(barriers=False))
    assert {(race.lines, race.acts) for race in found} == {
        ((1, 3), ("write", "read")),
        ((3, 3), ("write", "read")),
    }
    first = next(race for race in found if race.lines == (1, 3))
    assert first == Race("x", (32,), 0, (0, 0, 0), 0, (1, 3), ("write", "read"), (32, 0), 127)
    assert first.text == (
        "Thread 32 writes x[32] on line 1 and thread 0 reads it on line 3, with no barrier between them."
    )


def test_a_race_is_found_whatever_the_order_of_the_log() -> None:
    for reader_first in (False, True):
        hand = Hand((64, 1, 1))
        s = hand.place("s", "SRAM", (2, 2))
        write, read = hand.site(4), hand.site(7)
        acts = [(hand.write, write, 40), (hand.read, read, 3)]
        for act, site, thread in reversed(acts) if reader_first else acts:
            act(site, s, {thread: (1, 0)})
        hand.step()
        assert races(hand.trace()) == (
            Race("s", (1, 0), 0, (0, 0, 0), 0, (4, 7), ("write", "read"), (40, 3), 1),
        )


def test_two_writes_of_one_cell_race_unless_they_are_one_instruction() -> None:
    hand = Hand((64, 1, 1))
    s = hand.place("s", "SRAM", (3,))
    write = hand.site(1)
    hand.write(write, s, {t: (0,) for t in range(32)})  # one instruction of one warp
    hand.write(write, s, {3: (1,)})
    hand.write(write, s, {4: (1,)})  # the same line, another time
    hand.write(write, s, {t: (2,) for t in (0, 32)})  # two warps
    hand.step()
    (race,) = races(hand.trace())
    assert (race.lines, race.acts, race.cells) == ((1, 1), ("write", "write"), 2)


def test_lanes_that_write_different_values_to_one_cell_in_one_instruction_race() -> None:
    hand = Hand((64, 1, 1))
    s = hand.place("s", "SRAM", (3,))
    write, other = hand.site(1), hand.site(2)
    hand.write(write, s, {t: (t % 2,) for t in range(32)}, {t: float(t // 30) for t in range(32)})
    hand.write(other, s, {t: (2,) for t in range(32)}, {t: 7.5 for t in range(32)})  # all the same
    hand.atomic(other, s, {t: (2,) for t in range(32, 64)})
    hand.barrier()
    hand.write(other, s, {40: (0,)}, {40: 3.0})
    hand.step()
    found = [race for race in races(hand.trace()) if race.acts == ("write", "write")]
    (race,) = found
    assert (race.lines, race.index, race.cells) == ((1, 1), (0,), 2)
    assert (race.threads[0] // 30, race.threads[1] // 30) in ((0, 1), (1, 0))
    one, two = race.threads
    assert race.text == (
        f"Thread {one} writes s[0] on line 1 and thread {two} writes it on line 1, "
        "another value in the same instruction."
    )


def test_a_lane_that_writes_again_races_with_the_instruction_of_its_warp() -> None:
    hand = Hand()
    s = hand.place("s", "SRAM", (1,))
    write = hand.site(1)
    hand.write(write, s, {t: (0,) for t in range(32)})
    hand.write(write, s, {3: (0,)})
    hand.step()
    (race,) = races(hand.trace())
    assert 3 in race.threads
    assert len(set(race.threads)) == 2


def test_a_barrier_of_the_warp_orders_its_lanes_only() -> None:
    for other, expected in ((1, 0), (33, 1)):
        hand = Hand((64, 1, 1))
        s = hand.place("s", "SRAM", (1,))
        hand.write(hand.site(1), s, {0: (0,)})
        hand.warp_barrier()
        hand.read(hand.site(2), s, {other: (0,)})
        hand.step()
        assert len(races(hand.trace())) == expected


def test_atomics_race_with_plain_accesses_but_not_with_each_other() -> None:
    hand = Hand((256, 1, 1))
    bins, out = hand.place("bins", "SRAM", (4,)), hand.place("out", "HBM", (4,))
    add, read = hand.site(1), hand.site(2)
    store = hand.site(2, [read])
    hand.atomic(add, bins, {t: (t % 4,) for t in range(256)})
    hand.step("count")
    assert races(hand.trace()) == ()
    hand.read(read, bins, {t: (t,) for t in range(4)})  # the barrier before is left out
    hand.write(store, out, {t: (t,) for t in range(4)})
    hand.step("store")
    (race,) = races(hand.trace())
    assert (race.place, race.lines, race.acts, race.step, race.cells) == (
        "bins",
        (1, 2),
        ("atomic", "read"),
        0,
        4,
    )


def test_blocks_and_threads_own_cells_do_not_race() -> None:
    hand = Hand((64, 1, 1))
    s, r, x = hand.place("s", "SRAM", (1,)), hand.place("r", "registers", (64,)), hand.place("x", "HBM", (2,))
    for block in range(2):
        hand.write(hand.site(1), s, {block: (0,)})
        hand.read(hand.site(2), s, {block: (0,)})
        hand.write(hand.site(3), r, {t: (t,) for t in range(64)})
        hand.write(hand.site(4), x, {block: (0,)})  # another block's: no barrier is wanted of them here
        hand.step()
        hand.next_block()
    assert races(hand.trace()) == ()


COPIED = (
    "Thread 0 copies to s[1] on line 1 and thread 40 {} on line 2, with no barrier between them: "
    "a copy lasts until its wait."
)


@pytest.mark.parametrize("warps_apart", [True, False])
@pytest.mark.parametrize("when", ["before", "begun", "midway", "waited", "late"])
@pytest.mark.parametrize("act", ["reads it", "writes it"])
def test_a_copy_races_from_its_line_to_its_wait(act: str, when: str, warps_apart: bool) -> None:
    hand = Hand((64, 1, 1))
    x, s = hand.place("x", "HBM", (2,)), hand.place("s", "SRAM", (2,))
    copy, other, wait = hand.site(1), hand.site(2), hand.barrier if warps_apart else hand.warp_barrier
    thread = 40 if warps_apart else 4

    def meet(moment: str) -> None:
        if moment == when and act == "reads it":
            hand.read(other, s, {thread: (1,)})
        elif moment == when:
            hand.write(other, s, {thread: (1,)})

    meet("before")
    wait()
    request = hand.read(copy, x, {0: (1,)})
    meet("begun")
    wait()
    meet("midway")
    wait()
    hand.write(copy, s, {0: (1,)}, request=request)
    meet("waited")
    wait()
    meet("late")
    hand.step()
    texts = [race.text for race in races(hand.trace())]
    expected = COPIED.format(act).replace("40", str(thread))
    assert texts == ([expected] if when in ("begun", "midway", "waited") else [])


def test_a_thread_that_reads_where_its_own_copy_is_on_the_way_races_with_it() -> None:
    for waits in (False, True):
        hand = Hand()
        x, s = hand.place("x", "HBM", (8,)), hand.place("s", "SRAM", (4,))
        copy, read = hand.site(1), hand.site(2)
        request = hand.read(copy, x, {5: [(0,), (1,), (2,), (3,)]})
        if waits:
            hand.write(copy, s, {5: [(0,), (1,), (2,), (3,)]}, request=request)
        hand.read(read, s, {5: (3,)})
        if not waits:
            hand.write(copy, s, {5: [(0,), (1,), (2,), (3,)]}, request=request)
        hand.step()
        assert [race.text for race in races(hand.trace())] == (
            []
            if waits
            else [
                "Thread 5 copies to s[3] on line 1 and reads it on line 2, before it has waited for the copy."
            ]
        )


def test_two_copies_to_one_cell_race_if_both_are_on_the_way() -> None:
    for waits in (False, True):
        hand = Hand((64, 1, 1))
        x, s = hand.place("x", "HBM", (2,)), hand.place("s", "SRAM", (1,))
        copy = hand.site(1)
        one = hand.read(copy, x, {0: (0,)})
        if waits:
            hand.write(copy, s, {0: (0,)}, request=one)
        hand.barrier()
        two = hand.read(copy, x, {33: (1,)})
        hand.barrier()
        if not waits:
            hand.write(copy, s, {0: (0,)}, request=one)
        hand.barrier()
        hand.write(copy, s, {33: (0,)}, request=two)
        hand.step()
        found = races(hand.trace())
        assert [(race.acts, race.cells) for race in found] == ([] if waits else [(("copy", "copy"), 1)])


def test_threads_of_a_block_race_in_hbm_too() -> None:
    hand = Hand((64, 1, 1))
    x = hand.place("x", "HBM", (2,))
    hand.write(hand.site(1), x, {0: (1,)})
    hand.read(hand.site(2), x, {63: (1,)})
    hand.step()
    assert [(race.place, race.index, race.threads) for race in races(hand.trace())] == [("x", (1,), (0, 63))]


@pytest.mark.parametrize("seed", range(20))
def test_races_of_any_log_are_those_of_the_rule(seed: int) -> None:
    random = np.random.default_rng(seed)
    hand = Hand((96, 1, 1))
    s = hand.place("s", "SRAM", (6,))
    sites = [hand.site(line) for line in (1, 1, 2, 3)]
    for _ in range(30):
        act = (hand.read, hand.write, hand.atomic)[random.choice(3, p=[0.5, 0.3, 0.2])]
        cells = {int(t): (int(random.integers(6)),) for t in random.integers(96, size=random.integers(1, 4))}
        if act == hand.write:
            values = {t: float(random.integers(2)) for t in cells}
            hand.write(sites[random.integers(4)], s, cells, values)
        else:
            act(sites[random.integers(4)], s, cells)
        if random.random() < 0.3:
            (hand.barrier, hand.warp_barrier)[random.integers(2)]()
    hand.step()
    trace = hand.trace()
    line = [site.line for site in trace.sites[0]]
    value = np.zeros(len(trace.accesses), np.float32)
    value[trace.accesses["write"] > 0] = trace.values.view(np.float32)
    expected: dict[tuple[object, ...], set[int]] = {}
    for i, a in enumerate(trace.accesses):
        for j, b in enumerate(trace.accesses):
            if a["cell"] != b["cell"] or a["thread"] == b["thread"] or a["epoch"] != b["epoch"]:
                continue
            in_step = a["thread"] // 32 == b["thread"] // 32
            same = a["request"] == b["request"] and (a["write"] != 1 or value[i] == value[j])
            if in_step and (a["warp_epoch"] != b["warp_epoch"] or same):
                continue
            if a["write"] == b["write"] != 1:
                continue
            pair = ((line[a["site"]], int(a["write"])), (line[b["site"]], int(b["write"])))
            expected.setdefault(tuple(sorted(pair)), set()).add(int(a["cell"]))
    number = {"read": 0, "write": 1, "atomic": 2}
    found = {
        tuple(sorted(zip(race.lines, (number[act] for act in race.acts), strict=True))): race.cells
        for race in races(trace)
    }
    assert found == {pair: len(cells) for pair, cells in expected.items()}
    assert len(found) == len(races(trace))


def test_a_read_of_shared_memory_that_nobody_wrote_is_found() -> None:
    hand = Hand((64, 1, 1))
    x, s = hand.place("x", "HBM", (4,)), hand.place("s", "SRAM", (2, 4))
    write, read, read_x = hand.site(1), hand.site(5), hand.site(6)
    hand.read(read_x, x, {0: (0,)})  # an array was given with its values
    hand.write(write, s, {t: (0, t) for t in range(3)})
    hand.step("load")
    hand.barrier()
    hand.read(read, s, {40 + t: (0, t) for t in range(4)})
    hand.write(write, s, {0: (0, 3)})  # too late
    hand.barrier()
    hand.read(read, s, {7: (0, 3)})
    hand.step("sum")
    hand.next_block()
    hand.read(read, s, {7: (0, 0)})  # another block's is no help
    hand.step("load")
    (found,) = unwritten(hand.trace())
    assert found == Unwritten("s", (0, 3), 0, (0, 0, 0), 1, 5, 43, 2)
    assert found.text == "Thread 43 reads s[0, 3] on line 5, and nothing was written there before."


def test_an_atomic_on_what_nobody_wrote_reads_it() -> None:
    hand = Hand()
    bins = hand.place("bins", "SRAM", (2,))
    hand.write(hand.site(1), bins, {0: (0,)})
    hand.barrier()
    add = hand.site(2)
    hand.atomic(add, bins, {t: (t % 2,) for t in range(4)})
    hand.step()
    assert [(found.index, found.line, found.cells) for found in unwritten(hand.trace())] == [((1,), 2, 1)]


def test_a_variable_in_registers_is_unwritten_again_when_it_comes_into_being_anew() -> None:
    hand = Hand()
    r = hand.place("r", "registers", (32, 2))
    write, read = hand.site(1), hand.site(2)
    for lost in (False, True):
        hand.scope(r, 5)
        if not lost:
            hand.write(write, r, {5: (5, 1)})
        hand.read(read, r, {5: (5, 1)})
        hand.step()
    hand.write(write, r, {6: (6, 1)})
    hand.scope(r, 5)
    hand.read(read, r, {6: (6, 1)})  # another thread's, which stands
    hand.step()
    (found,) = unwritten(hand.trace())
    assert (found.index, found.step, found.line, found.thread, found.cells) == ((5, 1), 1, 2, 5, 1)
