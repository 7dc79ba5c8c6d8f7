"""A call of the logger before each access of a kernel's PTX, with the logger's own PTX joined in front.

The access itself then hangs on the logger's word that it lies where it may happen.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from kernels.errors import BackendError
from kernels.listen.log import Kind, Site, Source, Space
from kernels.listen.ptx import Function, GlobalVariable, Statement, functions, global_variables
from kernels.listen.ptx_slices import Slices

_GENERIC = 3
_SPACES = {"global": Space.HBM, "shared": Space.SRAM, "shared::cta": Space.SRAM, "local": Space.REGISTERS}
COPY, COMMIT, WAIT = 8, 9, 10  # kinds of request that only the GPU's log has
_UNTRACED = {
    "wgmma": "warp-group matrix instructions (wgmma)",
    "cp.async.bulk": "bulk asynchronous copies (TMA)",
    "cp.reduce.async.bulk": "bulk asynchronous reductions (TMA)",
    "tcgen05": "tensor-memory instructions (tcgen05)",
    "multimem": "multimem instructions",
    "st.async": "asynchronous stores",
}
_EXCHANGES = ("shfl", "vote", "match", "redux", "mma", "movmatrix")  # a warp's lanes meet here
_SCRATCH = """
	.reg .b64 %kim_a;
	.reg .b64 %kim_w;
	.reg .b32 %kim_b<5>;
	.reg .b32 %kim_ok;
	.reg .pred %kim_p;
	.reg .pred %kim_q;
"""


@dataclass(frozen=True)
class Listening:
    """A module that logs: its PTX, its sites, and its own variables in global memory."""

    ptx: str
    sites: tuple[Site, ...]
    globals: tuple[GlobalVariable, ...]


@dataclass(frozen=True)
class _Edit:
    at: int  # where in the text
    until: int
    text: str


class _Sites:
    def __init__(self) -> None:
        self.lines: list[int] = []
        self.made_of: dict[int, tuple[Source, ...]] = {}

    def new(self, line: int) -> int:
        self.lines.append(line)
        return len(self.lines) - 1


def listen(ptx: str, logger: str, user_file: str) -> Listening:
    """The kernel's `ptx` with calls of the `logger`, whose PTX is put in front.

    Raises BackendError for instructions that cannot be traced.
    """
    sites = _Sites()
    edits: list[_Edit] = []
    for function in functions(ptx, user_file):
        edits += _function(ptx, function, sites, user_file)
    text = _edited(ptx, edits)
    text = re.sub(r"\.extern \.func\s+(?:\([^)]*\)\s*)?kim_\w+\s*\([^)]*\)\s*;", "", text, flags=re.DOTALL)
    text = re.sub(r"\.extern \.func\s+(?:\([^)]*\)\s*)?kim_\w+\s*;", "", text)
    header = re.search(r"\.address_size\s+\d+\s*\n", text)
    body = logger[re.search(r"\.address_size\s+\d+\s*\n", logger).end() :]  # type: ignore[union-attr]
    assert header is not None
    joined = f"{text[: header.end()]}\n{body}\n{text[header.end() :]}"
    made = tuple(Site(line, sites.made_of.get(number)) for number, line in enumerate(sites.lines))
    return Listening(joined, made, global_variables(ptx))


def leave_out(ptx: str, user_file: str) -> str:
    """The kernel's `ptx` whose blocks of a window, as the constant ``kim_window`` says it, leave at once."""
    edits = []
    for function in functions(ptx, user_file):
        if function.entry:
            at = _after_declarations(ptx, function)
            edits.append(_Edit(at, at, _WINDOW))
    text = _edited(ptx, edits)
    header = re.search(r"\.address_size\s+\d+\s*\n", text)
    assert header is not None
    return f"{text[: header.end()]}\n.visible .const .align 8 .b8 kim_window[8];\n{text[header.end() :]}"


_WINDOW = """
	{
	.reg .b32 %kim_c<4>;
	.reg .pred %kim_in;
	mov.u32 %kim_c0, %ctaid.z;
	mov.u32 %kim_c1, %nctaid.y;
	mov.u32 %kim_c2, %ctaid.y;
	mad.lo.u32 %kim_c0, %kim_c0, %kim_c1, %kim_c2;
	mov.u32 %kim_c1, %nctaid.x;
	mov.u32 %kim_c2, %ctaid.x;
	mad.lo.u32 %kim_c0, %kim_c0, %kim_c1, %kim_c2;
	ld.const.u32 %kim_c1, [kim_window];
	ld.const.u32 %kim_c2, [kim_window+4];
	sub.u32 %kim_c0, %kim_c0, %kim_c1;
	setp.lt.u32 %kim_in, %kim_c0, %kim_c2;
	@%kim_in ret;
	}
"""
_ENTER = """
	{
	.param .b32 kim_r;
	call.uni (kim_r), kim_enter, ();
	ld.param.b32 %kim_ok, [kim_r];
	}
	setp.eq.u32 %kim_p, %kim_ok, 0;
	@%kim_p ret;
"""


