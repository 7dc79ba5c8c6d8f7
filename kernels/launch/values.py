"""Argument words and Python values, read as the arrays and scalars that a parameter takes."""

from __future__ import annotations

import hashlib
import math
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kernels.errors import ParameterError
from kernels.launch.source import Parameter
from kernels.memory import available
from kernels.trace.model import dtype_of

Array = npt.NDArray[Any]

FLOATS = ("float16", "bfloat16", "float32", "float64")
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
DTYPES = (*FLOATS, *INTEGERS, "bool")

WORDS_HELP = """\
NAME=VALUE gives the parameter NAME of the kernel its value.

\b
An array:  A=a.npy   A=arrays.npz:key
           A=zeros:64,64   ones:SHAPE   arange:SHAPE (0, 1, 2, …)
           A=normal:64,64   uniform:SHAPE (from 0 to 1)
           A=integers:SHAPE:FIRST:END (whole numbers below END)
           each with :DTYPE behind it if need be, such as :float16;
           else of the element type that the source says, else float32
           A=B is the array of the parameter B; A=null no array
A scalar:  n=64   eps=1e-5   causal=true
           by the parameter's own type, or n=64:int32 if it has none we know
"""


def is_drawn(word: str) -> bool:
    """Whether a word makes an array (``zeros:64,64``), rather than names one."""
    return word.partition(":")[0] in _KINDS


def is_file(word: str) -> bool:
    """Whether a word names a file of arrays."""
    return word.endswith(".npy") or ".npz" in word


def array_from_word(name: str, word: str, parameter: Parameter, seed: int) -> tuple[Array, str]:
    """The array that ``NAME=WORD`` asks for, C-contiguous, and a phrase that says where it came from.

    `name` picks the stream that random numbers are drawn from, so that adding an array changes no other.

    Raises ParameterError if the word asks for nothing, or for another dtype than the parameter's element.
    """
    if is_drawn(word):
        array, drawn = _drawn(name, word, parameter, seed)
        return check_array(array, parameter, said=f"{parameter.name}={word}"), drawn
    if is_file(word):
        array = _from_file(parameter, word)
        return check_array(array, parameter, said=f"{parameter.name}={word}"), f"file {word}"
    raise not_an_array(parameter, word)


def not_an_array(parameter: Parameter, word: str) -> ParameterError:
    """What is said of a word that asks for no array."""
    return ParameterError(
        f"{parameter.name}={word}: {parameter.type} {parameter.name} takes an array: a .npy file, a .npz file with "
        f":KEY, a word such as zeros:64,64 ({', '.join(_KINDS)}), or another parameter's name"
    )


def check_array(array: Array, parameter: Parameter, said: str) -> Array:
    """An array as a kernel gets it: C-contiguous, in this machine's byte order, of the parameter's element.

    `said` is how the user called it, in the ParameterError that refuses one that cannot be passed.
    """
    if isinstance(array, np.ma.MaskedArray):
        raise ParameterError(
            f"{said} is a masked array: fill it, for example with {parameter.name}.filled(0)"
        )
    if parameter.type.count("*") > 1:
        raise ParameterError(f"{said}: {parameter.type} is a pointer to pointers, which cannot be passed")
    array = np.asarray(array)
    if parameter.dtype == "bfloat16" and array.dtype == np.dtype("V2"):  # what .npy files make of bfloat16
        array = array.view(dtype_of("bfloat16"))
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    found = array.dtype.name
    if found not in DTYPES:
        raise ParameterError(f"{said} is of dtype {found}: a kernel takes {', '.join(DTYPES)}")
    if parameter.dtype is not None and found != parameter.dtype:
        raise ParameterError(
            f"{said} is of dtype {found}, but {parameter.type} {parameter.name} takes {parameter.dtype}: "
            f"convert it with .astype({parameter.dtype!r}), or say {parameter.dtype}"
        )
    if not array.size:
        raise ParameterError(
            f"{said} is empty (its shape is {list(array.shape)}): a kernel needs at least one element"
        )
    return np.ascontiguousarray(array)  # which makes a shape of () one of (1,)


