"""Arrows: which cells each written cell was made of, from traces written by hand and by chance."""

from __future__ import annotations

import numpy as np
import pytest

from kernels.conclude.actions import actions, sentence
from kernels.conclude.arrows import arrows
from kernels.listen.log import Site, Source
from kernels.trace.model import Trace

from .handwritten import Hand

Cell = tuple[str, tuple[int, ...]]


def made_of(trace: Trace, place: str, *index: int, step: int = -1) -> set[Cell]:
    found = arrows(trace, trace.steps[step]).of(place, index)
    assert len(set(found)) == len(found)
    return set(found)


def fa1_step() -> Hand:
    """One update of FlashAttention-1, two rows, three keys, d = 2; a thread a row, as a plain kernel has it."""
    hand = Hand()
    mi, li = hand.place("mi", "SRAM", (2,)), hand.place("li", "SRAM", (2,))
    Sij, Vj = hand.place("Sij", "SRAM", (2, 3)), hand.place("Vj", "SRAM", (3, 2))
    Oi = hand.place("Oi", "SRAM", (2, 2))
    old_m, max_S, old_l = hand.site(1), hand.site(2), hand.site(5)
    sum_S, old_O, acc_S, acc_V = hand.site(6), hand.site(7), hand.site(8), hand.site(8)
    new_O = hand.site(9, (old_O, old_l, old_m, max_S, sum_S, acc_S, acc_V))
    new_m, new_l = hand.site(10, (old_m, max_S)), hand.site(11, (old_l, old_m, max_S, sum_S))
    for r in range(2):
        hand.read(old_m, mi, {r: (r,)})
        for c in range(3):
            hand.read(max_S, Sij, {r: (r, c)})
        hand.read(old_l, li, {r: (r,)})
        for c in range(3):
            hand.read(sum_S, Sij, {r: (r, c)})
        for x in range(2):
            hand.read(old_O, Oi, {r: (r, x)})
            for c in range(3):
                hand.read(acc_S, Sij, {r: (r, c)})
                hand.read(acc_V, Vj, {r: (c, x)})
            hand.write(new_O, Oi, {r: (r, x)})
        hand.write(new_m, mi, {r: (r,)})
        hand.write(new_l, li, {r: (r,)})
    hand.step("update")
    return hand


@pytest.mark.parametrize("r", [0, 1])
def test_of_an_update_of_fa1_every_cell_is_made_of_its_row_and_of_its_column_of_v(r: int) -> None:
    trace = fa1_step().trace()
    row = {("Sij", (r, c)) for c in range(3)}
    assert made_of(trace, "mi", r) == {("mi", (r,))} | row
    assert made_of(trace, "li", r) == {("li", (r,)), ("mi", (r,))} | row
    for x in range(2):
        column = {("Vj", (c, x)) for c in range(3)}
        assert made_of(trace, "Oi", r, x) == {("Oi", (r, x)), ("li", (r,)), ("mi", (r,))} | row | column


def test_an_update_of_fa1_is_three_updates() -> None:
    trace = fa1_step().trace()
    assert [sentence(action) for action in actions(trace, trace.steps[0])] == [
        "update Oi with mi, Sij, li, Vj",
        "update mi with Sij",
        "update li with mi, Sij",
    ]


