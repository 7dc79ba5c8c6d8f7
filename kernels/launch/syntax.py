"""CUDA C++ as a tree: tree-sitter's parser over a text whose attributes it does not know are blanked in place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import tree_sitter_cuda
from tree_sitter import Language, Node, Parser

_COMMENT_OR_STRING = re.compile(
    rb"(?P<digits>(?<=[0-9a-fA-F])'(?=[0-9a-fA-F]))"  # 1'000 begins no character
    rb"|//(?:\\\r?\n|[^\n])*|/\*.*?(?:\*/|\Z)"
    rb"|R\"(?P<mark>[^\s()\\]{0,16})\(.*?\)(?P=mark)\""
    rb"|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'",
    re.DOTALL,
)
_DEFINE = re.compile(rb"^[ \t]*#[ \t]*define\b(?:\\\r?\n|[^\n])*", re.MULTILINE)
_DIRECTIVE = re.compile(
    rb"^[ \t]*#[ \t]*pragma\b(?:\\\r?\n|[^\n])*|\b_Pragma[ \t]*\([^()\n]*\)", re.MULTILINE
)
ATTRIBUTE = re.compile(
    rb"\b(?:__restrict__|__restrict|__forceinline__|__noinline__|__inline__|__grid_constant__|__maxnreg__)\b"
    rb"|\b(?P<call>__align__|alignas|__launch_bounds__|__cluster_dims__|__block_size__|__attribute__|SNAPSHOT)\s*(?=\()"
)
# A name that a #define gives to qualifiers: KERNEL for extern "C" __global__
_QUALIFIER = re.compile(
    rb"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+"
    rb"([^\n{};]*\b__(?:global|device|host|shared|forceinline|noinline)__[^\n{};]*)$",
    re.MULTILINE,
)
# float (&Q)[Br][d] = …, which the grammar takes for a call of float
_ARRAY_REFERENCE = re.compile(
    rb"(?<=[\w>*])(?P<space>\s*)\(\s*(?P<sign>[&*])\s*(?:const\s+)?(?P<name>\w+)\s*\)(?P<extents>(?:\s*\[[^\[\]]*\])+)"
    rb"(?=\s*[=;,)])"
)
_NO_TYPE = (b"return", b"if", b"while", b"else", b"do", b"case", b"sizeof", b"for", b"switch")


@dataclass(frozen=True)
class Parsed:
    """A source and its tree. `raw` is its bytes; `code` the same with comments, strings and #defines blanked."""

    raw: bytes
    code: bytes
    root: Node
    qualifiers: tuple[
        tuple[bytes, bytes], ...
    ]  # the names of macros that stand for qualifiers, and for which

    def words(self, qualifier: bytes) -> tuple[bytes, ...]:
        """A qualifier such as ``__global__``, and the names that the source gives to it."""
        return (qualifier, *(name for name, meaning in self.qualifiers if qualifier in meaning))

    def text(self, node: Node) -> str:
        """The source of a node."""
        return self.raw[node.start_byte : node.end_byte].decode()

    def line(self, offset: int) -> int:
        """The line, from 1, of a byte."""
        return self.raw.count(b"\n", 0, offset) + 1


def blank(text: bytes) -> bytes:
    """As many spaces, with the ends of lines where they were."""
    return re.sub(rb"[^\r\n]", b" ", text)


@lru_cache(maxsize=16)
def parse(text: str) -> Parsed:
    """The tree of a source; parts that are no C++ are ERROR nodes in it. Byte offsets are those of `text` in UTF-8."""
    raw = text.encode()
    bare = _COMMENT_OR_STRING.sub(lambda m: m[0] if m["digits"] else blank(m[0]), raw)
    code = _DEFINE.sub(lambda m: blank(m[0]), bare)
    qualifiers = tuple((m[1], m[2]) for m in _QUALIFIER.finditer(bare))
    readable = bytearray(raw)

    def hide(start: int, end: int) -> None:
        readable[start:end] = blank(raw[start:end])

    for match in _DIRECTIVE.finditer(bare):
        hide(match.start(), match.end())
    for match in ATTRIBUTE.finditer(code):
        hide(match.start(), closing(code, match.end()) if match["call"] else match.end())
    for word, _ in qualifiers:
        for match in re.finditer(rb"\b%s\b" % word, code):
            hide(match.start(), match.end())
    for match in _ARRAY_REFERENCE.finditer(code):
        before = re.search(rb"(\w+|[>*])\Z", code[max(0, match.start() - 64) : match.start()])
        if before and before[1] not in _NO_TYPE and (match["space"] or before[1] != b"*"):
            hide(match.start(), match.end())
            start, end = match.span("name")
            readable[start:end] = match["name"]
            sign = match.start("sign")
            readable[sign : sign + 1] = match["sign"]
    tree = Parser(Language(tree_sitter_cuda.language())).parse(bytes(readable))
    return Parsed(raw, code, tree.root_node, qualifiers)


def closing(code: bytes, start: int) -> int:
    """The offset behind the bracket that closes the one at `start`; the end of the text if none does."""
    pairs = {b"(": b")", b"{": b"}", b"[": b"]"}
    opening = code[start : start + 1]
    depth = 0
    for match in re.finditer(rb"[%s%s]" % (re.escape(opening), re.escape(pairs[opening])), code[start:]):
        depth += 1 if match[0] == opening else -1
        if depth == 0:
            return start + match.end()
    return len(code)


def split(text: str, separator: str = ",") -> list[str]:
    """`text` cut at the separators that stand in no bracket, each part stripped; nothing of an empty text."""
    parts, depth, angles, begun = [], 0, 0, 0
    for place, letter in enumerate(text):
        if letter in "([{":
            depth += 1
        elif letter in ")]}":
            depth -= 1
        elif depth == 0 and letter == "<":
            angles += 1
        elif depth == 0 and letter == ">":
            angles = max(0, angles - 1)
        elif depth == 0 and angles == 0 and letter == separator:
            parts.append(text[begun:place].strip())
            begun = place + 1
    return [*parts, text[begun:].strip()] if text.strip() else []


def nodes(node: Node, *kinds: str) -> Iterator[Node]:
    """All nodes of these kinds under a node, itself among them, in the order of the text."""
    stack = [node]
    while stack:
        node = stack.pop()
        if node.type in kinds:
            yield node
        stack += reversed(node.children)
