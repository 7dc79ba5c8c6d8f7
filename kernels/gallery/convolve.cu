// One-dimensional convolution in float32: y[i] is the sum of w[k] x[i + k - RADIUS], with x zero beyond its ends.
// A block of BLOCK threads makes BLOCK numbers of y from a tile of x that reaches RADIUS further at both ends.

#include <kernels_in_motion.h>

template <int BLOCK, int RADIUS>
__global__ void convolve(const float* x, const float* w, float* y, int n) {
    __shared__ float tile[RADIUS + BLOCK + RADIUS];
    HOLD(tile);

    for (int t = threadIdx.x; t < RADIUS + BLOCK + RADIUS; t += BLOCK) {
        const int i = int(blockIdx.x) * BLOCK + t - RADIUS;
        tile[t] = i >= 0 && i < n ? x[i] : 0;
    }
    __syncthreads();
    SNAPSHOT(load);

    const int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i < n) {
        float sum = 0;
        for (int k = 0; k < 2 * RADIUS + 1; k++) sum += w[k] * tile[threadIdx.x + k];
        y[i] = sum;
    }
    SNAPSHOT(store);
}
