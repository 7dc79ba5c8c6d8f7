"""``python -m tests.kernels.fuzz CASES FILE``: a long fuzz of the trace file on every processor, and a record of it.

It runs `test_trace_fuzz.py` with cases drawn afresh, and writes FILE, as JSON, only if all of them passed.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import hypothesis

ROOT = Path(__file__).resolve().parents[2]
TEST = "tests/kernels/test_trace_fuzz.py"
ATTACKED = ("layout", "manifest", "report", "trace/version2", "trace_file", "verify")


def hashes() -> dict[str, str]:
    """SHA-256 of the attack and of each module it attacks, by path."""
    paths = (TEST, *(f"kernels/{name}.py" for name in ATTACKED))
    return {path: hashlib.sha256((ROOT / path).read_bytes()).hexdigest() for path in paths}


def main(cases: int, file: Path) -> int:
    processes = os.cpu_count() or 1
    attacked, begun = hashes(), time.monotonic()
    with ThreadPoolExecutor(processes) as pool:
        results = list(
            pool.map(_attack, [cases // processes + 11] * processes)
        )  # 11: the tests divide it by that
    counts = [
        (int(passed), int(failed))
        for result in results
        for passed, failed in re.findall(r"(\d+) passing\D+(\d+) failing", result.stdout)
    ]
    passed, failed = map(sum, zip((0, 0), *counts, strict=True))
    for result in results:
        if result.returncode:
            print(result.stdout[-4000:], result.stderr[-1000:], sep="\n")
    if failed or any(result.returncode for result in results) or passed < cases:
        print(f"{passed:,} cases passed, {failed:,} failed")
        return 1
    record = {
        "cases": passed,
        "processes": processes,
        "seconds": round(time.monotonic() - begun),
        "hypothesis": hypothesis.__version__,
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "recorded_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "attacked": attacked,
    }
    file.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(f"{passed:,} cases passed in {record['seconds']} s")
    return 0


def _attack(cases: int) -> subprocess.CompletedProcess[str]:
    with tempfile.TemporaryDirectory() as folder:
        return subprocess.run(
            [
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "-p",
                "no:cacheprovider",
                "--hypothesis-show-statistics",
                TEST,
            ],
            capture_output=True,
            text=True,
            check=False,
            cwd=ROOT,
            env={
                **os.environ,
                "FUZZ_CASES": str(max(cases, 11001)),  # fewer would be the same cases in each process
                "HYPOTHESIS_STORAGE_DIRECTORY": folder,
                "OPENBLAS_NUM_THREADS": "1",
                "PYTHONDONTWRITEBYTECODE": "1",
            },
        )


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), Path(sys.argv[2])))
