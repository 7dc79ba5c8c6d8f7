"""From launches as they were asked for to a request, with every argument settled and checked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kernels.errors import ParameterError
from kernels.launch.request import Argument, Dim3, Launch, Request
from kernels.launch.source import Function, Parameter, Source, find_function
from kernels.launch.values import (
    array_from_word,
    check_array,
    is_drawn,
    is_file,
    not_an_array,
    scalar_from_value,
    scalar_from_word,
)

Array = npt.NDArray[Any]
Range = tuple[int, int]

# CUDA C++ Programming Guide, "Technical Specifications per Compute Capability", 5.0 and later.
_MOST_BLOCKS = (2**31 - 1, 65535, 65535)
_MOST_THREADS = (1024, 1024, 64)
_MOST_THREADS_OF_BLOCK = 1024
SHARED_LIMIT = 232448  # bytes that a block may ask for on an H100 or H200


@dataclass(frozen=True)
class Call:
    """A launch as it was asked for. `words` are the values of parameters by name, as on the command line."""

    kernel: str | None
    grid: Any
    block: Any
    shared_bytes: Any
    words: Mapping[str, str]


def settle_words(
    source: Source,
    calls: Sequence[Call],
    *,
    seed: int = 0,
    blocks: Range | None = None,
    steps: Range | None = None,
) -> Request:
    """The request for launches whose arguments are words (``A=a.npy``, ``n=64``).

    A parameter of a later launch to which it gives no word is what the parameter of that name was before.

    Raises ParameterError if a parameter has no value, a word fits no parameter, or a launch is beyond the limits.
    """
    arrays: dict[str, Array] = {}
    bound: dict[str, Argument] = {}  # of the launches before, by parameter
    words: dict[str, str] = {}
    launches = []
    for call in calls:
        function = find_function(source, kernel_name(source, call.kernel))
        _check_names(function, call.words)
        before = dict(bound)
        for parameter in function.parameters:
            word = call.words.get(parameter.name)
            if parameter.pointer and word is None:
                bound[parameter.name] = _kept(function, parameter, before, arrays)
            elif not parameter.pointer:
                word = words.get(parameter.name) if word is None else word
                if word is None:
                    raise ParameterError(_missing(function, parameter))
                scalar = scalar_from_word(word, parameter)
                bound[parameter.name] = Argument(parameter.name, scalar, "the command line")
            elif word == "null":
                bound[parameter.name] = null(parameter)
            elif word and (is_drawn(word) or is_file(word)):
                name = _unused(parameter.name, arrays)
                arrays[name], origin = array_from_word(name, word, parameter, seed)
                bound[parameter.name] = Argument(name, None, origin)
            else:
                bound.pop(parameter.name, None)
        for parameter in function.parameters:  # what refers to an array, which may be of this launch
            if parameter.name not in bound:
                word = call.words[parameter.name]
                bound[parameter.name] = _referred(parameter, word, before, bound, arrays)
        words.update(call.words)
        launches.append(_launch(function, call, bound))
    return _request(source, launches, arrays, blocks, steps)


def settle_values(
    source: Source,
    call: Call,
    values: Sequence[Any],
    *,
    blocks: Range | None = None,
    steps: Range | None = None,
) -> tuple[Request, Mapping[str, Any]]:
    """The request for one launch whose arguments are arrays and numbers, in the function's order.

    With it come the caller's own arrays by their names in the run, for `write_back`.

    Raises ParameterError as `settle_words`, and for an array that a kernel cannot be given.
    """
    function = find_function(source, kernel_name(source, call.kernel))
    if not isinstance(values, list | tuple):
        raise ParameterError(
            f"{function.name}: its arguments must stand in one tuple, in the function's order"
        )
    if len(values) != len(function.parameters):
        takes = ", ".join(f"{p.type} {p.name}" for p in function.parameters)
        raise ParameterError(
            f"{function.name} takes {len(function.parameters)} arguments ({takes}), not {len(values)}"
        )
    arrays: dict[str, Array] = {}
    given: dict[str, Any] = {}
    views: dict[str, tuple[Parameter, Array]] = {}
    bound: dict[str, Argument] = {}
    for parameter, value in zip(function.parameters, values, strict=True):
        if not parameter.pointer:
            bound[parameter.name] = Argument(
                parameter.name, scalar_from_value(value, parameter), "the caller"
            )
        elif value is None:
            bound[parameter.name] = null(parameter)
        elif (same := next((name for name, one in given.items() if _same(one, value)), None)) is not None:
            check_array(arrays[same], parameter, said=parameter.name)
            _check_writable(parameter, views[same][1])
            bound[parameter.name] = Argument(same, None, "the caller")
        else:
            host = _host(parameter, value)
            where = _in_memory(value)
            _check_apart(parameter, where, views)
            array = check_array(host, parameter, said=parameter.name)
            _check_writable(parameter, host)
            arrays[parameter.name] = array
            given[parameter.name] = value
            views[parameter.name] = (parameter, where)
            bound[parameter.name] = Argument(parameter.name, None, "the caller")
    return _request(source, [_launch(function, call, bound)], arrays, blocks, steps), given


def write_back(request: Request, given: Mapping[str, Any], after: Mapping[str, Array]) -> None:
    """Put what the kernels wrote into the caller's own arrays, as CuPy does."""
    for name, target in given.items():
        left = after[name].reshape(target.shape)
        if after[name].tobytes() == request.arrays[name].tobytes():
            continue
        if isinstance(target, np.ndarray):
            target[...] = left
        elif target.flags.c_contiguous:
            target.set(left)
        else:
            whole = target.copy(order="C")
            whole.set(left)
            target[...] = whole