def gemm() -> Hand:
    """C = A B, 4 × 8 by 8 × 4, in tiles of 4 × 4, a thread a cell of C: clear, load and update twice, store."""
    hand = Hand((4, 4, 1))
    A, B, C = hand.place("A", "HBM", (4, 8)), hand.place("B", "HBM", (8, 4)), hand.place("C", "HBM", (4, 4))
    As, Bs = hand.place("As", "SRAM", (4, 4)), hand.place("Bs", "SRAM", (4, 4))
    acc = hand.place("acc", "registers", (4, 4))
    clear = hand.site(1)
    read_A, read_B = hand.site(2), hand.site(3)
    write_A, write_B = hand.site(2, [read_A]), hand.site(3, [read_B])
    read_acc, read_As, read_Bs = hand.site(5), hand.site(5), hand.site(5)
    write_acc = hand.site(5, [read_acc, read_As, read_Bs])
    read_out = hand.site(6)
    write_C = hand.site(6, [read_out])
    threads = {y * 4 + x: (y, x) for y in range(4) for x in range(4)}
    hand.write(clear, acc, threads)
    hand.step("clear")
    for t in range(2):
        hand.read(read_A, A, {n: (y, 4 * t + x) for n, (y, x) in threads.items()})
        hand.write(write_A, As, threads)
        hand.read(read_B, B, {n: (4 * t + y, x) for n, (y, x) in threads.items()})
        hand.write(write_B, Bs, threads)
        hand.step("load")
        hand.barrier()
        for k in range(4):
            hand.read(read_acc, acc, threads)
            hand.read(read_As, As, {n: (y, k) for n, (y, x) in threads.items()})
            hand.read(read_Bs, Bs, {n: (k, x) for n, (y, x) in threads.items()})
            hand.write(write_acc, acc, threads)
        hand.step("update")
        hand.barrier()
    hand.read(read_out, acc, threads)
    hand.write(write_C, C, threads)
    hand.step("store")
    return hand


def test_a_cell_of_a_gemm_is_made_of_a_row_and_a_column() -> None:
    trace = gemm().trace()
    row, column = {("As", (2, k)) for k in range(4)}, {("Bs", (k, 1)) for k in range(4)}
    for step in (2, 4):
        assert made_of(trace, "acc", 2, 1, step=step) == {("acc", (2, 1))} | row | column
    assert made_of(trace, "As", 1, 3, step=3) == {("A", (1, 7))}
    assert made_of(trace, "C", 3, 0) == {("acc", (3, 0))}
    assert made_of(trace, "acc", 0, 0, step=0) == set()
    assert made_of(trace, "As", 0, 0, step=2) == set()  # not written there


def test_the_steps_of_a_gemm_in_sentences() -> None:
    trace = gemm().trace()
    assert [[sentence(action) for action in actions(trace, step)] for step in trace.steps] == [
        ["clear acc"],
        ["load As ← A[0:4, 0:4]", "load Bs ← B[0:4, 0:4]"],
        ["update acc with As, Bs"],
        ["load As ← A[0:4, 4:8]", "load Bs ← B[4:8, 0:4]"],
        ["update acc with As, Bs"],
        ["store C[0:4, 0:4] ← acc"],
    ]


def test_a_product_that_reads_no_slot_of_its_own_is_computed() -> None:
    hand = Hand()
    Qi, Kj, Sij = (hand.place(name, "SRAM", (2, 2)) for name in ("Qi", "Kj", "Sij"))
    q, k = hand.site(1), hand.site(1)
    write = hand.site(2, [q, k])
    for r in range(2):
        for c in range(2):
            for x in range(2):
                hand.read(q, Qi, {r: (r, x)})
                hand.read(k, Kj, {r: (c, x)})
            hand.write(write, Sij, {r: (r, c)})
    hand.step()
    trace = hand.trace()
    assert made_of(trace, "Sij", 0, 1) == {("Qi", (0, 0)), ("Qi", (0, 1)), ("Kj", (1, 0)), ("Kj", (1, 1))}
    assert [sentence(action) for action in actions(trace, trace.steps[0])] == ["compute Sij from Qi, Kj"]


def test_a_slot_cleared_and_summed_into_within_one_step_is_computed_not_updated() -> None:
    hand = Hand()
    x, total = hand.place("x", "SRAM", (3,)), hand.place("total", "SRAM", (1,))
    clear, read_x, read = hand.site(1), hand.site(2), hand.site(2)
    write = hand.site(2, [read_x, read])
    hand.write(clear, total, {0: (0,)})
    for i in range(3):
        hand.read(read, total, {0: (0,)})
        hand.read(read_x, x, {0: (i,)})
        hand.write(write, total, {0: (0,)})
    hand.step()
    trace = hand.trace()
    assert [sentence(action) for action in actions(trace, trace.steps[0])] == ["compute total from x"]


