"""Boxes: the smallest range of each axis that a step read or wrote in a place, and whether it is full."""

from __future__ import annotations

from kernels.conclude.boxes import read_boxes, written_boxes

from .handwritten import Hand


def test_boxes_of_a_step_are_of_its_own_reads_and_writes() -> None:
    hand = Hand()
    x, s, n = hand.place("x", "HBM", (4, 8)), hand.place("s", "SRAM", (4,)), hand.place("n", "SRAM", ())
    site = hand.site(1)
    hand.read(site, x, {0: (0, 0)})
    hand.step("another")
    hand.read(site, x, {t: (1 + t // 3, 2 + t % 3) for t in range(6)})
    hand.read(site, x, {0: (1, 2)})  # again: it counts once
    hand.write(site, s, {0: (0,), 1: (3,)})
    hand.atomic(site, n, {0: ()})
    hand.step()
    trace = hand.trace()
    reads, writes = read_boxes(trace, trace.steps[1]), written_boxes(trace, trace.steps[1])
    assert [(box.text, box.ranges, box.cells, box.full) for box in reads] == [
        ("x[1:3, 2:5]", ((1, 3), (2, 5)), 6, True),
        ("n", (), 1, True),
    ]
    assert [(box.text, box.cells, box.full) for box in writes] == [
        ("part of s[0:4]", 2, False),
        ("n", 1, True),
    ]
