"""What in a source is for the host alone: its functions, and what no device code can read or needs."""

from __future__ import annotations

import re

from kernels.launch.items import TEMPLATE, Item, items
from kernels.launch.syntax import Parsed, split

# Names that no compiler for the device knows.
_WORDS = re.compile(
    rb"\bstd\s*::\s*(?!u?int|size_t|ptrdiff_t|numeric_limits|integral_constant|bool_constant|is_|enable_if|conditional"
    rb"|remove_|decay|true_type|false_type|forward|move)"
    rb"|\b(?:cuda[A-Z]\w*|cu[A-Z]\w*|cublas\w*|cudnn\w*|cusparse\w*|cufft[A-Z]\w*|nvtx\w*|nccl\w*|FILE|malloc|getenv)\b"
    rb"|\b(?:torch|at|c10|py|thrust|pybind11)\s*::|\busing\s+namespace\s+(?:std|torch|at|thrust)\b"
)
_DEVICE = (b"__global__", b"__device__", b"__constant__", b"__shared__", b"__managed__")
_NO_VARIABLE = re.compile(
    rb"\s*(?:using|typedef|namespace|static_assert|friend|(?:extern\s+)?template\s+(?:struct|class|union)"
    rb"|(?:struct|class|union|enum)\s+\w+\s*\Z)(?!\w)"
)


def host_items(parsed: Parsed, whole: bool = True) -> list[Item]:
    """The items for the host alone, of a source that is `whole` or a header of one.

    Functions without ``__device__``, ``__global__`` or ``constexpr``, their prototypes and instances; variables that
    are not constant; what is written in the words of the standard library or of CUDA's runtime. Of a whole source the
    types and constants too that nothing for the device uses.
    """
    found = items(parsed)
    words = [word for name in _DEVICE for word in parsed.words(name)]
    needed = {item for item in found if item.says(*words)}
    needed |= {i for i in found if i.kind == "function" and i.says(b"constexpr", b"consteval")}
    macros = dict(
        re.findall(rb"^[ \t]*#[ \t]*define[ \t]+(\w+)((?:\\\r?\n|[^\n])*)", parsed.raw, re.MULTILINE)
    )
    used = {word.decode() for body in macros.values() for word in re.findall(rb"[A-Za-z_]\w*", body)}
    while True:
        for item in needed:
            used |= item.names | {word.decode() for word in re.findall(rb"[A-Za-z_]\w*", item.head)}
        more = {
            i for i in found if i not in needed and i.kind != "function" and _serves(i, used, macros, whole)
        }
        if not more:
            return [item for item in found if item not in needed]
        needed |= more


def _serves(item: Item, used: set[str], macros: dict[bytes, bytes], whole: bool) -> bool:
    """Whether the device may need a type or declaration, when it uses these names."""
    host = _WORDS.search(item.head + item.inside) is not None
    if item.kind == "type":
        enum = re.match(rb"\s*(?:typedef\s+)?enum\b", item.head) is not None
        unnamed = not item.name or not whole or (enum and bool(item.names & used))
        return item.name in used or (unnamed and not host)
    bare = TEMPLATE.sub(b" ", item.head, count=1)
    if _NO_VARIABLE.match(bare):
        return not host
    if b"(" in bare.partition(b"=")[0]:  # a prototype, an instance, or a macro's call such as BENCHMARK(x);
        return re.match(rb"\s*(\w+)\s*\(", bare) is not None and item.name.encode() in macros
    return item.says(b"const", b"constexpr") and (not whole or bool(_variables(item) & used))


def _variables(item: Item) -> set[str]:
    parts = split(item.head.decode())
    found = (re.search(r"(\w+)\s*(?:\[.*)?\s*\Z", part.partition("=")[0], re.DOTALL) for part in parts)
    return {match[1] for match in found if match}