def scalar_from_word(word: str, parameter: Parameter) -> np.generic:
    """The scalar that ``NAME=WORD`` asks for, of the parameter's own type; ParameterError if it does not fit."""
    text, _, asked = word.partition(":")
    if asked and asked not in DTYPES:
        raise ParameterError(f"{parameter.name}={word}: {asked!r} is none of {', '.join(DTYPES)}")
    if asked and parameter.dtype not in (None, asked):
        raise ParameterError(
            f"{parameter.name}={word}: {parameter.type} {parameter.name} takes {parameter.dtype}"
        )
    dtype = asked or parameter.dtype
    if dtype is None:
        raise ParameterError(
            f"{parameter.name}={word}: what a {parameter.type} is cannot be told from the source: if it is a number, "
            f"say which, for example {parameter.name}={word}:int32"
        )
    if dtype == "bool":
        if text.lower() in _TRUTHS:
            return np.bool_(_TRUTHS[text.lower()])
        raise ParameterError(f"{parameter.name}={word}: {_typed(parameter)} takes true or false")
    try:
        number: int | float = int(text, 0) if dtype in INTEGERS else float(text)
    except ValueError:
        kind = "a whole number" if dtype in INTEGERS else "a number"
        raise ParameterError(f"{parameter.name}={word}: {_typed(parameter)} takes {kind}") from None
    return _fitted(number, dtype, parameter)


def scalar_from_value(value: object, parameter: Parameter) -> np.generic:
    """A number given in Python as the parameter's own type; ParameterError if it does not fit.

    CuPy passes the bytes of whatever it is given; here a Python float for a ``float`` becomes one.
    """
    said = f"{parameter.name}={value!r}"
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    dtype = parameter.dtype
    if dtype is None and isinstance(value, np.generic):
        dtype = value.dtype.name
    if dtype is None or dtype not in DTYPES:
        raise ParameterError(
            f"{said}: what a {parameter.type} is cannot be told from the source: if it is a number, pass a NumPy "
            "scalar of its size, for example np.int32(1)"
        )
    number: Any = value.item() if isinstance(value, np.generic) else value
    if not isinstance(number, bool | int | float):
        number = _real(value)
    if number is None:
        raise ParameterError(f"{said[:80]}: {_typed(parameter)} takes a number")
    if dtype == "bool":
        if number in (0, 1):
            return np.bool_(number)
        raise ParameterError(f"{said}: {_typed(parameter)} takes True or False")
    if dtype in INTEGERS and isinstance(number, float):
        raise ParameterError(f"{said}: {_typed(parameter)} takes a whole number")
    return _fitted(number, dtype, parameter)


def _real(value: object) -> float | None:
    """A scalar of ml_dtypes, which is no Python number, as one; None for anything else."""
    return float(value) if type(value).__module__ == "ml_dtypes" else None  # type: ignore[arg-type]


def _typed(parameter: Parameter) -> str:
    return f"{parameter.type} {parameter.name}"


def _fitted(number: int | float, dtype: str, parameter: Parameter) -> np.generic:
    kind = dtype_of(dtype)
    if dtype in INTEGERS:
        limits = np.iinfo(kind)
        if not limits.min <= number <= limits.max:
            raise ParameterError(
                f"{parameter.name}={number}: {_typed(parameter)} takes {limits.min} to {limits.max}"
            )
    elif isinstance(number, int) or math.isfinite(number):
        largest = float(_largest(dtype))
        if abs(number) > largest:
            raise ParameterError(
                f"{parameter.name}={number}: {_typed(parameter)} takes numbers of at most {largest:.5g}"
            )
    found: np.generic = kind.type(number)
    return found


def _largest(dtype: str) -> float:
    if dtype == "bfloat16":
        import ml_dtypes

        return float(ml_dtypes.finfo(ml_dtypes.bfloat16).max)  # type: ignore[no-untyped-call]
    return float(np.finfo(dtype).max)


_TRUTHS = {"true": True, "1": True, "false": False, "0": False}


def _zeros(shape: tuple[int, ...], dtype: np.dtype[Any], draw: np.random.Generator) -> Array:
    return np.zeros(shape, dtype)


def _ones(shape: tuple[int, ...], dtype: np.dtype[Any], draw: np.random.Generator) -> Array:
    return np.ones(shape, dtype)


def _arange(shape: tuple[int, ...], dtype: np.dtype[Any], draw: np.random.Generator) -> Array:
    return np.arange(math.prod(shape)).astype(dtype).reshape(shape)


def _normal(shape: tuple[int, ...], dtype: np.dtype[Any], draw: np.random.Generator) -> Array:
    return draw.standard_normal(shape).astype(dtype)


def _uniform(shape: tuple[int, ...], dtype: np.dtype[Any], draw: np.random.Generator) -> Array:
    return draw.random(shape).astype(dtype)


_MAKERS: dict[str, Callable[[tuple[int, ...], np.dtype[Any], np.random.Generator], Array]] = {
    "zeros": _zeros,
    "ones": _ones,
    "arange": _arange,
    "normal": _normal,
    "uniform": _uniform,
}
_KINDS = (*_MAKERS, "integers")


