"""What stored values are made of, by the source alone: expectations are written by hand, line by line."""

import re
from pathlib import Path

import pytest

import kernels
from kernels.launch.slices import made_of_lines, origins_of_lines
from kernels.launch.source import parse_source

FOLDER = Path(kernels.__file__).parent


def inside(body, parameters="float* x, float* y, int n"):
    """The slices of a kernel whose body's first line is 1, names as ``"1 x"``, in one string."""
    return spelled(f"__global__ void k({parameters}) {{ {body} }}")


def spelled(text):
    """The slices of a source: by ``"line name"``, the same of what it is made of, with a tilde if via the warp."""
    found = origins_of_lines(parse_source(text))
    return {
        f"{line} {name}": " ".join(sorted(f"{o.line}{'~' * o.via_warp}{o.name}" for o in origins))
        for (line, name), origins in found.items()
    }


def plain(name, hold):
    """One of the kernels of attention with plain pointers and a HOLD, lines where they were."""
    text = re.sub(r"Hbm<([^<>]*)>", r"\1*", (FOLDER / name).read_text())
    return re.sub(r"= sram<(.*)>\(\);", rf"= *reinterpret_cast<\1*>(smem); HOLD({hold});", text)


def line_of(text, part, nth=0):
    """The number of the nth line that has a part."""
    return [number for number, line in enumerate(text.split("\n"), start=1) if part in line][nth]


def test_flash_attention_1_is_sliced_as_its_formulas_say():
    text = plain("fa1.cu", "Qi, Kj, Vj, Sij, Oi, mi, li")
    found = made_of_lines(parse_source(text))
    dot = line_of(text, "s += Qi[r][k] * Kj[c][k]")
    old_max, new_max = line_of(text, "m_new = mi[r]"), line_of(text, "m_new = fmaxf(")
    rescaled, summed = line_of(text, "l_rescaled = li[r]"), line_of(text, "l_new += expf")
    weight, scaled = line_of(text, "weight = expf"), line_of(text, "Oi[r][k] *=")
    added = line_of(text, "Oi[r][k] += weight")
    new_m = {(old_max, "mi"), (new_max, "Sij")}
    new_l = new_m | {(rescaled, "li"), (rescaled, "mi"), (summed, "Sij")}
    assert found[line_of(text, "Sij[r][c] = masked"), "Sij"] == {(dot, "Qi"), (dot, "Kj")}
    assert found[line_of(text, "mi[r] = m_new;"), "mi"] == new_m
    assert found[line_of(text, "li[r] = l_new;"), "li"] == new_l
    assert found[scaled, "Oi"] == new_l | {(scaled, "Oi")}
    assert found[added, "Oi"] == new_l | {(weight, "Sij"), (added, "Vj"), (added, "Oi")}
    store = line_of(text, "O[i * Br * d + x] = Oi")
    assert found[store, "O"] == {(store, "Oi")}


def test_flash_decodings_second_kernel_goes_through_conditions():
    text = plain("flash_decoding.cu", "Qi, Kj, Vj, Sij, Oi, mi, li, Os, ms, ls, Li")
    found = made_of_lines(parse_source(text))
    divided = line_of(text, "li[r] > 0 ? Oi[r][k] / li[r] : 0")
    assert found[divided, "Oi"] == {(divided, "Oi"), (divided, "li")}
    m_new, rescale = line_of(text, "m_new = fmaxf(mi[r], ms[r])"), line_of(text, "rescale_part = expf")
    summed = line_of(text, "li[r] = rescale * li[r]")
    of_max = {(m_new, "mi"), (m_new, "ms"), (rescale, "mi"), (rescale, "ms")}
    assert found[summed, "li"] == of_max | {(summed, "li"), (summed, "ls")}
    last = line_of(text, "Li[r] = mi[r] + logf(li[r])")
    assert found[last, "Li"] == {(last, "mi"), (last, "li")}


