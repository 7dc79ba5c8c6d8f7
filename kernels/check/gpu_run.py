"""``python -m kernels.check.gpu_run JSON``: what compute-sanitizer watches, one run of a kernel, plain and traced."""

from __future__ import annotations

import json
import sys

from kernels.backend import check_fit, find_backend
from kernels.job import make_job
from kernels.registry import find_kernel

settings = json.loads(sys.argv[1])
backend = find_backend("cupy")
job = make_job(
    find_kernel(settings["kernel"]),
    None,
    settings["params"],
    threads=settings["threads"],
    default_threads=backend.default_threads,
    seed=settings["seed"],
)
check_fit(job, backend)
backend.run(job)
backend.trace(job)
print("ran to the end")