def _drawn(name: str, word: str, parameter: Parameter, seed: int) -> tuple[Array, str]:
    said = f"{parameter.name}={word}"
    kind, *parts = word.split(":")
    form = "integers:SHAPE:FIRST:END" if kind == "integers" else f"{kind}:SHAPE"
    ends = parts[1:3] if kind == "integers" else []
    more = parts[3:] if kind == "integers" else parts[1:]
    if not parts or len(more) > 1 or (kind == "integers" and len(ends) < 2):
        raise ParameterError(f"{said}: must be {form} or {form}:DTYPE, for example {_EXAMPLES[kind]}")
    asked = more[0] if more else parameter.dtype or ("int32" if kind == "integers" else "float32")
    if asked not in DTYPES:
        raise ParameterError(f"{said}: {asked!r} is none of {', '.join(DTYPES)}")
    shape = _shape(said, parts[0])
    dtype = dtype_of(asked)
    needed = math.prod(shape) * dtype.itemsize
    if needed > (room := available() // 4):
        raise ParameterError(
            f"{said} needs {needed:,} bytes; this machine has room for {room:,}: make it smaller"
        )
    if kind in ("normal", "uniform") and asked not in FLOATS:
        raise ParameterError(f"{said}: {asked} holds no fractions: use integers:{parts[0]}:0:100")
    stream = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little")
    draw = np.random.default_rng([seed, stream])
    if kind == "integers":
        first, end = (_whole(said, text) for text in ends)
        if first >= end:
            raise ParameterError(f"{said}: must be {form} with FIRST below END")
        _check_range(said, asked, first, end - 1)
        return draw.integers(first, end, shape, np.int64).astype(dtype), f"{word}, seed {seed}"
    if kind == "arange":
        _check_range(said, asked, 0, math.prod(shape) - 1)
    origin = f"{word}, seed {seed}" if kind in ("normal", "uniform") else word
    return _MAKERS[kind](shape, dtype, draw), origin


_EXAMPLES = {
    **{kind: f"{kind}:64,64" for kind in ("zeros", "ones", "arange", "uniform")},
    "normal": "normal:64,64:float16",
    "integers": "integers:1024:0:256",
}


def _check_range(said: str, dtype: str, first: int, last: int) -> None:
    """Refuse whole numbers that the dtype cannot hold, or that NumPy cannot draw."""
    limits = {"bool": (0, 1), "uint64": (0, 2**63 - 1)}.get(dtype)
    if limits is None and dtype in INTEGERS:
        limits = (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
    least, most = limits or (-(2**53), 2**53)
    if first < least or last > most:
        raise ParameterError(
            f"{said}: {dtype} holds whole numbers from {least} to {most}, not {first} to {last}"
        )


def _shape(said: str, text: str) -> tuple[int, ...]:
    extents = tuple(_whole(said, part) for part in text.split(","))
    if any(extent < 1 for extent in extents):
        raise ParameterError(f"{said}: each extent of a shape must be at least 1")
    return extents


def _whole(said: str, text: str) -> int:
    if not re.fullmatch(r"-?\d{1,18}", text):
        raise ParameterError(f"{said}: {text!r} is no whole number")
    return int(text)


def _from_file(parameter: Parameter, word: str) -> Array:
    path, _, key = word.partition(".npz:") if ".npz:" in word else (word, "", "")
    file = Path(path + ".npz" if key else word)
    said = f"{parameter.name}={word}"
    try:
        loaded = np.load(file, allow_pickle=False)
    except FileNotFoundError:
        raise ParameterError(f"{said}: there is no file {file}") from None
    except OSError as error:
        raise ParameterError(f"{said}: {file} cannot be read: {error.strerror or error}") from None
    except (ValueError, EOFError, MemoryError, zipfile.BadZipFile) as error:
        raise ParameterError(f"{said}: {file} is no file of NumPy's: {_first_line(error)}") from None
    if isinstance(loaded, np.ndarray):
        if key:
            raise ParameterError(f"{said}: {file} holds one array: leave :{key} out")
        return loaded
    with loaded:
        names = ", ".join(loaded.files)
        if key not in loaded.files:
            raise ParameterError(
                f"{said}: say which array of {file}, as {parameter.name}={file}:KEY ({names})"
            )
        try:
            array: Array = loaded[key]
        except (ValueError, OSError, EOFError, MemoryError, zipfile.BadZipFile) as error:
            raise ParameterError(f"{said}: {key} in {file} cannot be read: {_first_line(error)}") from None
        return array


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
