"""The kernels of a source: their names, templates and parameters, and one of them by a name expression."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from tree_sitter import Node

from kernels.errors import ParameterError
from kernels.launch.dtypes import aliases, dtype
from kernels.launch.syntax import Parsed, closing, nodes, parse, split


@dataclass(frozen=True)
class Parameter:
    """A parameter of a kernel. `type` is as written, without the name.

    `dtype` is NumPy's name of the scalar, or of the element that a pointer points to (of a ``float4*``: float32); None
    for a struct and for what is not known before template arguments are. `const` says that what it points to is.
    """

    name: str
    type: str
    pointer: bool
    const: bool
    dtype: str | None


@dataclass(frozen=True)
class Function:
    """A ``__global__`` function, with its namespaces in its name. `template` has a kind and a name for each parameter.

    `defaults` are the template's own (None where there is none); `arguments` what was asked for, defaults put in.
    """

    name: str
    template: tuple[tuple[str, str], ...]
    parameters: tuple[Parameter, ...]
    line: int
    defaults: tuple[str | None, ...] = field(default=())
    arguments: tuple[str, ...] = field(default=())

    @property
    def expression(self) -> str:
        """Its name expression, complete with template arguments, e.g. ``ns::gemm<16, float>``."""
        return f"{self.name}<{', '.join(self.arguments)}>" if self.template else self.name


@dataclass(frozen=True)
class Macro:
    """A HOLD or a SNAPSHOT in the source: its line, from 1, and the texts of its arguments."""

    line: int
    names: tuple[str, ...]


@dataclass(frozen=True)
class Source:
    """A source as it stands, and what is in it. `folder` is where its own includes are, if it has one."""

    name: str
    text: str
    folder: Path | None
    functions: tuple[Function, ...]
    snapshots: tuple[Macro, ...]
    holds: tuple[Macro, ...]


def macros(parsed: Parsed, word: str) -> tuple[Macro, ...]:
    """All uses of a macro such as ``HOLD``, in the order of the text."""
    found = []
    for match in re.finditer(rb"\b%s\s*(?=\()" % word.encode(), parsed.code):
        inside = parsed.code[match.end() + 1 : closing(parsed.code, match.end()) - 1].decode()
        names = tuple(" ".join(part.split()) for part in split(inside))
        found.append(Macro(parsed.line(match.start()), names))
    return tuple(found)


def functions(parsed: Parsed) -> tuple[Function, ...]:
    """The ``__global__`` functions that are defined here, in the order of the text."""
    known = aliases(parsed.raw.decode())
    found: dict[int, Function] = {}
    seen: list[tuple[int, int]] = []
    for node in nodes(parsed.root, "function_definition", "declaration"):
        header = _header(node)
        word = _global_word(parsed, header)
        if word is None:
            continue
        seen.append((header.start, header.stop))
        if node.type == "function_definition" and (function := _function(parsed, node, known)):
            found[word] = function
    # What the grammar could not read: the head alone, with an empty body, can be read.
    for word in _global_offsets(parsed):
        if word in found or any(start <= word < stop for start, stop in seen):
            continue
        if snippet := _head(parsed, word):
            again = parse(snippet)
            for node in nodes(again.root, "function_definition"):
                if function := _function(again, node, known):
                    found[word] = replace(function, line=parsed.line(word) + function.line - 1)
                    break
    return tuple(found[word] for word in sorted(found))


def find_function(source: Source, expression: str) -> Function:
    """The kernel that a name expression such as ``gemm``, ``gemm<16>`` or ``ns::gemm<16, float>`` names.

    The template's arguments are put into the dtypes of its parameters. ParameterError if the source has no such kernel,
    with those that it has, or if the template takes another number of arguments.
    """
    name, bracket, rest = expression.strip().removeprefix("::").partition("<")
    name = "::".join(part.strip() for part in name.split("::"))
    given = tuple(split(rest.rstrip().removesuffix(">"))) if bracket else ()
    candidates = [function for function in source.functions if function.name == name]
    if not candidates:
        names = list(dict.fromkeys(_signature(function) for function in source.functions))
        there = f"those in it are {', '.join(names)}" if names else "it has no __global__ function at all"
        raise ParameterError(f"{source.name} has no kernel {name!r}: {there}")
    for function in candidates:
        if (arguments := _arguments(function, given)) is not None:
            return _substituted(function, arguments, aliases(source.text))
    function = candidates[0]
    takes = (
        f"template arguments <{', '.join(n for _, n in function.template)}>" if function.template else "none"
    )
    raise ParameterError(
        f"the kernel {name} of {source.name} takes {takes}, but {expression.strip()!r} gives {len(given)}: "
        f"write {_signature(function)} with a value for each"
        if function.template
        else f"the kernel {name} of {source.name} is no template: write {name!r}, not {expression.strip()!r}"
    )


def _signature(function: Function) -> str:
    if not function.template:
        return function.name
    return f"{function.name}<{', '.join(name for _, name in function.template)}>"


def _arguments(function: Function, given: tuple[str, ...]) -> tuple[str, ...] | None:
    pack = bool(function.template) and function.template[-1][0].endswith("...")
    if len(given) > len(function.template) and not pack:
        return None
    rest = function.defaults[len(given) : len(function.template) - pack]
    filled = [default for default in rest if default is not None]
    return (*given, *filled) if len(filled) == len(rest) else None


def _substituted(function: Function, arguments: tuple[str, ...], known: Mapping[str, str]) -> Function:
    types = {name: argument for (_, name), argument in zip(function.template, arguments, strict=False)}
    parameters = tuple(
        replace(parameter, dtype=dtype(parameter.type, {**known, **types}))
        for parameter in function.parameters
    )
    return replace(function, parameters=parameters, arguments=arguments)


def _header(node: Node) -> range:
    body = node.child_by_field_name("body")
    return range(node.start_byte, body.start_byte if body else node.end_byte)


def _global_word(parsed: Parsed, header: range) -> int | None:
    """Where in a function's head it says that it is ``__global__``; a macro for that may stand just before it."""
    for word in _global_offsets(parsed):
        if header.start <= word < header.stop or (
            word < header.start and re.fullmatch(rb"\w+\s*", parsed.code[word : header.start])
        ):
            return word
    return None