def _edited(text: str, edits: Sequence[_Edit]) -> str:
    parts, at = [], 0
    for edit in sorted(edits, key=lambda edit: edit.at):
        parts += [text[at : edit.at], edit.text]
        at = edit.until
    return "".join([*parts, text[at:]])


def _after_declarations(ptx: str, function: Function) -> int:
    """Before the first instruction of a body."""
    first = next((s for s in function.statements if s.op and not s.op.startswith(".")), None)
    return first.start if first else function.end


def _function(ptx: str, function: Function, sites: _Sites, user_file: str) -> list[_Edit]:
    edits = [_Edit(function.start, function.start, _SCRATCH)]
    if function.entry:
        at = _after_declarations(ptx, function)
        edits.append(_Edit(at, at, _ENTER))
    accesses: dict[int, int] = {}  # statement's start → site
    for statement in function.statements:
        _refuse(statement, user_file)
        if _is_access(statement):
            accesses[statement.start] = sites.new(statement.line)
    slices = Slices(function, lambda statement: accesses.get(statement.start))
    for statement in function.statements:
        if statement.start in accesses:
            site = accesses[statement.start]
            original = ptx[statement.start : statement.end]
            edits.append(_Edit(statement.start, statement.end, _logged(statement, original, site)))
            values = _stored(statement)
            if values is not None:
                sites.made_of[site] = slices.of(statement, values)
            elif statement.op.startswith("cp.async"):
                sites.made_of[site] = (Source(site),)
        elif event := _event(statement, sites):
            edits.append(_Edit(statement.start, statement.start, event))
        elif function.entry and statement.modifiers[0] in ("ret", "exit"):
            call = f"{statement.guard} call kim_exit, ();\n\t"
            edits.append(_Edit(statement.start, statement.start, call))
    return edits


def _refuse(statement: Statement, user_file: str) -> None:
    for start, words in _UNTRACED.items():
        if statement.op.startswith(start):
            raise BackendError(f"{user_file}:{statement.line}: {words} cannot be traced yet")


def _space(statement: Statement) -> int | None:
    """The memory an access names; None if it is none of those that are logged."""
    modifiers = statement.modifiers
    if "param" in modifiers or "const" in modifiers or any(m.startswith("param::") for m in modifiers):
        return None
    return next((int(_SPACES[m]) for m in modifiers if m in _SPACES), _GENERIC)


def _is_access(statement: Statement) -> bool:
    root, op = statement.modifiers[0], statement.op
    if root in ("ld", "ldu", "st", "atom", "red"):
        return _space(statement) is not None
    return op.startswith(("cp.async.ca", "cp.async.cg", "wmma.load", "wmma.store")) or root in (
        "ldmatrix",
        "stmatrix",
    )


def _width(statement: Statement) -> tuple[int, int]:
    """Bytes of one value of an access, and how many values it has."""
    count, size = 1, 0
    for modifier in statement.modifiers:
        if re.fullmatch(r"v[248]", modifier):
            count = int(modifier[1:])
        elif match := re.fullmatch(r"[busf]f?(\d+)(x2)?", modifier):
            size = int(match[1]) // 8 * (2 if match[2] else 1)
        elif modifier in ("bf16x2", "f16x2"):
            size = 4
    return size, count


def _stored(statement: Statement) -> tuple[str, ...] | None:
    """The operands that hold the value of a write."""
    root = statement.modifiers[0]
    if root in ("st", "red", "stmatrix") or statement.op.startswith("wmma.store"):
        return statement.operands[1:2] if root != "red" else statement.operands[1:]
    if root == "atom":
        return statement.operands[2:]
    return None


def _call(name: str, parameters: Sequence[tuple[int, str]], guard: str, result: bool) -> str:
    """A call with its parameters, as (bits, operand) each."""
    lines = ["{"]
    for number, (bits, operand) in enumerate(parameters):
        lines += [f".param .b{bits} kim_{number};", f"st.param.b{bits} [kim_{number}], {operand};"]
    names = ", ".join(f"kim_{number}" for number in range(len(parameters)))
    if result:
        lines += [".param .b32 kim_r;", "mov.u32 %kim_ok, 0;"]
        lines.append(f"{guard} call (kim_r), {name}, ({names});")
        lines.append(f"{guard} ld.param.b32 %kim_ok, [kim_r];")
    else:
        lines.append(f"{guard} call {name}, ({names});")
    return "\n\t".join([*lines, "}"])


