"""A plain kernel called as CuPy calls one: what it makes of its arguments, and what it writes back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import kernels
from kernels.errors import ParameterError
from kernels.launch import raw_kernel
from kernels.launch.machines import find_backend
from kernels.launch.request import Request
from kernels.launch.settle import Call, settle_words
from kernels.launch.source import parse_source

SOURCE = """
__global__ void scale(const float* x, float* y, float by, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = by * x[i];
}
template <int T, typename E> __global__ void turn(E* a, size_t n, bool up) { a[0] = n; }
__global__ void total(const float* x, float* y, int n) { y[0] = x[n - 1]; }
"""
Ran = Callable[[Request], Mapping[str, Any]]


class _Seen:
    """Stands in for running a request: keeps it, and leaves what `left` makes of its arrays."""

    def __init__(self, left: Ran) -> None:
        self.left = left
        self.request: Request

    def __call__(self, request: Request, backend: object) -> tuple[Any, Mapping[str, Any]]:
        self.request = request
        return "the trace", {**request.arrays, **self.left(request)}


@pytest.fixture
def doubled(monkeypatch: pytest.MonkeyPatch) -> _Seen:
    """A run that leaves in y twice what is in x."""
    seen = _Seen(lambda request: {"y": 2 * request.arrays["x"]})
    monkeypatch.setattr(raw_kernel, "record", seen)
    return seen


def _scale(*arguments: Any, **settings: Any) -> Any:
    return kernels.RawKernel(SOURCE, "scale", backend="cpu")((4,), (32, 1), arguments, **settings)


@pytest.fixture(autouse=True)
def _no_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raw_kernel, "find_backend", lambda name: None)


def test_arguments_are_named_from_the_source_and_numbers_take_their_types(doubled: _Seen) -> None:
    x, y = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    assert _scale(x, y, 0.1, 4, shared_mem=64, blocks=(1, 2), steps=(0, 3)) == "the trace"
    request = doubled.request
    launch = request.launches[0]
    assert [argument.name for argument in launch.arguments] == ["x", "y", "by", "n"]
    by, n = launch.arguments[2].value, launch.arguments[3].value
    assert isinstance(by, np.float32)
    assert isinstance(n, np.int32)
    assert (by, n) == (np.float32(0.1), 4)
    assert (launch.kernel, launch.grid, launch.block) == ("scale", (4, 1, 1), (32, 1, 1))
    assert (launch.shared_bytes, request.blocks, request.steps) == (64, (1, 2), (0, 3))
    assert list(request.arrays) == ["x", "y"]


def test_what_was_written_is_written_in_place(doubled: _Seen) -> None:
    x, y = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    _scale(x, y, 2.0, 4)
    np.testing.assert_array_equal(y, [0, 2, 4, 6])
    np.testing.assert_array_equal(x, [0, 1, 2, 3])


def test_arrays_of_any_layout_are_copied_and_written_back(doubled: _Seen) -> None:
    whole = np.zeros((4, 6), np.float32)
    x = np.asfortranarray(np.arange(12, dtype=np.float32).reshape(4, 3))
    _scale(x, whole[:, ::2], 2.0, 4)
    np.testing.assert_array_equal(doubled.request.arrays["x"].reshape(-1), np.arange(12))
    np.testing.assert_array_equal(whole[:, ::2], 2 * x)
    assert not whole[:, 1::2].any()


def test_an_array_of_no_dimension_and_one_of_the_other_byte_order_are_taken(doubled: _Seen) -> None:
    x, y = np.array(3, ">f4"), np.array(0, np.float32)
    _scale(x, y, 2.0, 1)
    assert y == 6


def test_a_read_only_input_is_taken_and_a_read_only_output_is_not(doubled: _Seen) -> None:
    x, y = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    x.flags.writeable = y.flags.writeable = False
    with pytest.raises(
        ParameterError, match=r"y is read-only, but float\* y may be written: pass y\.copy\(\)"
    ):
        _scale(x, y, 2.0, 4)
    _scale(x, np.zeros(4, np.float32), 2.0, 4)
    with pytest.raises(ParameterError, match="y is read-only"):
        _scale(x, x, 2.0, 4)


def test_one_array_for_two_parameters_is_one_array(doubled: _Seen) -> None:
    doubled.left = lambda request: {"x": 3 * request.arrays["x"]}
    x = np.arange(4, dtype=np.float32)
    _scale(x, x[:], 2.0, 4)
    assert [argument.name for argument in doubled.request.launches[0].arguments[:2]] == ["x", "x"]
    np.testing.assert_array_equal(x, [0, 3, 6, 9])


def test_arrays_that_overlap_are_refused() -> None:
    x = np.arange(8, dtype=np.float32)
    with pytest.raises(ParameterError, match="y shares memory with x, and one of them may be written"):
        _scale(x[:6], x[2:], 2.0, 4)


def test_halves_of_one_array_do_not_overlap(doubled: _Seen) -> None:
    x = np.arange(8, dtype=np.float32)
    _scale(x[::2], x[1::2], 2.0, 4)
    np.testing.assert_array_equal(x, [0, 0, 2, 4, 4, 8, 6, 12])


def test_none_is_a_null_pointer(doubled: _Seen) -> None:
    doubled.left = lambda request: {}
    _scale(None, np.zeros(4, np.float32), 2.0, 4)
    assert doubled.request.launches[0].arguments[0].value == np.uint64(0)


class _Device:
    """Behaves as an array of CuPy's does; its memory is NumPy's."""

    __module__ = "cupy"

    def __init__(self, host: Any) -> None:
        self.host = host
        self.shape, self.dtype = host.shape, host.dtype
        self.flags = host.flags
        strides = None if host.flags.c_contiguous else host.strides
        self.__cuda_array_interface__ = {**host.__array_interface__, "strides": strides}

    def get(self) -> Any:
        return self.host.copy()

    def set(self, values: Any) -> None:
        assert self.host.flags.c_contiguous
        self.host[...] = values

    def copy(self, order: str) -> _Device:
        return _Device(self.host.copy(order))

    def __setitem__(self, key: Any, values: _Device) -> None:
        self.host[key] = values.host


def test_an_array_of_cupys_is_copied_and_written_back(doubled: _Seen) -> None:
    x, whole = _Device(np.arange(4, dtype=np.float32)), np.zeros((4, 3), np.float32)
    for y in (_Device(np.zeros(4, np.float32)), _Device(whole[:, 1])):
        _scale(x, y, 2.0, 4)
        np.testing.assert_array_equal(y.host, [0, 2, 4, 6])
    assert not whole[:, ::2].any()


def test_arrays_of_cupys_are_told_apart_by_where_they_lie(doubled: _Seen) -> None:
    x = np.arange(8, dtype=np.float32)
    doubled.left = lambda request: {}
    _scale(_Device(x), _Device(x[:]), 2.0, 4)
    assert [argument.name for argument in doubled.request.launches[0].arguments[:2]] == ["x", "x"]
    with pytest.raises(ParameterError, match="y shares memory with x"):
        _scale(_Device(x[:6]), _Device(x[2:]), 2.0, 4)
    _scale(_Device(x[::2]), _Device(x[1::2]), 2.0, 4)
    assert list(doubled.request.arrays) == ["x", "y"]


def _ok() -> list[Any]:
    return [np.arange(4, dtype=np.float32), np.zeros(4, np.float32), 2.0, 4]


BAD: list[tuple[int, Any, str]] = [
    (0, np.zeros(4), r"x is of dtype float64, but const float\* x takes float32"),
    (
        0,
        [1.0, 2.0],
        r"x is of type list, but const float\* x takes an array of NumPy or CuPy: pass np\.array\(x\)",
    ),
    (0, np.ma.masked_all(4, np.float32), "x is a masked array"),
    (1, np.zeros((3, 0), np.float32), "y is empty"),
    (1, 5, "y is of type int"),
    (2, "much", "by='much': float by takes a number"),
    (3, 4.0, "n=4.0: int n takes a whole number"),
    (3, 2**40, "n=1099511627776: int n takes -2147483648 to 2147483647"),
]


@pytest.mark.parametrize(("at", "value", "says"), BAD, ids=[says for _, _, says in BAD])
def test_an_argument_that_does_not_fit_is_refused_in_a_sentence(at: int, value: Any, says: str) -> None:
    arguments = _ok()
    arguments[at] = value
    with pytest.raises(ParameterError, match=says):
        _scale(*arguments)


def test_a_wrong_count_of_arguments_lists_the_parameters() -> None:
    with pytest.raises(
        ParameterError,
        match=r"scale takes 4 arguments \(const float\* x, float\* y, float by, int n\), not 3",
    ):
        _scale(*_ok()[:3])


LAUNCHES: list[tuple[Any, Any, int, str]] = [
    ((0, 1), (32,), 0, "grid=0,1: x must be from 1 to 2147483647"),
    ((1, 65536), (32,), 0, "grid=1,65536: y must be from 1 to 65535"),
    ((1, 1, 65536), (32,), 0, "z must be from 1 to 65535"),
    ((1,), (32, 33), 0, "block=32,33,1 is 1056 threads: a CUDA device takes at most 1024 in a block"),
    ((1,), (1, 1, 65), 0, "block=1,1,65: z must be from 1 to 64"),
    ((1, 1, 1, 1), (32,), 0, "must be one to three whole numbers"),
    ((1.5,), (32,), 0, "grid=1.5: must be a whole number of at least 0"),
    ((1,), (32,), 232449, "shared=232449 bytes: a block may have at most 232448"),
]


@pytest.mark.parametrize(("grid", "block", "shared", "says"), LAUNCHES, ids=[says for *_, says in LAUNCHES])
def test_a_launch_beyond_the_limits_is_refused(grid: Any, block: Any, shared: int, says: str) -> None:
    with pytest.raises(ParameterError, match=says):
        kernels.RawKernel(SOURCE, "scale")(grid, block, _ok(), shared_mem=shared)


def test_a_window_that_holds_nothing_is_refused() -> None:
    with pytest.raises(ParameterError, match="blocks=2:2: must be FIRST:END with FIRST below END"):
        _scale(*_ok(), blocks=(2, 2))
    with pytest.raises(ParameterError, match="blocks=4:5: the launch has 4 blocks, counted from 0"):
        _scale(*_ok(), blocks=(4, 5))


def test_template_arguments_give_parameters_their_types(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = _Seen(lambda request: {})
    monkeypatch.setattr(raw_kernel, "record", seen)
    traced = kernels.RawKernel(SOURCE, "turn<4, double>")
    traced((1,), (1,), (np.zeros(1), 3, False))
    assert seen.request.launches[0].kernel == "turn<4, double>"
    assert [type(argument.value) for argument in seen.request.launches[0].arguments[1:]] == [
        np.uint64,
        np.bool_,
    ]
    with pytest.raises(ParameterError, match=r"a is of dtype float32, but E\* a takes float64"):
        traced((1,), (1,), (np.zeros(1, np.float32), 3, False))


def test_a_kernel_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="has no kernel 'scales': those in it are scale"):
        kernels.RawKernel(SOURCE, "scales")
    with pytest.raises(ParameterError, match=r"has several kernels: .* \(scale, turn, total\)"):
        kernels.RawKernel(SOURCE)
    with pytest.raises(ParameterError, match="has no __global__ function"):
        kernels.RawKernel("int x;\n")
    with pytest.raises(ParameterError, match=r"no\.cu cannot be read"):
        kernels.RawKernel(tmp_path / "no.cu", "scale")
    with pytest.raises(ParameterError, match="backend='tpu': must be one of auto, cupy, cpu"):
        kernels.RawKernel(SOURCE, "scale", backend="tpu")


def _settled(*calls: tuple[str, dict[str, str]]) -> Request:
    source = parse_source(SOURCE, "scale.cu")
    return settle_words(source, [Call(kernel, "1", "32", 0, words) for kernel, words in calls])


def _names(request: Request, launch: int) -> list[str]:
    return [argument.name for argument in request.launches[launch].arguments]


def test_a_later_launch_keeps_what_it_does_not_say() -> None:
    first = {"x": "normal:32", "y": "zeros:32", "by": "2", "n": "32"}
    request = _settled(("scale", first), ("total", {}))
    assert (_names(request, 1), list(request.arrays)) == (["x", "y", "n"], ["x", "y"])
    assert request.launches[1].arguments[2].value == 32


def test_a_later_launch_takes_an_array_under_another_name() -> None:
    first = {"x": "normal:32", "y": "zeros:32", "by": "2", "n": "32"}
    request = _settled(("scale", first), ("total", {"x": "y", "y": "zeros:1"}), ("total", {"y": "x"}))
    assert _names(request, 1) == ["y", "y2", "n"]
    assert _names(request, 2) == ["y", "y", "n"]
    assert request.arrays["y2"].shape == (1,)


def test_two_arrays_may_change_places() -> None:
    first = {"x": "normal:32", "y": "zeros:32", "by": "2", "n": "32"}
    request = _settled(("scale", first), ("scale", {"x": "y", "y": "x"}))
    assert _names(request, 1) == ["y", "x", "by", "n"]


WORDS: list[tuple[dict[str, str], str]] = [
    ({"x": "zeros:4", "y": "zeros:4", "by": "1"}, "scale needs a value for int n: add n=NUMBER"),
    ({"y": "zeros:4", "by": "1", "n": "4"}, "scale needs a value for const float\\* x: add x=FILE.npy"),
    (
        {"x": "zeros:4", "y": "zeros:4", "by": "1", "n": "4", "m": "4"},
        "scale has no parameter 'm': it takes x, y, by, n",
    ),
    ({"x": "z", "y": "zeros:4", "by": "1", "n": "4"}, "x=z: const float\\* x takes an array"),
    ({"x": "n", "y": "zeros:4", "by": "1", "n": "4"}, "x=n: const float\\* x takes an array"),
]


@pytest.mark.parametrize(("words", "says"), WORDS, ids=[says for _, says in WORDS])
def test_words_that_do_not_fit_the_parameters_are_refused(words: dict[str, str], says: str) -> None:
    with pytest.raises(ParameterError, match=says):
        _settled(("scale", words))


def test_a_later_launch_that_needs_more_says_so() -> None:
    with pytest.raises(ParameterError, match=r"turn needs a value for E\* a"):
        _settled(
            ("scale", {"x": "zeros:4", "y": "zeros:4", "by": "1", "n": "4"}), ("turn<1, float>", {"up": "1"})
        )


@pytest.mark.gpu
def test_arrays_on_a_gpu_are_written_in_place() -> None:
    cupy: Any = pytest.importorskip("cupy", reason="there is no CuPy here")
    if not _devices(cupy):
        pytest.skip("there is no GPU here")
    whole = cupy.zeros((4, 8), np.float32)
    x = cupy.arange(16, dtype=np.float32).reshape(4, 4)
    trace = kernels.RawKernel(SOURCE, "scale", backend=find_backend("cupy"))(
        (1,), (32,), (x, whole[:, ::2], 2.0, 16)
    )
    np.testing.assert_array_equal(whole[:, ::2].get(), 2 * np.arange(16).reshape(4, 4))
    assert not whole[:, 1::2].any()
    np.testing.assert_array_equal(trace.outputs["y"], 2 * np.arange(16).reshape(4, 4))
    assert list(trace.inputs) == ["x"]


def _devices(cupy: Any) -> int:
    try:
        return int(cupy.cuda.runtime.getDeviceCount())
    except cupy.cuda.runtime.CUDARuntimeError:
        return 0


EVERY = """
#include <cuda_fp16.h>
#include <cuda_bf16.h>
__global__ void every(const __half* h, const __nv_bfloat16* b, const unsigned char* u, const bool* p, double* y,
                      float f, double d, __half s, __nv_bfloat16 c, int i, size_t z, bool t, char k,
                      const float* none) {
    y[0] = __half2float(h[0]); y[1] = __bfloat162float(b[1]); y[2] = u[2]; y[3] = p[1];
    y[4] = f; y[5] = d; y[6] = __half2float(s); y[7] = __bfloat162float(c); y[8] = i; y[9] = z; y[10] = t; y[11] = k;
    y[12] = none == nullptr;
}
"""


def test_every_type_reaches_the_kernel_as_it_was_given() -> None:
    bfloat16 = ml_dtypes.bfloat16
    y = np.zeros((1, 13))
    trace = kernels.RawKernel(EVERY, backend=find_backend("cpu"))(
        (1,),
        (1,),
        (
            np.array([1.5], np.float16),
            np.array([0, 2.5], bfloat16),
            np.array([[0, 0, 200]], np.uint8),
            np.array([False, True]),
            y,
            *(0.25, np.float32(0.1), 0.5, 3, -7, 2**40, True, -3, None),
        ),
    )
    wanted = [1.5, 2.5, 200, 1, 0.25, np.float32(0.1), 0.5, 3, -7, 2**40, 1, -3, 1]
    np.testing.assert_array_equal(y[0], np.array(wanted, np.float64))
    np.testing.assert_array_equal(trace.outputs["y"], y)
    assert trace.places[0].dtype == "float16"
    assert {argument.name: argument.value for argument in trace.launches[0].arguments[5:13]} == dict(
        zip("fdscizt", [0.25, float(np.float32(0.1)), 0.5, 3.0, -7, 2**40, True], strict=True), k=-3
    )


def test_a_trace_and_the_callers_array_are_what_the_kernel_left() -> None:
    whole = np.zeros((4, 8), np.float32)
    x = np.asfortranarray(np.arange(16, dtype=np.float32).reshape(4, 4))
    traced = kernels.RawKernel(SOURCE, "scale", backend=find_backend("cpu"))
    trace = traced((1,), (32,), (x, whole[:, ::2], 2.0, 16))
    np.testing.assert_array_equal(whole[:, ::2], 2 * x)
    assert not whole[:, 1::2].any()
    np.testing.assert_array_equal(trace.outputs["y"], 2 * x)
    assert list(trace.inputs) == ["x"]
    assert trace.traffic["x"].reads == 16


@pytest.mark.parametrize(
    ("says", "sentence"),
    [
        (
            "struct P { int a; } p; HOLD(p);",
            r"kernel\.cu:3:\d+: error: static assertion failed: HOLD shows numbers",
        ),
        ("float* p = x; HOLD(p);", r"kernel\.cu:3:\d+: error: .*HOLD shows variables, .*: use HOLD_AT"),
    ],
)
def test_what_cannot_be_held_is_said_at_its_line_by_the_cpus_compiler_too(says: str, sentence: str) -> None:
    source = f"#include <kernels_in_motion.h>\n__global__ void k(float* x) {{\n{says}\n}}\n"
    with pytest.raises(kernels.BackendError, match=sentence):
        kernels.RawKernel(source, "k", backend=find_backend("cpu"))((1,), (1,), (np.zeros(1, np.float32),))