@pytest.mark.parametrize("name", ["fa1.cu", "fa2.cu", "online_softmax.cu", "flash_decoding.cu"])
def test_every_store_of_the_four_kernels_has_a_slice(name):
    text = plain(name, "Qi, Kj, Vj, Sij, Oi, mi, li, Li, Os, ms, ls")
    stored = {line for line, _ in made_of_lines(parse_source(text))}
    to_memory = re.compile(r"^\s*(?:for \(.*?\+\+\) |for \(.*?blockDim\.x\) )?\w+(?:\[[^=]*\])+ [-+*/]?= ")
    lines = {number for number, line in enumerate(text.split("\n"), start=1) if to_memory.match(line)}
    assert lines
    assert lines <= stored


def test_a_gemm_with_a_held_accumulator():
    text = """\
template <int T> __global__ void gemm(const float* A, const float* B, float* C, int n) {
    __shared__ float As[T][T], Bs[T][T + 1];
    float acc = 0; HOLD(As, Bs, acc);
    const int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * T + ty;
    for (int t = 0; t < n / T; t++) {
        As[ty][tx] = A[row * n + t * T + tx];
        Bs[ty][tx] = row < n ? B[(t * T + ty) * n + tx] : 0;
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < T; ++k)
            #pragma unroll
            acc += As[ty][k] * Bs[k][tx];
        __syncthreads();
    }
    if (row < n) C[row * n + tx] = acc;
}
"""
    assert spelled(text) == {
        "3 acc": "",
        "6 As": "6A",
        "7 Bs": "7B",
        "12 acc": "12As 12Bs 12acc",
        "15 C": "15acc",
    }


def test_without_a_hold_a_register_is_gone_through():
    text = "float acc = 0;\nfor (int k = 0; k < n; k++) acc += x[k];\ny[0] = acc;"
    assert inside(text) == {"3 y": "2x"}
    assert inside(text.replace("acc = 0;", "acc = 0; HOLD(acc);")) == {
        "1 acc": "",
        "2 acc": "2acc 2x",
        "3 y": "3acc",
    }


def test_neither_indices_nor_control_are_what_a_value_is_made_of():
    assert inside("if (x[0] > 0)\ny[int(x[1])] = x[n];") == {"2 y": "2x"}
    assert inside("int i = x[0];\ny[i] = i;\ny[0] = y[i];") == {"2 y": "1x", "3 y": "3y"}
    assert inside("for (int i = x[0]; i < x[1]; i++)\ny[i] = 1;") == {"2 y": ""}


def test_conditions_of_a_choice_and_calls_are():
    assert inside("y[0] = x[0] > 0 ? 1 : n;") == {"1 y": "1x"}
    assert inside("float m = x[0];\nm = fmaxf(m, y[1]);\ny[0] = expf(m) * 2;") == {"3 y": "1x 2y"}


def test_what_was_overwritten_is_not_but_what_may_remain_is():
    assert inside("float a = x[0];\na = 1;\ny[0] = a;") == {"3 y": ""}
    assert inside("float a = x[0];\nif (n) a = y[1];\ny[0] = a;") == {"3 y": "1x 2y"}
    assert inside("float a;\nif (n) a = x[0]; else\na = y[1];\ny[0] = a;") == {"4 y": "2x 3y"}
    assert inside("float a = x[0];\nfor (;;) { a = y[1];\nif (n) break;\na = x[3]; }\ny[0] = a;") == {
        "5 y": "2y"
    }
    assert inside("float a = x[0];\ndo a = y[1];\nwhile (n);\ny[0] = a;") == {"4 y": "2y"}
    assert inside("float a;\nswitch (n) { case 0: a = x[0]; break;\ndefault: a = y[0]; }\ny[0] = a;") == {
        "4 y": "2x 3y"
    }


def test_a_loop_hands_values_to_its_next_turn():
    text = "float a = 0, b = 0;\nfor (int i = 0; i < n; i++) {\ny[i] = a;\na = b;\nb = x[i]; }"
    assert inside(text) == {"3 y": "5x"}


def test_a_block_reduction_through_a_helper_comes_by_the_warp():
    text = """\
__device__ float warp_sum(float v) {
    for (int o = 16; o > 0; o /= 2) v += __shfl_down_sync(0xffffffff, v, o);
    return v;
}
__global__ void sum(const float* x, float* y, int n) {
    __shared__ float part[32];
    float v = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) v += x[i];
    v = warp_sum(v);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
    __syncthreads();
    v = threadIdx.x < 32 ? part[threadIdx.x] : 0;
    v = warp_sum(v);
    if (threadIdx.x == 0) y[blockIdx.x] = v;
}
"""
    assert spelled(text) == {"10 part": "8~x", "14 y": "12~part"}


