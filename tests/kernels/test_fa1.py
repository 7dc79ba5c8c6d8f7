"""The recorded run of FlashAttention-1: what the film and the page count on."""

from __future__ import annotations

import kernels


def test_the_default_run_has_eighteen_steps_in_each_of_six_blocks() -> None:
    trace = kernels.recorded("fa1")
    assert trace.blocks == tuple((0, (head, 0, 0)) for head in range(6))
    names = ["load_kv", *["load_q", "compute", "update", "write"] * 2] * 2
    for launch, block in trace.blocks:
        steps = trace.steps_of(block, launch)
        assert [step.name for step in steps] == names
        assert [step.loop for step in steps[:6]] == [{"j": 0}, *[{"j": 0, "i": 0}] * 4, {"j": 0, "i": 1}]


def test_the_running_max_moves_in_some_rows_of_the_filmed_block_and_not_in_others() -> None:
    steps = kernels.recorded("fa1").steps_of((0, 0, 0))
    first, last = (step.hbm["m"] for step in (steps[8], steps[-1]))
    moved = first != last
    assert moved.any()
    assert not moved.all()


def test_each_head_has_inputs_of_its_own() -> None:
    for values in kernels.recorded("fa1").inputs.values():
        assert len({head.tobytes() for head in values}) == 6
