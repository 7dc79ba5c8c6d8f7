"""The trace file: what goes in comes out, and anything else is refused in one sentence."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import kernels
import kernels.trace_file
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


def _parts(file: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The manifest and the tensors in a file, to be put together again with checksums that fit."""
    data = file.read_bytes()
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    manifest: dict[str, Any] = json.loads(header["__metadata__"]["kernels-in-motion"])
    for added in ("version", "checksums", "crc32"):
        del manifest[added]
    return manifest, load_file(file)


def test_a_flipped_bit_in_the_manifest_is_refused(file: Path) -> None:
    data = file.read_bytes()
    assert data.count(b"FlashAttention-1") == 1
    file.write_bytes(data.replace(b"FlashAttention-1", b"FlashAttention-0"))
    with pytest.raises(TraceError, match="is damaged: its manifest does not match its checksum"):
        kernels.load(file)


def test_another_version_is_refused(file: Path) -> None:
    save_file({"a": np.zeros(1)}, file, {"kernels-in-motion": json.dumps({"version": 4})})
    with pytest.raises(
        TraceError,
        match=f"is a trace of version 4; this program reads version {VERSION} and 3: record it again",
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
        lambda m: m["layout"]["arrays"][0].update(tile=0),
        lambda m: m["layout"]["arrays"].append(m["layout"]["arrays"][0]),
        lambda m: m["layout"]["launches"][0]["steps"][0]["actions"][0].update(slot="Zz"),
        lambda m: m["steps"].reverse(),
        lambda m: m["steps"][0].update(launch=-1),
        lambda m: m["steps"][0]["sram"].update(Kj=-1),
        lambda m: m["steps"][0].update(block=[-1, 0, 0]),
        lambda m: m["steps"][-1]["hbm"].update(O=-1),
        lambda m: m.update(title="\x1b[2J"),
        lambda m: m.update(window={"blocks": [1, 0], "steps": None}),
    ],
)
def test_a_manifest_that_does_not_fit_its_tensors_is_refused(file: Path, change: Any) -> None:
    manifest, tensors = _parts(file)
    kernels.trace_file.from_bytes(kernels.trace_file.to_bytes(manifest, tensors), "as it was")
    change(manifest)
    file.write_bytes(kernels.trace_file.to_bytes(manifest, tensors))
    with pytest.raises(TraceError, match="is no trace, or is cut short or damaged"):
        kernels.load(file)


@pytest.mark.parametrize("name", ["w", "__metadata__"])
def test_a_name_that_occurs_twice_is_refused(file: Path, name: str) -> None:
    entry = '{"dtype":"F32","shape":[1],"data_offsets":[0,4]}' if name == "w" else "{}"
    header = f'{{"{name}":{entry},"{name}":{entry}}}'.encode()
    file.write_bytes(len(header).to_bytes(8, "little") + header + bytes(4 if name == "w" else 0))
    with pytest.raises(TraceError, match="is no trace, or is cut short or damaged"):
        kernels.load(file)


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"[" * 100_000,
        b'{"w":' * 50_000,
        b'{"w":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]}}',
        b'{"w":{"dtype":"F32","shape":[0,9223372036854775807],"data_offsets":[0,0]}}',
        b'{"w":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}',
        b'{"w":{"dtype":"F32","shape":[1],"data_offsets":[8,4]}}',
        b'{"w":{"dtype":"F99","shape":[1],"data_offsets":[0,4]}}',
        b'{"__metadata__":{"kernels-in-motion":"[]"}}',
        b'{"__metadata__":{"kernels-in-motion":"' + b"[" * 5000 + b'"}}',
        b'{"__metadata__":{"kernels-in-motion":"{\\"version\\":NaN}"}}',
        b'{"__metadata__":{"kernels-in-motion":"{\\"version\\":' + b"9" * 5000 + b'}"}}',
        b'{"__metadata__":{"kernels-in-motion":"{\\"version\\":2,\\"version\\":2}"}}',
    ],
    ids=lambda header: header[:60].decode(),
)
def test_a_header_that_lies_is_refused(file: Path, header: bytes) -> None:
    file.write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
    with pytest.raises(TraceError) as caught:
        kernels.load(file)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("size", [0, 1, 2**31, 2**40, 2**62, 2**64 - 1])