def test_a_value_held_in_a_register_since_an_earlier_step_is_still_its_source() -> None:
    hand = Hand()
    a, b, c = (hand.place(name, "HBM", (4,)) for name in "abc")
    read_a, read_b = hand.site(1), hand.site(2)
    write = hand.site(3, [read_a, read_b])
    hand.read(read_a, a, {0: (1,)})
    hand.read(read_b, b, {0: (0,)})
    hand.step("early")
    hand.read(read_b, b, {0: (3,)})
    hand.write(write, c, {0: (2,)})
    hand.write(write, c, {0: (3,)})
    hand.step("late")
    trace = hand.trace()
    assert made_of(trace, "c", 2) == {("a", (1,)), ("b", (3,))}  # of b, what this step read
    assert made_of(trace, "c", 3) == {("a", (1,)), ("b", (3,))}  # nothing newer: the same burst again


def test_of_a_site_whose_sources_are_unknown_every_read_since_the_last_write_is_one() -> None:
    hand = Hand()
    x, y = hand.place("x", "HBM", (8,)), hand.place("y", "HBM", (8,))
    read, write = hand.site(1), hand.site(2, None)
    for out in (0, 4):
        hand.read(read, x, {0: [(out,), (out + 1,)]})
        hand.read(read, x, {0: (out + 2,)})
        hand.write(write, y, {0: [(out,), (out + 1,)]})  # wide: both cells are of one write
    hand.write(write, y, {0: (7,)})
    hand.step()
    trace = hand.trace()
    assert made_of(trace, "y", 4) == made_of(trace, "y", 5) == {("x", (n,)) for n in (4, 5, 6)}
    assert made_of(trace, "y", 7) == set()


def test_of_a_reduction_by_shuffles_every_lane_is_a_source_though_some_run_ahead() -> None:
    hand = Hand((64, 1, 1))
    data, sums = hand.place("data", "SRAM", (4, 32)), hand.place("sums", "SRAM", (4,))
    read = hand.site(1)
    write = hand.site(2, [Source(read, via_warp=True)])
    lanes = {lane: (0, lane) for lane in range(32)}
    hand.read(read, data, lanes)
    for _ in range(5):
        hand.warp_barrier()
    ahead = {lane: (1, lane) for lane in range(1, 32)}
    hand.read(read, data, ahead)  # lanes that do not write are at the next row already
    hand.write(write, sums, {0: (0,)})
    hand.read(read, data, {0: (1, 0)})
    for _ in range(5):
        hand.warp_barrier()
    hand.write(write, sums, {0: (1,)})
    hand.read(read, data, {lane: (2, lane - 32) for lane in range(32, 64)})
    hand.warp_barrier()
    hand.write(write, sums, {32: (2,)})
    hand.step()
    trace = hand.trace()
    for row in range(3):
        assert made_of(trace, "sums", row) == {("data", (row, lane)) for lane in range(32)}


def test_a_lane_that_has_nothing_to_read_gives_nothing_to_a_shuffle() -> None:
    hand = Hand()
    data, sums = hand.place("data", "HBM", (3, 32)), hand.place("sums", "SRAM", (3,))
    read = hand.site(1)
    write = hand.site(3, [Source(read, via_warp=True)])
    for row, lanes in enumerate((32, 8)):
        hand.read(read, data, {lane: (row, lane) for lane in range(lanes)})
        hand.warp_barrier()
        hand.write(write, sums, {0: (row,)})
        hand.step()
    hand.read(read, data, {lane: (0, lane) for lane in range(32)})
    hand.step("read ahead")
    hand.read(read, data, {lane: (2, lane) for lane in range(32)})
    hand.warp_barrier()
    hand.write(write, sums, {0: (2,)})
    hand.step()
    trace = hand.trace()
    assert made_of(trace, "sums", 0, step=0) == {("data", (0, lane)) for lane in range(32)}
    assert made_of(trace, "sums", 1, step=1) == {("data", (1, lane)) for lane in range(8)}
    assert made_of(trace, "sums", 2, step=3) == {("data", (2, lane)) for lane in range(32)}  # of this step


