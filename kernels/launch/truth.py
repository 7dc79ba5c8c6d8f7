"""What a run must give: a truth written in NumPy, and holding the outputs of a trace against it.

A number passes if it is no further from the truth than FACTOR units in the last place of the largest magnitude that
the truth has in that array: 16 for float32 and float64, 4 for float16 and bfloat16. Whole numbers and bools must be
equal; NaN must be NaN, and an infinity the same one.
"""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kernels.errors import ParameterError
from kernels.launch.source import Source
from kernels.trace.model import Trace, dtype_of
from kernels.verify import Finding, Report

Array = npt.NDArray[Any]
Truth = Callable[..., Mapping[str, Any]]

FACTOR = {"float64": 16, "float32": 16, "float16": 4, "bfloat16": 4}

HELP = (
    "The truth is a Python function, `truth` of --truth FILE.py, or of the file NAME.py beside NAME.cu: it takes the "
    "kernel's arguments by the names that it wants of them, floating point arrays as float64 as they were before the "
    "first launch, and returns a dict with every array that the kernels wrote."
)


def find_truth(word: str | None, source: Source) -> Truth:
    """The function that ``FILE.py[:FUNCTION]`` names, else ``truth`` of the .py file beside the source.

    Raises ParameterError if there is none.
    """
    if word is not None:
        path, colon, name = word.rpartition(":") if ".py:" in word else (word, "", "truth")
        return _function(Path(path), name if colon else "truth")
    beside = None if source.folder is None else source.folder / Path(source.name).with_suffix(".py").name
    if beside is not None and beside.is_file() and callable(getattr(_module(beside), "truth", None)):
        return _function(beside, "truth")
    where = f" and there is none in {beside}" if beside is not None else ""
    raise ParameterError(
        f"{source.name} is held against a truth{where}: add --truth FILE.py, which has a function "
        "truth(A, …) that returns the outputs, such as {'C': …}"
    )


def source_beside(trace: Trace, *folders: Path) -> Source:
    """The trace's source where it lies in one of the folders, as it ran; else its text alone, in no folder."""
    name = Path(trace.source_name).name
    for folder in folders:
        try:
            if (folder / name).read_text("utf-8-sig") == trace.source_text:
                return Source(name, trace.source_text, folder, (), (), ())
        except (OSError, UnicodeDecodeError):
            continue
    return Source(name, trace.source_text, None, (), (), ())


def verify(trace: Trace, truth: Truth) -> Report:
    """Hold every output of a trace against what `truth` makes of its arguments.

    Raises ParameterError if the truth asks for what is no argument, fails, or gives other arrays than were written.
    """
    said = f"{getattr(truth, '__name__', 'truth')}()"
    expected = _expected(trace, truth, said)
    findings: list[Finding] = []
    worst = 0.0
    for name, got in trace.outputs.items():
        error, found = _compared(name, got, expected[name])
        worst = max(worst, error)
        if found:
            findings.append(Finding(None, found))
    return Report(len(trace.outputs), tuple(findings), worst)


def arguments(trace: Trace) -> dict[str, Any]:
    """All arguments by name, as a truth takes them: floats as float64, scalars as Python's numbers."""
    found: dict[str, Any] = {}
    for launch in trace.launches:
        for argument in launch.arguments:
            if argument.name in found:
                continue
            if argument.value is not None:
                found[argument.name] = argument.value
            elif argument.name in trace.before:
                array = trace.before[argument.name]
                floating = argument.dtype in FACTOR
                found[argument.name] = array.astype(np.float64) if floating else array.copy()
    return found