def test_a_length_that_lies_is_refused_without_taking_memory(file: Path, size: int) -> None:
    file.write_bytes(size.to_bytes(8, "little") + b"{}")
    with pytest.raises(TraceError, match="is no trace, or is cut short or damaged"):
        kernels.load(file)


def test_a_file_larger_than_memory_is_refused_unread(tmp_path: Path) -> None:
    with open(tmp_path / "x", "wb") as file:
        file.truncate(2**43)  # a hole: it takes no room on the disk
    with pytest.raises(TraceError, match=r"has 8,796,093,022,208 bytes; there is room for [\d,]+"):
        kernels.load(tmp_path / "x")


def test_a_zip_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", a=np.zeros(3))
    with pytest.raises(TraceError, match="is no trace, or is cut short or damaged"):
        kernels.load(tmp_path / "x.npz")


def test_the_bits_of_a_nan_come_back(trace: kernels.Trace, tmp_path: Path) -> None:
    words = np.full(trace.outputs["O"].shape, 0x7F812345, np.uint32)
    odd = replace(trace, outputs={**trace.outputs, "O": words.view(np.float32)})
    odd.save(tmp_path / "x")
    back = kernels.load(tmp_path / "x")
    assert back.outputs["O"].tobytes() == words.tobytes()
    assert not kernels.verify(back).ok


def test_a_folder_a_device_a_pipe_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    os.mkfifo(tmp_path / "pipe")
    for path, says in [
        (tmp_path, "is not a file"),
        (Path("/dev/zero"), "is not a file"),
        (tmp_path / "pipe", "is not a file"),
        (tmp_path / "x", "does not exist"),
        (tmp_path / "dangling", "does not exist"),
        (tmp_path / "loop", "cannot be read: Too many levels of symbolic links"),
        (tmp_path / "x\0y", "cannot be read: embedded null byte"),
        (tmp_path / ("x" * 5000), "cannot be read: File name too long"),
    ]:
        with pytest.raises(TraceError, match=says):
            kernels.load(path)


def test_a_device_is_never_replaced_by_a_file(trace: kernels.Trace, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(TraceError, match="pipe cannot be written: it is not a file"):
        trace.save(tmp_path / "pipe")
    assert not (tmp_path / "pipe").is_file()


def test_many_recorders_of_one_file_leave_one_whole_trace(trace: kernels.Trace, tmp_path: Path) -> None:
    file = tmp_path / "x.trace"
    other = replace(trace, title="another")
    mask = os.umask(0o027)
    try:
        with ThreadPoolExecutor(8) as pool:
            saved = [pool.submit(t.save, file) for t in [trace, other] * 20]
            loaded = [pool.submit(_title_if_there, file) for _ in range(40)]
            titles = {future.result() for future in loaded}
            for future in saved:
                future.result()
    finally:
        assert os.umask(mask) == 0o027
    assert titles <= {None, trace.title, "another"}
    assert kernels.load(file).title in (trace.title, "another")
    assert os.listdir(tmp_path) == ["x.trace"]
    assert file.stat().st_mode & 0o777 == 0o640


def _title_if_there(file: Path) -> str | None:
    try:
        return kernels.load(file).title
    except TraceError as error:
        assert "does not exist" in str(error), error  # noqa: PT017
        return None


def test_a_kill_at_any_moment_leaves_the_old_file_or_the_new(trace: kernels.Trace, tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    trace.save(old)
    replace(trace, title="another").save(new)
    whole = {old.read_bytes(), new.read_bytes()}
    code = (
        "import sys, kernels\n"
        "traces = [kernels.load(name) for name in sys.argv[1:3]]\n"
        "print('ready', flush=True)\n"
        "while True:\n"
        "    for trace in traces: trace.save(sys.argv[3])\n"
    )
    file = tmp_path / "x.trace"
    file.write_bytes(old.read_bytes())
    for pause in (0, 0.001, 0.003, 0.004, 0.006, 0.01, 0.02, 0.03):
        command = [sys.executable, "-c", code, str(old), str(new), str(file)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            time.sleep(pause)
            process.kill()
        assert file.read_bytes() in whole


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
