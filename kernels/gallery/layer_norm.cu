// Layer normalisation in float32: y = (x - mean) / sqrt(variance + epsilon) * weight + bias along each row of x.
// A block takes a row and a thread four numbers of it as one float4, so columns is a multiple of 4, at most 4 times the
// threads of a block, which is a whole number of warps.

#include <kernels_in_motion.h>

// The sum of `value` over the threads of the block, the same in all of them.
__device__ float block_sum(float value, float* warps) {
    for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffff, value, offset);
    __syncthreads();  // all have read what the last call left in `warps`
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
    __syncthreads();
    float sum = 0;
    for (int w = 0; w < blockDim.x / 32; w++) sum += warps[w];
    return sum;
}

__global__ void layer_norm(const float* x, const float* weight, const float* bias, float* y,
                           int columns, float epsilon) {
    __shared__ float warps[32];
    float4 v = {0, 0, 0, 0};
    HOLD(warps, v);
    const size_t row = size_t(blockIdx.x) * columns;
    const int i = threadIdx.x;
    const bool mine = 4 * i < columns;

    if (mine) v = reinterpret_cast<const float4*>(x + row)[i];
    SNAPSHOT(load);

    const float mean = block_sum(v.x + v.y + v.z + v.w, warps) / columns;
    if (mine) v = {v.x - mean, v.y - mean, v.z - mean, v.w - mean};
    SNAPSHOT(centre);

    const float variance = block_sum(v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w, warps) / columns;
    const float scale = rsqrtf(variance + epsilon);
    v = {scale * v.x, scale * v.y, scale * v.z, scale * v.w};
    SNAPSHOT(scale);

    if (mine) {
        const float4 w = reinterpret_cast<const float4*>(weight)[i], b = reinterpret_cast<const float4*>(bias)[i];
        reinterpret_cast<float4*>(y + row)[i] = {v.x * w.x + b.x, v.y * w.y + b.y, v.z * w.z + b.z, v.w * w.w + b.w};
    }
    SNAPSHOT(store);
}
