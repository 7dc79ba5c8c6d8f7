"""Inputs that broke other implementations of the same kernels: shapes no tile divides, and numbers that overflow."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import kernels
from kernels.attention import attention
from kernels.job import make_job
from kernels.registry import find_kernel, kernel_names
from kernels.verify import verify_outputs

Array = npt.NDArray[np.float32]
ATTENTION = ["fa1", "fa2", "flash_decoding"]
SQUARE = [  # N, d, tile
    (1, 64, 32),
    (31, 64, 32),
    (33, 64, 32),
    (192, 64, 128),
    (257, 40, 32),
    (100, 59, 32),
    (100, 111, 32),
    (257, 64, 64),
]
PAIRS = [(1, 239), (239, 1), (3, 799), (257, 257), (128, 61)]  # Nq, Nk


def _draw(heads: int, Nq: int, Nk: int, d: int, spread: float = 1.0) -> dict[str, Array]:
    rng = np.random.default_rng(Nq * 1000 + Nk)
    return {
        name: (spread * rng.normal(size=(heads, rows, d))).astype(np.float32)
        for name, rows in (("Q", Nq), ("K", Nk), ("V", Nk))
    }


def _run(kernel: str, inputs: dict[str, Any], tile: int = 32, **params: Any) -> dict[str, Array]:
    """The outputs of an untraced run on two threads a block, after they passed for right head by head."""
    if kernel == "online_softmax":
        params["b"] = tile
    else:
        params |= {"Br": tile, "Bc": tile}
    if kernel == "flash_decoding":
        params["splits"] = 3
    outputs = kernels.run(kernel, inputs, backend="cpu", threads=2, **params)
    found = find_kernel(kernel)
    settled = make_job(found, inputs, params, threads=2, default_threads=2).params
    report = verify_outputs(found, settled, inputs, outputs)
    heads = len(next(iter(inputs.values())))
    assert report.checks == heads * len(outputs)
    assert report.ok, report.findings[:5]
    return outputs


@pytest.mark.parametrize("causal", [False, True], ids=["all", "causal"])
@pytest.mark.parametrize("kernel", ATTENTION)
@pytest.mark.parametrize(("N", "d", "tile"), SQUARE)
def test_a_tile_larger_than_the_matrix_or_that_does_not_divide_it(
    N: int, d: int, tile: int, kernel: str, causal: bool
) -> None:
    _run(kernel, _draw(2, N, N, d), tile, causal=causal)


@pytest.mark.parametrize("causal", [False, True], ids=["all", "causal"])
@pytest.mark.parametrize("kernel", ["fa2", "flash_decoding"])
@pytest.mark.parametrize(("Nq", "Nk"), PAIRS)
def test_few_queries_and_many_keys_or_the_reverse(Nq: int, Nk: int, kernel: str, causal: bool) -> None:
    _run(kernel, _draw(2, Nq, Nk, 64), causal=causal)


@pytest.mark.parametrize("kernel", ATTENTION)
def test_four_thousand_rows_of_an_odd_width(kernel: str) -> None:
    _run(kernel, _draw(1, 4096, 4096, 63), 64)


@pytest.mark.parametrize("kernel", ["fa2", "flash_decoding"])
def test_rows_that_see_no_key_are_zero(kernel: str) -> None:
    outputs = _run(kernel, _draw(2, 5, 2, 64), causal=True)
    assert (outputs["O"][:, :3] == 0).all()
    assert (outputs["L"][:, :3] == -np.inf).all()


@pytest.mark.parametrize("kernel", ["fa2", "flash_decoding"])
def test_a_first_tile_of_keys_wholly_masked_for_some_rows_of_a_tile_of_queries(kernel: str) -> None:
    outputs = _run(kernel, _draw(2, 50, 45, 16), 16, causal=True)  # rows 0 to 4 see nothing, row 5 one key
    assert (outputs["O"][:, :5] == 0).all()
    assert (outputs["O"][:, 5] != 0).any()


@pytest.mark.parametrize("kernel", ATTENTION)
def test_one_key_with_enormous_entries_takes_or_leaves_everything(kernel: str) -> None:
    inputs = _draw(2, 70, 70, 64)
    inputs["K"][:, 37] = 133120
    outputs = _run(kernel, inputs)
    chosen = inputs["Q"].sum(axis=2) > 0
    np.testing.assert_array_equal(
        outputs["O"][chosen], np.broadcast_to(inputs["V"][:, 37:38], inputs["V"].shape)[chosen]
    )
    others = {name: np.delete(inputs[name], 37, axis=1) for name in "KV"}
    left = attention(inputs["Q"], others["K"], others["V"], False, np.float64)["O"]
    np.testing.assert_allclose(outputs["O"][~chosen], left[~chosen], rtol=0, atol=2e-6)


@pytest.mark.parametrize("kernel", ATTENTION)
def test_numbers_ten_times_as_large_as_usual(kernel: str) -> None:
    inputs = _draw(2, 100, 100, 64, spread=10)
    assert (
        np.abs(inputs["Q"] @ inputs["K"].swapaxes(1, 2)).max() / 8 > 200
    )  # far beyond what exp can take: 88.7
    _run(kernel, inputs)


def _graded(rising: bool) -> dict[str, Array]:
    """Every row's scores grow, or fall, from key to key."""
    inputs = _draw(2, 96, 96, 16)
    steps = np.linspace(-60, 60, 96, dtype=np.float32)
    inputs["Q"][:] = 0
    inputs["Q"][..., 0] = 4
    inputs["K"][..., 0] = steps if rising else steps[::-1]
    return inputs


