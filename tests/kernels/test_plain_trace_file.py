"""The trace file of version 3: what goes in comes out, and anything else is refused in one sentence."""

from __future__ import annotations

import os
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kernels
from kernels.errors import TraceError
from kernels.listen.log import Site, Source
from kernels.trace.column import Column, from_column, to_column
from kernels.trace.file import Manifest, from_bytes, load, packed, to_bytes, to_manifest
from kernels.trace.model import Argument, Trace
from tests.kernels.logs import HBM, REGISTERS, SRAM, drop, hold, launch_log, read, snapshot, trace_of, write

F = np.float32


def a_trace() -> Trace:
    """Two launches of two blocks of two threads, with SRAM, registers, a scope, float16, NaNs and a scalar."""

    def acts(first: float) -> list[Any]:
        return [
            *(hold(t, 0, "s", SRAM, "float16", (2,)) for t in (0, 1)),
            *(hold(t, 0, "r", REGISTERS) for t in (0, 1)),
            *(read(t, 1, HBM + 4 * t) for t in (0, 1)),
            *(write(t, 2, SRAM + 2 * t, np.float16(first + t)) for t in (0, 1)),
            *(write(t, 2, REGISTERS, F(np.nan)) for t in (0, 1)),
            *(snapshot(t, 3, "load, t", 0) for t in (0, 1)),
            drop(0, 0, REGISTERS),
            hold(0, 0, "r", REGISTERS),
            *(write(t, 4, HBM + 64 + 4 * t, F(first + t)) for t in (0, 1)),
            *(snapshot(t, 5, "store") for t in (0, 1)),
        ]

    sites = (3, 4, Site(5, (Source(1), Source(4, True))), 6, Site(7, ()), 8)
    arrays = {"A": np.array([[1, np.nan]], F), "B": np.zeros(2, F), "none": np.zeros((0, 3), np.int8)}
    logs = tuple(
        launch_log(
            {(0, 0, 0): acts(n), (1, 0, 0): acts(n + 5)},
            sites,
            {"A": (HBM, 8), "B": (HBM + 64, 8), "none": (HBM + 128, 0)},
        )
        for n in (1, 2)
    )
    trace = trace_of(logs, arrays, {"B": F([7, 8])}, grid=(2, 1, 1))
    scalars = (
        Argument("x", "float32", (), float("-inf"), "x=-inf"),
        Argument("n", "int32", (), 3, "n=3"),
        Argument("b", "bool", (), True, "b=true"),
        Argument("f", "float64", (), 2.0, "f=2"),
    )
    launch = replace(trace.launches[0], arguments=trace.launches[0].arguments + scalars)
    return replace(trace, launches=(launch, trace.launches[1]), source_text="// λ\n__global__ void f() {}\n")


TRACE = a_trace()
FILE = to_bytes(TRACE)
MANIFEST, DATA = to_manifest(TRACE)


def test_a_trace_comes_back_as_it_was(tmp_path: Path) -> None:
    TRACE.save(tmp_path / "x.trace")
    for back in (kernels.load(tmp_path / "x.trace"), load(tmp_path / "x.trace")):
        for field in fields(Trace):
            one, other = getattr(TRACE, field.name), getattr(back, field.name)
            if field.name in ("before", "outputs", "later"):
                for a, b in zip(*((m,) if isinstance(m, dict) else m for m in (one, other)), strict=True):
                    assert {n: (v.dtype, v.shape, v.tobytes()) for n, v in a.items()} == {
                        n: (v.dtype, v.shape, v.tobytes()) for n, v in b.items()
                    }
            elif isinstance(one, np.ndarray):
                assert (one.dtype, one.tobytes()) == (other.dtype, other.tobytes()), field.name
            else:
                assert one == other, field.name
        assert [type(a.value) for a in back.launches[0].arguments] == [
            type(a.value) for a in TRACE.launches[0].arguments
        ]
        assert back.steps[1].slots["s"].values.tolist() == [1, 2]
        assert len(back.scopes) == 4
        assert to_bytes(back) == FILE
    assert os.listdir(tmp_path) == ["x.trace"]


def test_a_window_comes_back(tmp_path: Path) -> None:
    log = launch_log([write(0, 0, SRAM, F(1)), snapshot(0, 0, "a"), snapshot(0, 0, "b")], (1,))
    trace = trace_of(log, block=(1, 1, 1), steps=(1, 2))
    trace.save(tmp_path / "x")
    back = kernels.load(tmp_path / "x")
    assert (back.window, back.records, len(back.accesses)) == (trace.window, trace.records, 4)


