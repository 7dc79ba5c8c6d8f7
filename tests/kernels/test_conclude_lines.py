"""What a line asks of the memories: sectors and bank conflicts as NVIDIA describes them, counted by hand."""

from __future__ import annotations

import numpy as np
import pytest

from kernels.conclude.lines import LineUse, lines
from kernels.trace.model import Trace

from .handwritten import Hand, Index


def use(trace: Trace, line: int, place: str, act: str = "read") -> LineUse:
    (found,) = [u for u in lines(trace) if (u.line, u.place, u.act) == (line, place, act)]
    return found


def transpose(columns: int) -> Trace:
    """A 32 × 32 tile through SRAM with `columns` columns: rows in, columns out, a warp a row."""
    hand = Hand((32, 32, 1))
    tile = hand.place("tile", "SRAM", (32, columns))
    write, read = hand.site(1), hand.site(2)
    threads = {y * 32 + x: (y, x) for y in range(32) for x in range(32)}
    hand.write(write, tile, threads)
    hand.barrier()
    hand.read(read, tile, {t: (x, y) for t, (y, x) in threads.items()})
    hand.step()
    return hand.trace()


def test_a_column_of_a_tile_of_32_columns_is_a_conflict_of_32_ways() -> None:
    assert use(transpose(32), 2, "tile") == LineUse(
        line=2, place="tile", act="read", elements=1024, bytes=4096, requests=32,
        sectors=0, ideal_sectors=0, bank_ways=32, bank_conflicts=32 * 31,
    )  # fmt: skip
    assert use(transpose(32), 1, "tile", "write").bank_ways == 1


def test_one_more_column_makes_all_conflicts_go() -> None:
    assert use(transpose(33), 2, "tile").bank_ways == 1
    assert use(transpose(33), 2, "tile").bank_conflicts == 0


def test_a_naive_transpose_stores_1024_sectors_where_128_would_do() -> None:
    hand = Hand((32, 32, 1))
    A, B = hand.place("A", "HBM", (64, 64)), hand.place("B", "HBM", (64, 64))
    read = hand.site(3)
    write = hand.site(3, [read])
    threads = {y * 32 + x: (y, x) for y in range(32) for x in range(32)}
    hand.read(read, A, threads)
    hand.write(write, B, {t: (x, y) for t, (y, x) in threads.items()})
    hand.step()
    trace = hand.trace()
    assert use(trace, 3, "B", "write") == LineUse(3, "B", "write", 1024, 4096, 32, 1024, 128, 0, 0)
    assert use(trace, 3, "A", "read") == LineUse(3, "A", "read", 1024, 4096, 32, 128, 128, 0, 0)


@pytest.mark.parametrize(
    ("cells", "dtype", "sectors", "ideal"),
    [
        ([(0,)] * 32, "float32", 1, 1),  # all lanes one element
        ([(n,) for n in range(32)], "float32", 4, 4),
        ([(n + 1,) for n in range(32)], "float32", 5, 4),  # not aligned
        ([(2 * n,) for n in range(32)], "float32", 8, 4),
        ([(8 * n,) for n in range(32)], "float32", 32, 4),
        ([(n,) for n in range(32)], "float16", 2, 2),
        ([(n,) for n in range(32)], "float64", 8, 8),
        ([(n,) for n in range(5)], "float32", 1, 1),
        ([[(4 * n + i,) for i in range(4)] for n in range(32)], "float32", 16, 16),  # a float4 a lane
    ],
)
def test_sectors_of_a_request_are_those_that_its_bytes_lie_in(
    cells: list[Index | list[Index]], dtype: str, sectors: int, ideal: int
) -> None:
    hand = Hand()
    x = hand.place("x", "HBM", (256,), dtype)
    hand.read(hand.site(1), x, dict(enumerate(cells)))
    hand.step()
    found = use(hand.trace(), 1, "x")
    assert (found.requests, found.sectors, found.ideal_sectors) == (1, sectors, ideal)


@pytest.mark.parametrize(
    ("cells", "dtype", "ways", "conflicts"),
    [
        ([(0,)] * 32, "float32", 1, 0),  # one word for all
        ([(2 * n,) for n in range(32)], "float32", 2, 1),
        ([(4 * n,) for n in range(32)], "float32", 4, 3),
        ([(n // 2,) for n in range(32)], "float16", 1, 0),
        ([(n,) for n in range(32)], "float16", 1, 0),  # two halves in a word
        ([(64 * n,) for n in range(32)], "float16", 32, 31),
        ([(n,) for n in range(32)], "float64", 1, 0),  # half a warp at a time
        ([(2 * n,) for n in range(32)], "float64", 2, 2),  # in each half
        ([[(4 * n + i,) for i in range(4)] for n in range(32)], "float32", 1, 0),  # a quarter at a time
        ([[(8 * n + i,) for i in range(4)] for n in range(32)], "float32", 2, 4),  # in each quarter
        ([[(2 * n,), (2 * n + 1,)] for n in range(32)], "float32", 1, 0),
    ],
)
def test_ways_of_a_request_are_the_words_wanted_from_one_bank(
    cells: list[Index | list[Index]], dtype: str, ways: int, conflicts: int
) -> None:
    hand = Hand()
    x = hand.place("x", "SRAM", (2048,), dtype)
    hand.read(hand.site(1), x, dict(enumerate(cells)))
    hand.step()
    found = use(hand.trace(), 1, "x")
    assert (found.bank_ways, found.bank_conflicts) == (ways, conflicts)


def test_lines_may_be_of_some_steps_only() -> None:
    hand = Hand()
    x = hand.place("x", "HBM", (8,))
    read = hand.site(4)
    for _ in range(3):
        hand.read(read, x, {0: (1,)})
        hand.step()
    trace = hand.trace()
    assert [u.elements for u in lines(trace)] == [3]
    assert [u.elements for u in lines(trace, trace.steps[1:])] == [2]
    assert lines(trace, ()) == ()


def test_registers_have_neither_sectors_nor_banks() -> None:
    hand = Hand()
    acc = hand.place("acc", "registers", (32, 4))
    hand.write(hand.site(1), acc, {t: (t, 0) for t in range(32)})
    hand.step()
    assert lines(hand.trace()) == (LineUse(1, "acc", "write", 32, 128, 1, 0, 0, 0, 0),)


@pytest.mark.parametrize("seed", range(10))
def test_counts_of_any_log_are_those_of_the_definition(seed: int) -> None:
    random = np.random.default_rng(seed)
    hand = Hand((64, 1, 1))
    x, s = hand.place("x", "HBM", (500,)), hand.place("s", "SRAM", (500,))
    expected = [0, 0, 0, 0]
    read_x, read_s = hand.site(1), hand.site(2)
    for _ in range(20):
        cells = random.integers(500, size=64)
        active = np.flatnonzero(random.random(64) < 0.7)
        for site, place in ((read_x, x), (read_s, s)):
            hand.read(site, place, {int(t): (int(cells[t]),) for t in active})
        for warp in range(2):
            of_warp = {int(cells[t]) for t in active if t // 32 == warp}
            ways = max(len({c for c in of_warp if c % 32 == bank}) for bank in range(32))
            expected[0] += len({c // 8 for c in of_warp})
            expected[1] += -(-len(of_warp) // 8)
            expected[2] = max(expected[2], ways)
            expected[3] += ways - 1
    hand.step()
    trace = hand.trace()
    found = use(trace, 1, "x"), use(trace, 2, "s")
    counts = [found[0].sectors, found[0].ideal_sectors, found[1].bank_ways, found[1].bank_conflicts]
    assert counts == expected
