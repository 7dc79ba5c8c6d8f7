"""Reading a plain ``.cu`` file: its kernels, and the texts that compilers get of it."""

import re

import pytest

from kernels.errors import BackendError, ParameterError
from kernels.launch.source import (
    cpu_text,
    device_text,
    find_function,
    listening_text,
    own_headers,
    parse_source,
    read_source,
    refuse_on_cpu,
    shows_itself,
)
from tests.kernels import nvrtc

GEMM = """\
#include <cstdio>
#include <vector>
#include "cuda_runtime.h"
#include <cuda_fp16.h>
#define CHECK(call) do { cudaError_t e = (call); if (e != cudaSuccess) exit(1); } while (0)

using real = float;
using namespace std;
constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }
const int UNUSED = 3, TILES = 2;
std::vector<float> inputs;
float reference(float* x, int n) { return x[n]; }

namespace tiled {
template <int T = 16, typename E = float>
__global__ void __launch_bounds__(T * T) gemm(const E* __restrict__ A, const real *B,
                                              float* C, int n, const unsigned char mask[]) {
    __shared__ float As[T][T + 1],
                     Bs[T][T];  // two tiles
    float acc = 0;
    HOLD(As, Bs, acc);
    for (int t = 0; t < ceil_div(n, T) * TILES; t++) SNAPSHOT(load, t);
}
}  // namespace tiled

template <class T> void launch(T* x) { tiled::gemm<<<1, 256>>>(x, x, x, 3, nullptr); }
template void launch<float>(float*);

int main(int argc, char** argv) {
    printf("HOLD(nothing); /* é */ %d", 1);
    tiled::gemm<<<1, 256>>>(nullptr, nullptr, nullptr, 3, nullptr);
}
"""
SUM = """\
__device__ float warp_sum(float v) {
    for (int o = 16; o; o /= 2) v += __shfl_xor_sync(~0u, v, o);
    return v;
}
extern "C" __global__ void sum(const float* x, float* y) {
    __shared__ float part[32]; part[threadIdx.x / 32] = warp_sum(x[threadIdx.x]);
    __syncthreads();
    if (threadIdx.x == 0) { __shared__ float total; total = part[0]; y[0] = total; }
}
"""


def bare(text):
    """A text as words with one space between them."""
    return " ".join(text.split())


def test_a_kernels_parameters_are_as_written():
    (function,) = parse_source(GEMM).functions
    assert function.name == "tiled::gemm"
    assert function.template == (("int", "T"), ("typename", "E"))
    assert function.line == 16
    assert [(p.name, p.type, p.pointer, p.const, p.dtype) for p in function.parameters] == [
        ("A", "const E* __restrict__", True, True, None),
        ("B", "const real*", True, True, "float32"),
        ("C", "float*", True, False, "float32"),
        ("n", "int", False, False, "int32"),
        ("mask", "const unsigned char[]", True, True, "uint8"),
    ]


@pytest.mark.parametrize(
    ("written", "dtype"),
    [
        ("float", "float32"),
        ("double", "float64"),
        ("const __half*", "float16"),
        ("half2*", "float16"),
        ("const float4* __restrict__", "float32"),
        ("__nv_bfloat16*", "bfloat16"),
        ("unsigned", "uint32"),
        ("long long unsigned int", "uint64"),
        ("long", "int64"),
        ("size_t", "uint64"),
        ("std::uint16_t*", "uint16"),
        ("signed char", "int8"),
        ("bool", "bool"),
        ("index_t", "int64"),
        ("scalar*", "float16"),
        ("Params", None),
        ("void*", None),
        ("float**", None),
        ("float4", None),
    ],
)
def test_a_parameter_has_numpys_name_of_its_type(written, dtype):
    text = f"typedef long long index_t;\n#define scalar half\n__global__ void k({written} x) {{}}\n"
    (function,) = parse_source(text).functions
    assert function.parameters[0].dtype == dtype


def test_template_arguments_are_put_into_dtypes():
    source = parse_source(GEMM)
    function = find_function(source, "tiled::gemm<32, double>")
    assert function.parameters[0].dtype == "float64"
    assert function.expression == "tiled::gemm<32, double>"


def test_template_arguments_that_have_defaults_may_be_left_out():
    function = find_function(parse_source(GEMM), "tiled::gemm<8>")
    assert (function.parameters[0].dtype, function.expression) == ("float32", "tiled::gemm<8, float>")
    assert find_function(parse_source(GEMM), "::tiled::gemm").expression == "tiled::gemm<16, float>"