def kernel_name(source: Source, name: str | None) -> str:
    """The name expression of a kernel: `name`, or that of the file's one kernel."""
    if name:
        return name
    if len(source.functions) == 1:
        return source.functions[0].name
    there = ", ".join(function.name for function in source.functions)
    if not there:
        raise ParameterError(f"{source.name} has no __global__ function: there is nothing to launch")
    raise ParameterError(f"{source.name} has several kernels: say which one with --kernel ({there})")


def null(parameter: Parameter) -> Argument:
    """The argument that is no array."""
    return Argument(parameter.name, np.uint64(0), "null")


def dim3(said: str, value: Any, most: tuple[int, int, int]) -> Dim3:
    """One to three whole numbers as (x, y, z); ParameterError if they are none, or beyond `most`."""
    if isinstance(value, str):
        value = value.split(",")
    extents = list(value) if isinstance(value, list | tuple) else [value]
    numbers = [whole(said, extent) for extent in extents]
    shown = f"{said}={','.join(map(str, numbers))}"
    if not 1 <= len(numbers) <= 3:
        raise ParameterError(f"{shown}: must be one to three whole numbers, for example 16,16")
    x, y, z = (*numbers, 1, 1)[:3]
    for axis, number, limit in zip("xyz", (x, y, z), most, strict=True):
        if not 1 <= number <= limit:
            raise ParameterError(f"{shown}: {axis} must be from 1 to {limit}")
    return x, y, z


def whole(said: str, value: Any) -> int:
    """A whole number of at least 0, from a number or its text; ParameterError for anything else."""
    try:
        number = int(value) if isinstance(value, int | str | np.integer) else -1
    except ValueError:
        number = -1
    if number < 0 or isinstance(value, bool):
        raise ParameterError(f"{said}={value}: must be a whole number of at least 0")
    return number


def _launch(function: Function, call: Call, bound: Mapping[str, Argument]) -> Launch:
    grid = dim3("grid", call.grid, _MOST_BLOCKS)
    block = dim3("block", call.block, _MOST_THREADS)
    if math.prod(block) > _MOST_THREADS_OF_BLOCK:
        raise ParameterError(
            f"block={','.join(map(str, block))} is {math.prod(block)} threads: a CUDA device takes at most "
            f"{_MOST_THREADS_OF_BLOCK} in a block"
        )
    shared = whole("shared", call.shared_bytes)
    if shared > SHARED_LIMIT:
        raise ParameterError(
            f"shared={shared} bytes: a block may have at most {SHARED_LIMIT} on an H100 or H200: choose smaller tiles"
        )
    return Launch(
        kernel=function.expression,
        grid=grid,
        block=block,
        shared_bytes=shared,
        arguments=tuple(bound[parameter.name] for parameter in function.parameters),
    )


def _request(
    source: Source,
    launches: Sequence[Launch],
    arrays: Mapping[str, Array],
    blocks: Range | None,
    steps: Range | None,
) -> Request:
    for name, wanted in (("blocks", blocks), ("steps", steps)):
        if wanted is None:
            continue
        first, end = (whole(name, number) for number in wanted)
        if first >= end:
            raise ParameterError(f"{name}={first}:{end}: must be FIRST:END with FIRST below END")
    most = max(math.prod(launch.grid) for launch in launches)
    if blocks is not None and int(blocks[0]) >= most:
        raise ParameterError(f"blocks={blocks[0]}:{blocks[1]}: the launch has {most} blocks, counted from 0")
    return Request(
        source=source,
        launches=tuple(launches),
        arrays=dict(arrays),
        blocks=None if blocks is None else (int(blocks[0]), int(blocks[1])),
        steps=None if steps is None else (int(steps[0]), int(steps[1])),
    )