@pytest.mark.parametrize("rising", [True, False], ids=["rising", "falling"])
@pytest.mark.parametrize("kernel", ATTENTION)
def test_scores_that_rescale_in_every_tile_or_never(kernel: str, rising: bool) -> None:
    inputs = _graded(rising)
    _run(kernel, inputs, 16)
    trace = kernels.record(
        kernel, inputs, backend="cpu", Br=16, Bc=16, **({"splits": 1} if kernel == "flash_decoding" else {})
    )
    steps = [step for step in trace.steps if step.launch == 0 and step.name in ("load_q", "update")]
    steps = [step for step in steps if step.block == steps[0].block and step.loop.get("i", 0) == 0]
    maxima = [float(held[0]) for step in steps if (held := step.held("mi")) is not None and held[0] > -np.inf]
    moves = len(set(maxima)) - 1
    assert moves == (5 if rising else 0)  # six tiles of keys, the first of which sets it


@pytest.mark.parametrize("kernel", ATTENTION)
def test_sixty_heads_each_with_inputs_of_its_own(kernel: str) -> None:
    outputs = _run(kernel, _draw(60, 40, 40, 8), 16)
    assert len({head.tobytes() for head in outputs["O"]}) == 60


@pytest.mark.parametrize(
    ("N", "tile"), [(1, 32), (31, 32), (33, 32), (192, 128), (4096, 63), (239, 1), (799, 3)]
)
def test_rows_of_any_width(N: int, tile: int) -> None:
    rng = np.random.default_rng(N)
    _run("online_softmax", {"x": rng.normal(size=(3, N)).astype(np.float32)}, tile)


@pytest.mark.parametrize(
    "row",
    [
        np.linspace(-300, 300, 200),
        np.linspace(300, -300, 200),
        np.where(np.arange(200) == 77, 133120, 0),
        np.where(np.arange(200) == 77, -133120, 0),
        10 * np.random.default_rng(0).normal(size=200),
        np.full(200, 3e38),
        np.full(200, -3e38),
        np.where(np.arange(200) == 199, 3e38, -3e38),
        np.zeros(200),
    ],
    ids=["rising", "falling", "one large", "one small", "spread", "all large", "all small", "both", "equal"],
)
def test_rows_that_overflow_a_softmax_without_a_max(row: Any) -> None:
    outputs = _run("online_softmax", {"x": np.stack([row, row[::-1]]).astype(np.float32)}, 16)
    np.testing.assert_allclose(outputs["y"].sum(axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize("kernel", kernel_names())
def test_the_same_run_250_times_gives_the_same_bits(kernel: str) -> None:
    if kernel == "online_softmax":
        inputs: dict[str, Array] = {"x": np.random.default_rng(0).normal(size=(3, 33)).astype(np.float32)}
        sizes = {"b": 8}
    else:
        inputs, sizes = _draw(2, 13, 13, 5), {"Br": 4, "Bc": 4}
    runs = [kernels.run(kernel, inputs, backend="cpu", threads=3, **sizes) for _ in range(250)]
    for name in runs[0]:
        assert len({outputs[name].tobytes() for outputs in runs}) == 1
