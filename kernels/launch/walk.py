"""A walk through kernels as they run, that keeps for each variable the reads of memory its value is made of."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from tree_sitter import Node

from kernels.launch.intrinsics import intrinsic
from kernels.launch.places import Memory, Places, is_place
from kernels.launch.scopes import Callable, Scopes, Variable, declared, inside
from kernels.launch.syntax import Parsed, nodes


class Origin(NamedTuple):
    """A read: its line, and the array or held variable; `via_warp` if the value came from any lane of the warp."""

    line: int
    name: str | None
    via_warp: bool = False


Flow = frozenset[Origin]
State = dict[Variable, Flow]
NOTHING: Flow = frozenset()

_NO_VALUE = re.compile(
    r"sizeof_expression|alignof_expression|lambda_expression|type_descriptor|template_.*|field_identifier|comment"
)
_LOOPS = ("for_statement", "while_statement", "do_statement", "for_range_loop")


class Walk:
    """What is stored where. `stored` has for each line and name the reads that what is stored there is made of."""

    def __init__(self, parsed: Parsed, found: Scopes) -> None:
        self.places = Places(parsed, found)
        self.parsed = parsed
        self.stored: dict[tuple[int, str | None], Flow] = {}
        self.state: State | None = {}  # None where the program cannot be
        self.calls: list[Callable] = []
        self.results: list[tuple[Flow, State | None]] = []
        self.breaks: list[State | None] = []
        self.continues: list[State | None] = []
        self.walked: set[Callable] = set()
        for one in sorted(found.callables, key=lambda one: not one.kernel):
            if one.within is None and one not in self.walked:
                self.state = {}
                self._enter(one)

    # Statements

    def _run(self, node: Node) -> None:
        if self.state is None or node.type in ("function_definition", "comment"):
            return
        if node.type in _LOOPS:
            self._loop(node)
        elif node.type in ("if_statement", "preproc_if", "preproc_ifdef", "preproc_elif", "preproc_else"):
            self._if(node)
        elif node.type == "switch_statement":
            self._switch(node)
        elif node.type == "declaration":
            self._declaration(node)
        elif node.type == "return_statement":
            flow, state = self.results.pop()
            self.results.append((flow | self._all(node.named_children), _join(state, self.state)))
            self.state = None
        elif node.type in ("break_statement", "continue_statement"):
            leaves = self.breaks if node.type == "break_statement" else self.continues
            if leaves:
                leaves[-1] = _join(leaves[-1], self.state)
                self.state = None
        elif "expression" in node.type and node.type != "expression_statement":
            self._of(node)
        else:
            for child in node.named_children:
                self._run(child)

    def _if(self, node: Node) -> None:
        condition = node.child_by_field_name("condition")
        if condition is not None and node.type == "if_statement":
            self._run(condition)
        before = dict(self.state or {})
        other = node.child_by_field_name("alternative")
        for child in node.named_children:
            if child not in (condition, other):
                self._run(child)
        after, self.state = self.state, before
        if other is not None:
            self._run(other)
        self.state = _join(after, self.state)

    def _switch(self, node: Node) -> None:
        body = node.child_by_field_name("body")
        before = dict(self.state or {})
        self.breaks.append(None)
        for case in body.named_children if body is not None else ():
            self.state = _join(before, self.state)
            self._run(case)
        self.state = _join(_join(before, self.state), self.breaks.pop())

    def _loop(self, node: Node) -> None:
        parts = [node.child_by_field_name(name) for name in ("initializer", "condition", "body", "update")]
        initializer, condition, body, update = parts
        if initializer is not None:
            self._run(initializer)
        over, element = node.child_by_field_name("right"), node.child_by_field_name("declarator")
        exits: State | None = None
        while True:
            before = dict(self.state or {})
            self.breaks.append(None)
            self.continues.append(None)
            if over is not None and element is not None:
                flow = self._read(over) if is_place(over) else self._of(over)
                for variable in self._declared(element):
                    self._set(variable, flow, whole=True)
            if condition is not None and node.type != "do_statement":
                self._run(condition)
            if body is not None:
                self._run(body)
            self.state = _join(self.state, self.continues.pop())
            if condition is not None and node.type == "do_statement":
                self._run(condition)
            if update is not None and self.state is not None:
                self._run(update)
            exits = _join(exits, self.breaks.pop())
            after, self.state = self.state, _join(before, self.state)
            if self.state == before:
                break
        # Behind `while (true)` one comes by a break alone, behind `do` not without a turn.
        endless = condition is None or self.parsed.text(condition).strip("() ") in ("true", "1", "")
        ends = None if endless and over is None else after if node.type == "do_statement" else self.state
        self.state = _join(ends, exits)

    def _declaration(self, node: Node) -> None:
        for declarator in node.children_by_field_name("declarator"):
            value = declarator.child_by_field_name("value") if declarator.type == "init_declarator" else None
            flow = self._of(value) if value is not None else NOTHING
            for variable in self._declared(declarator):
                if variable.home == "binding" or variable.form in ("reference", "pointer"):
                    continue
                where = self.places.home(variable)
                if isinstance(where, Variable) or self.places.copied(variable):
                    self._set(variable, flow, whole=True)
                elif value is not None:
                    self._keep(declarator, where, flow)

    def _declared(self, declarator: Node) -> list[Variable]:
        """The variables that a declarator declares."""
        return [v for name in declared(declarator)[0] if (v := self.places.variable(name)) is not None]

    # Stores

    def _keep(self, place: Node, memory: Memory, flow: Flow) -> None:
        for line in self.places.lines(place):
            key = line, memory.name
            self.stored[key] = self.stored.get(key, NOTHING) | flow

    def _set(self, variable: Variable, flow: Flow, whole: bool) -> None:
        if self.state is not None:
            self.state[variable] = flow if whole else self.state.get(variable, NOTHING) | flow

    def _store(self, place: Node, flow: Flow) -> None:
        while place.type == "parenthesized_expression" and place.named_children:
            place = place.named_children[0]
        variable = self.places.variable(place)
        if place.type == "identifier":
            if variable is None or variable.form == "pointer":
                return
            if self.places.copied(variable):
                self._set(variable, flow, whole=True)
                return
        where = self.places.locate(place)
        if isinstance(where, Memory):
            self._keep(place, where, flow)
        else:
            self._set(where, flow, whole=variable is not None and where.form != "array")

    def _store_at(self, address: Node, flow: Flow) -> None:
        where = self.places.locate(address)
        if isinstance(where, Memory):
            self._keep(address, where, flow)
        else:
            self._set(where, flow, whole=False)

    # Values

    def _of(self, node: Node) -> Flow:
        """What the value of an expression is made of; what it does is done."""
        kind = node.type
        if _NO_VALUE.fullmatch(kind) or self.state is None:
            return NOTHING
        if kind == "identifier":
            return self._name(node)
        if kind == "call_expression":
            return self._call(node)
        if kind in ("assignment_expression", "update_expression"):
            return self._assign(node)
        if kind in ("subscript_expression", "field_expression", "pointer_expression"):
            return self._place(node)
        if kind == "comma_expression":
            return [self._of(child) for child in node.named_children][-1]
        return self._all(node.named_children)

    def _all(self, parts: Iterable[Node]) -> Flow:
        return NOTHING.union(*[self._of(part) for part in parts])

    def _assign(self, node: Node) -> Flow:
        if node.type == "update_expression":
            target = node.child_by_field_name("argument")
            flow = self._of(target) if target is not None else NOTHING
        else:
            target, value = node.child_by_field_name("left"), node.child_by_field_name("right")
            flow = self._of(value) if value is not None else NOTHING
            if target is not None:
                before = self._of(target)  # for what its subscripts do, too
                flow = flow if self.parsed.text(node.children[1]) == "=" else flow | before
        if target is not None:
            self._store(target, flow)
        return flow

    def _place(self, node: Node) -> Flow:
        argument = node.child_by_field_name("argument")
        if argument is not None and argument.type not in ("identifier", "this"):
            inner = self._of(argument)
        for index in nodes(node, "subscript_argument_list") if node.type == "subscript_expression" else ():
            if index.parent == node:
                self._all(index.named_children)
        if node.type == "pointer_expression" and node.children[0].type == "&":
            return NOTHING
        if node.type == "field_expression" and argument is not None:
            if argument.type == "call_expression" and inside(argument) is None:
                return inner  # f(x).y
            if argument.type in ("identifier", "this") and self.places.variable(argument) is None:
                return NOTHING  # threadIdx.x
            variable = self.places.variable(argument)
            if variable is not None and self.places.copied(variable) and node.children[1].type == ".":
                return (self.state or {}).get(variable, NOTHING)
        return self._read(node)

    def _read(self, place: Node) -> Flow:
        where = self.places.locate(place)
        if isinstance(where, Memory):
            return frozenset(Origin(line, where.name) for line in self.places.lines(place))
        return (self.state or {}).get(where, NOTHING)

    def _name(self, node: Node) -> Flow:
        variable = self.places.variable(node)
        if variable is None or variable.form == "pointer":
            return NOTHING
        if self.places.copied(variable):
            return (self.state or {}).get(variable, NOTHING)
        if variable.form == "array" and isinstance(self.places.home(variable), Memory):
            return NOTHING  # an array's name alone is an address
        return self._read(node)

    # Calls

    def _call(self, call: Node) -> Flow:
        name, thing, arguments = self.places.called(call)
        if name in ("HOLD", "HOLD_AT", "SNAPSHOT"):
            return NOTHING
        if functions := self.places.functions(call):
            return self._enter_any(functions, arguments)
        given = [self._of(argument) for argument in arguments]
        everything = NOTHING.union(*given)
        function = call.child_by_field_name("function")
        whole = self.parsed.text(function) if function is not None and thing is None else name
        if known := intrinsic(
            re.sub(r"\s*<.*", "", whole, flags=re.DOTALL), thing is not None, len(arguments)
        ):
            read = self._read(arguments[known.reads]) if known.reads is not None else NOTHING
            value = given[known.value] if known.value is not None else read
            if known.stores is not None:
                self._store_at(arguments[known.stores], value)
                return read
            return frozenset(o._replace(via_warp=True) for o in value) if known.via_warp else value
        if self.places.macro(call) is not None and arguments[0].type == "pointer_expression":
            return everything | self._read(arguments[0])
        return everything | (self._of(thing) if thing is not None else NOTHING)

    def _enter_any(self, functions: list[Callable], arguments: list[Node]) -> Flow:
        given = [self._of(argument) for argument in arguments]
        before, after, result = dict(self.state or {}), None, NOTHING
        for function in functions:
            self.state = dict(before)
            if function in self.calls:
                result |= NOTHING.union(*given)
            else:
                result |= self._enter(function, arguments, given)
            after = _join(after, self.state)
        self.state = after
        return result

    def _enter(self, function: Callable, arguments: Iterable[Node] = (), given: Iterable[Flow] = ()) -> Flow:
        """Walk through a function; what its result is made of. Without arguments its pointers point anywhere."""
        bound: dict[Variable, Variable | Memory] = {}
        for parameter, argument, flow in zip(function.parameters, arguments, given, strict=False):
            if parameter.form != "value" and is_place(argument):
                where = self.places.locate(argument)
                bound[parameter] = Memory(None) if isinstance(where, Memory) else where
            else:
                bound[parameter] = parameter
                self._set(parameter, flow, whole=True)
        self.places.bound |= bound
        self.walked.add(function)
        self.calls.append(function)
        self.results.append((NOTHING, None))
        loops = self.breaks, self.continues
        self.breaks, self.continues = [], []
        self._run(function.body)
        self.breaks, self.continues = loops
        result, state = self.results.pop()
        self.calls.pop()
        self.state = _join(self.state, state)
        return result


def _join(one: State | None, other: State | None) -> State | None:
    """What holds where two ways through the program meet."""
    if one is None or other is None:
        return one if other is None else other
    joined = dict(one)
    for variable, flow in other.items():
        joined[variable] = joined.get(variable, NOTHING) | flow
    return joined
