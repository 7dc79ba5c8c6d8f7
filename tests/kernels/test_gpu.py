"""The same on a real GPU: these need CuPy and an NVIDIA device."""

from __future__ import annotations

import numpy as np
import pytest

import kernels
from kernels.backend import find_backend
from kernels.errors import BackendError
from kernels.registry import find_kernel, kernel_names

pytestmark = pytest.mark.gpu

SHAPES = [
    {"N": 1, "d": 1, "Br": 1, "Bc": 1},
    {"N": 7, "d": 3, "Br": 2, "Bc": 3},
    {"N": 33, "d": 16, "Br": 8, "Bc": 4, "causal": True},
    {"N": 70, "d": 64, "Br": 32, "Bc": 32},
    {"N": 130, "d": 128, "Br": 64, "Bc": 64},  # more than 48 KiB of shared memory
]


@pytest.fixture(scope="module", autouse=True)
def _gpu() -> None:
    try:
        find_backend("cupy")
    except BackendError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("params", SHAPES, ids=str)
def test_every_step_is_right_on_the_gpu(params: dict[str, int]) -> None:
    report = kernels.verify(kernels.record("fa1", None, backend="cupy", **params))
    assert report.ok, report.findings[:5]


@pytest.mark.parametrize("threads", [1, 7, 32, 1024])
def test_any_number_of_threads_gives_the_same_bits(threads: int) -> None:
    one = kernels.record("fa1", None, backend="cupy", N=33, d=5, Br=8, Bc=4)
    other = kernels.record("fa1", None, backend="cupy", N=33, d=5, Br=8, Bc=4, threads=threads)
    assert all(one.outputs[name].tobytes() == other.outputs[name].tobytes() for name in one.outputs)
    assert [step.traffic for step in one.steps] == [step.traffic for step in other.steps]


def test_a_traced_and_an_untraced_run_give_the_same_bits() -> None:
    trace = kernels.record("fa1", None, backend="cupy", N=70, d=16, Br=16, Bc=16)
    outputs = kernels.run("fa1", trace.inputs, backend="cupy", Br=16, Bc=16)
    assert all(outputs[name].tobytes() == trace.outputs[name].tobytes() for name in outputs)


def test_two_hundred_and_fifty_runs_give_the_same_bits() -> None:
    inputs = kernels.record("fa1", None, backend="cupy", N=70, d=16, Br=16, Bc=16).inputs
    runs = {kernels.run("fa1", inputs, backend="cupy", Br=16, Bc=16)["O"].tobytes() for _ in range(250)}
    assert len(runs) == 1


@pytest.mark.parametrize("name", kernels.recordings())
def test_a_recording_is_what_this_gpu_does_now(name: str) -> None:
    recorded = kernels.recorded(name)
    params = {
        key: value
        for key, value in recorded.params.items()
        if key in {p.name for p in find_kernel(recorded.kernel).parameters}
    }
    now = kernels.record(recorded.kernel, recorded.inputs, backend="cupy", **params)
    assert [step.traffic for step in now.steps] == [step.traffic for step in recorded.steps]
    for name, values in recorded.outputs.items():
        np.testing.assert_allclose(now.outputs[name], values, rtol=1e-5, atol=1e-6)


def test_too_much_shared_memory_names_the_limit() -> None:
    with pytest.raises(kernels.ParameterError, match=r"bytes of shared memory; this device allows \d+"):
        kernels.record("fa1", None, backend="cupy", N=8, d=128, Br=256, Bc=256)


@pytest.mark.parametrize("kernel", kernel_names())
def test_a_gpu_run_says_so(kernel: str) -> None:
    provenance = kernels.record(kernel, None, backend="cupy").provenance
    assert provenance.backend == "cupy"
    assert "NVIDIA" in provenance.device
