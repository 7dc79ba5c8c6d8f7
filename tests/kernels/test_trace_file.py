"""The trace file: what goes in comes out, and anything else is refused in one sentence."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

import kernels
from kernels.errors import TraceError
from kernels.trace_file import VERSION


@pytest.fixture(scope="module")
def trace() -> kernels.Trace:
    return kernels.record("fa1", None, backend="cpu", N=7, d=3, Br=2, Bc=3, batch_heads=2)


@pytest.fixture
def file(trace: kernels.Trace, tmp_path: Path) -> Path:
    trace.save(tmp_path / "x.trace")
    return tmp_path / "x.trace"


def test_a_trace_comes_back_as_it_was(trace: kernels.Trace, file: Path) -> None:
    back = kernels.load(file)
    assert (back.kernel, back.title, back.params, back.layout) == (
        trace.kernel,
        trace.title,
        trace.params,
        trace.layout,
    )
    assert back.provenance == trace.provenance
    for name in trace.inputs:
        np.testing.assert_array_equal(back.inputs[name], trace.inputs[name])
    for old, new in zip(trace.steps, back.steps, strict=True):
        assert (old.index, old.name, old.loop, old.block, old.launch) == (
            new.index,
            new.name,
            new.loop,
            new.block,
            new.launch,
        )
        assert (old.valid, old.traffic, old.kind) == (new.valid, new.traffic, new.kind)
        for slot, held in old.sram.items():
            other = new.sram[slot]
            assert (held is None) == (other is None)
            assert held is None or other is None or held.tobytes() == other.tobytes()
        for array in old.hbm:
            np.testing.assert_array_equal(old.hbm[array], new.hbm[array])


def test_what_was_loaded_cannot_be_changed(file: Path) -> None:
    held = kernels.load(file).steps[0].sram["Kj"]
    assert held is not None
    with pytest.raises(ValueError, match="read-only"):
        held[0] = 1


@pytest.mark.parametrize("part", [0, 1, 7, 8, 100, 0.3, 0.5, 0.9, 0.999])
def test_a_file_cut_short_is_refused(file: Path, part: float) -> None:
    data = file.read_bytes()
    file.write_bytes(data[: int(part * len(data)) if isinstance(part, float) else part])
    with pytest.raises(TraceError, match=r"is no trace, or is cut short or damaged|is damaged"):
        kernels.load(file)


def test_a_flipped_bit_in_a_tensor_is_refused(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[-5] ^= 1
    file.write_bytes(data)
    with pytest.raises(TraceError, match=r"is damaged: the tensor \S+ does not match its checksum"):
        kernels.load(file)


def _manifest(file: Path) -> dict[str, Any]:
    data = file.read_bytes()
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    manifest: dict[str, Any] = json.loads(header["__metadata__"]["kernels-in-motion"])
    return manifest


def test_another_version_is_refused(file: Path) -> None:
    save_file({"a": np.zeros(1)}, file, {"kernels-in-motion": json.dumps({"version": VERSION + 1})})
    with pytest.raises(
        TraceError, match=f"is a trace of version {VERSION + 1}; this program reads version {VERSION}"
    ):
        kernels.load(file)


def test_a_safetensors_file_of_another_kind_is_refused(file: Path) -> None:
    save_file({"a": np.zeros(1)}, file)
    with pytest.raises(TraceError, match="is no trace: it is a safetensors file without our manifest"):
        kernels.load(file)


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.pop("layout"),
        lambda m: m.update(steps=[{}]),
        lambda m: m["steps"][0].update(name="dance"),
        lambda m: m["steps"][0].update(launch=3),
        lambda m: m["steps"][0]["valid"].update(Kj=[99, 1]),
        lambda m: m["steps"][0]["sram"].update(Kj=77),
        lambda m: m["steps"][0]["traffic"].update(K=[1, 0, 0, 99, 0, 1, 0]),
        lambda m: m["layout"]["arrays"][0].update(shape=[1]),
    ],
)
def test_a_manifest_that_does_not_fit_its_tensors_is_refused(file: Path, change: Any) -> None:
    from safetensors.numpy import load_file

    manifest, tensors = _manifest(file), load_file(file)
    change(manifest)
    save_file(tensors, file, {"kernels-in-motion": json.dumps(manifest)})
    with pytest.raises(TraceError, match="is damaged"):
        kernels.load(file)


def test_a_folder_a_device_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    for path, says in [
        (tmp_path, "is not a file"),
        (Path("/dev/zero"), "is not a file"),
        (tmp_path / "x", "does not exist"),
        (tmp_path / "dangling", "does not exist"),
    ]:
        with pytest.raises(TraceError, match=says):
            kernels.load(path)


def test_a_full_disk_leaves_the_old_file_and_nothing_else(trace: kernels.Trace, file: Path) -> None:
    before = file.read_bytes()
    limits, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.getsignal(signal.SIGXFSZ)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        with pytest.raises(TraceError, match=r"x\.trace cannot be written: File too large"):
            trace.save(file)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert file.read_bytes() == before
    assert os.listdir(file.parent) == ["x.trace"]


def test_a_file_that_cannot_be_written_is_said_in_one_sentence(trace: kernels.Trace, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="cannot be written: No such file or directory"):
        trace.save(tmp_path / "no" / "x.trace")
    with pytest.raises(TraceError, match="cannot be written: Is a directory"):
        trace.save(tmp_path)


def test_two_saves_of_one_trace_are_the_same_bytes(trace: kernels.Trace, file: Path) -> None:
    trace.save(file.with_name("y.trace"))
    assert file.read_bytes() == file.with_name("y.trace").read_bytes()


def test_kernels_needs_neither_manim_nor_mkdocs_nor_cupy() -> None:
    code = (
        "import sys, builtins\n"
        "for name in ('manim', 'mkdocs', 'cupy'): sys.modules[name] = None\n"
        "import kernels\n"
        "print(kernels.recorded('fa1').provenance.device)\n"
        "print(kernels.record('fa1', None).provenance.backend)\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines() == ["NVIDIA H200", "cpu"]
