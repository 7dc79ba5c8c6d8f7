"""Barriers that not all threads of a block reached, from its log."""

from __future__ import annotations

import numpy as np

from kernels.errors import BackendError
from kernels.listen.log import Kind, LaunchLog


def check_barriers(log: LaunchLog, block: tuple[int, int, int], name: str) -> None:
    """Raises BackendError if threads of one block met differing numbers of barriers.

    A GPU lets the others pass when a thread has returned, but what a kernel does then is not defined (CUDA C++
    Programming Guide, "Synchronization Functions").
    """
    threads = block[0] * block[1] * block[2]
    for one in log.blocks:
        rows = one.rows[one.rows["kind"] == Kind.BARRIER]
        counts = np.bincount(rows["thread"], minlength=threads)[:threads]
        if counts.min(initial=0) == counts.max(initial=0) or len(set(counts.tolist())) < 2:
            continue
        most = int(counts.max())
        reached = np.flatnonzero(counts == most)
        mine = rows[rows["thread"] == reached[0]]
        fewest = int(counts.min())
        line = log.sites[int(mine["site"][min(fewest, len(mine) - 1)])].line
        first = int(reached[0])
        x, y = block[0], block[1]
        where = first % x, first // x % y, first // (x * y)
        raise BackendError(
            f"{len(reached)} of {threads} threads of block {one.block}, the first is thread {where}, wait at the "
            f"barrier of line {line} of {name}, which the others do not reach"
        )
