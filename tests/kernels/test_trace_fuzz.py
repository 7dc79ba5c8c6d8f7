"""The trace file under attack: whatever is done to its bytes or its manifest, a trace comes out or one sentence.

`FUZZ_CASES` sets how many cases there are, ten thousand and more by default; with more they are drawn afresh each run.
"""

from __future__ import annotations

import copy
import io
import json
import os
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console

import kernels
from kernels.errors import TraceError
from kernels.manifest import to_manifest
from kernels.report import print_report, print_trace
from kernels.trace_file import from_bytes, to_bytes

pytestmark = pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # of the changes made here

TOTAL = int(os.environ.get("FUZZ_CASES", "11000"))
many = settings(
    max_examples=TOTAL,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
    derandomize=TOTAL <= 11000,
)

TRACES = [
    kernels.record("fa1", None, backend="cpu", N=3, d=2, Br=2, Bc=2, batch_heads=1),
    kernels.record(
        "flash_decoding", None, backend="cpu", Nq=1, Nk=5, d=1, Br=1, Bc=2, splits=2, batch_heads=1
    ),
    kernels.record("fa2", None, backend="cpu", Nq=4, Nk=3, d=2, Br=2, Bc=2, blocks=(1, 2), steps=(1, 6)),
]
PARTS = [to_manifest(trace) for trace in TRACES]
FILES = [to_bytes(*parts) for parts in PARTS]
MANIFESTS = [pickle.dumps(json.loads(json.dumps(manifest))) for manifest, _ in PARTS]  # copied out quickly


def _same(a: kernels.Trace, b: kernels.Trace) -> bool:
    """Whether two traces say the same, bit for bit."""
    return to_bytes(*to_manifest(a)) == to_bytes(*to_manifest(b))


def _loaded(data: bytes) -> kernels.Trace | None:
    """The trace in a file; None if it is refused, which must take one sentence."""
    try:
        return from_bytes(data, "x.trace")
    except TraceError as error:
        if not 0 < len(str(error)) < 500 or "\n" in str(error):
            pytest.fail(f"no sentence: {error}")
        return None


def _use(trace: kernels.Trace) -> None:
    """Everything that is done with a trace: none of it may fail."""
    console = Console(file=io.StringIO(), highlight=False, soft_wrap=True)
    print_report(console, trace, kernels.verify(trace))
    print_trace(console, trace, 0)
    for step in trace.steps:
        for name in step.hbm:
            assert step.hbm[name].shape == trace.layout.array(name).shape[trace.layout.array(name).lead :]
        for slot in step.sram:
            step.held(slot)
    for array in trace.layout.arrays:
        assert array.tiles >= 1
        assert trace.traffic[array.name].transfers >= 0


def _edit(data: bytes, draw: st.DataObject) -> bytes:
    changed = bytearray(data)
    header = 8 + int.from_bytes(data[:8], "little")
    for _ in range(draw.draw(st.integers(1, 4))):
        most = draw.draw(st.sampled_from([8, header, len(data)]))
        at = draw.draw(st.integers(0, min(most, len(changed)) - 1)) if changed else 0
        act = draw.draw(st.sampled_from(["flip", "set", "cut", "insert", "delete", "repeat"]))
        if act == "flip" and changed:
            changed[at] ^= 1 << draw.draw(st.integers(0, 7))
        elif act == "set" and changed:
            changed[at] = draw.draw(st.integers(0, 255))
        elif act == "cut":
            del changed[at:]
        elif act == "insert":
            changed[at:at] = draw.draw(st.binary(min_size=1, max_size=8))
        elif act == "delete":
            del changed[at : at + draw.draw(st.integers(1, 64))]
        elif act == "repeat":
            changed[at:at] = changed[at : at + draw.draw(st.integers(1, 64))]
    return bytes(changed)