def _check_names(function: Function, words: Mapping[str, str]) -> None:
    names = [parameter.name for parameter in function.parameters]
    for name in words:
        if name not in names:
            raise ParameterError(
                f"{function.name} has no parameter {name!r}: it takes {', '.join(names) or 'nothing'}"
            )


def _missing(function: Function, parameter: Parameter) -> str:
    example = f"{parameter.name}=FILE.npy or {parameter.name}=zeros:64,64"
    return (
        f"{function.name} needs a value for {parameter.type} {parameter.name}: "
        f"add {example if parameter.pointer else f'{parameter.name}=NUMBER'}"
    )


def _unused(name: str, arrays: Mapping[str, Array]) -> str:
    number, found = 1, name
    while found in arrays:
        number += 1
        found = f"{name}{number}"
    return found


def _kept(
    function: Function, parameter: Parameter, before: Mapping[str, Argument], arrays: Mapping[str, Array]
) -> Argument:
    """What the parameter of that name was in the launches before."""
    kept = before.get(parameter.name)
    if kept is None or (kept.value is not None and kept.origin != "null"):
        raise ParameterError(_missing(function, parameter))
    if kept.value is None:
        check_array(arrays[kept.name], parameter, said=f"{kept.name}, which an earlier launch had,")
    return kept


def _referred(
    parameter: Parameter,
    word: str,
    before: Mapping[str, Argument],
    bound: Mapping[str, Argument],
    arrays: Mapping[str, Array],
) -> Argument:
    """The array that the parameter `word` of a launch before, else of this one, has."""
    found = before.get(word) or bound.get(word)
    if found is None or found.value is not None:
        raise not_an_array(parameter, word)
    check_array(arrays[found.name], parameter, said=f"{parameter.name}={word}")
    return found


def _host(parameter: Parameter, value: Any) -> Array:
    """The caller's array as NumPy sees it; a view where it is NumPy's, a copy where it is CuPy's."""
    if isinstance(value, np.ndarray):
        return value
    if type(value).__module__.partition(".")[0] == "cupy" and hasattr(value, "get"):
        copied: Array = value.get()
        return copied
    kind = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
    instead = "cupy.asarray" if hasattr(value, "__cuda_array_interface__") else "np.array"
    raise ParameterError(
        f"{parameter.name} is of type {kind}, but {parameter.type} {parameter.name} takes an array of NumPy or CuPy: "
        f"pass {instead}({parameter.name})"
    )


class _Extent:
    """Says as NumPy does where an array lies."""

    def __init__(self, interface: Mapping[str, Any]) -> None:
        self.__array_interface__ = {**interface, "version": 3}


def _in_memory(value: Any) -> Array:
    """Where the caller's array lies, in whichever memory: an array to compare addresses with, never to read."""
    if isinstance(value, np.ndarray):
        return value
    interface = {key: value.__cuda_array_interface__[key] for key in ("shape", "typestr", "data")}
    return np.asarray(_Extent({**interface, "strides": value.__cuda_array_interface__.get("strides")}))


def _check_writable(parameter: Parameter, host: Array) -> None:
    if not parameter.const and not host.flags.writeable:
        raise ParameterError(
            f"{parameter.name} is read-only, but {parameter.type} {parameter.name} may be written: "
            f"pass {parameter.name}.copy()"
        )


def _same(one: Any, other: Any) -> bool:
    """Whether two of the caller's values are the very same elements of memory."""
    if one is other:
        return True
    for interface in ("__array_interface__", "__cuda_array_interface__"):
        if hasattr(one, interface) and hasattr(other, interface):
            said, says = getattr(one, interface), getattr(other, interface)
            same = all(said.get(key) == says.get(key) for key in ("data", "shape", "strides"))
            return same and bool(one.dtype == other.dtype)
    return False


def _check_apart(parameter: Parameter, where: Array, views: Mapping[str, tuple[Parameter, Array]]) -> None:
    """Refuse an array that shares some of its elements with another: each is copied, and one is written."""
    for name, (other, view) in views.items():
        if parameter.const and other.const:
            continue
        if np.shares_memory(view, where):
            raise ParameterError(
                f"{parameter.name} shares memory with {name}, and one of them may be written: pass a copy of one"
            )