def _address(operand: str, space: int) -> str:
    """Instructions that leave an address operand such as ``[%rd1+16]`` in %kim_a."""
    inside = operand.strip()[1:-1].strip()
    base, _, offset = inside.partition("+")
    base, offset = base.strip(), offset.strip() or "0"
    narrow = space in (Space.SRAM, Space.REGISTERS)
    if not base.startswith("%") or base in ("%SP", "%SPL"):
        take = f"mov.u64 %kim_a, {base};"
    elif narrow and base.startswith("%r") and not base.startswith("%rd"):
        take = f"cvt.u64.u32 %kim_a, {base};"
    else:
        take = f"mov.b64 %kim_a, {base};"
    return take if offset == "0" else f"{take}\n\tadd.s64 %kim_a, %kim_a, {offset};"


def _logged(statement: Statement, original: str, site: int) -> str:
    root, op, guard = statement.modifiers[0], statement.op, statement.guard
    if op.startswith("wmma"):
        return _tile(statement, original, site)
    if op.startswith("cp.async"):
        return _copied(statement, original, site)
    if root in ("ldmatrix", "stmatrix"):
        return _rows(statement, original, site)
    space = _space(statement)
    assert space is not None
    size, count = _width(statement)
    reads = root in ("ld", "ldu")
    where = statement.operands[0] if root in ("st", "red") else statement.operands[1]
    kind = Kind.READ if reads else Kind.WRITE if root == "st" else Kind.ATOMIC
    info = size * count | kind << 8 | space << 16
    lines = [_address(where, space)]
    common = [(64, "%kim_a"), (32, str(site)), (32, str(info))]
    if reads:
        lines.append(_call("kim_read", common, guard, True))
    elif root == "st":
        values, words = _value_words(statement.operands[1], statement, size)
        lines += values
        lines.append(
            _call("kim_write", [*common, (32, words[0])], guard, True)
            if len(words) == 1
            else _call("kim_write4", [*common, *((32, w) for w in [*words, "0", "0", "0"][:4])], guard, True)
        )
    else:
        lines.append(_call("kim_check", common, guard, True))
    lines.append("setp.ne.u32 %kim_p, %kim_ok, 0;")
    bare = original.strip()
    if guard:
        bare = bare[len(guard) :].strip()
    if root == "atom" and _overwrites(statement.operands[0], where):
        lines.append("mov.b64 %kim_w, %kim_a;")
        lines.append(f"@%kim_p {bare}")
        lines.append(_call("kim_atomic", [(64, "%kim_w"), *common[1:]], "@%kim_p", False))
    else:
        lines.append(f"@%kim_p {bare}")
        if kind == Kind.ATOMIC:
            lines.append(_call("kim_atomic", common, "@%kim_p", False))
    return "\n\t".join(lines)


def _overwrites(target: str, address: str) -> bool:
    return any(name in address for name in re.findall(r"%\w+", target))


def _value_words(operand: str, statement: Statement, size: int) -> tuple[list[str], list[str]]:
    """Instructions, and the 32-bit operands that they leave the values of a store in."""
    values = [value.strip() for value in operand.strip("{} ").split(",")]
    kind = statement.modifiers[-1]
    if size >= 4 and len(values) * size > 16:
        raise BackendError(f"a store of {len(values) * size} bytes by one thread cannot be traced")
    lines: list[str] = []
    words: list[str] = []
    if size == 8:
        for value in values:
            low, high = f"%kim_b{len(words)}", f"%kim_b{len(words) + 1}"
            if not value.startswith("%"):
                lines.append(f"mov.{'f64' if kind == 'f64' else 'b64'} %kim_w, {value};")
                value = "%kim_w"
            lines.append(f"mov.b64 {{{low}, {high}}}, {value};")
            words += [low, high]
    elif size == 4:
        for value in values:
            if value.startswith("%f") or (kind == "f32" and not value.startswith("%")):
                lines.append(f"mov.b32 %kim_b{len(words)}, {value};")
                words.append(f"%kim_b{len(words)}")
            else:
                words.append(value)
    else:
        # Narrow values share words: the first stands in the low bits.
        each = 4 // size
        for first in range(0, len(values), each):
            target = f"%kim_b{len(words)}"
            for place, value in enumerate(values[first : first + each]):
                widened = _widened(value)
                lines.append(widened if place == 0 else widened.replace("%kim_b4", "%kim_b4", 1))
                mask = (1 << 8 * size) - 1
                lines.append(f"and.b32 %kim_b4, %kim_b4, {mask};")
                if place:
                    lines.append(f"shl.b32 %kim_b4, %kim_b4, {8 * size * place};")
                    lines.append(f"or.b32 {target}, {target}, %kim_b4;")
                else:
                    lines.append(f"mov.b32 {target}, %kim_b4;")
            words.append(target)
    return lines, words