def test_a_kernel_that_is_not_there_is_answered_with_those_that_are():
    with pytest.raises(ParameterError, match=r"no kernel 'gemm': those in it are tiled::gemm<T, E>"):
        find_function(parse_source(GEMM), "gemm")
    with pytest.raises(ParameterError, match="no __global__ function at all"):
        find_function(parse_source("int main() {}"), "gemm")


def test_a_wrong_count_of_template_arguments_is_refused():
    with pytest.raises(ParameterError, match=r"takes template arguments <T, E>, but .* gives 3"):
        find_function(parse_source(GEMM), "tiled::gemm<1, 2, 3>")
    with pytest.raises(ParameterError, match="is no template"):
        find_function(parse_source(SUM), "sum<float>")
    with pytest.raises(ParameterError, match=r"<T>, but 'k' gives 0"):
        find_function(parse_source("template <class T> __global__ void k(T* x) {}"), "k")


def test_a_kernel_is_found_although_its_body_cannot_be_read():
    text = """\
#define KERNEL extern "C" __global__
__global__ void prototype(int n);
template <class T, int N> static __global__ __launch_bounds__(N, 2)
void broken(T* x, size_t n) { FOR_EACH(i, n) { x[i] @@ } }
KERNEL void plain(int n) {}
#if 0
#endif
"""
    functions = parse_source(text).functions
    assert [(f.name, f.line, [p.name for p in f.parameters]) for f in functions] == [
        ("broken", 4, ["x", "n"]),
        ("plain", 5, ["n"]),
    ]


def test_hold_and_snapshot_are_found_where_they_stand():
    source = parse_source(GEMM)
    assert [(m.line, m.names) for m in source.holds] == [(21, ("As", "Bs", "acc"))]
    assert [(m.line, m.names) for m in source.snapshots] == [(22, ("load", "t"))]
    assert shows_itself(source)
    assert not shows_itself(parse_source(SUM))


def test_of_a_hold_at_only_the_pointer_is_a_name():
    source = parse_source("__global__ void k(float* x) { HOLD_AT(x, f(1, 2), 3); }")
    assert [(m.line, m.names) for m in source.holds] == [(1, ("x",))]


def test_a_file_that_cannot_be_read_is_said_so(tmp_path):
    with pytest.raises(ParameterError, match="No such file"):
        read_source(tmp_path / "no.cu")
    (tmp_path / "latin.cu").write_bytes(b"// caf\xe9\n")
    with pytest.raises(ParameterError, match="not UTF-8"):
        read_source(tmp_path / "latin.cu")
    with pytest.raises(ParameterError, match="NUL"):
        parse_source("a\0b")


def test_windows_line_ends_and_a_byte_order_mark_are_read(tmp_path):
    (tmp_path / "sum.cu").write_bytes(b"\xef\xbb\xbf" + SUM.replace("\n", "\r\n").encode())
    source = read_source(tmp_path / "sum.cu")
    assert [(f.name, f.line) for f in source.functions] == [("sum", 5)]
    assert source.text.startswith("__device__")
    assert device_text(source) == source.text
    assert (
        listening_text(source)
        .split("\r\n")[5]
        .startswith("    __shared__ float part[32]; KIM_SHARED(part); part")
    )


def test_what_is_for_the_host_is_blanked_and_the_rest_stays_in_place():
    text = device_text(parse_source(GEMM))
    before, after = GEMM.split("\n"), text.split("\n")
    assert len(before) == len(after)
    kept = {4, 5, 7, 9, 10, 14, *range(15, 25)}  # by hand
    for number, (old, new) in enumerate(zip(before, after, strict=True), start=1):
        if number in kept:
            assert new == old, number
        else:
            assert not new.strip(), (number, new)


def test_a_host_function_does_not_hide_a_kernel_on_its_line():
    text = "int main() { k<<<1, 1>>>(); } __global__ void k() {}\n"
    assert device_text(parse_source(text)) == " " * 30 + "__global__ void k() {}\n"


def test_directives_around_host_code_stay_paired():
    text = "#ifdef WIN\nint main() {\n#else\nint start() {\n#endif\n}\n__global__ void k() {}\n"
    left = device_text(parse_source(text))
    assert re.findall(r"#\w+", left) == ["#ifdef", "#else", "#endif"]
    assert "__global__ void k() {}" in left


