// Matrix times vector, y = A x, in float32: while a block multiplies one tile, the next is on its way to the other of two
// buffers, by cp.async. A block takes ROWS rows with ROWS threads; columns is a multiple of 4.

#include <cuda_pipeline.h>
#include <kernels_in_motion.h>

// Sends for `columns` columns of A and numbers of x, 16 bytes at a time; they are there after a wait and a barrier.
template <int ROWS, int TILE>
__device__ void fetch(float (&As)[ROWS][TILE], float (&xs)[TILE], const float* A, const float* x,
                      int rows, int columns, int stride) {
    const int quads = columns / 4;
    for (int q = threadIdx.x; q < rows * quads; q += blockDim.x) {
        const int r = q / quads, c = q % quads * 4;
        __pipeline_memcpy_async(&As[r][c], &A[r * stride + c], 16);
    }
    for (int q = threadIdx.x; q < quads; q += blockDim.x) __pipeline_memcpy_async(&xs[4 * q], &x[4 * q], 16);
}

template <int ROWS, int TILE>
__global__ void matvec(const float* A, const float* x, float* y, int rows, int columns) {
    __shared__ alignas(16) float As[2][ROWS][TILE], xs[2][TILE];
    float acc = 0;
    HOLD(As, xs, acc);

    A += size_t(blockIdx.x) * ROWS * columns;
    y += blockIdx.x * ROWS;
    rows = min(ROWS, rows - int(blockIdx.x) * ROWS);
    const int tiles = (columns + TILE - 1) / TILE;

    fetch(As[0], xs[0], A, x, rows, min(TILE, columns), columns);
    __pipeline_commit();
    for (int t = 0; t < tiles; t++) {
        const int next = (t + 1) * TILE;
        if (next < columns)
            fetch(As[(t + 1) % 2], xs[(t + 1) % 2], A + next, x + next, rows, min(TILE, columns - next), columns);
        __pipeline_commit();
        __pipeline_wait_prior(1);  // all but the last commit: tile t is there
        __syncthreads();
        SNAPSHOT(arrive, t);

        if (threadIdx.x < rows)
            for (int k = 0; k < min(TILE, columns - t * TILE); k++) acc += As[t % 2][threadIdx.x][k] * xs[t % 2][k];
        __syncthreads();  // buffer t % 2 is free again
        SNAPSHOT(multiply, t);
    }

    if (threadIdx.x < rows) y[threadIdx.x] = acc;
    SNAPSHOT(store);
}