def test_a_cell_filled_because_there_was_nothing_to_read_is_made_of_nothing() -> None:
    hand = Hand()
    x, s = hand.place("x", "HBM", (5,)), hand.place("s", "SRAM", (4,))
    read = hand.site(1)
    write = hand.site(1, [read])  # s[i] = i < n ? x[i] : 0, two threads, two turns a step
    for first, there in ((0, [(0, 1), (2, 3)]), (4, [(4,), ()])):
        for turn, cells in enumerate(there):
            hand.read(read, x, {cell - first - 2 * turn: (cell,) for cell in cells})
            hand.write(write, s, {t: (2 * turn + t,) for t in range(2)})
        hand.step()
    trace = hand.trace()
    assert made_of(trace, "s", 0, step=1) == {("x", (4,))}
    assert made_of(trace, "s", 1, step=1) == set()  # though thread 1 read x[3] last
    assert made_of(trace, "s", 2, step=1) == set()  # though thread 0 read x[4] the turn before
    assert [box.text for box in actions(trace, trace.steps[1])[0].boxes] == ["s[0:4]", "x[4]"]


def test_a_value_in_a_register_is_used_again_though_a_guard_would_look_alike() -> None:
    hand = Hand()
    x, y, s = hand.place("x", "HBM", (4,)), hand.place("y", "SRAM", (4,)), hand.place("s", "SRAM", (4, 3))
    read_x, read_y = hand.site(1), hand.site(2)
    write = hand.site(3, [read_x, read_y])
    hand.read(read_x, x, {t: (t,) for t in range(4)})
    hand.step("once")
    for j in range(3):
        hand.read(read_y, y, {t: (j,) for t in range(4)})
        hand.write(write, s, {t: (t, j) for t in range(4)})
        hand.step("again")
    trace = hand.trace()
    for j in range(3):
        assert made_of(trace, "s", 2, j, step=1 + j) == {("x", (2,)), ("y", (j,))}


@pytest.mark.parametrize("as_one_instruction", [False, True])
def test_an_asynchronous_copy_is_of_what_it_read_not_of_what_was_read_since(as_one_instruction: bool) -> None:
    hand = Hand()
    A, As = hand.place("A", "HBM", (3, 64)), hand.place("As", "SRAM", (2, 64))
    reads = [hand.site(7), hand.site(7)]  # one line, which the compiler has twice
    writes = [hand.site(7, reads), hand.site(7, reads)]
    if as_one_instruction:
        writes = reads
        hand.sites[reads[0]], hand.sites[reads[1]] = Site(7, (Source(0),)), Site(7, (Source(1),))

    def wide(row: int) -> dict[int, list[tuple[int, ...]]]:
        return {thread: [(row, 2 * thread), (row, 2 * thread + 1)] for thread in range(32)}

    hand.read(reads[0], A, wide(0))
    for t in range(3):
        if t < 2:
            hand.read(reads[1], A, wide(t + 1))
        hand.write(writes[t > 0], As, wide(t % 2))
        hand.step("arrive")
    trace = hand.trace()
    for t in range(3):
        assert made_of(trace, "As", t % 2, 5, step=t) == {("A", (t, 5))}


def test_a_copy_is_of_the_read_whose_request_it_has_whatever_else_its_line_reads() -> None:
    hand = Hand()
    A, As = hand.place("A", "HBM", (4, 64)), hand.place("As", "SRAM", (3, 64))
    copy = hand.site(7)
    hand.sites[copy] = Site(7, (Source(copy),))

    def wide(row: int) -> dict[int, list[tuple[int, ...]]]:
        return {thread: [(row, 2 * thread), (row, 2 * thread + 1)] for thread in range(32)}

    one, two = hand.read(copy, A, wide(0)), hand.read(copy, A, wide(1))
    hand.read(copy, A, wide(2))  # never waited for
    hand.write(copy, As, wide(1), request=two)
    hand.write(copy, As, wide(0), request=one)
    hand.write(copy, As, wide(2))  # zeros: it read nothing
    hand.step("arrive")
    trace = hand.trace()
    assert made_of(trace, "As", 0, 5) == {("A", (0, 5))}
    assert made_of(trace, "As", 1, 5) == {("A", (1, 5))}


