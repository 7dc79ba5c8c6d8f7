"""``python -m kernels.measure.agreement [FILE]``: sectors and bank conflicts of a trace, beside the GPU's counters.

Nsight Compute reads the counters over an untraced run of the same kernel on the same inputs.
"""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kernels.conclude.lines import lines
from kernels.errors import BackendError, KernelsError
from kernels.gallery import find
from kernels.launch.gpu import open_backend
from kernels.launch.record import record
from kernels.launch.request import Request
from kernels.launch.settle import Call, settle_words
from kernels.launch.source import read_source

CASES = (
    ("transpose", 0),
    ("transpose", 1),
    ("transpose", 4),
    ("gemm", 0),
    ("convolve", 0),
    ("reduce", 0),
    ("layer_norm", 0),
    ("histogram", 0),
    ("axpy_half2", 0),
)
_METRICS = {
    "sectors_read": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "sectors_written": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "requests_read": "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "requests_written": "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
    "bank_conflicts_read": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "bank_conflicts_written": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
}


def case(name: str, number: int) -> Request:
    """The request of an example of the gallery."""
    exhibit = find(name)
    example = exhibit.examples[number]
    call = Call(example.kernel, example.grid, example.block, example.shared, example.arguments)
    return settle_words(read_source(exhibit.source), [call], seed=0)


def concluded(wanted: Request) -> Mapping[str, int]:
    """What the trace of a request says of each counter."""
    trace, _ = record(wanted, open_backend())
    totals = dict.fromkeys(_METRICS, 0)
    for use in lines(trace):
        way = {"read": "read", "write": "written"}.get(use.act)
        memory = next(place.memory for place in trace.places if place.name == use.place)
        if way is None:
            continue
        if memory == "HBM":
            totals[f"sectors_{way}"] += use.sectors
            totals[f"requests_{way}"] += use.requests
        elif memory == "SRAM":
            totals[f"bank_conflicts_{way}"] += use.bank_conflicts
    return totals


def main(arguments: list[str]) -> int:
    """Write the counts to FILE, or print them; 2 if they cannot be read here."""
    try:
        if arguments[:1] == ["--run"]:
            open_backend().run(case(*json.loads(arguments[1])))
            return 0
        found = [
            {
                "kernel": name,
                "example": number,
                "concluded": concluded(case(name, number)),
                "hardware": _hardware(name, number),
            }
            for name, number in CASES
        ]
        results = {"machine": asdict(open_backend().machine()), "metrics": _METRICS, "cases": found}
    except KernelsError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    text = json.dumps(results, indent=1) + "\n"
    if arguments:
        Path(arguments[0]).write_text(text, encoding="utf-8")
    print(text, end="")
    return 0


def _hardware(name: str, number: int) -> Mapping[str, int]:
    command = [
        *("ncu", "--csv", "--clock-control", "none", "--metrics", ",".join(_METRICS.values())),
        *(sys.executable, "-m", "kernels.measure.agreement", "--run", json.dumps([name, number])),
    ]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    rows = csv.DictReader(line for line in result.stdout.splitlines() if line.startswith('"'))
    kernel = find(name).examples[number].kernel.split("<")[0]
    totals: dict[str, int] = {}
    for row in rows:
        key = next((key for key, metric in _METRICS.items() if metric == row["Metric Name"]), None)
        if key and kernel in row["Kernel Name"]:
            totals[key] = totals.get(key, 0) + round(float(row["Metric Value"].replace(",", "")))
    if len(totals) != len(_METRICS):
        said: Any = (result.stderr or result.stdout).strip().splitlines()
        raise BackendError(f"Nsight Compute read no counters here: {said[-1] if said else 'it said nothing'}")
    return totals


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
