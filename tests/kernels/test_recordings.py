"""The committed recordings: made on a GPU, of the source as it stands, and equal to a fresh run on the CPU."""

from __future__ import annotations

import numpy as np
import pytest

import kernels
from kernels.registry import find_kernel, kernel_names
from kernels.source import read_source, source_hash

DECLARED = [(kernel, name) for kernel in kernel_names() for name in find_kernel(kernel).recordings]


def test_the_recordings_are_those_the_kernels_declare() -> None:
    assert sorted(name for _, name in DECLARED) == sorted(kernels.recordings())


@pytest.mark.parametrize(("kernel", "name"), DECLARED)
def test_a_recording_comes_from_a_gpu_and_from_the_source_as_it_stands(kernel: str, name: str) -> None:
    trace = kernels.recorded(name)
    assert trace.kernel == kernel
    assert trace.provenance.backend == "cupy"
    assert "NVIDIA" in trace.provenance.device
    assert trace.provenance.source_hash == source_hash(read_source(find_kernel(kernel).source)), (
        f"{kernel}.cu has changed since {name} was recorded: run `python -m kernels.record_all` on a GPU"
    )


@pytest.mark.parametrize(("kernel", "name"), DECLARED)
def test_a_recording_has_the_parameters_its_kernel_declares(kernel: str, name: str) -> None:
    defaults = {parameter.name: parameter.default for parameter in find_kernel(kernel).parameters}
    assert kernels.recorded(name).params == {**defaults, **find_kernel(kernel).recordings[name]}


@pytest.mark.parametrize(("kernel", "name"), DECLARED)
def test_a_recording_passes_every_check(kernel: str, name: str) -> None:
    report = kernels.verify(kernels.recorded(name))
    assert report.ok, report.findings[:5]


@pytest.mark.parametrize(("kernel", "name"), DECLARED)
def test_a_recording_is_what_the_cpu_computes_step_by_step(kernel: str, name: str) -> None:
    recorded = kernels.recorded(name)
    fresh = kernels.record(kernel, recorded.inputs, backend="cpu", **find_kernel(kernel).recordings[name])
    assert recorded.layout.arrays == fresh.layout.arrays
    for old, new in zip(recorded.steps, fresh.steps, strict=True):
        assert (old.name, old.loop, old.block, old.launch, old.valid) == (
            new.name,
            new.loop,
            new.block,
            new.launch,
            new.valid,
        )
        assert old.traffic == new.traffic
        for slot in old.sram:
            a, b = old.held(slot), new.held(slot)
            assert (a is None) == (b is None)
            if a is not None and b is not None:
                np.testing.assert_allclose(a, b, rtol=1e-5, atol=2e-6)
        for array in old.hbm:
            np.testing.assert_allclose(old.hbm[array], new.hbm[array], rtol=1e-5, atol=2e-6)