def test_a_copy_to_bytes_is_of_all_that_it_read() -> None:
    hand = Hand()
    x, s = hand.place("x", "HBM", (2,)), hand.place("s", "SRAM", (8,), "uint8")
    copy = hand.site(7)
    hand.sites[copy] = Site(7, (Source(copy),))
    request = hand.read(copy, x, {0: [(0,), (1,)]})
    hand.read(copy, x, {0: [(0,)]})
    hand.write(copy, s, {0: [(n,) for n in range(8)]}, request=request)
    hand.step()
    assert made_of(hand.trace(), "s", 6) == {("x", (0,)), ("x", (1,))}


def test_only_a_load_is_taken_cell_by_cell() -> None:
    hand = Hand()
    x, s, r = hand.place("x", "HBM", (4,)), hand.place("s", "SRAM", (4,)), hand.place("r", "SRAM", (4,))
    read_x, read_s = hand.site(1), hand.site(4)
    write_s, write_r = hand.site(2, [read_x]), hand.site(4, [read_s])
    hand.read(read_x, x, {0: (0,)})
    hand.read(read_x, x, {0: (1,)})
    hand.write(write_s, s, {0: [(0,), (1,)]})  # their sum and their difference
    hand.read(read_s, s, {0: [(0,), (1,)]})
    hand.write(write_r, r, {0: [(0,), (1,)]})  # swapped
    hand.step()
    trace = hand.trace()
    for cell in range(2):
        assert made_of(trace, "s", cell) == {("x", (0,)), ("x", (1,))}
        assert made_of(trace, "r", cell) == {("s", (0,)), ("s", (1,))}


def test_a_read_that_was_moved_out_of_a_loop_is_a_source_of_every_turn() -> None:
    hand = Hand()
    a, b, out = (hand.place(name, "SRAM", (3,)) for name in ("a", "b", "out"))
    read_a, read_b = hand.site(1), hand.site(1)
    write = hand.site(1, [read_a, read_b])  # all on one line
    hand.read(read_b, b, {0: (2,)})
    for i in range(3):
        hand.read(read_a, a, {0: (i,)})
        hand.write(write, out, {0: (i,)})
    hand.step()
    trace = hand.trace()
    for i in range(3):
        assert made_of(trace, "out", i) == {("a", (i,)), ("b", (2,))}


def test_sites_of_one_line_and_place_are_one() -> None:
    hand = Hand()
    x, s = hand.place("x", "SRAM", (8,)), hand.place("s", "SRAM", (8,))
    reads = [hand.site(1), hand.site(1)]
    writes = [hand.site(2, reads), hand.site(2, reads)]
    for n in range(8):  # a loop that the compiler has unrolled by two
        hand.read(reads[n % 2], x, {0: (n,)})
        hand.write(writes[n % 2], s, {0: (n,)})
    hand.step()
    trace = hand.trace()
    for n in range(8):
        assert made_of(trace, "s", n) == {("x", (n,))}


def test_an_atomic_is_made_of_its_own_cell_too() -> None:
    hand = Hand()
    x, bins = hand.place("x", "HBM", (4,)), hand.place("bins", "SRAM", (2,))
    read = hand.site(1)
    add = hand.site(2, [read])
    hand.read(read, x, {t: (t,) for t in range(4)})
    hand.atomic(add, bins, {t: (t % 2,) for t in range(4)})
    hand.step()
    trace = hand.trace()
    assert made_of(trace, "bins", 1) == {("bins", (1,)), ("x", (1,)), ("x", (3,))}
    assert [sentence(action) for action in actions(trace, trace.steps[0])] == ["update bins with x[0:4]"]


def test_blocks_know_nothing_of_each_other() -> None:
    hand = Hand()
    x, s = hand.place("x", "HBM", (4,)), hand.place("s", "SRAM", (1,))
    read = hand.site(1)
    write = hand.site(2, [read])
    hand.read(read, x, {0: (3,)})
    hand.write(write, s, {0: (0,)})
    hand.step()
    hand.next_block()
    for _ in range(2):
        hand.write(write, s, {0: (0,)})
        hand.step()
    trace = hand.trace()
    assert made_of(trace, "s", 0, step=0) == {("x", (3,))}
    assert made_of(trace, "s", 0, step=1) == set()
    assert made_of(trace, "s", 0, step=2) == set()


