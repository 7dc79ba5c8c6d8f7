"""Argument words and Python values: the arrays and scalars they become, and the sentence that refuses the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from kernels.errors import ParameterError
from kernels.launch.source import Parameter
from kernels.launch.values import array_from_word, check_array, scalar_from_value, scalar_from_word


def _pointer(dtype: str | None, type: str = "const float*") -> Parameter:
    return Parameter("x", type, True, "const" in type, dtype)


def _scalar(dtype: str | None, type: str = "int") -> Parameter:
    return Parameter("n", type, False, False, dtype)


def _made(word: str, dtype: str | None = "float32", name: str = "x", seed: int = 0) -> Any:
    return array_from_word(name, word, _pointer(dtype), seed)[0]


def test_words_make_the_arrays_they_name() -> None:
    np.testing.assert_array_equal(_made("zeros:2,3"), np.zeros((2, 3), np.float32))
    np.testing.assert_array_equal(_made("ones:4", "int32"), np.ones(4, np.int32))
    np.testing.assert_array_equal(_made("arange:2,2", "float64"), [[0.0, 1.0], [2.0, 3.0]])
    assert _made("zeros:2").dtype == np.dtype(np.float32)  # in the order of this machine
    numbers = _made("integers:1000:-3:5", "int8")
    assert (numbers.dtype, sorted(set(numbers.tolist()))) == (np.int8, [-3, -2, -1, 0, 1, 2, 3, 4])
    drawn = _made("normal:100,100")
    assert abs(drawn.mean()) < 0.05
    assert abs(drawn.std() - 1) < 0.05
    flat = _made("uniform:1000")
    assert 0 <= flat.min() < 0.01 < 0.99 < flat.max() < 1


@pytest.mark.parametrize(
    ("word", "dtype", "becomes"),
    [
        ("normal:3", "float16", "float16"),  # of the parameter's element
        ("normal:3", None, "float32"),  # unless the source does not say
        ("integers:3:0:9", None, "int32"),
        ("zeros:3:uint8", None, "uint8"),
        ("uniform:3:bfloat16", "bfloat16", "bfloat16"),
        ("ones:3", "bool", "bool"),
    ],
)
def test_an_array_is_of_the_dtype_said_else_of_the_parameters(
    word: str, dtype: str | None, becomes: str
) -> None:
    assert _made(word, dtype).dtype.name == becomes


def test_an_array_is_drawn_from_its_own_stream() -> None:
    np.testing.assert_array_equal(_made("normal:8"), _made("normal:8"))
    assert (_made("normal:8") != _made("normal:8", name="y")).all()
    assert (_made("normal:8") != _made("normal:8", seed=1)).all()


def test_files_are_read_and_say_so(tmp_path: Path) -> None:
    values = np.arange(6, dtype=">f4").reshape(2, 3)
    np.save(tmp_path / "a.npy", np.asfortranarray(values))
    np.savez(tmp_path / "b.npz", p=values, q=values + 1)
    array, origin = array_from_word("x", f"{tmp_path}/a.npy", _pointer("float32"), 0)
    np.testing.assert_array_equal(array, values)
    assert (array.dtype.str, array.flags.c_contiguous, origin) == ("<f4", True, f"file {tmp_path}/a.npy")
    np.testing.assert_array_equal(_made(f"{tmp_path}/b.npz:q"), values + 1)


def test_bfloat16_comes_back_from_a_file(tmp_path: Path) -> None:
    values = np.array([1.5, -2.0], ml_dtypes.bfloat16)
    np.save(tmp_path / "a.npy", values)
    np.testing.assert_array_equal(_made(f"{tmp_path}/a.npy", "bfloat16"), values)


@pytest.mark.parametrize(
    ("word", "dtype", "says"),
    [
        ("zeros", "float32", "must be zeros:SHAPE or zeros:SHAPE:DTYPE"),
        ("zeros:0,4", "float32", "each extent of a shape must be at least 1"),
        ("zeros:a", "float32", "'a' is no whole number"),
        ("zeros:4:float", "float32", "'float' is none of float16, bfloat16"),
        ("zeros:4:int32", "float32", "is of dtype int32, but const float* x takes float32"),
        ("normal:4", "int32", "int32 holds no fractions: use integers:4:0:100"),
        ("integers:4", "int32", "must be integers:SHAPE:FIRST:END"),
        ("integers:4:5:5", "int32", "with FIRST below END"),
        ("integers:4:0:257", "uint8", "uint8 holds whole numbers from 0 to 255, not 0 to 256"),
        ("arange:300", "int8", "int8 holds whole numbers from -128 to 127, not 0 to 299"),
        ("zeros:99999,99999,9999", "float32", "needs 399,952,000,839,996 bytes"),
        ("64", "float32", "takes an array: a .npy file"),
        ("no.npy", "float32", "there is no file no.npy"),
        ("no.npz:k", "float32", "there is no file no.npz"),
    ],
)
def test_a_word_for_no_array_is_refused(word: str, dtype: str, says: str) -> None:
    with pytest.raises(ParameterError, match=r"^x=") as caught:
        _made(word, dtype)
    assert says in str(caught.value)


def test_files_that_hold_no_such_array_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "wide.npy", np.zeros(3))
    np.save(tmp_path / "objects.npy", np.array([{}], object), allow_pickle=True)
    np.savez(tmp_path / "b.npz", p=np.zeros(3, np.float32))
    (tmp_path / "text.npy").write_text("hello")
    (tmp_path / "text.npz").write_text("hello")
    for file, says in {
        "wide.npy": "is of dtype float64, but const float* x takes float32",
        "objects.npy": "is no file of NumPy's",
        "b.npz": "say which array of",
        "b.npz:r": "(p)",
        "text.npy": "is no file of NumPy's",
        "text.npz:k": "is no file of NumPy's",
        "wide.npy:k": "takes an array",
    }.items():
        with pytest.raises(ParameterError) as caught:
            _made(f"{tmp_path}/{file}")
        assert says in str(caught.value)


def test_arrays_a_kernel_cannot_be_given_are_refused() -> None:
    for array, says in [
        (np.ma.masked_array([1.0], [True], dtype=np.float32), "masked array"),
        (np.zeros((0, 4), np.float32), r"empty \(its shape is \[0, 4\]\)"),
        (np.zeros(2, np.complex64), "of dtype complex64"),
        (np.zeros(2, object), "of dtype object"),
        (np.zeros(2, [("a", "f4")]), "of dtype void32"),
    ]:
        with pytest.raises(ParameterError, match=says):
            check_array(array, _pointer("float32"), "x")
    with pytest.raises(ParameterError, match="pointer to pointers"):
        check_array(np.zeros(2, np.float32), _pointer(None, "float**"), "x")


@pytest.mark.parametrize(
    ("word", "dtype", "becomes"),
    [
        ("64", "int32", np.int32(64)),
        ("-1", "int64", np.int64(-1)),
        ("0x10", "uint64", np.uint64(16)),
        ("1e-5", "float32", np.float32(1e-5)),
        ("inf", "float64", np.float64(np.inf)),
        ("-inf", "float16", np.float16(-np.inf)),
        ("0.5", "bfloat16", ml_dtypes.bfloat16(0.5)),
        ("true", "bool", np.bool_(True)),
        ("0", "bool", np.bool_(False)),
        ("7:int16", None, np.int16(7)),
    ],
)
def test_a_scalar_is_of_the_parameters_own_type(word: str, dtype: str | None, becomes: Any) -> None:
    found = scalar_from_word(word, _scalar(dtype))
    assert (found, found.dtype) == (becomes, becomes.dtype)


@pytest.mark.parametrize(
    ("word", "dtype", "says"),
    [
        ("2147483648", "int32", "n=2147483648: int n takes -2147483648 to 2147483647"),
        ("-1", "uint32", "takes 0 to 4294967295"),
        ("2.5", "int32", "takes a whole number"),
        ("x", "float32", "takes a number"),
        ("1e39", "float32", "takes numbers of at most 3.4028e+38"),
        ("70000", "float16", "takes numbers of at most 65504"),
        ("maybe", "bool", "takes true or false"),
        ("1", None, "add"),
        ("1:int64", "int32", "takes int32"),
        ("1:int", None, "'int' is none of"),
    ],
)
def test_a_scalar_that_does_not_fit_is_refused(word: str, dtype: str | None, says: str) -> None:
    with pytest.raises(ParameterError) as caught:
        scalar_from_word(word, _scalar(dtype))
    assert (says if dtype or ":" in word else "for example n=1:int32") in str(caught.value)


@pytest.mark.parametrize(
    ("value", "dtype", "becomes"),
    [
        (64, "int32", np.int32(64)),
        (0.5, "float32", np.float32(0.5)),
        (2, "float32", np.float32(2)),
        (np.float64(0.1), "float32", np.float32(0.1)),
        (np.int64(5), "int32", np.int32(5)),
        (True, "bool", np.bool_(True)),
        (np.bool_(True), "int32", np.int32(1)),
        (ml_dtypes.bfloat16(1.5), "bfloat16", ml_dtypes.bfloat16(1.5)),
        (np.array(3), "uint8", np.uint8(3)),
        (np.float32(1.5), None, np.float32(1.5)),
    ],
)
def test_a_number_of_pythons_becomes_the_parameters_own_type(
    value: Any, dtype: str | None, becomes: Any
) -> None:
    found = scalar_from_value(value, _scalar(dtype))
    assert (found, found.dtype) == (becomes, becomes.dtype)


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (2**31, "int32"),
        (-1, "uint64"),
        (2.0, "int32"),
        (1e39, "float32"),
        ("64", "int32"),
        (None, "int32"),
        (1j, "float32"),
        ([1], "int32"),
        (np.zeros(2), "float32"),
        (2, "bool"),
        (7, None),
    ],
)
def test_a_value_that_does_not_fit_is_refused(value: Any, dtype: str | None) -> None:
    with pytest.raises(ParameterError, match=r"^n="):
        scalar_from_value(value, _scalar(dtype))