def _global_offsets(parsed: Parsed) -> Iterator[int]:
    for match in re.finditer(rb"\b(?:%s)\b" % b"|".join(parsed.words(b"__global__")), parsed.code):
        yield match.start()


def _head(parsed: Parsed, word: int) -> str | None:
    """The head of the function whose ``__global__`` stands at `word`, with an empty body; None if it has no body."""
    code = parsed.code
    at = word
    while opening := re.compile(rb"[^(){};]*?(\w+)\s*(?=\()").match(code, at):
        end = closing(code, opening.end())
        at = end
        if opening[1] not in (
            b"__launch_bounds__",
            b"__attribute__",
            b"__align__",
            b"alignas",
            b"__cluster_dims__",
        ):
            break
    else:
        return None
    if not re.compile(rb"\s*\{").match(code, at):
        return None
    template = re.search(rb"\btemplate\s*<[^;{}]*>\s*(?:[\w\s]*)\Z", code[:word])
    prefix = b"".join(code[template.start() : word].split(b"\n")) if template else b""
    return (prefix + code[word:at] + b"{}").decode()


def _function(parsed: Parsed, node: Node, known: Mapping[str, str]) -> Function | None:
    declarator = node.child_by_field_name("declarator")
    while declarator is not None and declarator.type != "function_declarator":
        declarator = declarator.child_by_field_name("declarator")
    name = declarator.child_by_field_name("declarator") if declarator is not None else None
    listed = declarator.child_by_field_name("parameters") if declarator is not None else None
    if name is None or listed is None:
        return None
    if name.type == "template_function":  # a full specialisation, launched by the same name expression
        name = name.child_by_field_name("name") or name
    template: list[tuple[str, str]] = []
    defaults: list[str | None] = []
    spaces: list[str] = []
    above = node.parent
    if above is not None and above.type == "template_declaration":
        for text in _template(parsed, above):
            head, _, default = text.partition("=")
            *kind, own = re.sub(r"\.\.\.\s*", "... ", head).split() or [""]
            template.append((" ".join(kind) or own, own))
            defaults.append(default.strip() or None)
    while above is not None:
        if above.type == "namespace_definition" and (space := above.child_by_field_name("name")):
            spaces.insert(0, parsed.text(space))
        above = above.parent
    kinds = ("parameter_declaration", "optional_parameter_declaration")
    parameters = tuple(
        _parameter(parsed, child, number, known)
        for number, child in enumerate(c for c in listed.named_children if c.type in kinds)
        if parsed.text(child).strip() != "void"
    )
    if any(kind.split()[0] in ("typename", "class") for kind, _ in template):
        names = {own for _, own in template}
        parameters = tuple(
            replace(p, dtype=None) if names & set(re.findall(r"\w+", p.type)) else p for p in parameters
        )
    return Function(
        name="::".join([*spaces, parsed.text(name)]),
        template=tuple(template),
        parameters=parameters,
        line=parsed.line(name.start_byte),
        defaults=tuple(defaults),
    )


def _template(parsed: Parsed, declaration: Node) -> list[str]:
    listed = declaration.child_by_field_name("parameters")
    if listed is None:
        return []
    return split(parsed.code[listed.start_byte + 1 : listed.end_byte - 1].decode())


def _parameter(parsed: Parsed, node: Node, number: int, known: Mapping[str, str]) -> Parameter:
    text = parsed.code[node.start_byte : node.end_byte].decode()
    declarator = node.child_by_field_name("declarator")
    name = next(nodes(declarator, "identifier"), None) if declarator is not None else None
    if name is None:
        own, written = f"argument{number}", text
    else:
        cut = name.start_byte - node.start_byte
        own = parsed.text(name)
        written = text[:cut] + " " + text[cut + len(own) :]
    written = " ".join(written.partition("=")[0].split())
    written = re.sub(r"\s*([*&\[\]])", r"\1", written)
    pointer = "*" in written or "[" in written
    const = bool(re.search(r"\bconst\b", re.split(r"[*\[]", written)[0]))
    return Parameter(own, written, pointer, const, dtype(written, known))
