"""What a CPU cannot do of CUDA: found in a kernel and in the functions it calls, and said with the line."""

from __future__ import annotations

import re

from kernels.errors import BackendError
from kernels.launch.functions import Function, Source
from kernels.launch.items import Item, items, reached
from kernels.launch.syntax import Parsed, parse

_REASONS = (
    (rb"\b(?:asm|__asm__|__asm)\b", "inline PTX (asm)"),
    (rb"\b(?:wmma|nvcuda)\s*::|\b__?(?:w?mma|wgmma)_\w+\s*\(", "tensor-core intrinsics (wmma)"),
    (
        rb"\bwgmma\w*|\btcgen05\w*|\bCUtensorMap\b|\bcp_async_bulk\w*|\bcuda\s*::\s*ptx\s*::",
        "instructions for TMA or wgmma",
    ),
    (
        rb"\bthis_grid\s*\(|\bgrid_group\b|\bmulti_grid_group\b",
        "a barrier of the whole grid (cooperative groups)",
    ),
    (rb"\bthis_cluster\s*\(|\bcluster_group\b|\b__cluster_dims__\b", "clusters of blocks"),
    (rb"<<<", "a launch of another kernel (dynamic parallelism)"),
)


def refuse_on_cpu(source: Source, function: Function) -> None:
    """BackendError, with the line, if a kernel or what it calls needs what only a GPU has; else nothing."""
    parsed = parse(source.text)
    functions = _device_functions(parsed)
    own = [item for item in functions if item.name == function.name.rpartition("::")[2]]
    for start in own:
        for item in reached(start, functions):
            if (found := _reason(item)) is not None:
                offset, words = found
                raise BackendError(
                    f"{source.name}, line {parsed.line(offset)}: {function.name} needs {words}, which the CPU does not "
                    "run: record it on a machine with a GPU"
                )


def refused(parsed: Parsed) -> list[Item]:
    """The items that cannot stand in a text for the CPU: such functions, their callers, and such declarations."""
    functions = _device_functions(parsed)
    bad = [item for item in functions if any(_reason(other) for other in reached(item, functions))]
    names = {item.name for item in bad} - {item.name for item in functions if item not in bad}
    others = [item for item in items(parsed) if item.kind != "function"]
    return bad + [
        item
        for item in others
        if _reason(item)
        or item.name in names
        or re.search(rb"\bnamespace\s+(?:\w+\s*=\s*)?nvcuda\b", item.head)
    ]


def _device_functions(parsed: Parsed) -> tuple[Item, ...]:
    words = (*parsed.words(b"__global__"), *parsed.words(b"__device__"))
    return tuple(item for item in items(parsed) if item.kind == "function" and item.says(*words))


def _reason(item: Item) -> tuple[int, str] | None:
    """Where an item first needs what a CPU has not, and what that is."""
    code = item.head + item.inside
    for pattern, words in _REASONS:
        if match := re.search(pattern, code):
            return item.start + match.start(), words
    return None
