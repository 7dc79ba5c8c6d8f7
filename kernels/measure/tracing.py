"""``python -m kernels.measure.tracing [FILE]``: what tracing costs on a GPU, as ratios in one run.

One attention kernel untraced, with one block of it traced, and with every access of every block traced; and, beside the
last, the same kernel under ``compute-sanitizer --tool memcheck``, which also looks at every access.
"""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kernels.errors import BackendError, KernelsError
from kernels.launch.gpu import Gpu, Traced, open_backend, window
from kernels.launch.request import Argument, Launch, Request
from kernels.launch.source import read_source
from kernels.listen.gpu_log import REQUEST

_SOURCES = Path(__file__).parent.parent / "sources"
RUNS = 20


@dataclass(frozen=True)
class Case:
    """A run of FlashAttention-1 or -2 in float32: heads of `N` rows and `d` columns, square tiles, no mask."""

    kernel: str
    heads: int
    N: int
    d: int
    tile: int
    threads: int = 128


FULL = Case("fa2", 192, 1024, 64, 32)
EVERY = (Case("fa1", 16, 256, 64, 32), Case("fa2", 16, 256, 64, 32))


def request(case: Case, blocks: tuple[int, int] | None = None) -> Request:
    """The launch of a case on normal numbers."""
    rng = np.random.default_rng(0)
    shape = (case.heads, case.N, case.d)
    arrays: dict[str, Any] = {name: rng.normal(size=shape).astype(np.float32) for name in "QKV"}
    arrays["O"] = np.zeros(shape, np.float32)
    rows = np.zeros(shape[:2], np.float32)
    scalars: dict[str, np.generic] = {"scale": np.float32(case.d**-0.5), "causal": np.bool_(False)}
    t, d = case.tile, case.d
    if case.kernel == "fa1":
        arrays |= {"l": rows, "m": rows - np.inf}
        scalars = {"N": np.int32(case.N), **scalars}
        grid, floats = (case.heads, 1, 1), 2 * t * d + 2 * t * d + t * t + 2 * t
    else:
        arrays["L"] = rows
        scalars = {"Nq": np.int32(case.N), "Nk": np.int32(case.N), **scalars}
        grid, floats = (math.ceil(case.N / t), case.heads, 1), 2 * t * d + 2 * t * d + t * t + 3 * t
    arguments = [Argument(name, None, "normal") for name in arrays]
    arguments += [Argument(name, value, "given") for name, value in scalars.items()]
    launch = Launch(f"{case.kernel}<{t}, {t}, {d}>", grid, (case.threads, 1, 1), 4 * floats, tuple(arguments))
    return Request(read_source(_SOURCES / f"{case.kernel}.cu"), (launch,), arrays, blocks)


def main(arguments: list[str]) -> int:
    """Write what was measured to FILE, or print it; 2 if there is no GPU."""
    try:
        if arguments[:1] == ["--run"]:
            case = Case(**json.loads(arguments[1]))
            print(json.dumps(_plain(open_backend(), request(case), 5)))
            return 0
        results = measure()
    except KernelsError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    text = json.dumps(results, indent=1) + "\n"
    if arguments:
        Path(arguments[0]).write_text(text, encoding="utf-8")
    print(text, end="")
    return 0


def measure() -> dict[str, Any]:
    """All of it, as plain JSON values."""
    gpu = open_backend()
    plain = _plain(gpu, request(FULL), RUNS)
    middle = math.prod(request(FULL).launches[0].grid) // 2
    one = _traced(gpu, request(FULL, (middle, middle + 1)), RUNS)
    every = []
    for case in EVERY:
        untraced, traced = _plain(gpu, request(case), RUNS), _traced(gpu, request(case), RUNS)
        sanitized = _sanitized(case)
        every.append(
            {
                "case": asdict(case),
                "untraced_ms": untraced,
                "traced": traced,
                "ratio": traced["ms"] / untraced,
                "memcheck_ms": sanitized,
                "memcheck_ratio": None if sanitized is None else sanitized / untraced,
            }
        )
    return {
        "machine": asdict(gpu.machine()),
        "runs": RUNS,
        "one_block": {"case": asdict(FULL), "untraced_ms": plain, "traced": one, "ratio": one["ms"] / plain},
        "every_access": every,
    }


def _plain(gpu: Gpu, wanted: Request, runs: int) -> float:
    """Milliseconds of the kernel as it is: the median of several runs."""
    return _median(gpu.cupy, gpu.plain_call(wanted), runs)


def _traced(gpu: Gpu, wanted: Request, runs: int) -> Mapping[str, float]:
    """Milliseconds of the traced launch, and what it logged."""
    traced, memory = Traced(gpu.cupy, gpu.compiler, wanted), gpu.memory(wanted)
    launch = wanted.launches[0]
    blocks = window(wanted, launch)
    first = traced.launch(launch, memory.whole, memory.addresses, blocks, [1, 1]).counts()
    most = [int(first[:, n].max()) for n in range(2)]
    ready = traced.prepared(launch, memory.whole, memory.addresses, blocks, most)
    ms = _median(gpu.cupy, ready.call, runs)
    requests, words = (int(n) for n in ready.logged.counts().max(axis=0))
    total = int(first[:, 0].sum()) * REQUEST.itemsize + int(first[:, 1].sum()) * 4
    return {"ms": ms, "requests_of_a_block": requests, "words_of_a_block": words, "log_bytes": total}


def _median(cupy: Any, call: Callable[[], None], runs: int) -> float:
    times = []
    for number in range(-3, runs):
        begin, end = cupy.cuda.Event(), cupy.cuda.Event()
        begin.record()
        call()
        end.record()
        end.synchronize()
        if number >= 0:
            times.append(float(cupy.cuda.get_elapsed_time(begin, end)))
    return float(np.median(times))


def _sanitized(case: Case) -> float | None:
    """Milliseconds of the kernel under compute-sanitizer's memcheck; None where it is not installed."""
    if not shutil.which("compute-sanitizer"):
        return None
    command = ["compute-sanitizer", "--tool", "memcheck", sys.executable, "-m", "kernels.measure.tracing"]
    result = subprocess.run(
        [*command, "--run", json.dumps(asdict(case))], capture_output=True, text=True, check=False
    )
    number = re.search(r"^\d+\.\d+(?:e-?\d+)?$", result.stdout, re.MULTILINE)
    if number is None:
        raise BackendError(f"compute-sanitizer gave no time: {result.stdout[-300:]} {result.stderr[-300:]}")
    return float(number[0])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
