"""The texts that compilers get of a source: what is for the device, with every ``__shared__`` variable made known."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kernels.launch.functions import Source
from kernels.launch.host import host_items
from kernels.launch.items import Item, items, reached
from kernels.launch.refusals import refused
from kernels.launch.syntax import Parsed, blank, closing, parse, split

_INCLUDE = re.compile(rb"^[ \t]*#[ \t]*include[ \t]*(?:<([^<>\n]+)>|\"([^\"\n]+)\")", re.MULTILINE)
_DEVICE_HEADERS = re.compile(
    r"(?:kernels_in_motion|mma|cooperative_groups(?:/.*)?|cuda_(?:fp\d+|bf16|pipeline\w*|awbarrier\w*)"
    r"|math_constants|helper_math|curand_\w+|sm_\d+_\w+|device_atomic_functions)\.h(?:pp)?"
    r"|(?:cuda|cub|cute|cutlass)/.*|.*\.cuh"
)
_HOST_HEADERS = re.compile(
    r"(?:cuda|cuda_runtime\w*|device_launch_parameters|cublas\w*|cudnn\w*|cufft\w*|curand|cusparse\w*|nvml|nvToolsExt|omp"
    r"|helper_(?!math)\w+|device_functions|vector_types|math|std\w+|string|time|float|limits|assert|unistd)\.h"
)
# Directives stay in what is blanked: their branches may end outside it.
_DIRECTIVE = re.compile(
    rb"^[ \t]*#[ \t]*(?:if|ifdef|ifndef|elif|else|endif|define|undef)\b(?:\\\r?\n|[^\n])*", re.MULTILINE
)
_DEFINE = re.compile(rb"^[ \t]*#[ \t]*define\b(?:\\\r?\n|[^\n])*", re.MULTILINE)


@dataclass(frozen=True)
class Shared:
    """A declaration of ``__shared__`` variables. `inside` is whether it stands in a function."""

    start: int
    end: int
    type: str
    declarators: tuple[tuple[str, str], ...]  # name, extents as written
    dynamic: bool
    inside: bool


Edit = tuple[int, int, bytes]


def device_text(source: Source) -> str:
    """The source without what is only for the host; what is left stands at its lines and columns."""
    parsed = parse(source.text)
    return _edited(parsed, _host_edits(source, parsed))


def listening_text(source: Source) -> str:
    """`device_text` with ``KIM_SHARED(x);`` behind each declaration of a ``__shared__`` variable, on its line.

    For ``extern __shared__ T x[];`` it is ``KIM_SHARED_DYNAMIC(x);``. A variable outside functions is made known where
    the body of each kernel begins that uses it. Lines keep their numbers.
    """
    parsed = parse(source.text)
    edits = _host_edits(source, parsed)
    for shared in _shared(parsed):
        edits += _known(parsed, shared, _calls(shared))
    return _edited(parsed, edits)


def cpu_text(source: Source) -> str:
    """`listening_text` as a C++ compiler takes it, without the functions that `refuse_on_cpu` refuses.

    Dynamic shared memory is a pointer, ``T* x = (T*)kim::dynamic_shared();``, and alignment is said as GCC says it.
    """
    parsed = parse(source.text)
    edits = _host_edits(source, parsed, refuse=True)
    for shared in _shared(parsed):
        text = parsed.code[shared.start : shared.end]
        if not shared.dynamic:
            text = re.sub(
                rb"\b(?:__align__|alignas)\s*(\([^;]*?\))(?=\s)", rb"__attribute__((aligned\1))", text
            )
            text = re.sub(rb"\bstatic\b", b" ", text)  # which __shared__ is here
            edits.append((shared.start, shared.end, text))
            edits += _known(parsed, shared, _calls(shared))
            continue
        pointers = "".join(_pointer(shared.type, *declarator) for declarator in shared.declarators).encode()
        lines = b"\n" * text.count(b"\n")
        edits.append((shared.start, shared.end, (pointers.strip() if shared.inside else b"") + lines))
        edits += _known(parsed, shared, _calls(shared), b"" if shared.inside else pointers)
    return _edited(parsed, edits)


def shared_names(source: Source) -> frozenset[str]:
    """The ``__shared__`` variables of functions, in the source's own headers too."""
    names: set[str] = set()
    for one in (source, *own_headers(source).values()):
        for shared in _shared(parse(one.text)):
            names.update(name for name, _ in shared.declarators if shared.inside)
    return frozenset(names)


def knows_all_shared(source: Source) -> bool:
    """Whether there is no shared memory but what `listening_text` makes known: none in a #define, nor in inline PTX."""
    for one in (source, *own_headers(source).values()):
        parsed = parse(one.text)
        for define in _DEFINE.finditer(parsed.raw):
            name = re.match(rb"[ \t]*#[ \t]*define[ \t]+(\w+)", define[0])
            alias = name is not None and name[1] in parsed.words(b"__shared__")
            if b"__shared__" in define[0] and not alias:
                return False
        if re.search(rb"\basm\b[^;]*\.shared\b[^;]*\.align\b", parsed.raw):
            return False
    return True


def is_header(source: Source) -> bool:
    """Whether a source is one that others include, by its name."""
    return source.name.rpartition(".")[2] in ("h", "hpp", "hxx", "hh", "cuh", "inl")


