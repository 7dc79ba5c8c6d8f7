"""Which variable each name in a source means, and what kind of thing that is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from tree_sitter import Node

from kernels.launch.syntax import Parsed, nodes

Form = Literal["value", "array", "pointer", "reference", "auto"]
Home = Literal["local", "shared", "file", "kernel", "helper", "binding"]


@dataclass(eq=False)
class Variable:
    """A variable of one scope. `home` is where it lives; of a parameter, whether a kernel's or another function's.

    `held` is whether a HOLD names it. `bound` is what a reference or a pointer was bound to where it was declared, if
    that is one variable; `aliases` are those that were bound to this one.
    """

    name: str
    form: Form
    home: Home
    held: bool = False
    bound: Variable | None = None
    aliases: list[Variable] = field(default_factory=list)
    callable: Callable | None = None  # of a lambda


@dataclass(eq=False)
class Callable:
    """A function or a lambda: what may be called, with its parameters in order."""

    name: str
    kernel: bool
    parameters: tuple[Variable, ...]
    body: Node
    within: Callable | None


@dataclass(frozen=True)
class Scopes:
    """All functions and lambdas of a source; the variable at the first byte of each identifier that is known."""

    callables: tuple[Callable, ...]
    variables: dict[int, Variable]


_SCOPES = {
    "compound_statement",
    "for_statement",
    "for_range_loop",
    "if_statement",
    "while_statement",
    "switch_statement",
    "declaration_list",
}
_DECLARATORS = {
    "pointer_declarator",
    "array_declarator",
    "reference_declarator",
    "parenthesized_declarator",
    "init_declarator",
    "structured_binding_declarator",
    "function_declarator",
}


def scopes(parsed: Parsed) -> Scopes:
    """Resolve every name of a source."""
    reader = _Reader(parsed)
    reader.walk(parsed.root, [{}], None)
    return Scopes(tuple(reader.callables), reader.variables)


class _Reader:
    def __init__(self, parsed: Parsed) -> None:
        self.parsed = parsed
        self.callables: list[Callable] = []
        self.variables: dict[int, Variable] = {}
        self.kernel_words = parsed.words(b"__global__")
        self.shared_words = parsed.words(b"__shared__")

    def walk(self, node: Node, names: list[dict[str, Variable]], within: Callable | None) -> None:
        if node.type in ("function_definition", "lambda_expression"):
            self.callable(node, names, within)
            return
        if node.type == "declaration":
            self.declaration(node, names, within)
            return
        if node.type in ("identifier", "this"):
            self.resolve(node, names)
            return
        if node.type in _SCOPES:
            names = [*names, {}]
        if node.type == "for_range_loop":
            self.range_loop(node, names, within)
            return
        for child in node.named_children:
            self.walk(child, names, within)
        if node.type == "call_expression":
            self.hold(node)

    def resolve(self, node: Node, names: list[dict[str, Variable]]) -> None:
        text = self.parsed.text(node)
        for scope in reversed(names):
            if text in scope:
                self.variables[node.start_byte] = scope[text]
                return

    def hold(self, call: Node) -> None:
        function, listed = call.child_by_field_name("function"), call.child_by_field_name("arguments")
        if function is None or listed is None or self.parsed.text(function) not in ("HOLD", "HOLD_AT"):
            return
        shown = listed.named_children
        for node in shown[:1] if self.parsed.text(function) == "HOLD_AT" else shown:
            if variable := self.variables.get(node.start_byte):
                variable.held = True

    def callable(self, node: Node, names: list[dict[str, Variable]], within: Callable | None) -> None:
        body, declarator = node.child_by_field_name("body"), node.child_by_field_name("declarator")
        if body is None:
            return
        function = (
            next(nodes(declarator, "function_declarator", "lambda_declarator"), None) if declarator else None
        )
        listed = function.child_by_field_name("parameters") if function is not None else None
        own = function.child_by_field_name("declarator") if function is not None else None
        start = node.start_byte
        before = max(self.parsed.code.rfind(mark, 0, start) for mark in (b";", b"}", b"{")) + 1
        head = self.parsed.code[before : body.start_byte]
        is_lambda = node.type == "lambda_expression"
        kernel = not is_lambda and re.search(rb"\b(?:%s)\b" % b"|".join(self.kernel_words), head) is not None
        scope: dict[str, Variable] = {}
        parameters = []
        for parameter in listed.named_children if listed is not None else ():
            if parameter.type not in ("parameter_declaration", "optional_parameter_declaration"):
                continue
            inner = parameter.child_by_field_name("declarator")
            found, form = declared(inner) if inner is not None else ([], "value")
            for own_name in found[:1]:
                variable = Variable(self.parsed.text(own_name), form, "kernel" if kernel else "helper")
                self.variables[own_name.start_byte] = variable
                scope[variable.name] = variable
                parameters.append(variable)
            if not found:
                parameters.append(Variable("", form, "helper"))
        text = self.parsed.text(own) if own is not None else ""
        name = text.partition("<")[0].rpartition("::")[2].strip()
        made = Callable(name, kernel, tuple(parameters), body, within if is_lambda else None)
        self.callables.append(made)
        self.walk(body, [*names, scope], made)

    def declaration(self, node: Node, names: list[dict[str, Variable]], within: Callable | None) -> None:
        listed = node.children_by_field_name("declarator")
        kind = node.child_by_field_name("type")
        head = self.parsed.code[node.start_byte : listed[0].start_byte] if listed else b""
        says = re.compile(rb"\b(?:%s)\b" % b"|".join(self.shared_words))
        shared = says.search(head) is not None
        if kind is not None and kind.named_children and b"{" in head:
            self.walk(kind, names, within)
        auto = kind is not None and self.parsed.text(kind).strip() in ("auto", "decltype(auto)")
        for declarator in listed:
            value = declarator.child_by_field_name("value") if declarator.type == "init_declarator" else None
            for part in declarator.named_children if value is None else (value,):
                if value is not None or part.type not in _DECLARATORS | {"identifier"}:
                    self.walk(part, names, within)
            found, form = declared(declarator)
            bindings = any(True for _ in nodes(declarator, "structured_binding_declarator"))
            base = (
                begins_with(self.variables, value)
                if value is not None and form in ("reference", "pointer", "auto")
                else None
            )
            for name in found:
                home: Home = "shared" if shared else "file" if within is None else "local"
                if bindings and form == "reference":
                    home = "binding"
                own: Form = "auto" if auto and form == "value" else form
                variable = Variable(self.parsed.text(name), own, home, bound=base)
                if base is not None:
                    base.aliases.append(variable)
                if value is not None and value.type == "lambda_expression":
                    variable.callable = next(
                        (c for c in self.callables if c.body == value.child_by_field_name("body")), None
                    )
                self.variables[name.start_byte] = variable
                names[-1][variable.name] = variable

    def range_loop(self, node: Node, names: list[dict[str, Variable]], within: Callable | None) -> None:
        over, declarator, body = (node.child_by_field_name(name) for name in ("right", "declarator", "body"))
        base = None
        if over is not None:
            self.walk(over, names, within)
            base = begins_with(self.variables, over)
        if declarator is not None:
            found, form = declared(declarator)
            for name in found:
                variable = Variable(
                    self.parsed.text(name), form, "local", bound=base if form == "reference" else None
                )
                self.variables[name.start_byte] = variable
                names[-1][variable.name] = variable
        if body is not None:
            self.walk(body, names, within)


def declared(declarator: Node) -> tuple[list[Node], Form]:
    """The names that a declarator declares, and in which form."""
    form: Form = "value"
    node: Node | None = declarator
    while node is not None:
        if node.type == "structured_binding_declarator":
            return [child for child in node.named_children if child.type == "identifier"], form
        if node.type == "identifier":
            return [node], form
        kinds: dict[str, Form] = {
            "pointer_declarator": "pointer",
            "reference_declarator": "reference",
            "array_declarator": "array",
        }
        if form == "value":
            form = kinds.get(node.type, form)
        inner = node.child_by_field_name("declarator")
        if inner is None:
            inner = next((c for c in node.named_children if c.type in _DECLARATORS | {"identifier"}), None)
        node = inner
    return [], form


def begins_with(variables: Mapping[int, Variable], node: Node) -> Variable | None:
    """The variable that an expression for a place or an address begins with."""
    while node.type != "identifier":
        inner = inside(node)
        if inner is None and node.type == "binary_expression":
            sides = [begins_with(variables, side) for side in node.named_children]
            return next((side for side in sides if side is not None and side.form != "value"), None)
        if inner is None:
            return None
        node = inner
    return variables.get(node.start_byte)


CASTS = {"reinterpret_cast", "static_cast", "const_cast", "float", "double", "int"}


def inside(node: Node) -> Node | None:
    """The expression within a subscript, a field, a dereference, an address, a cast or brackets; None of any other."""
    if node.type in ("subscript_expression", "field_expression", "pointer_expression", "update_expression"):
        return node.child_by_field_name("argument")
    if node.type in ("cast_expression", "compound_literal_expression"):
        return node.child_by_field_name("value")
    if node.type == "parenthesized_expression":
        return node.named_children[0] if node.named_children else None
    if node.type == "call_expression":
        function, listed = node.child_by_field_name("function"), node.child_by_field_name("arguments")
        name = function.child_by_field_name("name") if function is not None else None
        text = (name.text or b"").decode() if name is not None else ""
        if text in CASTS and listed is not None and listed.named_children:
            return listed.named_children[0]
    return None
