// FlashAttention-2, forward pass (Dao 2023, Algorithm 1), in float32.
// One block of threads computes one tile of Q of one head: it stays in SRAM while the tiles of K and V pass by.
// O is a sum until the end and is divided once; m and l never leave the block. Any number of threads will do.

#include <kernels_in_motion.h>

template <int Br, int Bc, int d>
struct Sram {
    float Qi[Br][d], Kj[Bc][d], Vj[Bc][d];
    float Sij[Br][Bc];
    float Oi[Br][d], mi[Br], li[Br], Li[Br];
};

template <int Br, int Bc, int d>
__global__ void fa2(const float* Q, const float* K, const float* V,
                    float* O, float* L, int Nq, int Nk, float scale, bool causal) {
    extern __shared__ float sram[];
    auto& [Qi, Kj, Vj, Sij, Oi, mi, li, Li] = *reinterpret_cast<Sram<Br, Bc, d>*>(sram);
    HOLD(Qi, Kj, Vj, Sij, Oi, mi, li, Li);
    const int Tc = (Nk + Bc - 1) / Bc;

    const int i = blockIdx.x;
    const size_t head = blockIdx.y;
    Q += head * Nq * d;
    K += head * Nk * d;
    V += head * Nk * d;
    O += head * Nq * d;
    L += head * Nq;

    const int rows = min(Br, Nq - i * Br);  // the last tile may be ragged

    // --8<-- [start:load_q]
    for (int x = threadIdx.x; x < rows * d; x += blockDim.x) Qi[x / d][x % d] = Q[i * Br * d + x];
    for (int r = threadIdx.x; r < rows; r += blockDim.x) {
        for (int k = 0; k < d; k++) Oi[r][k] = 0;
        mi[r] = -INFINITY;
        li[r] = 0;
    }
    SNAPSHOT(load_q);
    // --8<-- [end:load_q]

    const int offset = Nk - Nq;  // the causal mask is aligned bottom-right: row q sees the keys up to q + offset

    for (int j = 0; j < Tc; j++) {
        if (causal && j * Bc > i * Br + rows - 1 + offset) break;  // from here on all tiles lie above the diagonal
        const int columns = min(Bc, Nk - j * Bc);

        // --8<-- [start:load_kv]
        for (int x = threadIdx.x; x < columns * d; x += blockDim.x) {
            Kj[x / d][x % d] = K[j * Bc * d + x];
            Vj[x / d][x % d] = V[j * Bc * d + x];
        }
        __syncthreads();
        SNAPSHOT(load_kv, j);
        // --8<-- [end:load_kv]

        // --8<-- [start:compute]
        for (int x = threadIdx.x; x < rows * columns; x += blockDim.x) {
            const int r = x / columns, c = x % columns;
            float s = 0;
            for (int k = 0; k < d; k++) s += Qi[r][k] * Kj[c][k];
            const bool masked = causal && j * Bc + c > i * Br + r + offset;
            Sij[r][c] = masked ? -INFINITY : scale * s;
        }
        __syncthreads();
        SNAPSHOT(compute, j);
        // --8<-- [end:compute]

        // --8<-- [start:update]
        for (int r = threadIdx.x; r < rows; r += blockDim.x) {
            float m_new = mi[r];
            for (int c = 0; c < columns; c++) m_new = fmaxf(m_new, Sij[r][c]);
            // A row that has seen no key yet has m = -inf, and -inf - -inf would be NaN.
            const float shift = m_new == -INFINITY ? 0 : m_new;

            const float rescale = expf(mi[r] - shift);
            li[r] *= rescale;
            for (int k = 0; k < d; k++) Oi[r][k] *= rescale;
            for (int c = 0; c < columns; c++) {
                const float weight = expf(Sij[r][c] - shift);
                li[r] += weight;
                for (int k = 0; k < d; k++) Oi[r][k] += weight * Vj[c][k];
            }
            mi[r] = m_new;
        }
        __syncthreads();
        SNAPSHOT(update, j);
        // --8<-- [end:update]
    }

    // --8<-- [start:finish]
    for (int r = threadIdx.x; r < rows; r += blockDim.x) {
        for (int k = 0; k < d; k++) Oi[r][k] = li[r] > 0 ? Oi[r][k] / li[r] : 0;
        Li[r] = mi[r] + logf(li[r]);
    }
    __syncthreads();
    SNAPSHOT(finish);
    // --8<-- [end:finish]

    // --8<-- [start:write]
    for (int x = threadIdx.x; x < rows * d; x += blockDim.x) O[i * Br * d + x] = Oi[x / d][x % d];
    for (int r = threadIdx.x; r < rows; r += blockDim.x) L[i * Br + r] = Li[r];
    SNAPSHOT(write);
    // --8<-- [end:write]
}