def _expected(trace: Trace, truth: Truth, said: str) -> dict[str, Array]:
    there = arguments(trace)
    wanted = {}
    for name, parameter in inspect.signature(truth).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            wanted.update(there)
        elif name in there:
            wanted[name] = there[name]
        elif parameter.default is parameter.empty:
            raise ParameterError(
                f"{said} asks for {name!r}, which {trace.name} does not take: {', '.join(there)}"
            )
    try:
        with np.errstate(all="ignore"):
            given = truth(**wanted)
    except Exception as error:
        raise ParameterError(f"{said} failed: {type(error).__name__}: {error}") from error
    if not isinstance(given, Mapping):
        raise ParameterError(
            f"{said} returned a {type(given).__name__}: it must return a dict of arrays by name"
        )
    wrote = ", ".join(trace.outputs) or "nothing"
    for name in trace.outputs:
        if name not in given:
            raise ParameterError(f"{said} leaves {name} out: it must return every array written ({wrote})")
    for name in given:
        if name not in trace.outputs:
            raise ParameterError(
                f"{said} returned {name!r}, which no kernel wrote: those written are {wrote}"
            )
    expected = {}
    for name, got in trace.outputs.items():
        want = np.asarray(given[name])
        if want.shape != got.shape:
            raise ParameterError(
                f"{said} returned {name} of shape {list(want.shape)}, but the kernel's is {list(got.shape)}"
            )
        if want.dtype.kind not in "fiub" and want.dtype.name != "bfloat16":
            raise ParameterError(f"{said} returned {name} of dtype {want.dtype}: it must be numbers")
        expected[name] = want
    return expected


def _compared(name: str, got: Array, want: Array) -> tuple[float, str | None]:
    """The worst error over its bound, and what is wrong if there is anything."""
    dtype = got.dtype.name
    if dtype not in FACTOR:
        wrong = got != want
        far = np.zeros(got.shape)
        return (0.0, None) if not wrong.any() else (np.inf, _said(name, got, want, wrong, far, 0.0))
    exact = want.astype(np.float64)
    seen = got.astype(np.float64)
    finite = np.isfinite(exact)
    magnitude = float(np.abs(exact[finite]).max()) if finite.any() else 0.0
    bound = FACTOR[dtype] * _epsilon(dtype) * magnitude
    with np.errstate(all="ignore"):
        far = np.abs(seen - exact)
    # What overflows the dtype may be an infinity of the same sign.
    same = (seen == exact) | (np.isnan(seen) & np.isnan(exact))
    with np.errstate(all="ignore"):
        same |= np.isinf(seen) & (exact.astype(got.dtype).astype(np.float64) == seen)
    wrong = ~(same | (far <= bound))
    measured = far[finite & np.isfinite(seen)]
    worst = float(measured.max() / bound) if measured.size and bound else 0.0
    return (worst, None) if not wrong.any() else (np.inf, _said(name, got, want, wrong, far, bound))


def _said(name: str, got: Array, want: Array, wrong: Array, far: Array, bound: float) -> str:
    at = np.unravel_index(int(np.argmax(np.where(wrong, np.nan_to_num(far, nan=np.inf), -1))), got.shape)
    where = f"{name}[{', '.join(str(int(index)) for index in at)}]"
    must = f"{float(want[at]):.9g}" if want.dtype.kind == "f" else str(want[at])
    limit = f", and may be {bound:.3g} off" if bound else ""
    return (
        f"{where} is {got[at]!s}, must be {must}{limit}; "
        f"{int(wrong.sum()):,} of {got.size:,} elements of {name} are wrong"
    )


def _epsilon(dtype: str) -> float:
    if dtype == "bfloat16":
        return 2.0**-7
    return float(np.finfo(dtype_of(dtype)).eps)


def _function(path: Path, name: str) -> Truth:
    found = getattr(_module(path), name, None)
    if not callable(found):
        raise ParameterError(
            f"{path} has no function {name}: a truth takes arrays and returns a dict of outputs"
        )
    truth: Truth = found
    return truth


def _module(path: Path) -> Any:
    if not path.is_file():
        raise ParameterError(f"there is no file {path}, which was to hold the truth")
    spec = importlib.util.spec_from_file_location(f"truth_in_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ParameterError(f"{path} is no Python file: a truth stands in one")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ParameterError(f"{path} cannot be read: {type(error).__name__}: {error}") from error
    return module