@settings(many, max_examples=TOTAL * 6 // 11)
@given(st.data())
def test_a_file_with_other_bytes_is_refused_or_says_the_same(draw: st.DataObject) -> None:
    number = draw.draw(st.integers(0, len(FILES) - 1))
    changed = _edit(FILES[number], draw)
    trace = _loaded(changed)
    assert trace is None or _same(trace, TRACES[number])


@settings(many, max_examples=TOTAL // 11)
@given(st.binary(max_size=400))
def test_bytes_of_no_kind_are_refused(data: bytes) -> None:
    assert _loaded(data) is None


_LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 9),
    st.sampled_from([2**31 - 1, 2**31, 2**63, 10**400, -(10**9), 0.5, 1e300]),
    st.sampled_from(["", "O", "Qi", "mi", "input", "load_q", "j", "\n", "\x1b[2J", "\ud800", "é" * 300]),
    st.just([]),
    st.just({}),
    st.lists(st.integers(-1, 4), max_size=5),
)


def _places(value: Any, found: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Every (container, key) in nested JSON values."""
    for key in value if isinstance(value, dict) else range(len(value)):
        found.append((value, key))
        if isinstance(value[key], dict | list):
            _places(value[key], found)
    return found


def _twist(manifest: Any, draw: st.DataObject) -> None:
    places = _places(manifest, [])
    container, key = places[draw.draw(st.integers(0, len(places) - 1))]
    act = draw.draw(st.sampled_from(["set", "set", "number", "number", "drop", "copy", "swap"]))
    if act == "drop":
        del container[key]
    elif act == "number" and isinstance(container[key], int):
        container[key] += draw.draw(st.sampled_from([-1, 1, -2, 2, 100, 2**31]))
    elif act == "copy":
        other, other_key = places[draw.draw(st.integers(0, len(places) - 1))]
        container[key] = copy.deepcopy(other[other_key])
    elif act == "swap" and isinstance(container, list):
        other_key = draw.draw(st.integers(0, len(container) - 1))
        container[key], container[other_key] = container[other_key], container[key]
    else:
        container[key] = draw.draw(_LEAVES)


@settings(many, max_examples=TOTAL * 3 // 11)
@given(st.data())
def test_a_manifest_that_lies_is_refused_or_can_be_used(draw: st.DataObject) -> None:
    number = draw.draw(st.integers(0, len(PARTS) - 1))
    manifest = pickle.loads(MANIFESTS[number])
    for _ in range(draw.draw(st.integers(1, 3))):
        _twist(manifest, draw)
    if trace := _loaded(to_bytes(manifest, PARTS[number][1])):
        _use(trace)


_SHAPES: list[Callable[[Any], Any]] = [
    lambda a: a[:0],
    lambda a: a[:-1],
    lambda a: a.reshape(-1),
    lambda a: a[None],
    lambda a: a.reshape(a.shape[::-1]),
    lambda a: np.zeros((0, 2**40), a.dtype),
    lambda a: np.zeros((), a.dtype),
    lambda a: a.astype(np.float64),
    lambda a: a.view(np.int32),
    lambda a: a.view(np.float32),
    lambda a: a.astype(np.uint8),
    lambda a: -a,
    lambda a: a + np.array(100, a.dtype),
    lambda a: np.full_like(a, np.nan) if a.dtype.kind == "f" else np.full_like(a, 2**31 - 1),
    lambda a: np.full(a.shape, 0x7F800001, np.uint32).view(a.dtype),
]


@settings(many, max_examples=TOTAL // 11)
@given(st.data())
def test_tensors_that_do_not_fit_are_refused_or_can_be_used(draw: st.DataObject) -> None:
    manifest, tensors = PARTS[draw.draw(st.integers(0, len(PARTS) - 1))]
    changed = dict(tensors)
    for _ in range(draw.draw(st.integers(1, 2))):
        name = draw.draw(st.sampled_from(sorted(tensors)))
        change = draw.draw(st.sampled_from(_SHAPES))
        changed[name] = np.ascontiguousarray(change(tensors[name]))
    if trace := _loaded(to_bytes(manifest, changed)):
        _use(trace)


def test_what_is_left_alone_can_be_used() -> None:
    for trace, data in zip(TRACES, FILES, strict=True):
        back = from_bytes(data, "x.trace")
        assert _same(back, trace)
        _use(back)
        assert kernels.verify(back).ok
