"""``python -m kernels.record_all``: make every recording the kernels declare again, on the GPU."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import kernels
from kernels.registry import find_kernel, kernel_names


def main(folder: Path) -> int:
    """Record into `folder`, verify each trace before it is kept; 1 if any fails."""
    failed = 0
    for kernel in kernel_names():
        for name, sizes in find_kernel(kernel).recordings.items():
            params: dict[str, Any] = dict(sizes)
            trace = kernels.record(kernel, None, backend="cupy", **params)
            report = kernels.verify(trace)
            if report.ok:
                trace.save(folder / f"{name}.trace")
            failed += not report.ok
            print(
                f"{name}: {len(trace.steps)} steps on {trace.provenance.device}, {report.checks} checks,"
                f" {len(report.findings)} findings"
            )
            for finding in report.findings[:5]:
                print(f"  step {finding.step}: {finding.what}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "recordings"))
