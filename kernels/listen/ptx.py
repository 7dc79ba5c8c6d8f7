"""PTX taken apart into statements, each with the line of the user's source that it came from."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_FUNCTION = re.compile(r"^(?P<head>[^\n;{}]*?\.(?:entry|func)\b(?P<rest>[^;{]*))\{", re.MULTILINE)
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"((?:[^"\\]|\\.)*)"', re.MULTILINE)
_LOC = re.compile(r"\.loc\s+(\d+)\s+(\d+)\s+(\d+)(?:.*?inlined_at\s+(\d+)\s+(\d+)\s+(\d+))?")
_LABEL = re.compile(r"[\w$%]+\s*:(?!:)")
_GUARDED = re.compile(r"(@!?%?[\w$]+)\s+(.*)", re.DOTALL)
_BLANK = re.compile(r"(?:\s|//[^\n]*|/\*.*?\*/)+", re.DOTALL)


@dataclass(frozen=True)
class Statement:
    """One instruction of a function: where it stands in its body, and its parts.

    `operands` are split at top-level commas; `scope` numbers the braces around it, whose registers are their own.
    """

    start: int
    end: int  # past its semicolon
    guard: str
    op: str
    operands: tuple[str, ...]
    line: int
    scope: tuple[int, ...]

    @property
    def modifiers(self) -> tuple[str, ...]:
        """The parts of the opcode, e.g. ``ld``, ``global``, ``v4``, ``f32``."""
        return tuple(self.op.split("."))


@dataclass(frozen=True)
class Function:
    """A function of a PTX module: the range of its body between the braces, and whether a kernel."""

    name: str
    entry: bool
    start: int
    end: int
    statements: tuple[Statement, ...]


@dataclass(frozen=True)
class GlobalVariable:
    """A variable of the module in global memory, and its bytes (0 if it is declared elsewhere)."""

    name: str
    bytes: int


def functions(ptx: str, user_file: str) -> tuple[Function, ...]:
    """Every function of a module; lines are those of the file called `user_file`, 0 where there is none."""
    files = {int(number): name for number, name in _FILE.findall(ptx)}
    user = {number for number, name in files.items() if name == user_file or name.endswith("/" + user_file)}
    lines = _Lines(user)
    found = []
    for match in _FUNCTION.finditer(ptx):
        start = match.end()
        end = _closing(ptx, start)
        head = match["head"]
        rest = re.sub(r"^\s*\([^)]*\)", "", match["rest"])  # a function's return value
        name = re.match(r"\s*([\w$.]+)", rest)
        if name:
            entry = re.search(r"\.entry\b", head) is not None
            found.append(Function(name[1], entry, start, end, tuple(_statements(ptx, start, end, lines))))
    return tuple(found)


def global_variables(ptx: str) -> tuple[GlobalVariable, ...]:
    """The module's variables in global memory, in order."""
    sizes = {"8": 1, "16": 2, "32": 4, "64": 8}
    found = []
    for match in re.finditer(r"\.global\s+(?:\.align\s+\d+\s+)?\.[busf](\d+)\s+([\w$]+)(?:\[(\d*)\])?", ptx):
        width, name, count = match.groups()
        found.append(
            GlobalVariable(name, sizes.get(width, 16) * (int(count or 0) if count is not None else 1))
        )
    return tuple(found)


class _Lines:
    """Follows .loc directives, through what was inlined, to the line of the user's file."""

    def __init__(self, user: set[int]) -> None:
        self._user = user
        self._inlined: dict[tuple[int, int, int], tuple[int, int, int]] = {}
        self.line = 0

    def at(self, directive: str) -> None:
        match = _LOC.match(directive)
        if match is None:
            return
        file, line, column, *outer = (int(number) if number else 0 for number in match.groups())
        place = (file, line, column)
        if outer[0]:
            self._inlined[place] = (outer[0], outer[1], outer[2])
        for _ in range(50):
            if place[0] in self._user:
                self.line = place[1]
                return
            if place not in self._inlined:
                return
            place = self._inlined[place]


def _closing(text: str, at: int) -> int:
    depth = 1
    for match in re.finditer(r"[{}]|//[^\n]*|\"[^\"\n]*\"", text[at:]):
        depth += {"{": 1, "}": -1}.get(match[0], 0)
        if not depth:
            return at + match.start()
    return len(text)


def _statements(text: str, at: int, end: int, lines: _Lines) -> Iterator[Statement]:
    scopes = [0]
    count = 0
    while at < end:
        blank = _BLANK.match(text, at, end)
        if blank:
            at = blank.end()
            continue
        if text[at] in "{}":
            if text[at] == "{":
                count += 1
                scopes.append(count)
            elif len(scopes) > 1:
                scopes.pop()
            at += 1
            continue
        if text.startswith((".loc", ".file"), at):
            stop = text.find("\n", at, end)
            stop = end if stop < 0 else stop
            lines.at(text[at:stop])
            at = stop
            continue
        label = _LABEL.match(text, at, end)
        if label:
            at = label.end()
            continue
        stop = text.find(";", at, end)
        stop = end if stop < 0 else stop
        raw = re.sub(r"//[^\n]*", "", text[at:stop]).strip()
        yield _parsed(raw, at, stop + 1, lines.line, tuple(scopes))
        at = stop + 1


def _parsed(raw: str, start: int, end: int, line: int, scope: tuple[int, ...]) -> Statement:
    guarded = _GUARDED.match(raw)
    guard, raw = (guarded[1], guarded[2]) if guarded else ("", raw)
    op, _, rest = raw.partition(" ") if " " in raw.split("\t")[0] else raw.partition("\t")
    return Statement(start, end, guard, op.strip(), tuple(_split(rest)), line, scope)


def _split(text: str) -> list[str]:
    parts, depth, begun = [], 0, 0
    for at, character in enumerate(text):
        if character in "{[(":
            depth += 1
        elif character in "}])":
            depth -= 1
        elif character == "," and not depth:
            parts.append(text[begun:at].strip())
            begun = at + 1
    last = text[begun:].strip()
    return [*parts, last] if last else parts