def _widened(value: str) -> str:
    if value.startswith("%rs") or value.startswith("%h"):
        return f"cvt.u32.u16 %kim_b4, {value};"
    if value.startswith("%rd"):
        return f"cvt.u32.u64 %kim_b4, {value};"
    return f"mov.b32 %kim_b4, {value};"


def _copied(statement: Statement, original: str, site: int) -> str:
    to, source, size, *given = statement.operands
    bare = original.strip()
    if statement.guard:
        bare = bare[len(statement.guard) :].strip()
    given_bytes = given[0] if given and not given[0].startswith("%p") else size
    lines = [
        _address(to, Space.SRAM),
        "cvt.u32.u64 %kim_b0, %kim_a;",
        _address(source, Space.HBM),
        f"mov.u32 %kim_b1, {given_bytes};",
        _call(
            "kim_copy",
            [(32, "%kim_b0"), (64, "%kim_a"), (32, str(site)), (32, size), (32, "%kim_b1")],
            statement.guard,
            True,
        ),
        "setp.ne.u32 %kim_p, %kim_ok, 0;",
        f"@%kim_p {bare}",
    ]
    return "\n\t".join(lines)


def _rows(statement: Statement, original: str, site: int) -> str:
    count = next((int(m[1:]) for m in statement.modifiers if re.fullmatch(r"x[124]", m)), 1)
    stores = statement.modifiers[0] == "stmatrix"
    space = _space(statement)
    assert space is not None
    if stores:
        raise BackendError(f"line {statement.line}: stmatrix cannot be traced yet")
    info = 16 | Kind.READ << 8 | space << 16
    call = _call(
        "kim_rows",
        [(64, "%kim_a"), (32, str(site)), (32, str(info)), (32, str(8 * count))],
        statement.guard,
        False,
    )
    return "\n\t".join([_address(statement.operands[1], space), call, original])


_FRAGMENT_BYTES = {"f16": 2, "bf16": 2, "f32": 4, "f64": 8, "s32": 4, "tf32": 4, "s8": 1, "u8": 1}


def _tile(statement: Statement, original: str, site: int) -> str:
    """``wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {…}, [p], stride`` and its like."""
    modifiers = statement.modifiers
    stores = modifiers[1] == "store"
    which = modifiers[2]
    shape = next(m for m in modifiers if re.fullmatch(r"m\d+n\d+k\d+", m))
    m, n, k = (int(number) for number in re.findall(r"\d+", shape))
    rows, columns = {"a": (m, k), "b": (k, n)}.get(which, (m, n))
    vectors, length = (rows, columns) if "row" in modifiers else (columns, rows)
    size = _FRAGMENT_BYTES[modifiers[-1]]
    space = _space(statement)
    assert space is not None
    where = statement.operands[0] if stores else statement.operands[1]
    stride = statement.operands[2] if len(statement.operands) > 2 else str(length)
    info = 16 | (Kind.WRITE if stores else Kind.READ) << 8 | space << 16
    call = _call(
        "kim_tile",
        [
            (64, "%kim_a"),
            (32, str(site)),
            (32, str(info)),
            (32, str(vectors)),
            (32, str(length * size)),
            (32, "%kim_b0"),
        ],
        statement.guard,
        False,
    )
    before = [_address(where, space), f"mul.lo.u32 %kim_b0, {stride}, {size};"]
    if stores:
        return "\n\t".join([original, *before, call])
    return "\n\t".join([*before, call, original])


def _event(statement: Statement, sites: _Sites) -> str | None:
    """The call that notes a barrier, or the end or the wait of a group of asynchronous copies."""
    op, root = statement.op, statement.modifiers[0]
    number = "0"
    if op.startswith("bar.warp.sync") or root in _EXCHANGES or op.startswith("wmma.mma"):
        kind = int(Kind.WARP_BARRIER)
    elif root in ("bar", "barrier") and not op.startswith("barrier.cluster") and "arrive" not in op:
        kind = int(Kind.BARRIER)
    elif op == "cp.async.commit_group":
        kind = COMMIT
    elif op.startswith("cp.async.wait"):
        kind = WAIT
        number = statement.operands[0] if statement.operands else "0"
    else:
        return None
    parameters = [(32, str(sites.new(statement.line))), (32, str(kind)), (32, number)]
    return _call("kim_event", parameters, statement.guard, False) + "\n\t"
