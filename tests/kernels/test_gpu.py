"""The same on a real GPU: these need CuPy and an NVIDIA device."""

from __future__ import annotations

import numpy as np
import pytest

import kernels
from kernels.backend import find_backend
from kernels.errors import BackendError
from kernels.registry import find_kernel, kernel_names

from .shapes import sweep

pytestmark = pytest.mark.gpu

LARGE = {  # more than 48 KiB of shared memory
    "fa1": {"N": 130, "d": 128, "Br": 64, "Bc": 64},
    "fa2": {"Nq": 130, "Nk": 65, "d": 128, "Br": 64, "Bc": 64, "causal": 1},
    "flash_decoding": {"Nq": 1, "Nk": 300, "d": 128, "Br": 1, "Bc": 128},
    "online_softmax": {"N": 20000, "b": 8000},
}


@pytest.fixture(scope="module", autouse=True)
def _gpu() -> None:
    try:
        find_backend("cupy")
    except BackendError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("kernel", kernel_names())
def test_every_step_of_a_sweep_is_right_on_the_gpu(kernel: str) -> None:
    for params in [*sweep(kernel)[::5], LARGE[kernel]]:
        report = kernels.verify(kernels.record(kernel, None, backend="cupy", **params))
        assert report.ok, (params, report.findings[:5])


@pytest.mark.parametrize("threads", [1, 7, 32, 1024])
@pytest.mark.parametrize("kernel", kernel_names())
def test_any_number_of_threads_gives_the_same_bits(kernel: str, threads: int) -> None:
    one, other = (kernels.record(kernel, None, backend="cupy", threads=n) for n in (128, threads))
    assert all(one.outputs[name].tobytes() == other.outputs[name].tobytes() for name in one.outputs)
    assert [step.traffic for step in one.steps] == [step.traffic for step in other.steps]


@pytest.mark.parametrize("threads", [257, 640, 1024])
def test_a_block_of_many_threads_runs_however_many_registers_the_kernel_would_like(threads: int) -> None:
    inputs = {name: np.random.default_rng(0).normal(size=(2, 70, 64)).astype(np.float32) for name in "QKV"}
    for kernel in ("fa1", "fa2"):
        one, many = (
            kernels.run(kernel, inputs, backend="cupy", Br=32, Bc=32, threads=n) for n in (128, threads)
        )
        assert all(one[name].tobytes() == many[name].tobytes() for name in one)


@pytest.mark.parametrize("kernel", kernel_names())
def test_a_traced_and_an_untraced_run_and_250_more_give_the_same_bits(kernel: str) -> None:
    trace = kernels.record(kernel, None, backend="cupy")
    sizes = {name: trace.params[name] for name in ("Br", "Bc", "b", "splits") if name in trace.params}
    runs = [kernels.run(kernel, trace.inputs, backend="cupy", **sizes) for _ in range(251)]
    for name, values in trace.outputs.items():
        assert {outputs[name].tobytes() for outputs in runs} == {values.tobytes()}


@pytest.mark.parametrize("name", kernels.recordings())
def test_a_recording_is_what_this_gpu_does_now(name: str) -> None:
    recorded = kernels.recorded(name)
    params = find_kernel(recorded.kernel).recordings[name]
    now = kernels.record(recorded.kernel, recorded.inputs, backend="cupy", **params)
    assert [step.traffic for step in now.steps] == [step.traffic for step in recorded.steps]
    for output, values in recorded.outputs.items():
        np.testing.assert_allclose(now.outputs[output], values, rtol=1e-5, atol=1e-6)


def test_too_much_shared_memory_names_the_limit() -> None:
    with pytest.raises(kernels.ParameterError, match=r"bytes of shared memory; this device allows \d+"):
        kernels.record("fa1", None, backend="cupy", N=8, d=128, Br=256, Bc=256)


@pytest.mark.parametrize("kernel", kernel_names())
def test_a_gpu_run_says_so(kernel: str) -> None:
    provenance = kernels.record(kernel, None, backend="cupy").provenance
    assert provenance.backend == "cupy"
    assert "NVIDIA" in provenance.device
