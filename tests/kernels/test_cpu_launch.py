"""Plain kernels on the CPU: what they compute, what is logged of them, and the one sentence for what goes wrong."""

from __future__ import annotations

import re
import time
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from kernels.errors import BackendError, ParameterError
from kernels.launch.cpu import Cpu
from kernels.launch.request import Argument, Launch, Request
from kernels.launch.source import find_function, parse_source, read_source
from kernels.listen.log import ELEMENTS, HOLD_INFO, SNAPSHOT_INFO, BlockLog, Kind, LaunchLog, Space

Array = npt.NDArray[Any]
Dim3 = tuple[int, int, int]
POISON = np.uint32(0x7F85A110)


def request(
    text: str,
    kernel: str,
    grid: Dim3 = (1, 1, 1),
    block: Dim3 = (1, 1, 1),
    shared: int = 0,
    blocks: tuple[int, int] | None = None,
    steps: tuple[int, int] | None = None,
    **given: Any,
) -> Request:
    """A request of one launch; arrays and NumPy scalars by parameter name."""
    source = parse_source(text, "x.cu")
    names = [parameter.name for parameter in find_function(source, kernel).parameters]
    arguments = tuple(
        Argument(name, None if isinstance(given[name], np.ndarray) else given[name], "test") for name in names
    )
    arrays = {name: value for name, value in given.items() if isinstance(value, np.ndarray)}
    return Request(source, (Launch(kernel, grid, block, shared, arguments),), arrays, blocks, steps)


def run(*args: Any, **given: Any) -> dict[str, Array]:
    """What the arrays hold after a run, which is the same traced and untraced."""
    asked = request(*args, **given)
    plain = Cpu().run(asked)
    _, traced = Cpu().trace(asked)
    for name, array in plain.items():
        assert array.tobytes() == traced[name].tobytes()
    return plain


def log(*args: Any, **given: Any) -> tuple[LaunchLog, dict[str, Array]]:
    (one,), after = Cpu().trace(request(*args, **given))
    return one, after


def rows(one: BlockLog, *kinds: Kind, space: Space | None = None) -> Array:
    found = one.rows[np.isin(one.rows["kind"], kinds)]
    return found if space is None else found[found["space"] == space]


def value(one: BlockLog, row: Any, dtype: Any) -> Any:
    """What stands in the payload for a row."""
    return np.frombuffer(one.payload[int(row["value"]) :].tobytes(), dtype, 1)[0]


def said(*args: Any, traced: bool = True, **given: Any) -> str:
    """The sentence that a request ends in."""
    asked, backend = request(*args, **given), Cpu(longest=0.5)
    with pytest.raises(BackendError) as caught:
        backend.trace(asked) if traced else backend.run(asked)
    return str(caught.value)


def normal(*shape: int, dtype: Any = np.float32) -> Array:
    return np.random.default_rng(7).standard_normal(shape).astype(dtype)


GEMM = """#include <kernels_in_motion.h>
__global__ void gemm(const float* A, const float* B, float* C, int n) {
    __shared__ float As[16][16], Bs[16][16];
    float acc = 0;
    HOLD(As, Bs, acc);
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 16 + y, column = blockIdx.x * 16 + x;
    for (int t = 0; t < n / 16; t++) {
        As[y][x] = A[row * n + t * 16 + x];
        Bs[y][x] = B[(t * 16 + y) * n + column];
        __syncthreads();
        SNAPSHOT(load, t);
        for (int k = 0; k < 16; k++) acc += As[y][k] * Bs[k][x];
        __syncthreads();
        SNAPSHOT(multiply, t);
    }
    C[row * n + column] = acc;
    SNAPSHOT(store);
}
"""


def gemm(**window: Any) -> Request:
    return request(
        GEMM, "gemm", (2, 2, 1), (16, 16, 1), A=normal(32, 32), B=normal(2, 32, 32)[1],
        C=np.zeros((32, 32), np.float32), n=np.int32(32), **window,
    )  # fmt: skip


def test_a_block_of_two_dimensions_multiplies_matrices() -> None:
    asked = gemm()
    after = Cpu().run(asked)
    np.testing.assert_allclose(after["C"], asked.arrays["A"] @ asked.arrays["B"], atol=1e-4)


