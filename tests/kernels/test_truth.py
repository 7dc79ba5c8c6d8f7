"""Holding the outputs of a plain kernel against a truth: what passes, what is found, what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import kernels
from kernels.errors import ParameterError
from kernels.launch import truth
from kernels.launch.source import read_source
from kernels.trace.model import ACCESS, Argument, Launch, Trace
from kernels.trace.version2 import Provenance


def _trace(before: Mapping[str, Any], outputs: Mapping[str, Any], **scalars: float) -> Trace:
    arrays = [Argument(name, a.dtype.name, a.shape, None, "the test") for name, a in before.items()]
    numbers = [Argument(name, "int32", (), value, "the test") for name, value in scalars.items()]
    return Trace(
        name="gemm",
        source_name="gemm.cu",
        source_text="// the source\n",
        launches=(Launch("gemm", (1, 1, 1), (1, 1, 1), 0, (*arrays, *numbers)),),
        places=(),
        before=before,
        later=(),
        outputs=outputs,
        sites=((),),
        accesses=np.zeros(0, ACCESS),
        values=np.zeros(0, np.uint8),
        scopes=np.zeros(0),
        records=(),
        provenance=Provenance("cpu", "a test", "", "", "", "0" * 64, "2026-01-01T00:00:00+00:00"),
    )


def _gemm(wrong: float = 0.0, dtype: Any = np.float32) -> Trace:
    draw = np.random.default_rng(0)
    A, B = (draw.standard_normal((8, 8)).astype(dtype) for _ in range(2))
    C = A.astype(np.float32) @ B.astype(np.float32)
    C[3, 5] += wrong
    return _trace({"A": A, "B": B, "C": np.zeros_like(A)}, {"C": C.astype(dtype)}, n=8)


def test_a_run_that_is_right_passes_and_says_how_close_it_came() -> None:
    report = kernels.verify(_gemm(), truth=lambda A, B: {"C": A @ B})
    assert (report.ok, report.checks) == (True, 1)
    assert 0 < report.worst < 0.5


def test_a_wrong_element_is_found_where_it_is() -> None:
    report = kernels.verify(_gemm(wrong=0.001), truth=lambda A, B: {"C": A @ B})
    assert not report.ok
    assert "C[3, 5] is " in report.findings[0].what
    assert "1 of 64 elements of C are wrong" in report.findings[0].what


@pytest.mark.parametrize(
    ("dtype", "bound"),
    [
        (np.float64, 16 * 2.0**-52),
        (np.float32, 16 * 2.0**-23),
        (np.float16, 4 * 2.0**-10),
        (ml_dtypes.bfloat16, 4 * 2.0**-7),
    ],
)
def test_the_bound_is_a_few_units_in_the_last_place_of_the_largest(dtype: Any, bound: float) -> None:
    got = np.array([8, 0], dtype)
    trace = _trace({"y": got}, {"y": got})
    assert kernels.verify(trace, truth=lambda: {"y": np.array([8, 0.9 * 8 * bound])}).ok
    assert not kernels.verify(trace, truth=lambda: {"y": np.array([8, 1.1 * 8 * bound])}).ok


def test_whole_numbers_must_be_equal() -> None:
    got = np.array([2**40, 7])
    trace = _trace({"y": got}, {"y": got})
    assert kernels.verify(trace, truth=lambda: {"y": got}).ok
    report = kernels.verify(trace, truth=lambda: {"y": got + np.array([1, 0])})
    assert "y[0] is 1099511627776, must be 1099511627777" in report.findings[0].what


def test_nan_and_infinity_must_be_where_the_truth_has_them() -> None:
    odd = np.array([np.nan, np.inf, -np.inf, 1], np.float32)
    trace = _trace({"y": odd}, {"y": odd})
    assert kernels.verify(trace, truth=lambda: {"y": odd.astype(float)}).ok
    for at, instead in ((0, 0.0), (1, -np.inf), (2, 5.0), (3, np.nan)):
        other = odd.astype(float)
        other[at] = instead
        assert not kernels.verify(trace, truth=lambda other=other: {"y": other}).ok


def test_what_the_dtype_cannot_hold_may_be_an_infinity() -> None:
    got = np.array([np.inf, 1], np.float16)
    trace = _trace({"y": got}, {"y": got})
    assert kernels.verify(trace, truth=lambda: {"y": np.array([1e5, 1.0])}).ok
    assert not kernels.verify(trace, truth=lambda: {"y": np.array([-1e5, 1.0])}).ok


def test_floats_come_as_float64_and_the_rest_as_it_was() -> None:
    before = {
        "h": np.ones(2, np.float16),
        "i": np.ones(2, np.int8),
        "b": np.ones(2, ml_dtypes.bfloat16),
        "y": np.zeros(1),
    }
    seen: dict[str, Any] = {}

    def takes(h: Any, n: Any, **rest: Any) -> dict[str, Any]:
        seen.update(rest, h=h, n=n)
        return {"y": np.ones(1)}

    assert kernels.verify(_trace(before, {"y": np.ones(1)}, n=3), truth=takes).ok
    assert {
        name: seen[name].dtype.name if hasattr(seen[name], "dtype") else seen[name] for name in "hibyn"
    } == {"h": "float64", "i": "int8", "b": "float64", "y": "float64", "n": 3}


def _fails(A: Any) -> Any:
    raise IndexError("no such row")


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda A, X: {}, "asks for 'X', which gemm does not take: A, B, C, n"),
        (lambda A: {}, "leaves C out: it must return every array written"),
        (lambda A: {"C": A, "D": A}, "returned 'D', which no kernel wrote: those written are C"),
        (lambda A: {"C": A[0]}, r"returned C of shape \[8\], but the kernel's is \[8, 8\]"),
        (lambda A: A, "returned a ndarray: it must return a dict"),
        (lambda A: {"C": A.astype(str)}, "it must be numbers"),
        (_fails, r"_fails\(\) failed: IndexError: no such row"),
    ],
)
def test_a_truth_that_does_not_fit_is_refused_in_a_sentence(wrong: Any, says: str) -> None:
    with pytest.raises(ParameterError, match=says):
        kernels.verify(_gemm(), truth=wrong)


def _folder(tmp_path: Path, text: str) -> Path:
    (tmp_path / "gemm.cu").write_text("// the source\n")
    (tmp_path / "gemm.py").write_text(text)
    return tmp_path / "gemm.cu"


def test_a_truth_is_found_in_a_file_and_beside_the_source(tmp_path: Path) -> None:
    source = read_source(
        _folder(tmp_path, "def truth(A): return {}\ndef other(B): return {'C': 1}\ndef no(): 0\n")
    )
    assert truth.find_truth(None, source)(0) == {}
    assert truth.find_truth(f"{tmp_path}/gemm.py", source)(0) == {}
    assert truth.find_truth(f"{tmp_path}/gemm.py:other", source)(0) == {"C": 1}
    for word, says in [
        (f"{tmp_path}/gemm.py:third", "has no function third"),
        (f"{tmp_path}/no.py", "there is no file"),
        (f"{tmp_path}/gemm.cu", "is no Python file"),
    ]:
        with pytest.raises(ParameterError, match=says):
            truth.find_truth(word, source)


def test_no_truth_and_a_broken_one_are_said(tmp_path: Path) -> None:
    source = read_source(_folder(tmp_path, "KERNEL = None\n"))
    with pytest.raises(ParameterError, match=r"gemm\.cu is held against a truth.*add --truth FILE\.py"):
        truth.find_truth(None, source)
    (tmp_path / "gemm.py").write_text("def truth(:\n")
    with pytest.raises(ParameterError, match=r"gemm\.py cannot be read: SyntaxError"):
        truth.find_truth(None, source)


def test_the_truth_of_a_trace_stands_beside_the_very_source_that_ran(tmp_path: Path) -> None:
    path = _folder(tmp_path, "def truth(A, B): return {'C': A @ B}\n")
    trace = _gemm()
    assert truth.source_beside(trace, tmp_path / "no", tmp_path).folder == tmp_path
    path.write_text("// another source\n")
    assert truth.source_beside(trace, tmp_path).folder is None
