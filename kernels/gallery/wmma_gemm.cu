// Matrix product C = A B on tensor cores: A (M x K) and B (K x N) in half, C in float32. A block is one warp and computes
// a tile of 16 x 16 of C; what lies beyond the edges counts as zero. This one needs a GPU.

#include <cuda_fp16.h>
#include <kernels_in_motion.h>
#include <mma.h>

using namespace nvcuda;

__global__ void wmma_gemm(const half* A, const half* B, float* C, int M, int N, int K) {
    __shared__ alignas(32) half As[16][16], Bs[16][16];
    __shared__ alignas(32) float Cs[16][16];
    HOLD(As, Bs, Cs);
    const int row = blockIdx.y * 16, column = blockIdx.x * 16;

    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
    wmma::fill_fragment(c, 0.0f);

    for (int t = 0; t < (K + 15) / 16; t++) {
        for (int x = threadIdx.x; x < 256; x += 32) {
            const int r = x / 16, k = x % 16, first = t * 16;
            As[r][k] = row + r < M && first + k < K ? A[(row + r) * K + first + k] : half(0);
            Bs[r][k] = first + r < K && column + k < N ? B[(first + r) * N + column + k] : half(0);
        }
        __syncwarp();
        SNAPSHOT(load, t);

        wmma::load_matrix_sync(a, &As[0][0], 16);
        wmma::load_matrix_sync(b, &Bs[0][0], 16);
        wmma::mma_sync(c, a, b, c);
        __syncwarp();
        SNAPSHOT(multiply, t);
    }

    wmma::store_matrix_sync(&Cs[0][0], c, 16, wmma::mem_row_major);
    __syncwarp();
    SNAPSHOT(leave);

    for (int x = threadIdx.x; x < 256; x += 32) {
        const int r = x / 16, k = x % 16;
        if (row + r < M && column + k < N) C[(row + r) * N + column + k] = Cs[r][k];
    }
    SNAPSHOT(store);
}