def own_headers(source: Source) -> dict[str, Source]:
    """The files in the source's folder that it includes by ``"name"``, and those that they include, by that name."""
    found: dict[str, Source] = {}
    stack = [source]
    while stack:
        above = stack.pop()
        for match in _INCLUDE.finditer(above.text.encode()):
            name = (match[2] or b"").decode()
            if not name or name in found:
                continue
            folders = [folder for folder in (above.folder, source.folder) if folder is not None]
            if path := next((folder / name for folder in folders if (folder / name).is_file()), None):
                text = path.read_text(encoding="utf-8-sig", errors="replace")
                found[name] = Source(name, text, path.parent, (), (), ())
                stack.append(found[name])
    return found


def _pointer(kind: str, name: str, extents: str) -> str:
    memory = "kim::dynamic_shared()"
    if not extents:
        return f" {kind}& {name} = *({kind}*){memory};"
    if rest := extents[extents.index("]") + 1 :].strip():
        return f" {kind} (*{name}){rest} = ({kind} (*){rest}){memory};"
    return f" {kind}* {name} = ({kind}*){memory};"


def _calls(shared: Shared) -> bytes:
    macro = "KIM_SHARED_DYNAMIC" if shared.dynamic else "KIM_SHARED"
    return "".join(f" {macro}({name});" for name, _ in shared.declarators).encode()


def _known(parsed: Parsed, shared: Shared, calls: bytes, declared: bytes = b"") -> list[Edit]:
    """Put calls behind a declaration; of one outside functions, where the kernels that use it begin.

    `declared` goes before them, and where other functions that use it begin.
    """
    if shared.inside:
        return [(shared.end, shared.end, declared + calls)]
    functions = tuple(item for item in items(parsed) if item.kind == "function" and item.start > shared.start)
    names = {name for name, _ in shared.declarators}
    edits = []
    for item in functions:
        if item.says(*parsed.words(b"__global__")):
            if any(names & other.names for other in reached(item, functions)):
                edits.append((item.body + 1, item.body + 1, declared + calls))
        elif declared and names & item.names:
            edits.append((item.body + 1, item.body + 1, declared))
    return edits


def _edited(parsed: Parsed, edits: Iterable[Edit]) -> str:
    """The source with parts replaced; what lies in a part that another edit has blanked is gone with it."""
    text, at = [], 0
    # At one place the longer edit comes first, and insertions keep their order.
    for start, end, new in sorted(edits, key=lambda edit: (edit[0], -edit[1])):
        if start < at:
            continue
        text += [parsed.raw[at:start], new]
        at = end
    return b"".join([*text, parsed.raw[at:]]).decode()


def _host_edits(source: Source, parsed: Parsed, refuse: bool = False) -> list[Edit]:
    gone = [match.span() for match in _INCLUDE.finditer(parsed.raw) if not _for_device(source, match)]
    gone += [
        span
        for item in host_items(parsed, not is_header(source))
        for span in _without_directives(parsed, item)
    ]
    if refuse:
        gone += [span for item in refused(parsed) for span in _without_directives(parsed, item)]
        gone += [match.span() for match in _INCLUDE.finditer(parsed.raw) if match[1] == b"mma.h"]
    return [(start, end, blank(parsed.raw[start:end])) for start, end in gone]


def _without_directives(parsed: Parsed, item: Item) -> Iterator[tuple[int, int]]:
    at = item.start
    for match in _DIRECTIVE.finditer(parsed.raw, item.start, item.end):
        yield at, match.start()
        at = match.end()
    yield at, item.end


def _for_device(source: Source, include: re.Match[bytes]) -> bool:
    name = (include[1] or include[2]).decode()
    if _DEVICE_HEADERS.fullmatch(name):
        return True
    if source.folder is not None and (source.folder / name).is_file():
        return True
    return include[2] is not None and not _HOST_HEADERS.fullmatch(name)


def _shared(parsed: Parsed) -> list[Shared]:
    found: list[Shared] = []
    bodies = [(item.body, item.end) for item in items(parsed) if item.kind != "declaration"]
    word = re.compile(rb"\b(?:%s)\b" % b"|".join(parsed.words(b"__shared__")))
    for match in word.finditer(parsed.code):
        code = parsed.code
        start = max(code.rfind(mark, 0, match.start()) for mark in (b";", b"{", b"}")) + 1
        start = re.compile(rb"(?:\s|#[^\n]*\n|case\b[^:;]*:(?!:)|\w+\s*:(?!:))*").match(code, start).end()  # type: ignore[union-attr]
        if found and start < found[-1].end:
            continue
        end = match.end()
        while (stop := re.compile(rb"[;{(\[]").search(code, end)) and stop[0] != b";":
            end = closing(code, stop.start())
        if stop is None:
            continue
        statement = code[start : stop.start()].decode()
        statement = re.sub(
            r"\b(?:__align__|alignas|__attribute__)\s*\((?:[^()]|\([^()]*\))*\)", " ", statement
        )
        kind, declarators = "", []
        for number, part in enumerate(split(statement)):
            part = re.sub(r"\{.*\}", " ", part.partition("=")[0], flags=re.DOTALL)
            if named := re.search(r"(\w+)\s*((?:\[.*\])?)\s*\Z", part, re.DOTALL):
                declarators.append((named[1], " ".join(named[2].split())))
                if number == 0:
                    kind = part[: named.start()]
        words = "|".join(word.decode() for word in parsed.words(b"__shared__"))
        kind = " ".join(re.sub(rf"\b(?:extern|static|{words})\b", " ", kind).split())
        found.append(
            Shared(
                start=start,
                end=stop.end(),
                type=kind,
                declarators=tuple(declarators),
                dynamic=bool(re.search(r"\bextern\b", statement)),
                inside=any(body < match.start() < last for body, last in bodies),
            )
        )
    return found
