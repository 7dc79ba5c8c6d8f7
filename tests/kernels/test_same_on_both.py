"""A plain kernel leaves the same steps, cells and values on a GPU and on a CPU."""

from __future__ import annotations

import numpy as np
import pytest

from kernels.conclude.actions import actions, sentence
from kernels.gallery import find, names
from tests.kernels.gallery_runs import GPU_ONLY, run

pytestmark = pytest.mark.gpu

EXAMPLES = [
    pytest.param(name, number, id=f"{name}-{number}")
    for name in names()
    if name not in GPU_ONLY
    for number in range(len(find(name).examples))
]


@pytest.mark.parametrize(("name", "number"), EXAMPLES)
def test_steps_cells_and_values_are_the_same(name: str, number: int) -> None:
    _, on_gpu = run(name, number, "cupy")
    _, on_cpu = run(name, number, "cpu")
    told = [[(s.name, dict(s.loop), s.line, s.block, s.launch) for s in t.steps] for t in (on_gpu, on_cpu)]
    assert told[0] == told[1]
    assert [p.name for p in on_gpu.places if p.held] == [p.name for p in on_cpu.places if p.held]
    for gpu, cpu in zip(on_gpu.steps, on_cpu.steps, strict=True):
        where = f"step {gpu.index} ({gpu.name}) of block {gpu.block}"
        for kind in ("written", "read"):
            mine, other = getattr(gpu, kind), getattr(cpu, kind)
            for place in (p.name for p in on_gpu.places if p.memory != "registers"):
                assert np.array_equal(mine[place], other[place]), f"{place} {kind} in {where}"
        for slot in gpu.slots:
            one, two = gpu.slots[slot], cpu.slots[slot]
            assert (one is None) == (two is None), f"{slot} in {where}"
            if one is None or two is None:
                continue
            assert np.array_equal(one.known, two.known), f"{slot} in {where}"
            values = [c.values[c.known].astype(np.float64) for c in (one, two)]
            assert np.allclose(*values, rtol=2e-3, atol=2e-3), f"{slot} in {where}"
        said = [{sentence(act) for act in actions(t, s)} for t, s in ((on_gpu, gpu), (on_cpu, cpu))]
        assert said[0] == said[1], where
    for array, values in on_gpu.outputs.items():
        assert np.allclose(
            values.astype(np.float64), on_cpu.outputs[array].astype(np.float64), rtol=2e-3, atol=2e-3
        )
