"""The instrumentation: nothing when off; when on, it counts all, bounds all, and no label can lie."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import kernels
from kernels.backend.cupy import entry_source, plain_options
from kernels.errors import BackendError
from kernels.registry import find_kernel, kernel_names
from kernels.run import record_job
from kernels.source import function, read_source, whole_source

from . import nvrtc
from .planted import CPU, job_of, planted

needs_nvrtc = pytest.mark.skipif(
    nvrtc.library() is None, reason="no NVRTC here: pip install nvidia-cuda-nvrtc"
)


@needs_nvrtc
@pytest.mark.parametrize("name", kernel_names())
def test_with_tracing_off_the_machine_code_is_that_of_the_bare_kernel(name: str) -> None:
    kernel = find_kernel(name)
    job = job_of(kernel)
    source = read_source(kernel.source)
    bare = re.sub(r"Hbm<([\w ]+)>", r"\1*", source)
    bare = re.sub(r"sram<(.*)>\(\);", r"*reinterpret_cast<\1*>(shared);", bare)
    bare = re.sub(r"SNAPSHOT\([^;]*\);", "", bare)
    assert not re.search(r"Hbm|sram<|SNAPSHOT", bare)
    constants = "#define INFINITY __int_as_float(0x7f800000)\nextern __shared__ float4 shared[];\n#line 1\n"
    names = [function(job, launch) for launch in range(len(kernel.launches))]
    ours = whole_source(kernel, "cuda.cuh", traced=False).replace("kim_shared", "shared")
    assert nvrtc.compile_cubin(ours, *names) == nvrtc.compile_cubin(constants + bare, *names)


@pytest.mark.parametrize(("threads", "limit"), [(1, None), (256, None), (257, 224), (640, 96), (1024, 64)])
def test_registers_are_limited_only_where_a_block_would_not_launch(threads: int, limit: int | None) -> None:
    more = set(plain_options(threads)) - set(plain_options(128))
    assert more == (set() if limit is None else {f"--maxrregcount={limit}"})


@needs_nvrtc
def test_one_more_read_changes_the_machine_code(tmp_path: Path) -> None:
    kernel = planted(tmp_path, "float m_new = mi[r];", "float m_new = mi[r] + K[0];")
    honest = whole_source(find_kernel("fa1"), "cuda.cuh", traced=False)
    changed = whole_source(kernel, "cuda.cuh", traced=False)
    assert nvrtc.compile_cubin(honest, "fa1<4, 4, 4>") != nvrtc.compile_cubin(changed, "fa1<4, 4, 4>")


@needs_nvrtc
@pytest.mark.parametrize("name", kernel_names())
def test_the_traced_kernel_compiles_for_a_gpu(name: str) -> None:
    assert nvrtc.compile_cubin(entry_source(job_of(find_kernel(name))))


@needs_nvrtc
def test_slots_out_of_order_do_not_compile_for_a_gpu() -> None:
    kernel = find_kernel("fa1")
    launch = kernel.launches[0]
    swapped = (launch.slots[0], launch.slots[2], launch.slots[1], *launch.slots[3:])
    kernel = replace(kernel, launches=(replace(launch, slots=swapped),))
    with pytest.raises(nvrtc.CompileError, match="disagree on the slot Vj"):
        nvrtc.compile_cubin(entry_source(job_of(kernel)))


def test_slots_out_of_order_do_not_compile_for_the_cpu(tmp_path: Path) -> None:
    kernel = planted(tmp_path, "float Oi[Br][d], mi[Br], li[Br];", "float Oi[Br][d], li[Br], mi[Br];")
    with pytest.raises(BackendError, match=r"disagree on the slot mi"):
        record_job(job_of(kernel), CPU)


def test_a_field_the_declaration_leaves_out_does_not_compile(tmp_path: Path) -> None:
    kernel = planted(tmp_path, "mi[Br], li[Br];", "mi[Br], li[Br], more[Br];")
    kernel = replace(kernel, source=_with(kernel.source, "mi, li] =", "mi, li, more] ="))
    with pytest.raises(BackendError, match="has a field that the declaration of fa1 leaves out"):
        record_job(job_of(kernel), CPU)


def _with(path: Path, old: str, new: str) -> Path:
    source = path.read_text(encoding="utf-8")
    assert source.count(old) == 1
    path.write_text(source.replace(old, new), encoding="utf-8")
    return path


UPDATE = "float m_new = mi[r];"


@pytest.mark.parametrize(
    ("statement", "reads", "writes"),
    [
        ("float x = O[0];", 1, 0),
        ("O[0] = O[1];", 1, 1),
        ("O[0] += 1;", 1, 1),
        ("O[0] -= 1;", 1, 1),
        ("O[0] *= 1;", 1, 1),
        ("O[0] /= 1;", 1, 1),
        ("*&O[2] = 1;", 0, 1),
        ("Hbm<float> p = O + 3; p -= 1; ++p; *p = 1; float x = p[0];", 1, 1),
        ("Hbm<const float> p = O; float x = p[0] + fmaxf(O[0], O[1]);", 3, 0),
        ("float x = r ? O[0] : O[1];", 1, 0),
    ],
)
def test_each_way_to_touch_hbm_is_counted(tmp_path: Path, statement: str, reads: int, writes: int) -> None:
    kernel = planted(tmp_path, UPDATE, f"{{ {statement} }} {UPDATE}")
    trace = record_job(job_of(kernel, N=4, batch_heads=1), CPU)
    touched = next(step for step in trace.steps if step.name == "update").traffic["O"]
    assert (touched.reads, touched.writes) == (4 * reads, 4 * writes)  # once for each row of the tile


def test_auto_of_an_element_does_not_compile_for_it_would_keep_a_reference(tmp_path: Path) -> None:
    kernel = planted(tmp_path, UPDATE, f"auto x = O[0]; {UPDATE} m_new += 0 * x;")
    with pytest.raises(BackendError, match="does not compile"):
        record_job(job_of(kernel), CPU)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (
            "const int columns = min(Bc, N - j * Bc);",
            "const int columns = Bc;",
            "touched K at element .* another head's",
        ),
        (
            "const int rows = min(Br, N - i * Br);",
            "const int rows = Br;",
            "touched [QO] at element .* another head's",
        ),
        ("O += first_row * d;", "O += first_row * d + N * d * 6;", "touched O at element .*, outside its"),
    ],
)
def test_an_access_out_of_bounds_is_refused_with_its_place(
    tmp_path: Path, old: str, new: str, says: str
) -> None:
    with pytest.raises(BackendError, match=says):
        record_job(job_of(planted(tmp_path, old, new), N=7), CPU)


def test_an_access_after_the_last_snapshot_is_refused_for_nothing_counts_it(tmp_path: Path) -> None:
    kernel = planted(
        tmp_path, "SNAPSHOT(write, j, i);", "SNAPSHOT(write, j, i); if (j == Tc - 1 && i == Tr - 1) m[0] = 0;"
    )
    with pytest.raises(BackendError, match="touched m after its last SNAPSHOT, where nothing counts"):
        record_job(job_of(kernel), CPU)


def test_more_steps_than_declared_are_refused(tmp_path: Path) -> None:
    kernel = planted(tmp_path, "SNAPSHOT(load_kv, j);", "SNAPSHOT(load_kv, j); SNAPSHOT(load_kv, j);")
    with pytest.raises(BackendError, match="left more steps than its declaration has"):
        record_job(job_of(kernel), CPU)


def test_a_step_nobody_declared_does_not_compile(tmp_path: Path) -> None:
    with pytest.raises(BackendError, match="does not compile"):
        record_job(job_of(planted(tmp_path, "SNAPSHOT(load_kv, j);", "SNAPSHOT(load_vk, j);")), CPU)


def test_threads_that_cannot_all_reach_a_barrier_are_reported(tmp_path: Path) -> None:
    kernel = planted(tmp_path, "const int Tr =", "if (threadIdx.x == 1) return; const int Tr =")
    with pytest.raises(BackendError, match="got stuck: of its 3 threads some wait at a barrier"):
        record_job(job_of(kernel), CPU)


def test_a_slot_nobody_wrote_is_empty_and_one_written_in_part_is_found(tmp_path: Path) -> None:
    first = kernels.recorded("fa1").steps[0]
    assert {slot for slot, held in first.sram.items() if held is None} == {"Qi", "Sij", "Oi", "mi", "li"}
    kernel = planted(tmp_path, "Sij[r][c] = masked ?", "if (r + c) Sij[r][c] = masked ?")
    findings = kernels.verify(record_job(job_of(kernel), CPU), kernel).findings
    assert any("Sij has cells that were never written" in finding.what for finding in findings)


def test_an_output_nobody_wrote_is_found(tmp_path: Path) -> None:
    kernel = planted(tmp_path, "O[i * Br * d + x] = Oi[x / d][x % d];", ";")
    arrays = tuple(replace(array, fill=None) if array.name == "O" else array for array in kernel.arrays)
    kernel = replace(kernel, arrays=arrays)
    findings = kernels.verify(record_job(job_of(kernel), CPU), kernel).findings
    assert any(
        "the output O of head 0 has cells that were never written" in finding.what for finding in findings
    )


def test_a_window_of_hbm_holds_this_blocks_own_writes_and_nothing_later() -> None:
    steps = kernels.recorded("fa1").steps_of((2, 0, 0))
    written = [step for step in steps if step.name == "write"]
    assert (written[0].hbm["m"][4:] == -np.inf).all()
    assert (written[0].hbm["O"][4:] == 0).all()
    np.testing.assert_array_equal(written[0].hbm["O"][:4], written[0].sram["Oi"])
    np.testing.assert_array_equal(written[-1].hbm["O"], kernels.recorded("fa1").outputs["O"][2])
