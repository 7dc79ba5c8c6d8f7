// Matrix product C = A B in float32: A is M x K, B is K x N. A block of TILE x TILE threads computes a tile of C,
// each thread one number of it, in a register, while tiles of A and B pass through shared memory.

#include <kernels_in_motion.h>

template <int TILE>
__global__ void gemm(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float As[TILE][TILE], Bs[TILE][TILE];
    float acc = 0;
    HOLD(As, Bs, acc);

    const int ty = threadIdx.y, tx = threadIdx.x;
    const int row = blockIdx.y * TILE + ty, column = blockIdx.x * TILE + tx;

    for (int t = 0; t < (K + TILE - 1) / TILE; t++) {
        const int first = t * TILE;
        As[ty][tx] = row < M && first + tx < K ? A[row * K + first + tx] : 0;
        Bs[ty][tx] = first + ty < K && column < N ? B[(first + ty) * N + column] : 0;
        __syncthreads();
        SNAPSHOT(load, t);

        for (int k = 0; k < TILE; k++) acc += As[ty][k] * Bs[k][tx];
        __syncthreads();
        SNAPSHOT(multiply, t);
    }

    if (row < M && column < N) C[row * N + column] = acc;
    SNAPSHOT(store);
}
