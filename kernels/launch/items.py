"""What stands at the top of a source: functions, types, declarations, whatever their insides may be."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from kernels.launch.syntax import ATTRIBUTE, Parsed, blank, closing

TEMPLATE = re.compile(rb"\s*template\s*<(?:[^<>;{}]|<[^<>;{}]*>)*>")
_TYPE = re.compile(rb"\s*(?:typedef\s+)?(?:struct|class|union|enum)\b")
_DIRECTIVE = re.compile(rb"^[ \t]*#(?:\\\r?\n|[^\n])*", re.MULTILINE)
_OTHER_BRANCH = re.compile(
    rb"^[ \t]*#[ \t]*el(?:se|if)\b(?:(?!^[ \t]*#[ \t]*(?:if|endif)).)*^(?=[ \t]*#[ \t]*endif\b)",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Item:
    """A function with its body, a type, or another declaration. Offsets are bytes, `body` that of its ``{``, or `end`.

    `head` and `inside` are the code before the body and in it, without comments, strings and attributes with arguments.
    """

    kind: Literal["function", "type", "declaration"]
    start: int
    body: int
    end: int
    head: bytes
    inside: bytes

    @cached_property
    def name(self) -> str:
        """Of a function or type its name, of a declaration the first that it declares; empty if none is found."""
        head = TEMPLATE.sub(b" ", self.head, count=1)
        patterns = {
            "function": rb"(operator[^(]*|~?\w+)\s*(?:<[^(]*>)?\s*\(",
            "type": rb"\b(?:struct|class|union|enum(?:\s+class)?)\s+(\w+)",
            "declaration": rb"(\w+)\s*(?:<[^()]*>)?\s*(?:\(|\[|=|;|,|$)",
        }
        found = re.search(patterns[self.kind], head)
        return found[1].decode().strip() if found else ""

    @cached_property
    def names(self) -> frozenset[str]:
        """All identifiers in it, except those of a function's head."""
        text = self.inside if self.kind == "function" else self.head + self.inside
        return frozenset(word.decode() for word in re.findall(rb"[A-Za-z_]\w*", text))

    def says(self, *words: bytes) -> bool:
        """Whether its head has one of these words."""
        return re.search(rb"\b(?:%s)\b" % b"|".join(words), self.head) is not None


def items(parsed: Parsed) -> tuple[Item, ...]:
    """The items of a source, those in namespaces and in ``extern "C"`` too, in the order of the text."""
    plain = _DIRECTIVE.sub(lambda m: blank(m[0]), parsed.code)
    if plain.count(b"{") != plain.count(b"}"):  # both branches open what one bracket closes
        plain = _DIRECTIVE.sub(lambda m: blank(m[0]), _OTHER_BRANCH.sub(lambda m: blank(m[0]), parsed.code))
    code = bytearray(plain)
    for match in ATTRIBUTE.finditer(plain):
        if match["call"]:
            end = closing(plain, match.end())
            code[match.start() : end] = blank(plain[match.start() : end])
    return tuple(_items(bytes(code), 0, len(code)))


def reached(start: Item, functions: tuple[Item, ...]) -> tuple[Item, ...]:
    """A function and those of `functions` that it calls, directly or through others."""
    found, stack = [start], [start]
    while stack:
        names = stack.pop().names
        for function in functions:
            if function.name in names and function not in found:
                found.append(function)
                stack.append(function)
    return tuple(found)


def _items(code: bytes, start: int, end: int) -> Iterator[Item]:
    stop = re.compile(rb"[;{}(]")
    at = start
    while at < end:
        begun = re.compile(rb"\s*").match(code, at).end()  # type: ignore[union-attr]  # it matches always
        at = begun
        while (match := stop.search(code, at, end)) and match[0] == b"(":
            at = closing(code, match.start())
        if match is None:
            return
        head, here = code[begun : match.start()], match.start()
        if match[0] == b"}":  # a stray one
            at = here + 1
            continue
        if match[0] == b";":
            at = here + 1
            if head.strip():
                yield Item("declaration", begun, at, at, head, b"")
            continue
        last = min(closing(code, here), end)
        bare = TEMPLATE.sub(b"", head, count=1)
        if re.match(rb"\s*(?:inline\s+)?namespace\b|\s*extern\s*\Z", bare):
            yield from _items(code, here + 1, last - 1)
            at = last
            continue
        assigned = b"=" in re.sub(rb"\([^()]*\)|operator\W*", b"", bare)
        kind: Literal["function", "type", "declaration"] = (
            "type" if _TYPE.match(bare) and b"(" not in bare
            else "function" if b"(" in bare and not assigned
            else "declaration"
        )  # fmt: skip
        at = last
        if kind != "function":
            semicolon = code.find(b";", last, end)
            at = semicolon + 1 if semicolon >= 0 else end
        yield Item(kind, begun, here, at, head, code[here:at])
