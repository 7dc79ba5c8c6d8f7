// Blocks and tiles of a warp as groups; a grid as a group is refused on a CPU.

#pragma once

namespace cooperative_groups {

struct thread_block {
    KIM_IN void sync(unsigned line = __builtin_LINE()) const { __syncthreads(line); }
    KIM_IN static unsigned thread_rank() { return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z); }
    KIM_IN static unsigned size() { return blockDim.x * blockDim.y * blockDim.z; }
    KIM_IN static unsigned num_threads() { return size(); }
    KIM_IN static dim3 group_index() { return blockIdx; }
    KIM_IN static dim3 thread_index() { return threadIdx; }
    KIM_IN static dim3 dim_threads() { return blockDim; }
    KIM_IN static dim3 group_dim() { return blockDim; }
};
KIM_IN thread_block this_thread_block() { return {}; }

template <unsigned N>
struct kim_tile {
    static_assert(N && N <= 32 && !(N & (N - 1)), "a tile has 1, 2, 4, 8, 16 or 32 threads");
    KIM_IN static unsigned mask() { return (N == 32 ? ~0u : (1u << N % 32) - 1) << (kim_lane() & ~(N - 1)); }
    KIM_IN static unsigned thread_rank() { return kim_lane() & (N - 1); }
    KIM_IN static constexpr unsigned size() { return N; }
    KIM_IN static constexpr unsigned num_threads() { return N; }
    KIM_IN static unsigned meta_group_rank() { return thread_block::thread_rank() / N; }
    KIM_IN static unsigned meta_group_size() { return (thread_block::size() + N - 1) / N; }
    KIM_IN void sync(unsigned line = __builtin_LINE()) const { __syncwarp(mask(), line); }
    template <class T> KIM_IN T shfl(T value, int lane, unsigned line = __builtin_LINE()) const {
        return __shfl_sync(mask(), value, lane, N, line);
    }
    template <class T> KIM_IN T shfl_up(T value, unsigned by, unsigned line = __builtin_LINE()) const {
        return __shfl_up_sync(mask(), value, by, N, line);
    }
    template <class T> KIM_IN T shfl_down(T value, unsigned by, unsigned line = __builtin_LINE()) const {
        return __shfl_down_sync(mask(), value, by, N, line);
    }
    template <class T> KIM_IN T shfl_xor(T value, unsigned with, unsigned line = __builtin_LINE()) const {
        return __shfl_xor_sync(mask(), value, int(with), N, line);
    }
    KIM_IN int any(int said, unsigned line = __builtin_LINE()) const { return __any_sync(mask(), said, line); }
    KIM_IN int all(int said, unsigned line = __builtin_LINE()) const { return __all_sync(mask(), said, line); }
    KIM_IN unsigned ballot(int said, unsigned line = __builtin_LINE()) const {
        return __ballot_sync(mask(), said, line) >> (kim_lane() & ~(N - 1));
    }
};
template <unsigned N, class Parent = void>
struct thread_block_tile : kim_tile<N> {
    thread_block_tile() = default;
    template <class Other> KIM_IN thread_block_tile(const thread_block_tile<N, Other>&) {}
};
template <unsigned N, class Parent>
KIM_IN thread_block_tile<N, Parent> tiled_partition(const Parent&) { return {}; }

template <class Group>
KIM_IN void sync(const Group& group, unsigned line = __builtin_LINE()) { group.sync(line); }

template <class T> struct plus {
    KIM_IN T operator()(T a, T b) const { return a + b; }
};
template <class T> struct greater {
    KIM_IN T operator()(T a, T b) const { return a < b ? b : a; }
};
template <class T> struct less {
    KIM_IN T operator()(T a, T b) const { return b < a ? b : a; }
};
template <unsigned N, class Parent, class T, class Op>
KIM_IN T reduce(const thread_block_tile<N, Parent>& tile, T value, Op op, unsigned line = __builtin_LINE()) {
    for (unsigned by = N / 2; by; by /= 2) value = op(value, tile.shfl_xor(value, by, line));
    return value;
}

}  // namespace cooperative_groups