def test_a_box_with_holes_says_part_of() -> None:
    hand = Hand()
    x, s = hand.place("x", "HBM", (2, 8)), hand.place("s", "SRAM", (4,))
    read = hand.site(1)
    write = hand.site(2, [read])
    hand.read(read, x, {t: (1, 2 * t) for t in range(4)})
    hand.write(write, s, {t: (t,) for t in range(4)})
    hand.step()
    trace = hand.trace()
    assert [sentence(action) for action in actions(trace, trace.steps[0])] == ["load s ← part of x[1, 0:7]"]


def by_definition(trace: Trace, step: int) -> dict[Cell, set[Cell]]:
    """The rule for arrows, word for word, row by row: of one block, without shuffles."""
    begin, end = trace.records[step].rows
    rows = trace.accesses[:end]
    result: dict[Cell, set[Cell]] = {}
    for e in range(begin, end):
        row = rows[e]
        if not row["write"]:
            continue
        sources = result.setdefault(named(trace, row), set())
        if row["write"] == 2:
            sources.add(named(trace, row))
        mine = [
            n for n in range(e) if rows[n]["thread"] == row["thread"] and rows[n]["request"] != row["request"]
        ]
        made_of = trace.sites[0][row["site"]].made_of
        if made_of is None:
            last = max((n for n in mine if rows[n]["write"]), default=-1)
            bursts = [[n for n in mine if n > last and rows[n]["write"] != 1]]
        else:
            bursts = [latest_burst(rows, mine, int(row["site"]), source.site, begin) for source in made_of]
        for burst in bursts:
            now = [n for n in burst if n >= begin]
            sources.update(named(trace, rows[n]) for n in now or burst)
    return result


def latest_burst(rows: np.ndarray, mine: list[int], writes_at: int, reads_at: int, begin: int) -> list[int]:
    burst: list[int] = []
    again = False
    for n in mine:
        if rows[n]["site"] == reads_at and rows[n]["write"] != 1:
            # A wide access that is atomic reads and writes at once: its own reads are one burst.
            same = burst and rows[burst[-1]]["request"] == rows[n]["request"]
            burst = [*burst, n] if not again or same else [n]
            again = False
        if rows[n]["site"] == writes_at and rows[n]["write"]:
            again = True
    if again and burst[-1:] < [begin]:  # of an earlier step, and used then
        others = [r for r in rows[begin:] if r["site"] == reads_at and r["write"] != 1]
        return [] if others else burst
    return burst


def named(trace: Trace, row: np.void) -> Cell:
    place = trace.places[row["place"]]
    return place.name, tuple(int(i) for i in np.unravel_index(int(row["cell"]), place.shape))


@pytest.mark.parametrize("seed", range(20))
def test_arrows_of_any_log_are_those_of_the_rule(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if seed % 2:
        monkeypatch.setattr("kernels.conclude.arrows._MOST_AT_ONCE", 5)
    random = np.random.default_rng(seed)
    hand = Hand((40, 1, 1))
    places = [
        hand.place("x", "HBM", (3, 4)),
        hand.place("s", "SRAM", (5,)),
        hand.place("r", "registers", (40, 2)),
    ]
    reads = [hand.site(n + 1) for n in range(3)]
    writes = []
    for n in range(4):
        sources = [s for s in [*reads, *writes] if random.random() < 0.5]
        if random.random() < 0.5:
            sources.append(len(hand.sites))  # itself
        writes.append(hand.site(9 + n, None if n == 3 else sources))
    for _ in range(3):
        for _ in range(40):
            threads = random.choice(4, random.integers(1, 4), replace=False) * 11
            place = places[random.integers(3)]
            shape = hand.places[place].shape
            cells = {}
            for t in threads.tolist():
                n = random.integers(1, 3)
                cells[t] = [tuple(int(random.integers(s)) for s in shape) for _ in range(n)]
            act = random.choice([hand.read, hand.read, hand.write, hand.atomic])
            act(int(random.choice(reads if act == hand.read else writes)), place, cells)
        hand.step()
    trace = hand.trace()
    for step in trace.steps:
        expected = by_definition(trace, step.index)
        found = arrows(trace, step)
        assert len(found.target_cell) == len(expected)
        assert {cell: set(found.of(*cell)) for cell in expected} == expected
