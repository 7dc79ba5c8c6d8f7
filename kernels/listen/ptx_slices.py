"""Static backward slices in PTX: which loads make up the value that a store stores.

Followed are the values of registers, through arithmetic, selections and shuffles; not addresses, and not the conditions
of branches.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kernels.listen.log import Source
from kernels.listen.ptx import Function, Statement

_REGISTER = re.compile(r"%?[A-Za-z_$][\w$]*")
_NO_RESULT = (
    "st",
    "red",
    "bar",
    "barrier",
    "ret",
    "exit",
    "bra",
    "brx",
    "membar",
    "fence",
    "trap",
    "cp",
    "stmatrix",
)
_WARP_WIDE = ("shfl", "mma", "wmma", "ldmatrix", "movmatrix", "match", "vote", "redux")
_LOADS = ("ld", "ldu", "atom", "ldmatrix", "tex")

Register = tuple[int, str]  # the scope that declares it, and its name


@dataclass(frozen=True)
class _Definition:
    sources: tuple[Register, ...]
    load: int | None  # the site, of a load
    warp: bool


class Slices:
    """The slices of one function; `site_of` gives a statement's site, None for one that is no access."""

    def __init__(self, function: Function, site_of: Callable[[Statement], int | None]) -> None:
        self._locals = _declared_inside(function)
        self._stack = _Stack(function, self._registers)
        self._definitions: dict[Register, list[_Definition]] = {}
        for statement in function.statements:
            self._add(statement, site_of)

    def of(self, statement: Statement, operands: Sequence[str]) -> tuple[Source, ...]:
        """The loads that make up these operands of a statement."""
        found: dict[int, bool] = {}
        seen: set[tuple[Register, bool]] = set()
        waiting = [(register, False) for register in self._registers(operands, statement)]
        while waiting:
            register, warp = waiting.pop()
            if (register, warp) in seen:
                continue
            seen.add((register, warp))
            for definition in self._definitions.get(register, ()):
                if definition.load is not None:
                    found[definition.load] = found.get(definition.load, False) or warp or definition.warp
                else:
                    waiting += [(source, warp or definition.warp) for source in definition.sources]
        return tuple(Source(site, warp) for site, warp in sorted(found.items()))

    def _add(self, statement: Statement, site_of: Callable[[Statement], int | None]) -> None:
        root = statement.modifiers[0]
        wmma_load = statement.op.startswith("wmma.load")
        if (
            root in _NO_RESULT
            or statement.op.startswith("wmma.store")
            or not statement.operands
            or root.startswith(".")
        ):
            return
        if root == "call":
            return
        targets = self._registers(statement.operands[:1], statement)
        loads = root in _LOADS or wmma_load
        site = site_of(statement) if loads else None
        sources = () if loads else tuple(self._registers(statement.operands[1:], statement))
        if loads and (stored := self._stack.stored_where(statement)) is not None:
            site, sources = None, stored
        definition = _Definition(sources, site, root in _WARP_WIDE)
        for target in targets:
            self._definitions.setdefault(target, []).append(definition)

    def _registers(self, operands: Sequence[str], statement: Statement) -> list[Register]:
        found = []
        for operand in operands:
            for name in _REGISTER.findall(re.sub(r"\b0[fFdDxX][0-9a-fA-F]+", "", operand)):
                scope = next((s for s in reversed(statement.scope) if name in self._locals.get(s, ())), 0)
                if name.startswith("%") or scope:
                    found.append((scope, name))
        return found


class _Stack:
    """A thread's own memory in a function: variables that no HOLD shows are passed through like registers."""

    def __init__(
        self, function: Function, registers: Callable[[Sequence[str], Statement], list[Register]]
    ) -> None:
        self._registers = registers
        self._makers: dict[Register, list[Statement]] = {}
        self._held: set[int] = set()
        self._stored: dict[int, list[Register]] = {}
        arguments: dict[str, Statement] = {}
        for statement in function.statements:
            if statement.op.startswith("st.param"):
                arguments[re.sub(r"[\[\]+0 ]", "", statement.operands[0])] = statement
            elif statement.modifiers[0] == "call":
                if any("kim_hold" in operand for operand in statement.operands) and "param4" in arguments:
                    given = arguments["param4"]
                    self._held |= {
                        root for r in registers(given.operands[1:], given) if (root := self._root(r)) >= 0
                    }
                arguments = {}
            elif statement.operands and statement.modifiers[0] not in _NO_RESULT:
                for target in registers(statement.operands[:1], statement):
                    self._makers.setdefault(target, []).append(statement)
        for statement in function.statements:
            if statement.modifiers[0] == "st" and "local" in statement.modifiers:
                values = registers(statement.operands[1:], statement)
                self._stored.setdefault(self._variable(statement.operands[0], statement), []).extend(values)

    def stored_where(self, load: Statement) -> tuple[Register, ...] | None:
        """What is ever stored in the variable that a load reads; None if that is memory, or is held."""
        if "local" not in load.modifiers:
            return None
        variable = self._variable(load.operands[1], load)
        return None if variable < 0 or variable in self._held else tuple(self._stored.get(variable, ()))

    def _variable(self, address: str, statement: Statement) -> int:
        roots = [self._root(register) for register in self._registers([address], statement)]
        return max(roots, default=-1)

    def _root(self, register: Register, depth: int = 0) -> int:
        """Where in the stack frame the variable begins that a register points into; -1 if that is not known."""
        if depth > 20:
            return -1
        for maker in self._makers.get(register, ()):
            texts = maker.operands[1:]
            if any(text in ("%SP", "%SPL") for text in texts):
                number = texts[-1]
                return int(number) if number.lstrip("-").isdigit() else 0
            for source in self._registers(texts, maker):
                if source != register and (root := self._root(source, depth + 1)) >= 0:
                    return root
        return -1


def _declared_inside(function: Function) -> Mapping[int, set[str]]:
    """The registers that inner braces (of inline assembly) declare, by the number of the scope."""
    found: dict[int, set[str]] = {}
    for statement in function.statements:
        if statement.op.startswith(".reg") and statement.scope[-1]:
            names = _REGISTER.findall(" ".join(statement.operands).split(None, 1)[-1])
            text = " ".join((statement.op, *statement.operands))
            names = [name for name in _REGISTER.findall(text) if name not in ("reg",) and not _is_type(name)]
            found.setdefault(statement.scope[-1], set()).update(names)
    return found


def _is_type(name: str) -> bool:
    return re.fullmatch(r"(?:reg|pred|[busf]\d+(?:x2)?|bf16x?2?|align)", name) is not None
