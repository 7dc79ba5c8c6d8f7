// What NVRTC leaves out, and the name of a block's shared memory.

#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif

extern __shared__ float4 kim_shared[];
#define KIM_SHARED kim_shared

#define KIM_OFFSET(type, field) __INTADDR__(&(static_cast<type*>(nullptr)->field))  // NVRTC before 13.1 has no offsetof

#define KIM_INLINE __device__ __forceinline__
#define KIM_OUTLINE static __device__ __noinline__

namespace kim {

// Adds the value, and takes the maximum, of each lane that comes here, with one atomic operation for those that come
// together where it can.
__device__ inline void add(int* to, int value) {
#if __CUDA_ARCH__ >= 800
    const unsigned lanes = __activemask();
    value = __reduce_add_sync(lanes, value);
    if (threadIdx.x % 32 != __ffs(lanes) - 1) return;
#endif
    atomicAdd(to, value);
}

__device__ inline void raise(int* to, int value) {
#if __CUDA_ARCH__ >= 800
    const unsigned lanes = __activemask();
    value = __reduce_max_sync(lanes, value);
    if (threadIdx.x % 32 != __ffs(lanes) - 1) return;
#endif
    atomicMax(to, value);
}

}  // namespace kim
