"""What a caller hands over: other layouts are copied, wrong arrays and sizes are refused in one sentence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kernels

RNG = np.random.default_rng(0)
Q, K, V = RNG.normal(size=(3, 2, 7, 5)).astype(np.float32)


def _run(arrays: dict[str, Any], **params: Any) -> dict[str, Any]:
    return kernels.run("fa1", arrays, **{"Br": 4, "Bc": 3, "backend": "cpu", **params})


@pytest.mark.parametrize(
    "other",
    [
        np.asfortranarray,
        lambda a: np.repeat(a, 2, axis=1)[:, ::2],
        lambda a: a[:, ::-1].copy()[:, ::-1],
        lambda a: a.astype(">f4"),
        lambda a: np.pad(a, 1)[1:-1, 1:-1, 1:-1],
    ],
    ids=["fortran", "strided", "reversed", "big-endian", "window"],
)
def test_another_memory_layout_is_copied_and_gives_the_same_bits(other: Any) -> None:
    plain, copied = _run({"Q": Q, "K": K, "V": V}), _run({"Q": other(Q), "K": other(K), "V": other(V)})
    assert all(plain[name].tobytes() == copied[name].tobytes() for name in plain)


def test_inputs_are_left_as_they_were() -> None:
    before = Q.copy()
    _run({"Q": Q, "K": K, "V": V})
    np.testing.assert_array_equal(Q, before)


NAN = V.copy()
NAN[1, 2, 3] = np.nan

BAD: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"Q": Q.astype(np.float64), "K": K, "V": V}, {}, "Q is float64: must be float32"),
    ({"Q": Q.astype(np.float16), "K": K, "V": V}, {}, "Q is float16: must be float32"),
    ({"Q": Q.astype(int), "K": K, "V": V}, {}, "Q is int64: must be float32"),
    ({"Q": Q[0], "K": K, "V": V}, {}, "Q has shape (7, 5): must be (batch_heads, N, d)"),
    ({"Q": Q, "K": K[:, :6], "V": V}, {}, "K has shape (2, 6, 5): must be (batch_heads, N, d) with N=7"),
    ({"Q": Q, "K": K, "V": V[..., :4]}, {}, "V has shape (2, 7, 4): must be (batch_heads, N, d) with d=5"),
    ({"Q": Q[:, :0], "K": K[:, :0], "V": V[:, :0]}, {}, "N=0: must be a whole number of at least 1"),
    ({"Q": Q, "K": K, "V": NAN}, {}, "V[1, 2, 3] is nan: inputs must be finite"),
    ({"Q": Q, "K": K}, {}, "fa1 takes the arrays Q, K, V; given were Q, K"),
    ({"Q": Q, "K": K, "V": V}, {"N": 8}, "Q has shape (2, 7, 5): must be (batch_heads, N, d) with N=8"),
    ({"Q": Q, "K": K, "V": V}, {"Br": 0}, "Br=0: must be a whole number of at least 1"),
    ({"Q": Q, "K": K, "V": V}, {"Bc": 2.5}, "Bc=2.5: must be a whole number of at least 1"),
    ({"Q": Q, "K": K, "V": V}, {"Br": True}, "Br=True: must be a whole number of at least 1"),
    ({"Q": Q, "K": K, "V": V}, {"causal": 2}, "causal=2: must be True or False"),
    (
        {"Q": Q, "K": K, "V": V},
        {"b": 4},
        "fa1 takes no b: its parameters are N, d, Br, Bc, batch_heads, causal",
    ),
    ({"Q": Q, "K": K, "V": V}, {"threads": 1025}, "threads=1025 per block: a CUDA device takes at most 1024"),
    ({"Q": Q, "K": K, "V": V}, {"threads": 0}, "threads=0: must be a whole number of at least 1"),
    ({"Q": Q, "K": K, "V": V}, {"backend": "tpu"}, "backend='tpu': must be one of auto, cupy, cpu"),
]


@pytest.mark.parametrize(("arrays", "params", "says"), BAD, ids=[says for *_, says in BAD])
def test_a_bad_input_is_refused_with_its_value(
    arrays: dict[str, Any], params: dict[str, Any], says: str
) -> None:
    with pytest.raises(kernels.ParameterError) as caught:
        _run(arrays, **params)
    assert str(caught.value) == says


def test_tiles_too_large_for_shared_memory_are_refused_with_the_limit() -> None:
    with pytest.raises(kernels.ParameterError) as caught:
        kernels.record("fa1", None, backend="cpu", d=128, Br=128, Bc=128)
    assert str(caught.value) == (
        "Br=128, Bc=128, d=128 need 328704 bytes of shared memory; this device allows 232448: "
        "choose smaller tiles (Br, Bc, d)"
    )


def test_a_trace_larger_than_memory_is_refused_before_anything_runs_with_its_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kernels.backend.cpu.available", lambda: 3 * 10**9)
    monkeypatch.setattr("kernels.backend.cpu.Cpu.trace", lambda *_: pytest.fail("it ran"))
    with pytest.raises(kernels.ParameterError) as caught:
        kernels.record("fa1", None, backend="cpu", N=1024, d=64, Br=32, Bc=32, batch_heads=192)
    words = 5 + 6 * 2 * 5 + 32 * (64 + 1 + 1)  # the step, its tallies, the patches of O, l and m
    words += 4 * 32 * 64 + 32 * 32 + 2 * 32  # the SRAM
    assert str(caught.value) == (
        f"a trace of this run takes {4 * 192 * 32 * (1 + 32 * 4) * words:,} bytes; there is room for 1,000,000,000: "
        "record a window of it (--blocks 0:1, --steps 0:100), or choose smaller sizes"
    )


def test_room_for_a_split_is_room_for_its_own_tiles_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"Nq": 1, "Br": 1, "Nk": 65536, "d": 64, "Bc": 32, "splits": 64, "batch_heads": 4}
    tiles = 65536 // 32 // 64
    record = 5 + 8 * 2 * 5 + 2 * (64 + 1) + 1  # the step, its tallies, the patches of Op, lp, mp, O and L
    split = (
        4 * 64 * (2 + 3 * tiles) * (record + 164 + 2 * 32 * 64)
    )  # Qi, Kj, Vj, Sij, Oi, mi, li, in whole quads
    combine = 4 * (3 + 2 * 64) * (record + 136)  # Os, ms, ls, Oi, mi, li, Li
    monkeypatch.setattr("kernels.backend.cpu.available", lambda: 3)
    monkeypatch.setattr("kernels.backend.cpu.Cpu.trace", lambda *_: pytest.fail("it ran"))
    with pytest.raises(kernels.ParameterError, match=f"takes {4 * (split + combine):,} bytes"):
        kernels.record("flash_decoding", None, backend="cpu", **sizes)


def test_an_array_too_long_to_index_is_refused() -> None:
    with pytest.raises(kernels.ParameterError, match="at most 2147483647 can be addressed"):
        kernels.record("fa1", None, backend="cpu", N=2**31, Br=4, Bc=4)


def test_an_unknown_kernel_is_refused_with_those_there_are() -> None:
    with pytest.raises(kernels.ParameterError, match=r"there is no kernel 'fa7': choose one of .*fa1"):
        kernels.run("fa7", {})