def test_a_helper_is_gone_through_for_each_call_by_itself():
    text = """\
__device__ float twice(float v) { return 2 * v; }
__global__ void k(float* x, float* y) {
    y[0] = twice(x[0]);
    x[0] = twice(1);
}
"""
    assert spelled(text) == {"3 y": "3x", "4 x": ""}


def test_helpers_store_where_their_pointers_point():
    text = """\
template <int N> __device__ void load(float (&r)[N], const float* s) { for (int k = 0; k < N; k++)
    r[k] = s[k]; }
__device__ void put(float* to, float v) {
    *to = v; }
__device__ void larger(float& m, float v) { m = fmaxf(m, v); }
__global__ void k(const float* x, float* y) {
    float r[4], m = x[0];
    load(r, x);
    larger(m, r[1]);
    put(&y[3], m);
}
"""
    assert spelled(text) == {"4 None": "2None 7x"}


def test_lambdas_see_the_variables_around_them():
    text = "float a = x[0];\nauto add = [&](float v) { a += v; return a; };\nfloat b = add(y[1]);\ny[0] = b;\nx[1] = a;"
    assert inside(text) == {"4 y": "1x 3y", "5 x": "1x 3y"}


def test_histogram_with_atomics():
    text = """\
__global__ void histogram(const unsigned char* data, unsigned* counts, int n) {
    __shared__ unsigned bins[256];
    bins[threadIdx.x] = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) atomicAdd(&bins[data[i]], 1);
    atomicAdd(counts + threadIdx.x, bins[threadIdx.x]);
    counts[0] = atomicCAS(&bins[0], bins[1], data[2]);
    counts[1]++;
}
"""
    assert spelled(text) == {
        "3 bins": "",
        "4 bins": "",
        "5 counts": "5bins",
        "6 bins": "6data",
        "6 counts": "6bins",
        "7 counts": "7counts",
    }


def test_vectors_are_followed_as_a_whole():
    text = """\
__global__ void norm(const float4* x, float4* y, const half2* h, half2* z) {
    float4 v = x[threadIdx.x];
    float sum = 0;
    sum += v.x + v.y + v.z + v.w;
    v.x = sum / 4;
    y[threadIdx.x] = v;
    reinterpret_cast<float*>(y)[1] = ((const float*)x)[2];
    y[2].x = x[3].y;
    z[0] = __hfma2(h[1], h[2], z[0]);
    const auto* all = reinterpret_cast<const float4*>(x + 4);
    y[5] = make_float4(all[0].x, __ldg(&h[3]).y, sizeof(x[9]), x->w);
}
"""
    assert spelled(text) == {
        "6 y": "2x",
        "7 y": "7x",
        "8 y": "8x",
        "9 z": "9h 9z",
        "11 y": "11None 11h 11x",
    }


def test_macros_that_stand_for_a_place():
    text = """\
#define FLOAT4(place) (reinterpret_cast<float4*>(&(place))[0])
__global__ void k(float* a, float* c) {
    __shared__ float s[64];
    float r[4];
    FLOAT4(r[0]) = FLOAT4(a[threadIdx.x]);
    FLOAT4(s[4 * threadIdx.x]) = FLOAT4(r[0]);
    FLOAT4(c[0]) = FLOAT4(s[0]);
}
"""
    assert spelled(text) == {"6 s": "5a", "7 c": "7s"}


