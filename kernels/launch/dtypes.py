"""NumPy's names of CUDA C++ types: of a scalar, or of the element that a pointer points to."""

from __future__ import annotations

import re
from collections.abc import Mapping

_NAMES = {
    "float": "float32",
    "double": "float64",
    "bool": "bool",
    "char": "int8",
    "half": "float16",
    "__half": "float16",
    "nv_half": "float16",
    "__nv_bfloat16": "bfloat16",
    "nv_bfloat16": "bfloat16",
    "bfloat16": "bfloat16",
    "size_t": "uint64",
    "ptrdiff_t": "int64",
    "ssize_t": "int64",
    "intptr_t": "int64",
    "uintptr_t": "uint64",
    "uint": "uint32",
    "uchar": "uint8",
    "ushort": "uint16",
    "ulong": "uint64",
    **{f"{sign}int{bits}_t": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
# A vector is its elements.
_VECTORS = {
    "half2": "float16",
    "__half2": "float16",
    "nv_half2": "float16",
    "__nv_bfloat162": "bfloat16",
    "nv_bfloat162": "bfloat16",
    **{
        f"{name}{width}": element
        for name, element in {
            "float": "float32",
            "double": "float64",
            "char": "int8",
            "uchar": "uint8",
            "short": "int16",
            "ushort": "uint16",
            "int": "int32",
            "uint": "uint32",
            "long": "int64",
            "ulong": "uint64",
            "longlong": "int64",
            "ulonglong": "uint64",
        }.items()
        for width in (1, 2, 3, 4)
    },
}
_WORDS = {"unsigned", "signed", "int", "long", "short", "char"}
_LEFT_OUT = {
    "const",
    "volatile",
    "__restrict__",
    "__restrict",
    "restrict",
    "struct",
    "typename",
    "__grid_constant__",
    "register",
}


def dtype(written: str, known: Mapping[str, str]) -> str | None:
    """NumPy's name for a type as written; None for a struct, a ``void*`` and a pointer to pointers.

    `known` says what other names stand for: template arguments, aliases.
    """
    for _ in range(9):
        bare, indirections = _bare(written)
        base = bare.removeprefix("std::").removeprefix("::").removeprefix("cuda::std::")
        if base not in known:
            break
        written = known[base] + " " + "*" * indirections
    if indirections > 1:
        return None
    words = base.split()
    if words and set(words) <= _WORDS:
        return _integer(words)
    return _NAMES.get(base) or (_VECTORS.get(base) if indirections else None)


def aliases(text: str) -> dict[str, str]:
    """The names that a source gives to types: by ``using``, ``typedef`` or ``#define``."""
    found = {}
    for pattern in (
        r"\busing\s+(?P<name>\w+)\s*=\s*(?P<type>[\w:\s*]+);",
        r"\btypedef\s+(?P<type>[\w:\s*]+?)\s*\b(?P<name>\w+)\s*;",
        r"^[ \t]*#[ \t]*define[ \t]+(?P<name>\w+)[ \t]+(?P<type>[A-Za-z_][\w: \t]*\*?)[ \t]*\r?$",
    ):
        for match in re.finditer(pattern, text, re.MULTILINE):
            found[match["name"]] = match["type"].strip()
    return found


def _bare(written: str) -> tuple[str, int]:
    indirections = written.count("*") + written.count("[")
    words = re.sub(r"\[[^\]]*\]|[*&]", " ", written).split()
    return " ".join(word for word in words if word not in _LEFT_OUT), indirections


def _integer(words: list[str]) -> str:
    sign = "u" if "unsigned" in words else ""
    bits = 8 if "char" in words else 16 if "short" in words else 64 if "long" in words else 32
    return f"{sign}int{bits}"
