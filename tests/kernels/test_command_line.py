"""The command line: what each command says, and one line, status 2 and nothing written for bad input."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


def _kernels(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kernels", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )


def test_record_show_and_verify_a_run(tmp_path: Path) -> None:
    file = str(tmp_path / "x.trace")
    sizes = [
        "--N",
        "5",
        "--d",
        "3",
        "--Br",
        "2",
        "--Bc",
        "3",
        "--causal",
        "--batch-heads",
        "1",
        "--backend",
        "cpu",
    ]
    recorded = _kernels("record", "fa1", *sizes, "-o", file)
    assert recorded.returncode == 0, recorded.stderr
    assert recorded.stdout.startswith(f"{file}: ")
    shown = _kernels("show", file).stdout
    assert "FlashAttention-1: N = 5, d = 3, Br = 2, Bc = 3, batch_heads = 1, causal = 1" in shown
    assert "a CPU run, not a GPU's" in shown
    assert "compute  (j = 0, i = 1)  Sij ← Qi, Kj" in shown
    assert "-inf" in shown
    verified = _kernels("verify", file)
    assert (verified.returncode, verified.stderr) == (0, "")
    assert "checks passed" in verified.stdout


def test_record_and_show_a_window_of_a_large_run(tmp_path: Path) -> None:
    file = str(tmp_path / "x.trace")
    window = ["--blocks", "7:8", "--steps", "100:103"]
    large = ["--N", "512", "--d", "16", "--Br", "16", "--Bc", "16", "--batch-heads", "12", "--backend", "cpu"]
    recorded = _kernels("record", "fa1", *large, *window, "-o", file)
    assert (recorded.returncode, recorded.stderr) == (0, "")
    assert ": 3 steps of 1 blocks" in recorded.stdout
    shown = _kernels("show", file).stdout
    assert "a window of the run: blocks 7:8 and steps 100:103; the traffic is that of these alone" in shown
    verified = _kernels("verify", file)
    assert verified.returncode == 0
    assert "of a window the counts of each step are checked, not their sum" in verified.stdout


def test_verify_a_fresh_run() -> None:
    result = _kernels("verify", "fa1", "--N", "6", "--backend", "cpu")
    assert result.returncode == 0
    assert "checks passed" in result.stdout


def test_list_names_the_kernels_and_the_recordings_with_their_gpu() -> None:
    text = " ".join(_kernels("list", COLUMNS="200").stdout.split())
    assert "fa1 FlashAttention-1 N=8, d=4, Br=4, Bc=4, batch_heads=6, causal" in text
    assert "load_kv, load_q, compute, update, write" in text
    assert "NVIDIA H200 (cupy)" in text


BAD = [
    (["record", "fa1", "--N", "0"], "N=0: must be a whole number of at least 1"),
    (["record", "fa1", "--N", "2.5"], "N=2.5: must be a whole number of at least 1"),
    (["record", "fa1", "--d", "-3"], "d=-3: must be a whole number of at least 1"),
    (["record", "fa1", "--Br", "x"], "Br=x: must be a whole number of at least 1"),
    (["record", "fa1", "--Bc", ""], "Bc=: must be a whole number of at least 1"),
    (["record", "fa1", "--batch-heads", "0"], "batch_heads=0: must be a whole number of at least 1"),
    (["record", "fa1", "--seed", "-1"], "seed=-1: must be a whole number of at least 0"),
    (["record", "fa1", "--threads", "5000"], "threads=5000 per block: a CUDA device takes at most 1024"),
    (
        ["record", "fa1", "--d", "128", "--Br", "128", "--Bc", "128", "--backend", "cpu"],
        "need 328704 bytes of shared memory; this device allows 232448: choose smaller tiles (Br, Bc, d)",
    ),
    (["record", "fa1", "--steps", "5"], "steps=5: must be FIRST:END, for example 0:100"),
    (
        ["record", "fa1", "--blocks", "a:b", "--backend", "cpu"],
        "blocks=a: must be a whole number of at least 0",
    ),
    (
        ["record", "fa1", "--steps", "4:2", "--backend", "cpu"],
        "steps=4:2: must be FIRST:END with FIRST below END",
    ),
    (["record", "fa7"], "there is no kernel 'fa7': choose one of"),
    (["record", "fa1", "--tile", "4"], "No such option '--tile'"),
    (["record", "fa1", "--backend", "tpu"], "'tpu' is not one of 'auto', 'cupy', 'cpu'"),
]


@pytest.mark.parametrize(("arguments", "says"), BAD, ids=[says for _, says in BAD])
def test_bad_input_gets_one_line_and_status_2(arguments: list[str], says: str, tmp_path: Path) -> None:
    result = _kernels(*arguments, "-o", str(tmp_path / "x.trace"))
    assert says in result.stderr
    assert (result.returncode, result.stdout, len(result.stderr.splitlines())) == (2, "", 1)
    assert not list(tmp_path.iterdir())


def test_a_benchmark_without_a_gpu_is_said(tmp_path: Path) -> None:
    code = "import sys; sys.modules['cupy'] = None; from kernels.cli import main; main(['bench', '-o', sys.argv[1]])"
    command = [sys.executable, "-c", code, str(tmp_path / "x")]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (result.returncode, len(result.stderr.splitlines())) == (2, 1)
    assert "the cupy backend needs CuPy" in result.stderr
    assert not list(tmp_path.iterdir())


def test_a_missing_gpu_names_the_extra_to_install(tmp_path: Path) -> None:
    code = "import sys; sys.modules['cupy'] = None; from kernels.cli import main; main(sys.argv[1:])"
    command = [sys.executable, "-c", code, "record", "fa1", "--backend", "cupy", "-o", str(tmp_path / "x")]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert "pip install -e '.[cuda13]'" in result.stderr
    assert not list(tmp_path.iterdir())


def test_a_missing_compiler_is_said(tmp_path: Path) -> None:
    result = _kernels("record", "fa1", "--backend", "cpu", "-o", str(tmp_path / "x"), CXX="no-such-compiler")
    assert result.returncode == 2
    assert result.stderr.startswith("error: CXX='no-such-compiler' names no program")
    code = "import shutil; shutil.which = lambda name: None; from kernels.backend import cpu; cpu.compiler()"
    bare = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "the cpu backend needs a C++ compiler: install g++ or clang++" in bare.stderr


@pytest.mark.parametrize("where", ["no/x.trace", "."])
def test_an_output_that_cannot_be_written_is_said_before_the_run(where: str, tmp_path: Path) -> None:
    result = _kernels("record", "fa1", "--backend", "cpu", "-o", str(tmp_path / where))
    assert (result.returncode, len(result.stderr.splitlines())) == (2, 1)
    assert "cannot be written: it must name a file in a folder that exists" in result.stderr


@pytest.mark.parametrize("command", ["show", "verify"])
def test_a_file_that_is_no_trace_is_said(command: str, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("hello")
    result = _kernels(command, str(tmp_path / "x"))
    assert (result.returncode, len(result.stderr.splitlines())) == (2, 1)
    assert "is no trace, or is cut short or damaged" in result.stderr


def test_a_trace_that_is_wrong_exits_with_1_and_says_where(tmp_path: Path) -> None:
    code = (
        "import sys, dataclasses, kernels, numpy as np\n"
        "trace = kernels.recorded('fa1')\n"
        "wrong = {**trace.outputs, 'O': trace.outputs['O'] + np.float32(0.001)}\n"
        "dataclasses.replace(trace, outputs=wrong).save(sys.argv[1])\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "x")], check=True)
    result = _kernels("verify", str(tmp_path / "x"))
    assert result.returncode == 1
    assert "the output O of head 0" in result.stdout
