"""The commands for a CUDA file as it stands: what each says, and one line and nothing written for bad input."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kernels

GEMM = """\
#include <kernels_in_motion.h>
template <int T>
__global__ void gemm(const float* A, const float* B, float* C, int n) {
    __shared__ float As[T][T], Bs[T][T];
    int r = blockIdx.y * T + threadIdx.y, c = blockIdx.x * T + threadIdx.x;
    float acc = 0;
    HOLD(As, Bs, acc);
    for (int t = 0; t < n / T; t++) {
        As[threadIdx.y][threadIdx.x] = A[r * n + t * T + threadIdx.x];
        Bs[threadIdx.y][threadIdx.x] = B[(t * T + threadIdx.y) * n + c];
        __syncthreads();
        SNAPSHOT(load, t);
        for (int k = 0; k < T; k++) acc += As[threadIdx.y][k] * Bs[k][threadIdx.x];
        SNAPSHOT(multiply, t);
        __syncthreads();
    }
    C[r * n + c] = acc;
    SNAPSHOT(store);
}
"""
RUN = ["--kernel", "gemm<4>", "--grid", "2,2", "--block", "4,4"]
ARGUMENTS = ["A=normal:8,8", "B=normal:8,8", "C=zeros:8,8", "n=8"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "gemm.cu").write_text(GEMM)
    return tmp_path


def _kernels(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kernels", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(kernels.__file__).parents[1]), "COLUMNS": "150"},
    )


def _ok(folder: Path, *arguments: str, status: int = 0) -> str:
    result = _kernels(folder, *arguments)
    assert (result.returncode, result.stderr) == (status, "")
    return result.stdout


def _changed(folder: Path, old: str, new: str) -> None:
    assert GEMM.count(old) == 1
    (folder / "gemm.cu").write_text(GEMM.replace(old, new))


def _without(start: str, words: list[str]) -> list[str]:
    return [word for word in words if not word.startswith(start)]


TRUTH = "def truth(A, B):\n    return {'C': A @ B}\n"


def test_a_file_is_recorded_shown_and_verified_with_no_python_written(folder: Path) -> None:
    said = _ok(folder, "record", "gemm.cu", *RUN, *ARGUMENTS, "--backend", "cpu", "-o", "gemm.trace")
    assert said.startswith("gemm.trace: 20 steps of 4 blocks, recorded on ")
    shown = _ok(folder, "show", "gemm.trace", "--block", "3")
    for line in (
        "gemm, of gemm.cu (19 lines)",
        "a CPU run, not a GPU's: ",
        "launch 0: gemm<4> <<<2 × 2, 4 × 4>>> (A, B, C, n)",
        "block 3 of 4 (1, 1, 0), 5 steps",
        "15  load  (t = 0)  clear acc; load As ← A[4:8, 0:4]; load Bs ← B[0:4, 4:8]",
        "16  multiply  (t = 0)  update acc with As, Bs",
        "19  store  store C[4:8, 4:8] ← acc",
        "   traffic in elements: C: 16 written",
    ):
        assert f"\n{line}" in f"\n{shown}"
    table = {row[0]: row[1:] for row in map(str.split, shown.splitlines()) if row}
    assert table["A"] == ["128", "0", "512", "0", "8"]
    assert table["n"] == ["int32", "8", "the", "command", "line"]
    (folder / "truth.py").write_text(TRUTH)
    assert "C as the truth says" in _ok(folder, "verify", "gemm.trace", "--truth", "truth.py")


def test_show_access_says_what_each_line_asked_for(folder: Path) -> None:
    _ok(folder, "record", "gemm.cu", *RUN, *ARGUMENTS, "--backend", "cpu", "-o", "gemm.trace")
    shown = _ok(folder, "show", "gemm.trace", "--access")
    rows = [row.split() for row in shown.splitlines()]
    # 16 lanes read 4 rows of 16 bytes, each half a sector.
    assert ["9", "A", "read", "128", "512", "8", "32", "16"] in rows
    assert ["9", "As", "write", "128", "512", "8", "1", "0"] in rows
    assert "no races between barriers, no reads of what nobody wrote" in shown


def test_the_truth_beside_the_source_is_found_for_a_run_and_a_trace(folder: Path) -> None:
    (folder / "gemm.py").write_text(TRUTH)
    assert "C as the truth says" in _ok(folder, "verify", "gemm.cu", *RUN, *ARGUMENTS, "--backend", "cpu")
    _ok(folder, "record", "gemm.cu", *RUN, *ARGUMENTS, "--backend", "cpu", "-o", "gemm.trace")
    assert "C as the truth says" in _ok(folder, "verify", "gemm.trace")


def test_a_run_that_is_wrong_exits_with_1_and_says_where(folder: Path) -> None:
    _changed(folder, "float acc = 0;", "float acc = (blockIdx.x == 1 && threadIdx.x == 2);")
    (folder / "gemm.py").write_text(TRUTH)
    said = _ok(folder, "verify", "gemm.cu", *RUN, *ARGUMENTS, "--backend", "cpu", status=1)
    assert "1 finding in 1 array" in said
    assert "8 of 64 elements of C are wrong" in said


def test_run_prints_or_saves_what_was_written(folder: Path) -> None:
    draw = np.random.default_rng(1)
    A, B = (draw.normal(size=(8, 8)).astype(np.float32) for _ in range(2))
    np.save(folder / "A.npy", A)
    np.savez(folder / "in.npz", B=B)
    words = ["A=A.npy", "B=in.npz:B", "C=zeros:8,8", "n=8", "--backend", "cpu"]
    said = _ok(folder, "run", "gemm.cu", *RUN, *words, "-o", "out.npz")
    assert "(cpu); written to out.npz" in said
    assert "C = [[" in said
    with np.load(folder / "out.npz") as saved:
        assert saved.files == ["C"]
        np.testing.assert_allclose(saved["C"], A @ B, rtol=1e-5, atol=1e-5)


def test_a_window_is_recorded(folder: Path) -> None:
    window = ["--blocks", "1:2", "--steps", "1:3", "--backend", "cpu"]
    said = _ok(folder, "record", "gemm.cu", *RUN, *ARGUMENTS, *window, "-o", "gemm.trace")
    assert said.startswith("gemm.trace: 2 steps of 1 blocks")
    shown = _ok(folder, "show", "gemm.trace")
    assert "a window of the run: blocks 1:2 and steps 1:3; the traffic is that of these alone" in shown
    assert "0  multiply  (t = 0)  update acc with As, Bs" in shown


def test_another_launch_follows_after_then(folder: Path) -> None:
    more = ["--then", "A=C", "C=zeros:8,8", "--backend", "cpu", "-o", "twice.trace", "--seed", "3"]
    _ok(folder, "record", "gemm.cu", *RUN, *ARGUMENTS, *more)
    trace: Any = kernels.load(folder / "twice.trace")
    assert [[a.name for a in launch.arguments] for launch in trace.launches] == [
        ["A", "B", "C", "n"],
        ["C", "B", "C2", "n"],
    ]
    A, B = (trace.before[name].astype(float) for name in "AB")
    np.testing.assert_allclose(trace.outputs["C2"], A @ B @ B, atol=1e-4)
    assert "normal:8,8, seed 3" in _ok(folder, "show", "twice.trace")


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (
            "__syncthreads();\n        SNAPSHOT(load",
            "SNAPSHOT(load",
            "writes As[0, 0] on line 9 and thread 3 reads it on line 12",
        ),
        ("float acc = 0;", "float acc;", "reads acc[0, 0] on line 13, and nothing was written there before"),
        ("C[r * n + c] = acc", "C[r * n + c + 8] = acc", "writes C[64], outside the 64 elements of C"),
        ("SNAPSHOT(store);", "if (threadIdx.x) __syncthreads();", "wait at the __syncthreads() of line 18"),
    ],
)
def test_check_finds_a_planted_fault(old: str, new: str, says: str, folder: Path) -> None:
    assert "cpu   clean" in _ok(folder, "check", "gemm.cu", *RUN, *ARGUMENTS)
    _changed(folder, old, new)
    assert says in _ok(folder, "check", "gemm.cu", *RUN, *ARGUMENTS, status=1)


def test_a_file_that_does_not_compile_is_said_with_its_line(folder: Path) -> None:
    _changed(folder, "float acc = 0;", "float acc = zero;")
    result = _kernels(folder, "record", "gemm.cu", *RUN, *ARGUMENTS, "--backend", "cpu", "-o", "x.trace")
    assert (result.returncode, len(result.stderr.splitlines())) == (2, 1)
    assert "gemm.cu:6:" in result.stderr
    assert [file.name for file in folder.iterdir()] == ["gemm.cu"]


BAD: list[tuple[list[str], str]] = [
    (["no.cu", *RUN, *ARGUMENTS], "the source no.cu cannot be read: No such file or directory"),
    (["gemm.cu", *RUN, *_without("n", ARGUMENTS)], "gemm needs a value for int n: add n=NUMBER"),
    (["gemm.cu", *RUN, *_without("A", ARGUMENTS)], "gemm needs a value for const float* A: add A=FILE.npy"),
    (["gemm.cu", *RUN, *ARGUMENTS, "m=8"], "gemm has no parameter 'm': it takes A, B, C, n"),
    (["gemm.cu", *RUN, *ARGUMENTS, "n=9"], "n is given twice: n=8 and n=9"),
    (["gemm.cu", *RUN, *ARGUMENTS, "8"], "'8' is no argument: must be NAME=VALUE"),
    (
        ["gemm.cu", *RUN, *_without("A", ARGUMENTS), "A=zeros:8,8:float64"],
        "A=zeros:8,8:float64 is of dtype float64, but const float* A takes float32",
    ),
    (["gemm.cu", *RUN, *_without("n", ARGUMENTS), "n=8.5"], "n=8.5: int n takes a whole number"),
    (["gemm.cu", *RUN, *_without("n", ARGUMENTS), "n=3000000000"], "takes -2147483648 to 2147483647"),
    (["gemm.cu", "--grid", "2,2", "--block", "4,4", *ARGUMENTS], "takes template arguments <T>"),
    (["gemm.cu", *RUN[2:], "--kernel", "gem", *ARGUMENTS], "has no kernel 'gem': those in it are gemm<T>"),
    (["gemm.cu", *RUN[:4], *ARGUMENTS], "gemm<4> needs the threads of a block: add --block X[,Y[,Z]]"),
    (["gemm.cu", *RUN, "--block", "64,64", *ARGUMENTS], "block=64,64,1 is 4096 threads: a CUDA device takes"),
    (["gemm.cu", *RUN, "--grid", "2,70000", *ARGUMENTS], "grid=2,70000: y must be from 1 to 65535"),
    (["gemm.cu", *RUN, "--grid", "two", *ARGUMENTS], "grid=two: must be a whole number of at least 0"),
    (
        ["gemm.cu", *RUN, "--shared", "300000", *ARGUMENTS],
        "shared=300000 bytes: a block may have at most 232448",
    ),
    (["gemm.cu", *RUN, "--seed", "x", *ARGUMENTS], "seed=x: must be a whole number of at least 0"),
    (
        ["gemm.cu", *RUN, "--blocks", "9:10", *ARGUMENTS],
        "blocks=9:10: the launch has 4 blocks, counted from 0",
    ),
    (["gemm.cu", *RUN, "--steps", "2", *ARGUMENTS], "steps=2: must be FIRST:END, for example 0:100"),
    (["gemm.cu", *RUN, "--backend", "tpu", *ARGUMENTS], "'tpu' is not one of 'auto', 'cupy', 'cpu'"),
    (["gemm.cu", *RUN, *ARGUMENTS, "--then", "A=none"], "A=none: const float* A takes an array"),
    (
        ["gemm.cu", *RUN, *ARGUMENTS, "--then", "--kernel", "gemm<1, 2>"],
        "gives 2: write gemm<T> with a value for each",
    ),
    (["gemm.cu", *RUN, *ARGUMENTS, "--then", "--fast"], "No such option '--fast'"),
]


@pytest.mark.parametrize(("arguments", "says"), BAD, ids=[says for _, says in BAD])
def test_bad_input_gets_one_line_and_status_2(arguments: list[str], says: str, folder: Path) -> None:
    result = _kernels(folder, "record", *arguments, "-o", "gemm.trace")
    assert says in result.stderr
    assert (result.returncode, result.stdout, len(result.stderr.splitlines())) == (2, "", 1)
    assert [file.name for file in folder.iterdir()] == ["gemm.cu"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["record", "gemm.cu", *RUN, *ARGUMENTS], "record needs a file to write the trace to: add -o FILE"),
        (
            ["record", "gemm.cu", *RUN, *ARGUMENTS, "-o", "no/x"],
            "it must name a file in a folder that exists",
        ),
        (["run", "gemm.cu", *RUN, *ARGUMENTS, "-o", "x.npy"], "x.npy must be named FILE.npz"),
        (["run", "fa1"], "fa1 is no CUDA file"),
        (["verify", "gemm.cu", *RUN, *ARGUMENTS], "gemm.cu is held against a truth"),
        (["verify", "gemm.cu", *RUN, *ARGUMENTS, "--truth", "no.py"], "there is no file no.py"),
        (["show", "fa1", "--access"], "fa1 is of version 2, which keeps no accesses"),
        (["verify", "fa1.trace", "--truth", "x.py"], "fa1.trace does not exist"),
    ],
)
def test_a_command_without_what_it_needs_says_so(arguments: list[str], says: str, folder: Path) -> None:
    result = _kernels(folder, *arguments)
    assert says in result.stderr
    assert (result.returncode, result.stdout, len(result.stderr.splitlines())) == (2, "", 1)
    assert [file.name for file in folder.iterdir()] == ["gemm.cu"]


@pytest.mark.parametrize("command", ["record", "run", "verify", "check"])
def test_help_says_what_a_word_may_be_and_how_to_launch_twice(command: str, folder: Path) -> None:
    said = _kernels(folder, command, "gemm.cu", "--help").stdout
    for what in ("NAME=VALUE", "zeros:64,64", "--then", "--grid X[,Y[,Z]]", "--shared BYTES"):
        assert what in said
