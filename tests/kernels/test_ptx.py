"""PTX taken apart: statements, lines through inlining, and the loads that a stored value is made of."""

from __future__ import annotations

from kernels.listen.log import Source
from kernels.listen.ptx import functions, global_variables
from kernels.listen.rewrite import leave_out, listen

_HEADER = ".version 8.0\n.target sm_90\n.address_size 64\n"
_LOGGER = _HEADER + ".visible .func kim_nothing() { ret; }\n"


def _module(body: str, files: str = '.file 1 "k.cu"\n.file 2 "h.h"\n') -> str:
    return f"{_HEADER}.visible .entry k(\n.param .u64 k_param_0\n)\n{{\n{body}\nret;\n}}\n{files}"


def _statements(body: str):
    (function,) = functions(_module(body), "k.cu")
    return function.statements


def test_a_statement_has_its_guard_opcode_and_operands() -> None:
    first = _statements("@!%p1 ld.global.v2.f32 {%f1, %f2}, [%rd1+8];")[0]
    assert (first.guard, first.op) == ("@!%p1", "ld.global.v2.f32")
    assert first.operands == ("{%f1, %f2}", "[%rd1+8]")


def test_the_line_of_inlined_code_is_the_line_that_called_it() -> None:
    body = (
        ".loc 1 7 3\n.loc 2 30 1, function_name $L, inlined_at 1 7 3\n"
        ".loc 2 90 1, function_name $L, inlined_at 2 30 1\nld.global.f32 %f1, [%rd1];\n"
        ".loc 1 9 1\nst.global.f32 [%rd1], %f1;"
    )
    assert [s.line for s in _statements(body) if s.op != "ret"] == [7, 9]


def test_a_comment_a_label_and_inline_assembly_are_no_statements_of_their_own() -> None:
    body = "$L__BB0_1: // a label; with a semicolon\nmov.u32 %r1, 3; // one\n{ .reg .b16 low; mov.b32 {low, _}, %r1; }"
    assert [s.op for s in _statements(body)] == ["mov.u32", ".reg", "mov.b32", "ret"]


def test_a_store_is_made_of_the_loads_that_flow_into_it_and_not_of_its_address() -> None:
    body = (
        "ld.global.u32 %r1, [%rd1];\n"  # site 0: an index
        "mul.wide.s32 %rd2, %r1, 4;\nld.shared.f32 %f1, [%r9];\n"  # site 1
        "ld.shared.f32 %f2, [%r9+4];\nfma.rn.f32 %f3, %f1, %f2, %f3;\n"  # site 2
        "st.global.f32 [%rd2], %f3;"  # site 3
    )
    sites = listen(_module(body), _LOGGER, "k.cu").sites
    assert sites[3].made_of == (Source(1), Source(2))


def test_what_comes_by_a_shuffle_may_come_from_any_lane() -> None:
    body = (
        "ld.global.f32 %f1, [%rd1];\nmov.b32 %r1, %f1;\nshfl.sync.down.b32 %r2|%p1, %r1, 16, 31, -1;\n"
        "mov.b32 %f2, %r2;\nadd.f32 %f3, %f1, %f2;\nst.shared.f32 [%r9], %f3;"
    )
    assert listen(_module(body), _LOGGER, "k.cu").sites[1].made_of == (Source(0, via_warp=True),)


def test_registers_of_two_pieces_of_inline_assembly_are_not_the_same() -> None:
    body = (
        "ld.global.u16 %rs1, [%rd1];\nld.global.u16 %rs2, [%rd1+2];\n"
        "{ .reg .b16 low; mov.b16 low, %rs1; mov.b16 %rs3, low; }\n"
        "{ .reg .b16 low; mov.b16 low, %rs2; mov.b16 %rs4, low; }\n"
        "st.global.u16 [%rd2], %rs3;"
    )
    assert listen(_module(body), _LOGGER, "k.cu").sites[2].made_of == (Source(0),)


def test_a_selection_is_made_of_what_it_was_selected_by() -> None:
    body = (
        "ld.shared.f32 %f1, [%r1];\nld.shared.f32 %f2, [%r1+4];\nsetp.gt.f32 %p1, %f1, 0f00000000;\n"
        "selp.f32 %f3, %f2, 0f00000000, %p1;\nst.shared.f32 [%r2], %f3;"
    )
    assert listen(_module(body), _LOGGER, "k.cu").sites[2].made_of == (Source(0), Source(1))


def test_each_access_hangs_on_the_loggers_word_and_keeps_its_guard() -> None:
    text = listen(_module("@%p3 st.global.f32 [%rd1], %f1;"), _LOGGER, "k.cu").ptx
    assert "@%p3 call (kim_r), kim_write" in text
    assert "@%kim_p st.global.f32 [%rd1], %f1;" in text
    assert "\n\t@%p3 st" not in text


def test_parameters_and_constants_are_not_logged() -> None:
    assert (
        listen(_module("ld.param.u64 %rd1, [k_param_0];\nld.const.f32 %f1, [c];"), _LOGGER, "k.cu").sites
        == ()
    )


def test_a_kernel_enters_before_its_first_access_and_leaves_before_each_return() -> None:
    text = listen(_module("@%p1 ret;\nld.global.f32 %f1, [%rd1];"), _LOGGER, "k.cu").ptx
    assert text.index("kim_enter") < text.index("kim_exit") < text.index("kim_read")
    assert "@%p1 call kim_exit, ();" in text
    assert text.count("kim_exit") == 2


def test_blocks_of_the_window_leave_the_plain_kernel_at_once() -> None:
    text = leave_out(_module("mov.u32 %r1, 0;"), "k.cu")
    assert text.index("@%kim_in ret;") < text.index("mov.u32 %r1, 0;")


def test_the_modules_own_variables_are_known_with_their_bytes() -> None:
    text = (
        _HEADER
        + ".global .align 4 .f32 x;\n.visible .global .align 8 .b8 table[64];\n.extern .global .b8 far[];\n"
    )
    assert [(v.name, v.bytes) for v in global_variables(text)] == [("x", 4), ("table", 64), ("far", 0)]


_LOCAL = (
    "mov.u64 %SPL, __local_depot0;\ncvta.local.u64 %SP, %SPL;\nadd.u64 %rd9, %SP, 16;\nadd.u64 %rd1, %SPL, 16;\n"
    "ld.global.f32 %f1, [%rd5];\nst.local.f32 [%rd1+4], %f1;\n"  # sites 0 and 1
    "mul.wide.s32 %rd2, %r1, 4;\nadd.s64 %rd3, %rd1, %rd2;\nld.local.f32 %f2, [%rd3];\n"  # 2
    "st.shared.f32 [%r9], %f2;"  # 3
)


def test_a_threads_own_array_that_is_not_held_is_passed_through() -> None:
    assert listen(_module(_LOCAL), _LOGGER, "k.cu").sites[3].made_of == (Source(0),)


def test_one_that_is_held_is_where_the_value_comes_from() -> None:
    held = "{\n.param .b64 param4;\nst.param.b64 [param4+0], %rd9;\ncall.uni kim_hold, (param0, param4);\n}\n"
    head, tail = _LOCAL.split("ld.global", 1)
    assert listen(_module(f"{head}{held}ld.global{tail}"), _LOGGER, "k.cu").sites[3].made_of == (Source(2),)
