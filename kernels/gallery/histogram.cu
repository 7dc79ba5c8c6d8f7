// How often each number below BINS occurs among n bytes: each block counts in shared memory, then adds its counts to
// those in HBM. Both go through atomics: many threads may meet in one bin.

#include <kernels_in_motion.h>

template <int BINS>
__global__ void histogram(const unsigned char* x, int* counts, int n) {
    __shared__ int bins[BINS];
    HOLD(bins);

    for (int b = threadIdx.x; b < BINS; b += blockDim.x) bins[b] = 0;
    __syncthreads();
    SNAPSHOT(clear);

    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        if (x[i] < BINS) atomicAdd(&bins[x[i]], 1);
    __syncthreads();
    SNAPSHOT(count);

    for (int b = threadIdx.x; b < BINS; b += blockDim.x) atomicAdd(&counts[b], bins[b]);
    SNAPSHOT(add);
}
