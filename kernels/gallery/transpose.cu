// Transpose of a matrix in float32, B = A^T, through a tile in shared memory, so that both HBM reads and HBM writes go
// along rows.
// With PAD = 0 the 32 numbers of a column of the tile all lie in one bank; with PAD = 1 they lie in 32.
// The grid covers A with tiles of 32 x 32; a block is 32 threads wide and any number high that divides 32.

#include <kernels_in_motion.h>

template <int PAD>
__global__ void transpose(const float* A, float* B, int rows, int columns) {
    __shared__ float tile[32][32 + PAD];
    HOLD(tile);

    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += blockDim.y)
        if (y + j < rows && x < columns) tile[threadIdx.y + j][threadIdx.x] = A[(y + j) * columns + x];
    __syncthreads();
    SNAPSHOT(load);

    x = blockIdx.y * 32 + threadIdx.x, y = blockIdx.x * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += blockDim.y)
        if (y + j < columns && x < rows) B[(y + j) * rows + x] = tile[threadIdx.x][threadIdx.y + j];
    SNAPSHOT(store);
}

// The same without shared memory: what it writes is a column apart.
__global__ void transpose_naive(const float* A, float* B, int rows, int columns) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (y < rows && x < columns) B[x * rows + y] = A[y * columns + x];
}
