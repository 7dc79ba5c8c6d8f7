// Sums of the rows of a matrix in float32, one block a row: each thread gathers its share, each warp folds what its lanes
// have with shuffles, and the first warp folds the sums of the warps. A block is a whole number of warps.

#include <kernels_in_motion.h>

__device__ float warp_sum(float value) {
    for (int offset = 16; offset > 0; offset /= 2) value += __shfl_down_sync(0xffffffff, value, offset);
    return value;
}

__global__ void reduce(const float* x, float* sums, int columns) {
    __shared__ float warps[32];
    float sum = 0;
    HOLD(warps, sum);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;

    for (int c = threadIdx.x; c < columns; c += blockDim.x) sum += x[size_t(blockIdx.x) * columns + c];
    SNAPSHOT(gather);

    sum = warp_sum(sum);
    if (lane == 0) warps[warp] = sum;
    __syncthreads();
    SNAPSHOT(fold_lanes);

    if (warp == 0) {
        sum = lane < blockDim.x / 32 ? warps[lane] : 0;
        sum = warp_sum(sum);
    }
    SNAPSHOT(fold_warps);

    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
    SNAPSHOT(store);
}