def test_a_struct_of_shared_arrays_goes_by_the_names_that_hold_shows():
    text = """\
struct Sram { float Qi[4][4], Kj[4][4], mi[4]; };
__global__ void k(const float* Q, float* O) {
    __shared__ Sram s;
    auto& [Qi, Kj, mi] = s;
    HOLD(Qi, Kj);
    Qi[0][0] = Q[0];
    mi[0] = Qi[1][1] * Kj[0][0];
    s.Kj[0][0] = mi[0];
    O[0] = s.mi[0];
}
"""
    assert spelled(text) == {"6 Qi": "6Q", "7 None": "7Kj 7Qi", "8 None": "8None", "9 O": "9None"}
    fields = text.replace(
        "auto& [Qi, Kj, mi] = s;", "float (&Qi)[4][4] = s.Qi, (&Kj)[4][4] = s.Kj, (&mi)[4] = s.mi;"
    )
    assert spelled(fields)["6 Qi"] == "6Q"
    apart = text.replace(
        "auto& [Qi, Kj, mi] = s;", "float (&Qi)[4][4] = s.Qi; float (&Kj)[4][4] = s.Kj; auto& mi = s.mi;"
    )
    assert spelled(apart) == spelled(text)
    whole = re.sub(r"\b(Qi|Kj|mi)(?=\[\d\]( |\[\d\] |;|\[\d\];))", r"s.\1", text.replace("s.", ""))
    whole = whole.replace("    auto& [Qi, Kj, mi] = s;\n    HOLD(Qi, Kj);\n", "\n\n")
    assert spelled(whole) == {"6 s": "6Q", "7 s": "7s", "8 s": "8s", "9 O": "9s"}


def test_memory_carved_by_hand_goes_by_the_pointers_that_hold_at_shows():
    body = "extern __shared__ float all[]; float* a = all; float* b = a + 16; HOLD_AT(a, 4, 4);\n"
    assert inside(body + "a[0] = x[0];\nb[0] = a[0];\ny[0] = b[0] + all[3];") == {
        "2 a": "2x",
        "3 None": "3a",
        "4 y": "4None",
    }
    assert inside("extern __shared__ float all[];\nall[0] = x[0];\ny[0] = all[0];") == {
        "2 all": "2x",
        "3 y": "3all",
    }


def test_copies_in_flight_are_stores_of_what_they_read():
    text = """\
__global__ void k(const float* x, float* y) {
    __shared__ float s[64];
    __pipeline_memcpy_async(&s[4 * threadIdx.x], &x[4 * threadIdx.x], 16);
    cooperative_groups::memcpy_async(block, s, x + 3, 16);
    cuda::memcpy_async(s, x, 16, barrier);
    cuda::memcpy_async(block, s, x, 16, pipeline);
    cg::memcpy_async(block, s, layout, x, layout);
    memcpy(&y[0], s, 16);
}
"""
    assert spelled(text) == {"3 s": "3x", "4 s": "4x", "5 s": "5x", "6 s": "6x", "7 s": "7x", "8 y": "8s"}


def test_a_scope_may_use_a_name_again():
    text = "{ float v = x[0];\ny[0] = v; }\n{ float v = 1; y[1] = v; }\nfor (int v = 0; v < n; v++) y[2] = v;"
    assert inside(text) == {"2 y": "1x", "3 y": "", "4 y": ""}
    assert inside("float v = x[0];\n{ float v = 1; y[1] = v; }\ny[0] = v;") == {"2 y": "", "3 y": "1x"}


def test_a_statement_of_several_lines_has_its_lines():
    # Which of them a compiler gives to an access is its own choice.
    assert inside("y[n]\n=\nfmaxf(\nx[0], 1);") == dict.fromkeys(("1 y", "2 y"), "1x 2x 3x 4x")


def test_a_held_array_of_registers_is_memory():
    text = "float c[2][2] = {}; HOLD(c);\nc[0][0] += x[0] * y[0];\ny[1] = c[0][1];"
    assert inside(text) == {"1 c": "", "2 c": "2c 2x 2y", "3 y": "3c"}


def test_recursion_ends():
    text = "__device__ float f(float v, int n) { return n ? f(v + 1, n - 1) : v; }\n"
    assert spelled(text + "__global__ void k(float* x) { x[0] = f(x[1], 3); }") == {"2 x": "2x"}


def test_macros_and_directives_in_a_body_are_no_hindrance():
    text = """\
__global__ void k(float* x, float* y) {
    float v = 0;
    FOR_EACH(i, 3) { x[i] = y[i]; }
#ifdef FAST
    v = x[0];
#else
    v = y[0];
#endif
    #pragma unroll 4
    for (int i = 0; i < 4; i++) x[i] = v;
}
"""
    assert spelled(text) == {"3 x": "3y", "10 x": "5x 7y"}
