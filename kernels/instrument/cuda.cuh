// What NVRTC leaves out, and the name of a block's shared memory.

#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif

extern __shared__ float4 kim_shared[];
#define KIM_SHARED kim_shared

#define KIM_OFFSET(type, field) __INTADDR__(&(static_cast<type*>(nullptr)->field))  // NVRTC before 13.1 has no offsetof

#define KIM_INLINE __device__ __forceinline__

namespace kim {

// The lanes of this thread's warp; the last warp of a block may be short.
__device__ inline unsigned lanes() {
    const int left = blockDim.x - (threadIdx.x & ~31);
    return left < 32 ? (1u << left) - 1 : ~0u;
}

__device__ inline bool any_lane(int value) { return __any_sync(lanes(), value); }

// Adds every lane's value, and takes every lane's maximum, with one atomic operation for a warp where it can.
__device__ inline void add(int* to, int value) {
#if __CUDA_ARCH__ >= 800
    value = __reduce_add_sync(lanes(), value);
    if (threadIdx.x % 32) return;
#endif
    atomicAdd(to, value);
}

__device__ inline void raise(int* to, int value) {
#if __CUDA_ARCH__ >= 800
    value = __reduce_max_sync(lanes(), value);
    if (threadIdx.x % 32) return;
#endif
    atomicMax(to, value);
}

}  // namespace kim
