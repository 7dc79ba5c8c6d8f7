"""The functions of CUDA that read, store or pass on values in their own way."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Intrinsic:
    """What a call does with its arguments, each by its number.

    It reads where `reads` points to, and stores where `stores` does the value of `value`, or without one what it read.
    What does not store gives back `value`; `via_warp` if that is the value of another lane.
    """

    reads: int | None = None
    stores: int | None = None
    value: int | None = None
    via_warp: bool = False


_OF_A_GROUP = re.compile(r"shfl\w*|ballot|any|all|match_\w+")  # methods of cooperative_groups
# An atomic's read of its own place is no read beside the act, so it is not in what it stores.
_KINDS = (
    (re.compile(r"__ld(?:g|ca|cg|cs|lu|cv)|__builtin_nontemporal_load"), Intrinsic(reads=0)),
    (re.compile(r"__st(?:wb|cg|cs|wt)"), Intrinsic(stores=0, value=1)),
    (re.compile(r"__builtin_nontemporal_store"), Intrinsic(stores=1, value=0)),
    (re.compile(r"atomicCAS\w*"), Intrinsic(reads=0, stores=0, value=2)),
    (re.compile(r"atomic[A-Z]\w*"), Intrinsic(reads=0, stores=0, value=1)),
    (re.compile(r"__pipeline_memcpy_async|(?:__builtin_)?memcpy"), Intrinsic(reads=1, stores=0)),
    (re.compile(r"__(?:shfl\w*|reduce_\w+|ballot|any|all|match_\w+)_sync"), Intrinsic(value=1, via_warp=True)),
)  # fmt: skip


def intrinsic(name: str, method: bool, arguments: int) -> Intrinsic | None:
    """What a call of `name`, with its namespaces if it is no method, does with so many arguments; None if not known."""
    spaces, _, own = name.rpartition("::")
    found = None
    if method:
        found = Intrinsic(value=0, via_warp=True) if _OF_A_GROUP.fullmatch(own) else None
    elif own == "memcpy_async":
        found = _copy(spaces.rpartition("::")[2] == "cuda", arguments)
    elif own == "reduce" and arguments == 3:  # cooperative_groups::reduce(group, value, operation)
        found = Intrinsic(value=1, via_warp=True)
    else:
        found = next((kind for pattern, kind in _KINDS if pattern.fullmatch(own)), None)
    if found is None:
        return None
    needed = max(n for n in (found.reads, found.stores, found.value) if n is not None)
    return found if needed < arguments else None


def _copy(of_cuda: bool, arguments: int) -> Intrinsic:
    if of_cuda and arguments < 5:  # (to, from, bytes, barrier)
        return Intrinsic(reads=1, stores=0)
    if not of_cuda and arguments == 5:  # (group, to, layout, from, layout)
        return Intrinsic(reads=3, stores=1)
    return Intrinsic(reads=2, stores=1)  # (group, to, from, …)