def test_a_trace_of_version_2_is_no_trace_of_a_plain_kernel() -> None:
    file = Path(kernels.__file__).parent / "recordings" / "fa1.trace"
    with pytest.raises(TraceError, match="is a trace of version 2, not of a plain kernel: record it again"):
        load(file)


@pytest.mark.parametrize("dtype", ["uint32", "int64", "uint8", "float32", "bool", "bfloat16"])
@pytest.mark.parametrize("shape", [(), (0,), (7,), (50, 4)])
def test_a_column_comes_back_as_it_was(dtype: str, shape: tuple[int, ...]) -> None:
    from kernels.trace.model import dtype_of

    values = (np.random.default_rng(0).integers(0, 2, shape) * 100).astype(np.float32).astype(dtype_of(dtype))
    for delta in (False, values.dtype.kind in "iu"):
        column, data = to_column(values, delta=delta)
        back = from_column(column, data.tobytes())
        assert (back.dtype, back.shape, back.tobytes()) == (values.dtype, values.shape, values.tobytes())


def test_accesses_in_a_row_take_less_than_a_byte_each() -> None:
    _, data = to_column(np.arange(10**6, dtype=np.uint64), delta=True)
    assert len(data) < 10**5


def changed(**changes: Any) -> bytes:
    return packed(msgspec.structs.replace(MANIFEST, **changes), DATA)


def with_column(name: str, values: np.ndarray) -> bytes:
    """The file with other values in a column, and a checksum that fits."""
    column, data = to_column(values)
    return packed(
        msgspec.structs.replace(MANIFEST, columns={**MANIFEST.columns, name: column}), {**DATA, name: data}
    )


def altered(name: str, change: Any) -> bytes:
    values = from_column(MANIFEST.columns[name], DATA[name].tobytes()).copy()
    change(values)
    return with_column(name, values)


def _set(index: Any, value: Any) -> Any:
    return lambda values: values.__setitem__(index, value)


@pytest.mark.parametrize(
    "data",
    [
        altered("access/place", _set(0, 99)),
        altered("access/cell", _set(0, 2)),
        altered("access/site", _set(-1, 6)),
        altered("access/thread", _set(0, 2)),
        altered("access/write", _set(0, 3)),
        altered("access/write", _set(0, 1)),
        altered("access/place", _set(-1, 3)),
        altered("access/cell", lambda cells: cells.__setitem__(-1, 1 - cells[-1])),  # of a register
        altered("scope/record", _set(0, 8)),
        altered("scope/place", _set(0, 0)),
        altered("scope/thread", _set(0, 2)),
        altered("record/kind", _set(0, 2)),
        altered("record/kind", _set(0, -1)),
        altered("record/launch", _set(-1, 2)),
        altered("record/launch", _set(0, 1)),
        altered("record/block", _set((0, 0), 2)),
        altered("record/rows", _set((0, 1), 3)),
        altered("record/rows", _set((-1, 1), 99)),
        altered("record/rows", _set((0, 0), 1)),
        with_column("values", np.zeros(3, np.uint8)),
        with_column("output/B", np.zeros(3, F)),
        with_column("before/0/A", np.zeros((2, 1), F)),
        with_column("record/loops", np.zeros(3, np.int64)),
        with_column("access/cell", np.zeros(3, np.uint64)),
        with_column("access/thread", np.zeros(len(TRACE.accesses), np.uint32)),
        changed(launches=()),
        changed(launches=MANIFEST.launches[:1]),
        changed(sites=MANIFEST.sites[:1]),
        changed(places=MANIFEST.places[:-1]),
        changed(places=MANIFEST.places[::-1]),
        changed(places=(*MANIFEST.places, MANIFEST.places[0])),
        changed(name="\x1b[2J"),
        changed(kinds=()),
        changed(window={"blocks": [1, 0], "steps": None}),
        changed(version=2.5),
        changed(extra=1) if hasattr(MANIFEST, "extra") else changed(source_text=1),
    ],
)
def test_parts_that_do_not_fit_each_other_are_refused(data: bytes) -> None:
    with pytest.raises(
        TraceError, match=r"is no trace, or is cut short or damaged|is a trace of version"
    ) as error:
        from_bytes(data, "x.trace")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("column", "says"),
    [
        ({"shape": (2**40,)}, r"needs .* bytes of memory; there is room for"),
        ({"shape": (-1,)}, "is none that a trace has"),
        ({"dtype": "O"}, "is none that a trace has"),
        ({"crc32": 0}, "does not match its checksum"),
        ({"shape": (3,)}, "is cut short"),
        ({"width": 0}, "do not fill it"),
    ],
)
def test_a_column_that_lies_is_refused_without_taking_memory(column: dict[str, Any], says: str) -> None:
    name = "access/order"
    assert MANIFEST.columns[name].codec == "delta"
    other = msgspec.structs.replace(MANIFEST.columns[name], **column)
    with pytest.raises(TraceError, match=says):
        from_bytes(changed(columns={**MANIFEST.columns, name: other}), "x.trace")


