"""Where the places that expressions name lie: in memory that a trace shows, or in a variable of a thread."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tree_sitter import Node

from kernels.launch.scopes import Callable, Scopes, Variable, begins_with, inside
from kernels.launch.syntax import Parsed

_STATEMENTS = {
    "assignment_expression",
    "init_declarator",
    "return_statement",
    "expression_statement",
    "call_expression",
    "update_expression",
}


@dataclass(frozen=True)
class Memory:
    """A place in memory: in the array or held variable of this name, or (None) in one that is not known."""

    name: str | None


class Places:
    """The places of one source. `bound` is what parameters point or refer to in the call that is walked through."""

    def __init__(self, parsed: Parsed, found: Scopes) -> None:
        self.parsed = parsed
        self.variables = found.variables
        self.bound: dict[Variable, Variable | Memory] = {}
        self.by_name: dict[str, list[Callable]] = {}
        for one in found.callables:
            self.by_name.setdefault(one.name, []).append(one)
        self._lines: dict[tuple[int, int], frozenset[int]] = {}

    def variable(self, node: Node) -> Variable | None:
        """The variable that an identifier means."""
        return self.variables.get(node.start_byte) if node.type == "identifier" else None

    def locate(self, node: Node) -> Variable | Memory:
        """The variable of the thread that a place lies in; else the memory. Of an address, where it points to."""
        if node.type == "identifier":
            variable = self.variable(node)
            return self.home(variable) if variable is not None else Memory(None)
        argument = node.child_by_field_name("argument")
        if (
            node.type == "subscript_expression"
            and argument is not None
            and argument.type == "field_expression"
        ):
            where = self.locate(argument)
            parameter = (
                isinstance(where, Variable) and where.home in ("kernel", "helper") and where.form == "value"
            )
            return Memory(None) if parameter else where  # a pointer in a struct that was passed
        inner = inside(node) or self.macro(node)
        if inner is not None:
            return self.locate(inner)
        if node.type == "binary_expression":
            for side in node.named_children:
                base = begins_with(self.variables, side)
                if base is not None and base.form != "value":
                    return self.locate(side)
        return Memory(None)

    def home(self, variable: Variable) -> Variable | Memory:
        """Where the contents of a variable, or what it points or refers to, lie."""
        if variable.held:
            return Memory(variable.name)
        if variable.home == "shared":  # parts of it may be held under names of their own
            return Memory(None if any(alias.held for alias in variable.aliases) else variable.name)
        if variable.home in ("file", "binding"):
            return Memory(None)
        if variable.home == "kernel" and variable.form in ("pointer", "array"):
            return Memory(variable.name)
        if variable.home == "helper" and variable.form in ("pointer", "reference", "array"):
            return self.bound.get(variable, Memory(None))
        if variable.home == "local" and variable.form in ("pointer", "reference", "auto"):
            where = self.home(variable.bound) if variable.bound is not None else None
            if isinstance(where, Variable) and (variable.form != "auto" or where.form != "value"):
                return where
            return Memory(None)
        return variable

    def copied(self, variable: Variable) -> bool:
        """Whether a name stands for a value of its own, which ``auto`` leaves open."""
        return variable.form == "auto" and variable.home == "local" and not variable.held

    def lines(self, node: Node) -> frozenset[int]:
        """The lines that a compiler may give to an access: its own, and where its statement begins."""
        key = node.start_byte, node.end_byte
        if key not in self._lines:
            rows = {node.start_point[0], node.end_point[0]}
            above = node.parent
            while above is not None and (
                "expression" in above.type or above.type in {*_STATEMENTS, "argument_list"}
            ):
                if above.type in _STATEMENTS:
                    rows.add(above.start_point[0])
                if above.type == "assignment_expression":
                    rows.add(above.children[1].start_point[0])
                above = above.parent
            self._lines[key] = frozenset(row + 1 for row in rows)
        return self._lines[key]

    def called(self, call: Node) -> tuple[str, Node | None, list[Node]]:
        """Of a call the function's own name, the object if it is a method's, and the arguments."""
        function, listed = call.child_by_field_name("function"), call.child_by_field_name("arguments")
        arguments = [n for n in listed.named_children if n.type != "comment"] if listed is not None else []
        if function is None:
            return "", None, arguments
        thing = function.child_by_field_name("argument") if function.type == "field_expression" else None
        text = self.parsed.text(
            function if thing is None else function.child_by_field_name("field") or function
        )
        return re.sub(r"\s*<.*", "", text, flags=re.DOTALL).rpartition("::")[2].strip(), thing, arguments

    def functions(self, call: Node) -> list[Callable]:
        """The functions of this source, or the lambda, that a call may mean."""
        name, thing, arguments = self.called(call)
        function = call.child_by_field_name("function")
        if thing is None and function is not None and (variable := self.variable(function)) is not None:
            return [variable.callable] if variable.callable is not None else []
        found = self.by_name.get(name, [])
        return [one for one in found if len(one.parameters) >= len(arguments)] or found

    def macro(self, node: Node) -> Node | None:
        """The argument of a call that stands for a place itself, such as FETCH_FLOAT4(x[i])."""
        if node.type != "call_expression":
            return None
        name, thing, arguments = self.called(node)
        known = thing is not None or name in self.by_name or not re.fullmatch(r"[A-Z][A-Z0-9_]*", name)
        return None if known or not arguments else arguments[0]


def is_place(node: Node) -> bool:
    """Whether an expression stands for a place or an address, rather than for a value that was computed."""
    if node.type in ("identifier", "subscript_expression", "field_expression", "pointer_expression"):
        return True
    if node.type == "binary_expression":  # p + i
        return any(is_place(side) for side in node.named_children)
    inner = inside(node)
    return inner is not None and is_place(inner)
