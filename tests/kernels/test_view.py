"""A trace of plain CUDA as films read it: step for step what the recordings hold, with nothing of it declared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import kernels
from kernels.declaration import Kernel, Parameter
from kernels.errors import TraceError
from kernels.gallery import Example, find, names
from kernels.job import POISON, make_job
from kernels.launch.known import request_of
from kernels.launch.record import record
from kernels.launch.source import parse_source
from kernels.layout import Action, Clear, Compute, Load, Loop, SlotLayout, StepLayout, Store, Update
from kernels.registry import find_kernel
from kernels.trace import Trace, Window
from kernels.trace import model as plain
from kernels.trace.sizes import sizes_of
from kernels.trace.view import view, words_of

from .gallery_runs import BACKENDS, DEFAULTS, FOUR, GPU_ONLY, backend, four, run
from .gallery_runs import request_of as request_of_words

RECORDINGS = kernels.recordings()
_FA = {"Qi": "Q", "Kj": "K", "Vj": "V", "Sij": "S", "Oi": "O", "mi": "m", "li": "l", "Li": "L"}
WORDS = _FA | {"Os": "O", "ms": "m", "ls": "l", "xi": "x", "yi": "y"}
CARRIES = (Clear("mi", "Qi"), Clear("li", "Qi"), Clear("Oi", "Qi"))
UPDATES = (Update("mi", ("Sij",)), Update("li", ("Sij", "mi")), Update("Oi", ("Sij", "mi", "Vj")))
KEYS = (Load("K", "Kj"), Load("V", "Vj"))
SCORES = (Compute("Sij", rows="Qi", columns="Kj"),)
FINISH = (Update("Oi", ("li",)), Compute("Li", rows="mi", columns=None))
KINDS: dict[str, list[tuple[str, tuple[str, ...], tuple[Action, ...]]]] = {
    "fa1": [
        ("load_kv", ("j",), KEYS),
        ("load_q", ("j", "i"), (Load("Q", "Qi"), Load("m", "mi"), Load("l", "li"), Load("O", "Oi"))),
        ("compute", ("j", "i"), SCORES),
        ("update", ("j", "i"), (*UPDATES[:2], Update("Oi", ("Sij", "mi", "li", "Vj")))),
        ("write", ("j", "i"), (Store("mi", "m"), Store("li", "l"), Store("Oi", "O"))),
    ],
    "fa2": [
        ("load_q", (), (Load("Q", "Qi"), *CARRIES)),
        ("load_kv", ("j",), KEYS),
        ("compute", ("j",), SCORES),
        ("update", ("j",), UPDATES),
        ("finish", (), FINISH),
        ("write", (), (Store("Oi", "O"), Store("Li", "L"))),
    ],
    "flash_decoding": [
        ("load_q", (), (Load("Q", "Qi"), *CARRIES)),
        ("load_kv", ("j",), KEYS),
        ("compute", ("j",), SCORES),
        ("update", ("j",), UPDATES),
        ("write_part", (), (Store("mi", "mp"), Store("li", "lp"), Store("Oi", "Op"))),
        ("start", (), (Clear("mi", None), Clear("li", None), Clear("Oi", None))),
        ("load_part", ("s",), (Load("mp", "ms"), Load("lp", "ls"), Load("Op", "Os"))),
        (
            "combine",
            ("s",),
            (Update("mi", ("ms",)), Update("li", ("ls", "mi", "ms")), Update("Oi", ("Os", "mi", "ms"))),
        ),
        ("finish", (), FINISH),
        ("write", (), (Store("Oi", "O"), Store("Li", "L"))),
    ],
    "online_softmax": [
        ("start", (), (Clear("m", None), Clear("d", None))),
        ("load", ("pass", "i"), (Load("x", "xi"),)),
        ("update", ("pass", "i"), (Update("m", ("xi",)), Update("d", ("xi", "m")))),
        ("reload", ("pass", "i"), (Load("x", "xi"),)),
        ("normalise", ("pass", "i"), (Compute("yi", rows="xi", columns=None),)),
        ("write", ("pass", "i"), (Store("yi", "y"),)),
    ],
}


def _bare(kernel: str) -> Kernel:
    """A declaration that says nothing of tiles, but of the partial results, which lie one split after another."""
    found = find_kernel(kernel)
    kept = ("Op", "lp", "mp")
    return replace(found, arrays=tuple(a if a.name in kept else replace(a, tile="") for a in found.arrays))


def _plain(
    kernel: str,
    params: Mapping[str, int],
    machine: str,
    *,
    arrays: Mapping[str, Any] | None = None,
    threads: int = 32,
    blocks: tuple[int, int] | None = None,
    steps: tuple[int, int] | None = None,
) -> plain.Trace:
    window = Window(blocks, steps) if blocks or steps else None
    job = make_job(find_kernel(kernel), arrays, params, threads=threads, default_threads=32, window=window)
    return record(request_of(job), backend(machine))[0]


def _viewed(kernel: str, machine: str = "cpu", **of: Any) -> Trace:
    window = {name: of.pop(name) for name in ("blocks", "steps") if name in of}
    return view(_plain(kernel, of, machine, **window), _bare(kernel))


@cache
def _pair(name: str, machine: str) -> tuple[Trace, Trace]:
    """A recording, and the same run of the plain source."""
    old = kernels.recorded(name)
    threads = old.layout.launches[0].threads
    params = {key: int(value) for key, value in old.params.items()}
    trace = _plain(old.kernel, params, machine, arrays=dict(old.inputs), threads=threads)
    return view(trace, _bare(old.kernel)), old


def _unordered(kinds: tuple[StepLayout, ...]) -> list[Any]:
    """Kinds of step without the order in which an update names what it is made of, which shows nowhere."""
    return [
        (
            kind.name,
            kind.loops,
            [(a.slot, frozenset(a.by)) if isinstance(a, Update) else a for a in kind.actions],
        )
        for kind in kinds
    ]


def _kinds(trace: Trace) -> tuple[StepLayout, ...]:
    return tuple(kind for launch in trace.layout.launches for kind in launch.steps)


@pytest.mark.parametrize("machine", BACKENDS)
@pytest.mark.parametrize("name", RECORDINGS)
def test_the_layout_is_that_of_the_recording(name: str, machine: str) -> None:
    new, old = _pair(name, machine)
    assert (new.kernel, new.title, new.params) == (old.kernel, old.title, old.params)
    assert new.layout.arrays == old.layout.arrays
    for mine, theirs in zip(new.layout.launches, old.layout.launches, strict=True):
        assert replace(mine, steps=()) == replace(theirs, steps=())
        assert _unordered(mine.steps) == _unordered(theirs.steps)


@pytest.mark.parametrize("machine", BACKENDS)
@pytest.mark.parametrize("name", RECORDINGS)
def test_the_steps_are_those_of_the_recording(name: str, machine: str) -> None:
    new, old = _pair(name, machine)
    assert len(new.steps) == len(old.steps)
    for mine, theirs in zip(new.steps, old.steps, strict=True):
        where = (mine.index, mine.name, mine.loop, mine.block, mine.launch)
        assert where == (theirs.index, theirs.name, theirs.loop, theirs.block, theirs.launch)
        assert mine.valid == theirs.valid
        assert mine.traffic == theirs.traffic
    assert new.traffic == old.traffic


@pytest.mark.parametrize("machine", BACKENDS)
@pytest.mark.parametrize("name", RECORDINGS)
def test_slots_windows_and_outputs_hold_the_numbers_of_the_recording(name: str, machine: str) -> None:
    new, old = _pair(name, machine)
    for mine, theirs in zip(new.steps, old.steps, strict=True):
        assert mine.sram.keys() == theirs.sram.keys()
        for slot, held in theirs.sram.items():
            _close(mine.sram[slot], held)
        assert set(mine.hbm) == set(theirs.hbm)
        for array, window in theirs.hbm.items():
            _close(mine.hbm[array], window)
            _close(mine.hbm.start[array], theirs.hbm.start[array])
            boxes = [(p.row, p.column, p.values.shape) for p in theirs.hbm.patches[array]]
            assert [(p.row, p.column, p.values.shape) for p in mine.hbm.patches[array]] == boxes
    for arrays, theirs_too in ((new.inputs, old.inputs), (new.outputs, old.outputs)):
        assert arrays.keys() == theirs_too.keys()
        for array, values in theirs_too.items():
            _close(arrays[array], values)


def _close(got: Any, wanted: Any) -> None:
    assert (got is None) == (wanted is None)
    if wanted is not None:
        written = np.ascontiguousarray(wanted).view(np.uint32) != POISON
        np.testing.assert_array_equal(np.ascontiguousarray(got).view(np.uint32) != POISON, written)
        np.testing.assert_allclose(got[written], wanted[written], rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_slot_that_kept_its_bits_keeps_its_array(name: str) -> None:
    new, old = _pair(name, "cpu")
    for trace in (new, old):
        for step, after in zip(trace.steps, trace.steps[1:], strict=False):
            if (step.launch, step.block) != (after.launch, after.block):
                continue
            for slot, held in step.sram.items():
                later = after.sram[slot]
                if held is not None and later is not None:
                    assert (later is held) == (later.tobytes() == held.tobytes())


@pytest.mark.parametrize("name", RECORDINGS)
def test_the_definition_finds_nothing_wrong(name: str) -> None:
    new, old = _pair(name, "cpu")
    report = kernels.verify(replace(new, layout=old.layout))
    assert report.findings == ()
    assert report.checks == kernels.verify(old).checks


@pytest.mark.parametrize("kernel", FOUR)
def test_kinds_of_step_are_derived_as_they_were_declared(kernel: str) -> None:
    wanted = tuple(StepLayout(*kind) for kind in KINDS[kernel])
    declared = _kinds(replace(_viewed(kernel), layout=find_kernel(kernel).layout(DEFAULTS[kernel], 32)))
    assert declared == wanted
    assert _unordered(_kinds(_viewed(kernel))) == _unordered(wanted)


def test_an_update_names_what_it_is_made_of_as_values_flow() -> None:
    [combine] = [kind for kind in _kinds(_viewed("flash_decoding")) if kind.name == "combine"]
    assert combine.actions == (
        Update("mi", ("ms",)),
        Update("li", ("ms", "mi", "ls")),
        Update("Oi", ("ms", "mi", "Os")),
    )


@pytest.mark.parametrize("kernel", FOUR)
def test_slots_have_the_letters_of_their_words(kernel: str) -> None:
    for launch in _viewed(kernel).layout.launches:
        for slot in launch.slots:
            assert slot.symbol == WORDS.get(slot.name, slot.name)
    bare = view(_plain(kernel, {}, "cpu"), _bare(kernel), words={})
    for launch in bare.layout.launches:
        assert [slot.symbol for slot in launch.slots] == [slot.name for slot in launch.slots]


def test_of_a_ragged_tile_only_the_rows_written_are_valid() -> None:
    trace = _viewed("fa1", N=10)
    held = {(step.name, *step.loop.values()): step for step in trace.steps_of((0, 0, 0))}
    assert trace.layout.launches[0].loops == (Loop("j", 3), Loop("i", 3))
    assert held["load_kv", 2].valid["Kj"] == (2, 4)
    assert held["compute", 2, 0].valid["Sij"] == (4, 2)
    assert held["compute", 0, 2].valid["Sij"] == (2, 4)
    assert held["update", 0, 2].valid["Oi"] == (2, 4)
    assert held["load_q", 1, 0].valid["mi"] == (4,)
    stale = held["load_kv", 2].sram["Kj"]
    assert stale is not None
    np.testing.assert_array_equal(stale[2:], trace.inputs["K"][0, 6:8])


def test_cells_that_no_step_wrote_hold_poison() -> None:
    trace = _viewed("fa2", Nq=7, Nk=7)
    content = trace.steps_of((1, 0, 0))[0].sram["Qi"]
    assert content is not None
    assert (np.ascontiguousarray(content).view(np.uint32)[3:] == POISON).all()
    assert trace.steps_of((1, 0, 0))[0].sram["Kj"] is None
    assert trace.steps_of((1, 0, 0))[0].valid["Kj"] == (0, 0)


WINDOWS = [
    pytest.param("fa1", {"N": 10, "causal": 1}, (1, 3), (3, 7), id="fa1"),
    pytest.param("fa1", {"N": 10}, (0, 6), (6, 9), id="fa1 between two tiles"),
    pytest.param("fa1", {"N": 10}, (0, 6), (27, 32), id="fa1 from a ragged tile"),
    pytest.param("fa2", {"Nq": 7, "Nk": 10, "causal": 1}, (1, 3), (2, 6), id="fa2"),
    pytest.param("flash_decoding", {"Nk": 22, "Nq": 3}, (2, 5), (1, 4), id="flash decoding"),
    pytest.param("online_softmax", {"N": 14}, (1, 3), (5, 20), id="online softmax"),
]


@pytest.mark.parametrize(("kernel", "params", "blocks", "steps"), WINDOWS)
def test_a_window_shows_what_the_whole_run_shows_there(
    kernel: str, params: dict[str, Any], blocks: tuple[int, int], steps: tuple[int, int]
) -> None:
    whole, part = _viewed(kernel, **params), _viewed(kernel, blocks=blocks, steps=steps, **params)
    assert part.window == Window(blocks, steps)
    assert part.blocks
    for launch, block in part.blocks:
        due = whole.steps_of(block, launch)[slice(*steps)]
        for step, other in zip(part.steps_of(block, launch), due, strict=True):
            assert (step.name, step.loop, step.valid) == (other.name, other.loop, other.valid)
            assert step.traffic == other.traffic
            for slot, held in step.sram.items():
                content = other.sram[slot]
                assert (held is None) == (content is None)
                assert held is None or content is None or held.tobytes() == content.tobytes()
            for name, window in step.hbm.items():
                assert window.tobytes() == other.hbm[name].tobytes()


@pytest.mark.parametrize("kernel", FOUR)
def test_the_request_of_a_job_is_that_made_by_hand(kernel: str) -> None:
    job = make_job(find_kernel(kernel), None, {}, threads=32, default_threads=1)
    mine, other = request_of(job), four(kernel, {}, 32)
    assert mine.source == other.source
    for launch, wanted in zip(mine.launches, other.launches, strict=True):
        assert (launch.kernel, launch.grid, launch.block) == (wanted.kernel, wanted.grid, wanted.block)
        assert launch.shared_bytes == wanted.shared_bytes
        for argument, theirs in zip(launch.arguments, wanted.arguments, strict=True):
            assert argument.name == theirs.name
            assert repr(argument.value) == repr(theirs.value)
    assert {n: a.nbytes for n, a in mine.arrays.items()} == {n: a.nbytes for n, a in other.arrays.items()}
    assert [a.name for a in job.layout.arrays] == list(mine.arrays)


@pytest.mark.parametrize("kernel", FOUR)
def test_parameters_are_read_off_the_launches(kernel: str) -> None:
    params = {name: value + 1 for name, value in DEFAULTS[kernel].items() if name != "causal"}
    params |= {"causal": 1} if "causal" in DEFAULTS[kernel] else {}
    declared = find_kernel(kernel)
    assert sizes_of(_plain(kernel, params, "cpu"), declared) == {**params, **declared.derive(params)}


def test_a_trace_of_another_kernel_is_refused_in_one_sentence() -> None:
    with pytest.raises(TraceError, match=r"^fa1<4, 4, 4> has 9 arguments and must have 3: the trace is no"):
        view(_plain("fa1", {}, "cpu"), find_kernel("online_softmax"))
    with pytest.raises(TraceError, match=r"^the trace has 1 launches and flash_decoding 2: it is of another"):
        view(_plain("fa1", {}, "cpu"), find_kernel("flash_decoding"))


def test_a_run_that_lacks_a_parameter_or_has_an_array_of_another_shape_is_refused_in_one_sentence() -> None:
    trace, kernel = _plain("fa1", {}, "cpu"), find_kernel("fa1")
    with pytest.raises(TraceError, match=r"^the trace does not say tau: it is no run of fa1$"):
        view(trace, replace(kernel, parameters=(*kernel.parameters, Parameter("tau", 1, ""))))
    with pytest.raises(
        TraceError, match=r"^l has shape \(48,\) and must have \(6, 8\): the trace is no run of fa1$"
    ):
        view(replace(trace, before={**trace.before, "l": trace.before["l"].reshape(-1)}), kernel)
    arguments = tuple(replace(a, value=9) if a.name == "N" else a for a in trace.launches[0].arguments)
    changed = replace(trace.launches[0], arguments=arguments)
    with pytest.raises(TraceError, match=r"^the trace has both N=8 and N=9: it is no run of fa1$"):
        view(replace(trace, launches=(changed,)), kernel)


def test_a_block_that_works_on_two_heads_is_refused_in_one_sentence() -> None:
    trace = _plain("fa1", {}, "cpu")
    first = trace.accesses.copy()
    [n, *_] = np.flatnonzero((first["place"] == 0) & (first["write"] == 0))
    first["cell"][n] += 8 * 4
    with pytest.raises(
        TraceError, match=r"^fa1 touches 2 heads of Q in block \(0, 0, 0\): a film shows one head"
    ):
        view(replace(trace, accesses=first), find_kernel("fa1"))


@pytest.mark.parametrize("name", [name for name in names() if name not in GPU_ONLY])
def test_a_kernel_that_nobody_declared_is_shown_as_it_is(name: str) -> None:
    number = 0 if find(name).examples else pytest.skip(f"{name} has no example")
    _, trace = run(name, number)
    shown = view(trace)
    assert (shown.kernel, shown.title, shown.params) == (trace.name, trace.name, {})
    assert [step.name for step in shown.steps] == [step.name for step in trace.steps]
    for step, seen in zip(shown.steps, trace.steps, strict=True):
        assert {name: sum((t.reads, t.writes)) for name, t in step.traffic.items()} == {
            name: sum((t.reads, t.writes)) for name, t in seen.traffic.items()
        }
        for slot, content in seen.slots.items():
            held = step.sram[slot]
            assert (held is None) == (content is None)
            if held is not None and content is not None:
                np.testing.assert_array_equal(
                    held.reshape(content.values.shape)[content.known],
                    content.values[content.known].astype(np.float32),
                )


def test_the_tiled_product_of_the_gallery_is_told_in_actions() -> None:
    _, trace = run("gemm", 0)
    [launch] = view(trace).layout.launches
    assert [(slot.name, slot.shape) for slot in launch.slots] == [
        ("As", (16, 16)),
        ("Bs", (16, 16)),
        ("acc", (16, 16)),
    ]
    assert launch.slots[0] == SlotLayout("As", "As", (16, 16))
    told = {kind.name: kind.actions for kind in launch.steps}
    assert told["load"][:2] == (Load("A", "As"), Load("B", "Bs"))
    assert Update("acc", ("As", "Bs")) in {action for actions in told.values() for action in actions}
    assert Store("acc", "C") in {action for actions in told.values() for action in actions}


def _made(text: str, **arguments: str) -> plain.Trace:
    """A trace of a kernel `f`, of two blocks of four threads."""
    source = parse_source(f"#include <kernels_in_motion.h>\n__global__ void f({text}", "f.cu")
    return record(request_of_words(source, Example("f", (2,), (4,), arguments)), backend("cpu"))[0]


def test_kinds_stand_in_the_order_of_their_lines_whichever_block_took_them() -> None:
    trace = _made("""float* y) {
        __shared__ float s[4];
        if (blockIdx.x == 1) {
            s[threadIdx.x] = 1;
            SNAPSHOT(first);
        }
        s[threadIdx.x] = 2;
        SNAPSHOT(second);
        y[4 * blockIdx.x + threadIdx.x] = s[threadIdx.x];
        SNAPSHOT(third);
    }""", y="zeros:8")  # fmt: skip
    assert [kind.name for kind in _kinds(view(trace))] == ["first", "second", "third"]


def test_what_one_turn_clears_and_the_next_adds_to_is_updated() -> None:
    trace = _made("""const float* x, float* y) {
        __shared__ float s[4];
        for (int t = 0; t < 3; t++) {
            if (t == 0) s[threadIdx.x] = 0;
            else s[threadIdx.x] += 1;
            SNAPSHOT(turn, t);
        }
        y[4 * blockIdx.x + threadIdx.x] = s[threadIdx.x];
        SNAPSHOT(out);
    }""", x="zeros:8", y="zeros:8")  # fmt: skip
    assert _kinds(view(trace))[0] == StepLayout("turn", ("t",), (Update("s", ()),))


def test_a_clear_goes_with_the_load_of_as_many_rows_alone() -> None:
    trace = _made("""const float* x, float* y) {
        __shared__ float a[4], b[4], c[4];
        if (threadIdx.x < 3) a[threadIdx.x] = x[4 * blockIdx.x + threadIdx.x];
        if (threadIdx.x < 3) b[threadIdx.x] = 0;
        c[threadIdx.x] = 0;
        SNAPSHOT(load);
        if (threadIdx.x < 3) y[4 * blockIdx.x + threadIdx.x] = a[threadIdx.x] + b[threadIdx.x] + c[threadIdx.x];
        SNAPSHOT(out);
    }""", x="zeros:8", y="zeros:8")  # fmt: skip
    assert set(_kinds(view(trace))[0].actions) == {Load("x", "a"), Clear("b", "a"), Clear("c", None)}


def test_a_product_of_a_slot_with_itself_names_no_rows_and_no_columns() -> None:
    trace = _made("""const float* x, float* y) {
        __shared__ float a[2][2], g[2][2];
        const int r = threadIdx.x / 2, c = threadIdx.x % 2;
        a[r][c] = x[threadIdx.x];
        __syncthreads();
        SNAPSHOT(load);
        g[r][c] = a[r][0] * a[c][0] + a[r][1] * a[c][1];
        SNAPSHOT(square);
        y[4 * blockIdx.x + threadIdx.x] = g[r][c];
        SNAPSHOT(out);
    }""", x="normal:2,2", y="zeros:2,4")  # fmt: skip
    # Its rows alone would not do: g[r][c] is made of a[c] too, which is not the row r.
    assert _kinds(view(trace))[1].actions == (Compute("g", None, None),)


def test_of_tiles_of_one_cell_rows_and_columns_are_of_two_slots() -> None:
    [compute] = [k for k in _kinds(_viewed("fa2", Br=1, Bc=1)) if k.name == "compute"]
    assert compute.actions == SCORES


def test_a_register_that_came_into_being_anew_is_empty_again() -> None:
    trace = view(_made("""const float* x, float* y) {
        for (int t = 0; t < 2; t++) {
            float a;
            HOLD(a);
            SNAPSHOT(fresh, t);
            a = x[t];
            y[4 * blockIdx.x + threadIdx.x] = a;
            SNAPSHOT(set, t);
        }
    }""", x="normal:2", y="zeros:8"))  # fmt: skip
    held = {(step.name, step.loop["t"]): step.sram["a"] for step in trace.steps_of((1, 0, 0))}
    assert held["fresh", 0] is None
    assert held["fresh", 1] is None
    np.testing.assert_array_equal(held["set", 1], np.full(4, trace.inputs["x"][0, 1]))


def test_words_are_those_of_the_declaration() -> None:
    assert words_of(find_kernel("fa2")) == _FA