def test_a_tensor_that_the_manifest_does_not_list_is_refused() -> None:
    with pytest.raises(TraceError, match="its tensors are not those its manifest lists"):
        from_bytes(packed(MANIFEST, {**DATA, "more": np.zeros(1, np.uint8)}), "x.trace")


def _loaded(data: bytes) -> Trace | None:
    """The trace in a file; None if it is refused, which must take one sentence."""
    try:
        return from_bytes(data, "x.trace")
    except TraceError as error:
        says = str(error)
    assert says.startswith("x.trace ")
    assert "\n" not in says
    assert len(says) < 500
    return None


fuzz = settings(
    max_examples=300,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)


@fuzz
@given(st.integers(0, 8 * len(FILE) - 1))
def test_a_flipped_bit_gives_the_same_trace_or_one_sentence(bit: int) -> None:
    data = bytearray(FILE)
    data[bit // 8] ^= 1 << bit % 8
    back = _loaded(bytes(data))
    assert back is None or to_bytes(back) == FILE


@fuzz
@given(st.integers(0, len(FILE) - 1), st.binary(max_size=9), st.integers(0, 40))
def test_bytes_cut_out_or_put_in_give_the_same_trace_or_one_sentence(at: int, put: bytes, cut: int) -> None:
    back = _loaded(FILE[:at] + put + FILE[at + cut :])
    assert back is None or to_bytes(back) == FILE


PLAIN = msgspec.to_builtins(MANIFEST)
PATHS: list[tuple[Any, ...]] = []


def _walk(value: Any, path: tuple[Any, ...]) -> None:
    PATHS.append(path)
    if isinstance(value, dict):
        for key, inner in value.items():
            _walk(inner, (*path, key))
    elif isinstance(value, list | tuple):
        for key, inner in enumerate(value):
            _walk(inner, (*path, key))


_walk(PLAIN, ())

JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 2**40),
    st.text(max_size=3),
    st.just([]),
    st.just({}),
    st.just(["a", -1]),
)


@fuzz
@given(st.sampled_from(PATHS[1:]), JUNK)
def test_a_manifest_with_another_value_gives_a_trace_that_can_be_used_or_one_sentence(
    path: Any, junk: Any
) -> None:
    other = msgspec.json.decode(msgspec.json.encode(PLAIN))
    inner = other
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = junk
    back = _loaded(packed(other, DATA))
    if back is not None:
        used(back)


@fuzz
@given(
    st.sampled_from(sorted(n for n in DATA if n.split("/")[0] in ("access", "scope", "record"))), st.data()
)
def test_columns_of_other_numbers_give_a_trace_that_can_be_used_or_one_sentence(name: str, data: Any) -> None:
    values = from_column(MANIFEST.columns[name], DATA[name].tobytes()).copy()
    flat = values.reshape(-1)
    most = int(np.iinfo(values.dtype).max)
    at = data.draw(st.integers(0, len(flat) - 1))
    flat[at] = data.draw(st.one_of(st.integers(0, 9), st.integers(0, most)))
    back = _loaded(with_column(name, values))
    if back is not None:
        used(back)


def used(trace: Trace) -> None:
    """Ask for all that a trace gives."""
    for step in trace.steps:
        for mapping in (step.slots, step.hbm, step.written, step.read, step.traffic):
            assert all(mapping[name] is None or mapping[name] is not None for name in mapping)
    assert trace.traffic
    assert trace.inputs


def test_the_manifest_says_all_that_the_trace_does() -> None:
    assert msgspec.json.decode(msgspec.json.encode(MANIFEST), type=Manifest) == MANIFEST
    assert isinstance(MANIFEST.columns["values"], Column)