def test_each_access_is_logged_with_its_line_and_what_it_left() -> None:
    asked = gemm()
    (one,), after = Cpu().trace(asked)
    block = one.blocks[3]
    assert block.block == (1, 1, 0)
    reads = rows(block, Kind.READ, space=Space.HBM)
    assert len(reads) == 256 * 2 * 2  # each thread one of A and one of B in each of two steps
    at, _ = one.arrays["A"]
    of_a = reads[np.array([one.sites[site].line == 8 for site in reads["site"]])]
    mine = of_a[of_a["thread"] == 16 * 3 + 5]
    assert ((mine["address"] - at) // 4).tolist() == [(16 + 3) * 32 + 5, (16 + 3) * 32 + 16 + 5]
    writes = rows(block, Kind.WRITE, space=Space.HBM)
    assert len(writes) == 256
    for row in writes[::17]:
        cell = (int(row["address"]) - one.arrays["C"][0]) // 4
        assert value(block, row, np.float32) == after["C"].reshape(-1)[cell]
        assert one.sites[row["site"]].line == 16


def test_a_held_register_is_logged_from_its_first_value_on() -> None:
    (one,), after = Cpu().trace(gemm())
    block = one.blocks[0]
    writes = rows(block, Kind.WRITE, space=Space.REGISTERS)
    mine = writes[writes["thread"] == 16 * 2 + 9]
    assert len(mine) == 1 + 32
    assert [one.sites[site].line for site in mine["site"][:2]] == [4, 12]
    assert value(block, mine[0], np.float32) == 0
    assert value(block, mine[-1], np.float32) == after["C"][2, 9]
    holds = rows(block, Kind.HOLD, space=Space.REGISTERS)
    assert len(holds) == len(rows(block, Kind.DROP, space=Space.REGISTERS)) == 256
    info = value(block, holds[0], HOLD_INFO)
    assert one.texts[info["text"]] == "As, Bs, acc"
    assert (info["index"], ELEMENTS[info["element"]], info["rank"], info["hidden"]) == (2, "float32", 0, 0)


def test_steps_and_barriers_stand_in_the_order_of_each_thread() -> None:
    (one,), _ = Cpu().trace(gemm())
    block = one.blocks[0]
    events = rows(block, Kind.BARRIER, Kind.SNAPSHOT)
    mine = events[events["thread"] == 255]
    told = []
    for row in mine:
        line = one.sites[row["site"]].line
        if row["kind"] == Kind.BARRIER:
            told.append(f"barrier {line}")
        else:
            info = value(block, row, SNAPSHOT_INFO)
            told.append(f"{one.texts[info['text']]} {info['loops'][: info['count']].tolist()} {line}")
    step = ["barrier 10", "load, t [{}] 11", "barrier 13", "multiply, t [{}] 14"]
    assert told == [text.format(t) for t in (0, 1) for text in step] + ["store [] 17"]


def test_writes_name_the_sites_that_they_are_made_of() -> None:
    (one,), _ = Cpu().trace(gemm())
    made = {}
    for row in rows(one.blocks[0], Kind.WRITE):
        site = one.sites[row["site"]]
        assert site.made_of is not None
        made[site.line] = sorted(one.sites[source.site].line for source in site.made_of)
    assert made == {4: [], 8: [8], 9: [9], 12: [12, 12, 12], 16: [16]}


def test_lanes_of_a_warp_share_a_request_and_no_others() -> None:
    (one,), _ = Cpu().trace(gemm())
    block = one.blocks[0]
    reads = rows(block, Kind.READ, space=Space.HBM)
    requests, counts = np.unique(reads["request"], return_counts=True)
    assert len(requests) == 8 * 4
    assert set(counts.tolist()) == {32}
    for number in requests:
        lanes = reads[reads["request"] == number]
        assert len(set((lanes["thread"] // 32).tolist())) == 1
        assert len(set(lanes["site"].tolist())) == 1


def test_a_window_of_blocks_and_steps_logs_no_more() -> None:
    (one,), after = Cpu().trace(gemm(blocks=(1, 3), steps=(0, 2)))
    assert [block.block for block in one.blocks] == [(1, 0, 0), (0, 1, 0)]
    for block in one.blocks:
        assert len(rows(block, Kind.SNAPSHOT)) == 2 * 256
        assert len(rows(block, Kind.WRITE, space=Space.HBM)) == 0
    whole = Cpu().run(gemm())
    assert after["C"].tobytes() == whole["C"].tobytes()


def test_without_a_snapshot_barriers_end_the_steps_of_a_window() -> None:
    text = re.sub(r"SNAPSHOT.*;", "", GEMM)
    asked = gemm()
    plain = Request(parse_source(text, "x.cu"), asked.launches, asked.arrays, steps=(0, 1))
    (one,), _ = Cpu().trace(plain)
    assert len(rows(one.blocks[0], Kind.BARRIER)) == 256


WARP = """
__global__ void warp(const int* x, int* y) {
    int t = threadIdx.x, v = x[t];
    unsigned all = 0xffffffff;
    y[0 * 64 + t] = __shfl_sync(all, v, 3);
    y[1 * 64 + t] = __shfl_up_sync(all, v, 2);
    y[2 * 64 + t] = __shfl_down_sync(all, v, 5, 8);
    y[3 * 64 + t] = __shfl_xor_sync(all, v, 16);
    y[4 * 64 + t] = (int)__ballot_sync(all, v > 50);
    y[5 * 64 + t] = __any_sync(all, v == 7) + 2 * __all_sync(all, v < 90);
    y[6 * 64 + t] = __reduce_add_sync(all, v);
    y[7 * 64 + t] = __reduce_max_sync(all, v);
    y[8 * 64 + t] = (int)__match_any_sync(all, v % 3);
    if (t % 4 == 1) y[9 * 64 + t] = (int)__activemask();
    if (t % 2) y[10 * 64 + t] = __shfl_sync(0xaaaaaaaa, v, 5);
    y[11 * 64 + t] = __syncthreads_count(v > 50) + 1000 * __syncthreads_or(v == 7) + 2000 * __syncthreads_and(v < 90);
}
"""


def test_the_lanes_of_a_warp_exchange_what_cuda_says() -> None:
    x = np.random.default_rng(3).integers(0, 90, 64).astype(np.int32)
    y = run(WARP, "warp", (1, 1, 1), (64, 1, 1), x=x, y=np.zeros((12, 64), np.int32))["y"]
    t = np.arange(64)
    lane, base = t % 32, t // 32 * 32
    warps = x.reshape(2, 32)

    def bits(flags: Array) -> Array:
        words = (flags.reshape(2, 32).astype(np.uint64) << np.arange(32, dtype=np.uint64)).sum(axis=1)
        return np.repeat(words, 32).astype(np.uint32).view(np.int32)

    assert y[0].tolist() == x[base + 3].tolist()
    assert y[1].tolist() == np.where(lane < 2, x, x[np.maximum(t - 2, 0)]).tolist()
    assert y[2].tolist() == np.where(t % 8 + 5 < 8, x[np.minimum(t + 5, 63)], x).tolist()
    assert y[3].tolist() == x[t ^ 16].tolist()
    assert y[4].tolist() == bits(x > 50).tolist()
    either = (warps == 7).any(axis=1) + 2 * (warps < 90).all(axis=1)
    assert y[5].tolist() == np.repeat(either, 32).tolist()
    assert y[6].tolist() == np.repeat(warps.sum(axis=1), 32).tolist()
    assert y[7].tolist() == np.repeat(warps.max(axis=1), 32).tolist()
    same = [
        sum(1 << m for m in range(32) if warps[w, m] % 3 == warps[w, n] % 3)
        for w in (0, 1)
        for n in range(32)
    ]
    assert y[8].view(np.uint32).tolist() == same
    assert y[9][t % 4 == 1].view(np.uint32).tolist() == [0x22222222] * 16
    assert y[10][t % 2 == 1].tolist() == x[base + 5][t % 2 == 1].tolist()
    assert y[11].tolist() == [(x > 50).sum() + 1000 * (x == 7).any() + 2000 * (x < 90).all()] * 64


def test_tiles_of_cooperative_groups_exchange_within_themselves() -> None:
    text = """
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
__global__ void f(const int* x, int* y) {
    auto block = cg::this_thread_block();
    cg::thread_block_tile<8> tile8 = cg::thread_block_tile<8>();
    auto tile = cg::tiled_partition<8>(block);
    int v = x[block.thread_rank()];
    y[block.thread_rank()] = cg::reduce(tile, v, cg::plus<int>()) + 1000 * tile.shfl(v, 2) + 100000 * tile8.any(v == 7);
    block.sync();
}"""
    x = np.random.default_rng(3).integers(0, 12, 64).astype(np.int32)
    y = run(text, "f", (1, 1, 1), (64, 1, 1), x=x, y=np.zeros(64, np.int32))["y"]
    tiles = x.reshape(8, 8)
    expected = tiles.sum(axis=1) + 1000 * tiles[:, 2] + 100000 * (tiles == 7).any(axis=1)
    assert y.tolist() == np.repeat(expected, 8).tolist()


ATOMICS = """
__global__ void histogram(const int* x, int* counts, float* total, int n) {
    __shared__ int bins[8];
    if (threadIdx.x < 8) bins[threadIdx.x] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) { atomicAdd(&bins[x[i]], 1); atomicAdd(total, 0.5f); }
    __syncthreads();
    if (threadIdx.x < 8) atomicMax(&counts[threadIdx.x], bins[threadIdx.x]);
}
"""


def test_an_atomic_is_one_row_with_what_it_left() -> None:
    x = np.random.default_rng(4).integers(0, 8, 100).astype(np.int32)
    given = {"x": x, "counts": np.zeros(8, np.int32), "total": np.zeros(1, np.float32), "n": np.int32(100)}
    after = run(ATOMICS, "histogram", (1, 1, 1), (32, 1, 1), **given)
    assert after["counts"].tolist() == np.bincount(x, minlength=8).tolist()
    assert after["total"].tolist() == [50]
    one, _ = log(ATOMICS, "histogram", (1, 1, 1), (32, 1, 1), **given)
    block = one.blocks[0]
    shared = rows(block, Kind.ATOMIC, space=Space.SRAM)
    first = shared["address"].min()
    seen = np.zeros(8, int)
    for row in shared:
        bin = int(row["address"] - first) // 4
        seen[bin] += 1
        assert value(block, row, np.int32) == seen[bin]
        assert one.sites[row["site"]].line == 6
    assert len(rows(block, Kind.READ, space=Space.SRAM)) == 8  # an atomic is no read beside it
    assert len(rows(block, Kind.ATOMIC, space=Space.HBM)) == 108


def test_every_atomic_does_what_its_name_says() -> None:
    text = """
__global__ void all(int* i, unsigned* u, unsigned long long* w, double* d, int* old) {
    old[0] = atomicSub(i, 3); old[1] = atomicMin(i + 1, -5); old[2] = atomicExch(i + 2, 9);
    old[3] = atomicCAS(i + 3, 4, 40); old[4] = atomicCAS(i + 3, 4, 41);
    old[5] = atomicAnd(u, 6u); old[6] = atomicOr(u + 1, 8u); old[7] = atomicXor(u + 2, 5u);
    old[8] = atomicInc(u + 3, 2u); old[9] = atomicInc(u + 3, 2u); old[10] = atomicDec(u + 4, 7u);
    atomicAdd(w, 1ull << 40); atomicAdd(d, 0.25);
}"""
    after = run(
        text, "all", i=np.array([1, 2, 3, 4], np.int32), u=np.array([5, 1, 4, 1, 0], np.uint32),
        w=np.array([2], np.uint64), d=np.array([1.5]), old=np.zeros(11, np.int32),
    )  # fmt: skip
    assert after["i"].tolist() == [-2, -5, 9, 40]
    assert after["u"].tolist() == [4, 9, 1, 0, 7]
    assert after["old"].tolist() == [1, 2, 3, 4, 40, 5, 1, 4, 1, 2, 0]
    assert (after["w"].tolist(), after["d"].tolist()) == ([2 + 2**40], [1.75])


def test_half_and_bfloat_round_as_numpy_does() -> None:
    text = """
#include <cuda_fp16.h>
#include <cuda_bf16.h>
__global__ void convert(const float* x, __half* h, nv_bfloat16* b, const __half* all, float* back, int n) {
    for (int i = 0; i < n; i++) { h[i] = __float2half(x[i]); b[i] = __float2bfloat16(x[i]); }
    for (int i = 0; i < 65536; i++) back[i] = __half2float(all[i]);
}"""
    every = np.arange(65536, dtype=np.uint16).view(np.float16)
    exact = every[np.isfinite(every)].astype(np.float32)
    near = np.concatenate([np.nextafter(exact, np.float32(k)) for k in (-np.inf, np.inf)])
    middle = ((exact.astype(np.float64)[1:] + exact[:-1]) / 2).astype(np.float32)
    drawn = np.random.default_rng(5).integers(0, 2**32, 20000, dtype=np.uint32).view(np.float32)
    x = np.concatenate(
        [
            exact,
            near,
            middle,
            np.nextafter(middle, np.float32(9)),
            drawn,
            np.array([65519.99, 65520], np.float32),
        ]
    )
    x = x[~np.isnan(x)]
    with np.errstate(over="ignore", invalid="ignore"):
        half, bfloat = x.astype(np.float16), x.astype(ml_dtypes.bfloat16)
    after = Cpu().run(
        request(
            text, "convert", x=x, h=np.zeros(len(x), np.float16), b=np.zeros(len(x), ml_dtypes.bfloat16),
            all=every, back=np.zeros(65536, np.float32), n=np.int32(len(x)),
        )
    )  # fmt: skip
    assert after["h"].tobytes() == half.tobytes()
    assert after["b"].tobytes() == bfloat.tobytes()
    np.testing.assert_array_equal(after["back"], every.astype(np.float32))


def test_half2_adds_two_at_once_and_is_one_access() -> None:
    text = """
#include <cuda_fp16.h>
__global__ void axpy(const half2* x, half2* y, __half a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = __hfma2(__half2half2(a), x[i], y[i]);
}"""
    x, y = normal(64, dtype=np.float16), normal(2, 64)[1].astype(np.float16)
    given = {"x": x, "y": y, "a": np.float16(1.5), "n": np.int32(32)}
    after = run(text, "axpy", (1, 1, 1), (32, 1, 1), **given)
    exact = (1.5 * x.astype(np.float64) + y).astype(np.float16)  # a fused multiply-add rounds once
    assert after["y"].tobytes() == exact.tobytes()
    one, _ = log(text, "axpy", (1, 1, 1), (32, 1, 1), **given)
    assert one.blocks[0].rows["size"].tolist() == [4] * 96


def test_a_float4_is_one_access_of_16_bytes() -> None:
    text = """
__global__ void scale(const float4* x, float4* y) {
    float4 v = x[threadIdx.x];
    y[threadIdx.x] = make_float4(v.x * 2, v.y * 2, v.z * 2, v.w * 2);
}"""
    x = normal(64)
    one, after = log(text, "scale", (1, 1, 1), (16, 1, 1), x=x, y=np.zeros(64, np.float32))
    np.testing.assert_array_equal(after["y"], x * 2)
    assert [row["size"] for row in one.blocks[0].rows] == [16] * 32
    first = rows(one.blocks[0], Kind.WRITE)[0]
    assert value(one.blocks[0], first, (np.float32, 4)).tolist() == (x[:4] * 2).tolist()


PIPELINE = """
#include <cuda_pipeline.h>
__global__ void twice(const float* x, float* y) {
    __shared__ alignas(16) float s[64];
    __pipeline_memcpy_async(&s[4 * threadIdx.x], &x[4 * threadIdx.x], 16);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    for (int k = 0; k < 4; k++) y[4 * threadIdx.x + k] = 2 * s[4 * threadIdx.x + k];
}
"""


def test_an_asynchronous_copy_arrives_at_its_wait() -> None:
    x = normal(64)
    one, after = log(PIPELINE, "twice", (1, 1, 1), (16, 1, 1), x=x, y=np.zeros(64, np.float32))
    np.testing.assert_array_equal(after["y"], 2 * x)
    block = one.blocks[0]
    arrivals = rows(block, Kind.WRITE, space=Space.SRAM)
    assert [one.sites[site].line for site in arrivals["site"]] == [5] * 16
    assert value(block, arrivals[3], (np.float32, 4)).tolist() == x[12:16].tolist()
    made = one.sites[arrivals["site"][0]].made_of
    assert made is not None
    assert {one.sites[source.site].line for source in made} == {5}


def test_a_copy_that_nobody_waits_for_never_arrives() -> None:
    text = PIPELINE.replace("__pipeline_wait_prior(0)", "__pipeline_wait_prior(1)")
    one, after = log(text, "twice", (1, 1, 1), (16, 1, 1), x=normal(64), y=np.zeros(64, np.float32))
    assert np.isnan(after["y"]).all()
    assert len(rows(one.blocks[0], Kind.WRITE, space=Space.SRAM)) == 0


@pytest.mark.parametrize("window", [None, (0, 1), (1, 2)])
def test_shared_memory_is_poison_again_in_each_block(window: tuple[int, int] | None) -> None:
    text = """
__global__ void leak(unsigned* y) {
    __shared__ float s[2];
    y[2 * blockIdx.x] = __float_as_uint(s[0]);
    s[0] = s[1] = 7;
    y[2 * blockIdx.x + 1] = __float_as_uint(s[1]);
}"""
    _, after = log(text, "leak", (2, 1, 1), y=np.zeros(4, np.uint32), blocks=window)
    seven = int(np.float32(7).view(np.uint32))
    assert after["y"].tolist() == [POISON, seven, POISON, seven]


def test_dynamic_shared_memory_is_poison_in_an_untraced_run_too() -> None:
    text = """
__global__ void leak(unsigned* y) {
    extern __shared__ unsigned s[];
    y[blockIdx.x] = s[0];
    s[0] = 7;
}"""
    assert run(text, "leak", (2, 1, 1), (1, 1, 1), 4, y=np.zeros(2, np.uint32))["y"].tolist() == [POISON] * 2


def test_dynamic_shared_memory_has_the_bytes_it_was_given() -> None:
    text = """
__global__ void reverse(const double* x, double* y) {
    extern __shared__ double s[];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = s[blockDim.x - 1 - threadIdx.x];
}"""
    x = normal(40, dtype=np.float64)
    one, after = log(text, "reverse", (1, 1, 1), (40, 1, 1), 320, x=x, y=np.zeros(40))
    assert after["y"].tolist() == x[::-1].tolist()
    info = value(one.blocks[0], rows(one.blocks[0], Kind.HOLD)[0], HOLD_INFO)
    assert (one.texts[info["text"]], ELEMENTS[info["element"]], info["extents"][0]) == ("s", "float64", 40)


def test_1024_threads_in_three_dimensions_have_their_indices() -> None:
    text = """
__global__ void where(int* y) {
    int t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    int b = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    y[b * 1024 + t] = threadIdx.x + 100 * threadIdx.y + 10000 * threadIdx.z + 1000000 * (blockIdx.y + 2 * blockIdx.z);
}"""
    y = run(text, "where", (2, 2, 2), (4, 16, 16), y=np.zeros((2, 2, 2, 16, 16, 4), np.int32))["y"]
    bz, by, _, tz, ty, tx = np.indices(y.shape)
    np.testing.assert_array_equal(y, tx + 100 * ty + 10000 * tz + 1000000 * (by + 2 * bz))


def test_launches_of_a_request_share_their_arrays_and_each_request_starts_anew() -> None:
    text = """
__device__ int calls;
template <int K> __global__ void add(int* y) { y[threadIdx.x] += K; if (threadIdx.x == 0) y[2] = ++calls; }
"""
    source = parse_source(text, "x.cu")
    launches = tuple(
        Launch(name, (1, 1, 1), (2, 1, 1), 0, (Argument("y", None, "test"),)) for name in ("add<3>", "add<5>")
    )
    asked = Request(source, launches, {"y": np.zeros(3, np.int32)})
    for _ in range(2):
        assert Cpu().run(asked)["y"].tolist() == [8, 8, 2]
        logs, after = Cpu().trace(asked)
        assert after["y"].tolist() == [8, 8, 2]
        assert logs[1].before["y"].tolist() == [3, 3, 1]
    assert asked.arrays["y"].tolist() == [0, 0, 0]


OUTSIDE = """
__global__ void shift(const float* x, float* y, int by) {
    int i = blockIdx.x * 8 + threadIdx.x;
    y[i] =
        x[i + by];
}
"""


@pytest.mark.parametrize("traced", [True, False])
@pytest.mark.parametrize(("by", "index", "thread"), [(1, 16, 7), (-1, -1, 0), (20000, 20000, 0)])
def test_an_access_outside_names_array_index_line_and_thread(
    traced: bool, by: int, index: int, thread: int
) -> None:
    if not traced and by == 1:
        return  # within the page that the array ends in, which only a traced run sees
    text = said(
        OUTSIDE, "shift", (2, 1, 1), (8, 1, 1), x=normal(16), y=np.zeros(16, np.float32), by=np.int32(by),
        traced=traced,
    )  # fmt: skip
    block = 1 if by == 1 else 0
    assert f"line 5: thread ({thread}, 0, 0) of block ({block}, 0, 0) reads x[{index}]" in text


@pytest.mark.parametrize("traced", [True, False])
def test_a_wild_pointer_ends_the_launch_and_not_python(traced: bool) -> None:
    text = (
        "\n__global__ void wild(int* y) {\n    int* p = nullptr;\n    if (y[0] == 0) p[threadIdx.x] = 3;\n}\n"
    )
    found = said(text, "wild", (1, 1, 1), (2, 1, 1), y=np.zeros(1, np.int32), traced=traced)
    assert "x.cu line 4: thread (0, 0, 0) of block (0, 0, 0) writes the address 0x0" in found


def test_a_misaligned_float4_is_refused_as_a_gpu_does() -> None:
    text = "__global__ void f(float* x) { ((float4*)(x + 1))[0] = make_float4(1, 2, 3, 4); }"
    found = said(text, "f", x=np.zeros(8, np.float32))
    assert "line 1" in found
    assert "moves 16 bytes at once" in found
    assert "x[1]" in found


UNEQUAL = """
__global__ void wait(int* y) {
    if (threadIdx.x >= 40)
        __syncthreads();
    y[threadIdx.x] = 1;
}
"""


@pytest.mark.parametrize("traced", [True, False])
def test_a_barrier_that_others_do_not_reach_is_told_at_once(traced: bool) -> None:
    started = time.monotonic()
    found = said(UNEQUAL, "wait", (1, 1, 1), (64, 1, 1), y=np.zeros(64, np.int32), traced=traced)
    assert found == (
        "24 of 64 threads of block (0, 0, 0), the first is thread (40, 0, 0), wait at the __syncthreads() of line 4 of "
        "x.cu; the others have returned"
    )
    assert time.monotonic() - started < 20


def test_barriers_of_two_lines_do_not_meet() -> None:
    text = UNEQUAL.replace("y[threadIdx.x] = 1;", "else __syncthreads();")
    found = said(text, "wait", (1, 1, 1), (64, 1, 1), y=np.zeros(64, np.int32))
    assert found == (
        "40 of 64 threads of block (0, 0, 0), the first is thread (0, 0, 0), wait at the __syncthreads() of line 5 of "
        "x.cu; the others wait at the __syncthreads() of line 4"
    )


def test_a_shuffle_that_lanes_of_its_mask_do_not_reach_is_told() -> None:
    text = """
__global__ void f(int* y) {
    if (threadIdx.x < 16) y[threadIdx.x] = __shfl_down_sync(0xffffffff, 1, 1);
}"""
    found = said(text, "f", (1, 1, 1), (32, 1, 1), y=np.zeros(32, np.int32))
    assert found == (
        "16 of 32 threads of block (0, 0, 0), the first is thread (0, 0, 0), wait at the __shfl_down_sync() of line 3 "
        "of x.cu; the others have returned"
    )


@pytest.mark.parametrize("traced", [True, False])
def test_a_kernel_that_never_ends_is_ended(traced: bool) -> None:
    text = "__global__ void spin(volatile int* y) {\n    while (y[0] == 0)\n        ;\n}\n"
    found = said(text, "spin", y=np.zeros(1, np.int32), traced=traced)
    assert "does not end: thread (0, 0, 0) of block (0, 0, 0) is at line 2" in found


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("y[0] = y[0] / y[1];", "divides a whole number by zero"),
        ("assert(y[0] == 1);", "met a __trap() or an assert()"),
        (
            "float a[1 << 20]; for (int i = 0; i < 1 << 20; i++) ((volatile float*)a)[i] = i; y[0] = a[y[1]];",
            "256 KiB",
        ),
    ],
)
def test_what_would_end_python_is_one_sentence(body: str, expected: str) -> None:
    text = f"#include <cassert>\n__global__ void f(int* y) {{\n    {body}\n}}\n"
    for traced in (True, False):
        found = said(text, "f", y=np.zeros(2, np.int32), traced=traced)
        assert expected in found
        assert re.match(r"x\.cu( line [23])?: thread \(0, 0, 0\) of block \(0, 0, 0\) ", found)


def test_a_log_beyond_memory_says_how_to_narrow() -> None:
    with pytest.raises(
        ParameterError, match=r"room for 100,000: record a window of it \(--blocks 0:1, --steps 0:10\)"
    ):
        Cpu(room=100_000).trace(gemm())


def test_a_compile_error_is_the_compilers_own_with_the_users_line() -> None:
    found = said("__global__ void f(int* y) {\n    y[0] = x;\n}\n", "f", y=np.zeros(1, np.int32))
    assert found.startswith("the kernel does not compile: x.cu:2:12: error:")


def test_globals_and_local_arrays_are_no_rows() -> None:
    text = """
__constant__ float w[3] = {1, 2, 3};
__device__ float last;
__global__ void f(float* y) {
    float a[3];
    for (int k = 0; k < 3; k++) a[k] = w[k] + threadIdx.x;
    last = a[int(y[0])];
    y[threadIdx.x] = last;
}"""
    one, after = log(text, "f", (1, 1, 1), (4, 1, 1), y=np.zeros(4, np.float32))
    assert after["y"].tolist() == [1, 3, 4, 5]
    assert set(one.blocks[0].rows["space"].tolist()) == {Space.HBM}
    assert len(one.blocks[0].rows) == 8


def test_own_headers_are_read_and_a_change_of_them_is_seen(tmp_path: Any) -> None:
    text = '#include "own.h"\n__global__ void f(int* y) { y[0] = own(); }\n'
    arguments = (Argument("y", None, "test"),)
    for value_ in (3, 4):
        (tmp_path / "own.h").write_text(f"__device__ int own() {{ return {value_}; }}\n")
        asked = Request(
            parse_source(text, "x.cu", tmp_path),
            (Launch("f", (1, 1, 1), (1, 1, 1), 0, arguments),),
            {"y": np.zeros(1, np.int32)},
        )
        assert Cpu().run(asked)["y"].tolist() == [value_]


def test_own_headers_lose_what_is_for_the_host_and_may_lie_anywhere_in_its_folders(tmp_path: Any) -> None:
    (tmp_path / "deep" / "more").mkdir(parents=True)
    (tmp_path / "common.h").write_text(
        "#pragma once\n#include <cublas_v2.h>\n#include <cuda_runtime.h>\n"
        "inline void check(cudaError_t error) { if (error) exit(1); }\n"
        "__device__ int one() { __shared__ int x; x = 1; return x; }\n"
    )
    (tmp_path / "deep" / "more" / "a.h").write_text('#include "b.h"\n')
    (tmp_path / "deep" / "more" / "b.h").write_text("__device__ int two() { return 2; }\n")
    path = tmp_path / "deep" / "k.cu"
    path.write_text(
        '#include "../common.h"\n#include "more/a.h"\n__global__ void f(int* y) { y[0] = one() + two(); }\n'
    )
    asked = Request(
        read_source(path),
        (Launch("f", (1, 1, 1), (1, 1, 1), 0, (Argument("y", None, "by hand"),)),),
        {"y": np.zeros(1, np.int32)},
    )
    assert Cpu().run(asked)["y"].tolist() == [3]
    logs, outputs = Cpu().trace(asked)
    assert outputs["y"].tolist() == [3]
    assert "x" in logs[0].texts


def test_a_static_shared_variable_is_a_shared_variable() -> None:
    text = "__global__ void f(int* y) { static __shared__ alignas(16) int s[4]; s[threadIdx.x] = 1; y[0] = s[0]; }"
    logs, outputs = Cpu().trace(request(text, "f", (1, 1, 1), (4, 1, 1), y=np.zeros(1, np.int32)))
    assert outputs["y"].tolist() == [1]
    assert logs[0].texts == ("s",)


BESIDE = """
__constant__ int table[4] = {1, 2, 3, 4};
__global__ void other(int* y) { __shared__ int more[64]; more[threadIdx.x] = y[0]; y[0] = more[0]; }
template <int N>
__global__ void f(int* y, int at) {
    __shared__ int s[N], t[2][3];
    s[threadIdx.x] = table[threadIdx.x];
    t[0][0] = 0;
    if (threadIdx.x == 2) s[at] = 7;
    y[threadIdx.x] = s[threadIdx.x] + t[0][0];
}
"""


@pytest.mark.parametrize("at", [5, 17, 100, -1, -300, 20000])
def test_what_lies_in_no_shared_variable_is_refused_with_line_thread_and_index(at: int) -> None:
    y = np.zeros(5, np.int32)
    for kernels_ in (["f<5>"], ["f<5>", "other"]):
        launches = tuple(
            Launch(
                kernel,
                (1, 1, 1),
                (4, 1, 1),
                0,
                (
                    Argument("y", None, "test"),
                    *([Argument("at", np.int32(at), "test")] * (kernel != "other")),
                ),
            )
            for kernel in kernels_
        )
        asked = Request(parse_source(BESIDE, "x.cu"), launches, {"y": y})
        with pytest.raises(BackendError) as refused:
            Cpu().trace(asked)
        text = str(refused.value)
        assert text.startswith("x.cu line 9: thread (2, 0, 0) of block (0, 0, 0) writes ")
        assert re.search(
            r" (s|t)\[-?\d+\], outside the (5|6) elements of \1 in shared memory: guard the index", text
        )


def test_what_lies_in_globals_or_shared_variables_of_a_macro_is_let_be() -> None:
    logs, _ = Cpu().trace(
        request(BESIDE, "f<5>", (1, 1, 1), (4, 1, 1), y=np.zeros(5, np.int32), at=np.int32(4))
    )
    assert len(logs) == 1
    hidden = """
#define TILE(name, n) __shared__ int name[n]
__global__ void f(int* y) {
    __shared__ int s[4];
    TILE(t, 4);
    s[threadIdx.x] = t[threadIdx.x] = threadIdx.x;
    y[threadIdx.x] = s[threadIdx.x] + t[threadIdx.x];
}"""
    _, outputs = Cpu().trace(request(hidden, "f", (1, 1, 1), (4, 1, 1), y=np.zeros(4, np.int32)))
    assert outputs["y"].tolist() == [0, 2, 4, 6]


@pytest.mark.parametrize(
    ("given", "at", "words"),
    [
        (64, 16, "x.cu line 4: thread (0, 0, 0) of block (0, 0, 0) writes s[16], outside the 16 elements of s in "
         "shared memory: guard the index, or give the launch more (--shared)"),
        (64, -2, "writes s[-2], outside the 16 elements of s"),
        (64, 1000, "writes s[1000], outside the 16 elements of s"),
        (0, 3, "x.cu line 4: thread (0, 0, 0) of block (0, 0, 0) writes byte 12 of the dynamic shared memory, of "
         "which the launch has 0 bytes: give it more (--shared)"),
    ],
)  # fmt: skip
def test_more_dynamic_shared_memory_than_was_given_is_refused(given: int, at: int, words: str) -> None:
    text = "extern __shared__ float s[];\n\n__global__ void f(float* y, int at) {\n    s[at] = 1;\n    y[0] = s[at];\n}"
    arguments = (Argument("y", None, "test"), Argument("at", np.int32(at), "test"))
    asked = Request(
        parse_source(text, "x.cu"),
        (Launch("f", (1, 1, 1), (1, 1, 1), given, arguments),),
        {"y": np.zeros(1, np.float32)},
    )
    with pytest.raises(BackendError, match=re.escape(words)):
        Cpu().trace(asked)
