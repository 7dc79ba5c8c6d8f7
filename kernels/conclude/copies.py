"""Asynchronous copies: the rows by which they arrived in SRAM, and the reads of HBM that they began with."""

from __future__ import annotations

import numpy as np

from kernels.conclude.keys import Array, Integers, joined


def copies(rows: Array, blocks: Integers, in_hbm: Array, in_sram: Array) -> tuple[Integers, Integers]:
    """Where in `rows` (of ACCESS) copies arrive, ascending, and for each such cell where the first read of it stands.

    The write of a copy has the request of its read, which nothing else has in common. `blocks` numbers the block of
    each row, `in_hbm` and `in_sram` say of each which memory it is in. A copy with no read (of zeros) is none here.
    """
    none = np.zeros(0, np.int64)
    reads = np.flatnonzero(in_hbm & (rows["write"] == 0))
    writes = np.flatnonzero(in_sram & (rows["write"] == 1))
    if not len(reads) or not len(writes):
        return none, none
    request = rows["request"].astype(np.int64)
    shift = blocks * (int(request.max()) + 1)
    asked = np.zeros(int(shift.max()) + int(request.max()) + 1, np.bool_)
    asked[(shift + request)[reads]] = True
    writes = writes[asked[(shift + request)[writes]]]
    if not len(writes):
        return none, none
    both = np.concatenate((reads, writes))
    key = joined(blocks[both], rows["request"][both], rows["thread"][both])
    keys, first = np.unique(key[: len(reads)], return_index=True)
    at = np.minimum(np.searchsorted(keys, key[len(reads) :]), len(keys) - 1)
    begun = reads[first[at]]
    found = (keys[at] == key[len(reads) :]) & (begun < writes)
    return writes[found], begun[found]