@pytest.mark.parametrize(
    "line",
    [
        "dim3 block(512);",
        "float* host_data = nullptr;",
        "struct Timer { cudaEvent_t start; };",
        "void run(float*, int);",
        "template <class T> void run(T* x, int n);",
        "BENCHMARK(run);",
        "PYBIND11_MODULE(name, m) { m.def(1); }",
        "torch::Tensor forward(torch::Tensor Q) { return Q; }",
        "static int parse(char** argv) { return argv[0][0]; }",
        "typedef std::vector<float> Vector;",
        "enum Mode { QUICK, SLOW };",
        "const int UNUSED = 3;",
    ],
)
def test_these_are_for_the_host_alone(line):
    assert (
        device_text(parse_source(f"{line}\n__global__ void k() {{}}\n")).strip() == "__global__ void k() {}"
    )


@pytest.mark.parametrize(
    "line",
    [
        "struct Pair { float a, b; };",
        "enum Mode { Pair, SLOW };",
        "const int BM = 64, Pair = 3;",
        "constexpr float Pair[] = {1, 2};",
        "__constant__ float table[3];",
        "__device__ int counter;",
        "namespace cg = cooperative_groups;",
        "using namespace nvcuda;",
        "static_assert(sizeof(float) == 4);",
        "template <class T> struct Pair { T a; __device__ T sum() { return a; } };",
        "template <int N> __host__ __device__ inline int twice() { return 2 * N; }",
        "template __global__ void k<3>(float*);",
        "#pragma once",
        "#include <cooperative_groups/reduce.h>",
        "#include <mma.h>",
    ],
)
def test_these_stay_for_the_device(line):
    text = f"{line}\n__global__ void k() {{ use(sizeof(Pair)); }}\n"
    assert device_text(parse_source(text)) == text


def test_a_files_own_headers_are_found_and_stripped_of_the_host_too(tmp_path):
    (tmp_path / "inner.cuh").write_text(
        "#include <vector>\nstruct Unused { int a; };\nint host() { return 1; }\n"
    )
    (tmp_path / "common.h").write_text(
        '#include "inner.cuh"\n__device__ float twice(float x) { return 2 * x; }\n'
    )
    (tmp_path / "main.cu").write_text('#include "common.h"\n#include "absent.h"\n__global__ void k() {}\n')
    source = read_source(tmp_path / "main.cu")
    assert device_text(source) == source.text
    headers = own_headers(source)
    assert list(headers) == ["common.h", "inner.cuh"]
    assert bare(device_text(headers["inner.cuh"])) == "struct Unused { int a; };"


def test_shared_variables_are_made_known_on_their_line():
    lines = listening_text(parse_source(GEMM)).split("\n")
    assert lines[17] == "    __shared__ float As[T][T + 1],"
    assert lines[18] == "                     Bs[T][T]; KIM_SHARED(As); KIM_SHARED(Bs);  // two tiles"
    assert len(lines) == len(GEMM.split("\n"))


def test_shared_variables_in_a_nested_block_are_made_known_there():
    assert "{ __shared__ float total; KIM_SHARED(total); total" in listening_text(parse_source(SUM))


@pytest.mark.parametrize(
    ("declared", "calls"),
    [
        ("__shared__ float s;", "KIM_SHARED(s);"),
        ("static __shared__ __align__(16) half a[2][8], b;", "KIM_SHARED(a); KIM_SHARED(b);"),
        ("__shared__ alignas(sizeof(float4)) float a[3];", "KIM_SHARED(a);"),
        ("alignas(16) __shared__ float a[N < 3 ? 1 : 2], c;", "KIM_SHARED(a); KIM_SHARED(c);"),
        ("__shared__ Sram<Br, Bc> s;", "KIM_SHARED(s);"),
        ("__shared__ struct { float a; int b; } s;", "KIM_SHARED(s);"),
        ("volatile __shared__ typename Scan::TempStorage temp;", "KIM_SHARED(temp);"),
        ("extern __shared__ float s[];", "KIM_SHARED_DYNAMIC(s);"),
        ("extern __shared__ __align__(16) unsigned char s[];", "KIM_SHARED_DYNAMIC(s);"),
    ],
)
def test_each_way_to_declare_a_shared_variable_is_known(declared, calls):
    text = f"__device__ void f() {{ int a; {declared} int z; }}\n"
    assert listening_text(parse_source(text)) == text.replace(declared, f"{declared} {calls}")


