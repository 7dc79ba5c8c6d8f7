"""``python -m kernels.counters [FILE]``: three counts of the same traffic, on a GPU.

The formula a kernel declares; the count its traced run makes; and the GPU's own counters, read by Nsight Compute over
an untraced run: bytes asked for by global loads and stores, sectors of 32 bytes that L1 and L2 looked up for them, and
bytes that DRAM moved. The caches are flushed before the run.
"""

from __future__ import annotations

import csv
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from kernels.backend import find_backend
from kernels.errors import BackendError, KernelsError
from kernels.job import Job, make_job
from kernels.recording import counted
from kernels.registry import find_kernel
from kernels.run import provenance
from kernels.source import read_source
from kernels.trace import Window

_TILES = {"Br": 32, "Bc": 32}
_CASES: list[tuple[str, dict[str, int]]] = [
    ("fa1", {**_TILES, "batch_heads": 192, "N": 1024, "d": 64}),
    ("fa1", {**_TILES, "batch_heads": 48, "N": 1024, "d": 128}),
    ("fa1", {**_TILES, "batch_heads": 60, "N": 777, "d": 59, "causal": 1}),
    ("fa2", {**_TILES, "batch_heads": 192, "Nq": 1024, "Nk": 1024, "d": 64}),
    ("flash_decoding", {**_TILES, "batch_heads": 192, "Nq": 1, "Nk": 8192, "d": 64, "Br": 1, "splits": 8}),
    ("online_softmax", {"rows": 8192, "N": 4096, "b": 1024}),
]
_METRICS = {
    "requested_read": "smsp__sass_data_bytes_mem_global_op_ld.sum",
    "requested_written": "smsp__sass_data_bytes_mem_global_op_st.sum",
    "l1_sectors_read": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "l1_sectors_written": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "l2_sectors_read": "lts__t_sectors_srcunit_tex_op_read.sum",
    "l2_sectors_written": "lts__t_sectors_srcunit_tex_op_write.sum",
    "dram_read": "dram__bytes_read.sum",
    "dram_written": "dram__bytes_write.sum",
}
_UNITS = {"byte": 1, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "sector": 1}


def main(arguments: list[str]) -> int:
    """Write the counts of every case to FILE, or print them; 2 if the counters cannot be read here."""
    if arguments[:1] == ["--run"]:
        find_backend("cupy").run(_job(*json.loads(arguments[1])))
        return 0
    try:
        backend = find_backend("cupy")
        results = {
            "profiler": _profiler(),
            "metrics": _METRICS,
            "cases": [
                {
                    "kernel": name,
                    "params": params,
                    "provenance": asdict(provenance(backend, read_source(find_kernel(name).source))),
                    **_count(name, params),
                }
                for name, params in _CASES
            ],
        }
    except KernelsError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    text = json.dumps(results, indent=1) + "\n"
    if arguments:
        Path(arguments[0]).write_text(text, encoding="utf-8")
    else:
        print(text, end="")
    return 0


def _job(name: str, params: Mapping[str, int]) -> Job:
    return make_job(find_kernel(name), None, params, threads=None, default_threads=128)


def _count(name: str, params: Mapping[str, int]) -> dict[str, Any]:
    job = _job(name, params)
    formula = job.kernel.traffic(job.params)
    # The tallies of every step, and the SRAM of the last alone: all of it would be tens of gigabytes.
    most = max(job.kernel.most_steps(job.params, launch) for launch in range(len(job.layout.launches)))
    raw, _ = find_backend("cupy").trace(replace(job, window=Window(steps=(most - 1, most))))
    reads, writes = (sum(counts[way] for counts in formula.values()) for way in (0, 1))
    return {
        "formula": formula,
        "count": counted(job, raw),
        "bytes_read": 4 * reads,
        "bytes_written": 4 * writes,
        "hardware": _hardware(name, params),
    }


def _hardware(name: str, params: Mapping[str, int]) -> dict[str, int]:
    """The GPU's counters, summed over the launches of an untraced run."""
    command = [
        *("ncu", "--csv", "--clock-control", "none", "--cache-control", "all"),
        *("--metrics", ",".join(_METRICS.values())),
        *(sys.executable, "-m", "kernels.counters", "--run", json.dumps([name, params])),
    ]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [line for line in result.stdout.splitlines() if line.startswith('"')]
    functions = {launch.function for launch in find_kernel(name).launches}
    totals = dict.fromkeys(_METRICS, 0)
    seen = 0
    for row in csv.DictReader(lines):
        if re.split(r"[<(\s]", row["Kernel Name"].removeprefix("void "))[0] not in functions:
            continue
        key = next((key for key, metric in _METRICS.items() if metric == row["Metric Name"]), None)
        if key and row["Metric Unit"] in _UNITS:
            totals[key] += round(float(row["Metric Value"].replace(",", "")) * _UNITS[row["Metric Unit"]])
            seen += 1
    if seen != len(_METRICS) * len(functions):
        said = (result.stderr or result.stdout).strip().splitlines()
        raise BackendError(f"Nsight Compute read no counters here: {said[-1] if said else 'it said nothing'}")
    return totals


def _profiler() -> str:
    if not shutil.which("ncu"):
        raise BackendError("Nsight Compute (ncu) is not on the PATH: install the CUDA toolkit")
    output = subprocess.run(["ncu", "--version"], capture_output=True, text=True, check=False).stdout
    return next((line for line in output.splitlines() if line.startswith("Version")), "ncu")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