def test_a_word_for_shared_and_a_comment_about_it_are_told_apart():
    text = "#define SHARED __shared__\n__global__ void k() { SHARED int a; /* __shared__ int b; */ }\n"
    assert listening_text(parse_source(text)).count("KIM_SHARED(") == 1


def test_shared_memory_outside_functions_is_made_known_in_the_kernels_that_use_it():
    text = """\
extern __shared__ float all[];
__shared__ int one;
__device__ float first() { return all[0]; }
__global__ void a(float* x) { x[0] = first(); }
__global__ void b(float* x) { x[0] = one; }
__global__ void c(float* x) { x[0] = 0; }
"""
    heard = listening_text(parse_source(text)).split("\n")
    assert heard[:3] == text.split("\n")[:3]
    assert heard[3] == "__global__ void a(float* x) { KIM_SHARED_DYNAMIC(all); x[0] = first(); }"
    assert heard[4] == "__global__ void b(float* x) { KIM_SHARED(one); x[0] = one; }"
    assert heard[5] == text.split("\n")[5]
    cpu = cpu_text(parse_source(text)).split("\n")
    pointer = "float* all = (float*)kim::dynamic_shared();"
    assert cpu[0] == ""
    assert cpu[2] == f"__device__ float first() {{ {pointer} return all[0]; }}"
    assert cpu[3] == f"__global__ void a(float* x) {{ {pointer} KIM_SHARED_DYNAMIC(all); x[0] = first(); }}"


@pytest.mark.parametrize(
    ("declared", "becomes"),
    [
        (
            "extern __shared__ __align__(16) T s[];",
            "T* s = (T*)kim::dynamic_shared(); KIM_SHARED_DYNAMIC(s);",
        ),
        (
            "extern __shared__ float4 s[][8];",
            "float4 (*s)[8] = (float4 (*)[8])kim::dynamic_shared(); KIM_SHARED_DYNAMIC(s);",
        ),
        (
            "extern __shared__ Sram<2, 4> s;",
            "Sram<2, 4>& s = *(Sram<2, 4>*)kim::dynamic_shared(); KIM_SHARED_DYNAMIC(s);",
        ),
        (
            "__shared__ alignas(16) float s[4];",
            "__shared__ __attribute__((aligned(16))) float s[4]; KIM_SHARED(s);",
        ),
    ],
)
def test_on_the_cpu_dynamic_shared_memory_is_a_pointer(declared, becomes):
    text = "template <class T> __global__ void k(T* x) { DECLARED int z; }\n"
    assert cpu_text(parse_source(text.replace("DECLARED", declared))) == text.replace("DECLARED", becomes)


@pytest.mark.parametrize(
    ("inside", "words"),
    [
        ('asm volatile("bar.sync 0;");', "inline PTX"),
        ("nvcuda::wmma::fill_fragment(f, 0);", "tensor-core"),
        ("cg::this_grid().sync();", "whole grid"),
        ("other<<<1, 1>>>();", "dynamic parallelism"),
        ("helper(1);", "inline PTX"),
    ],
)
def test_what_only_a_gpu_has_is_refused_on_the_cpu_with_its_line(inside, words):
    text = (
        "#include <mma.h>\n"
        "__device__ void helper(int a) {\n"
        '    asm("nanosleep.u32 1;"); }\n'
        f"__global__ void k() {{ // asm\n\n    {inside}\n}}\n__global__ void fine() {{ int asmx; }}\n"
    )
    source = parse_source(text)
    line = 3 if "helper" in inside else 6
    with pytest.raises(BackendError, match=rf"kernel.cu, line {line}: k needs .*{words}"):
        refuse_on_cpu(source, find_function(source, "k"))
    refuse_on_cpu(source, find_function(source, "fine"))
    assert bare(cpu_text(source)) == "__global__ void fine() { int asmx; }"


@pytest.mark.skipif(nvrtc.library() is None, reason="needs the nvidia-cuda-nvrtc wheel")
def test_the_device_text_of_a_whole_program_compiles():
    text = GEMM.replace("#include <cuda_fp16.h>\n", "\n").replace("constexpr", "__device__ constexpr")
    source = parse_source("#define HOLD(...)\n#define SNAPSHOT(...)\n" + text)
    assert nvrtc.compile_cubin(device_text(source), "tiled::gemm<16, float>")
