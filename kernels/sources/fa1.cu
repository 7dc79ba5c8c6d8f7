// FlashAttention-1, forward pass (Dao et al. 2022, Algorithm 1), in float32.
// One block of threads computes one head: tiles of K and V on the outer loop, tiles of Q on the inner one.
// O, l and m live in HBM between two turns of the outer loop. Any number of threads in a block will do.

#include <kernels_in_motion.h>

template <int Br, int Bc, int d>
struct Sram {
    float Qi[Br][d], Kj[Bc][d], Vj[Bc][d];
    float Sij[Br][Bc];
    float Oi[Br][d], mi[Br], li[Br];
};

template <int Br, int Bc, int d>
__global__ void fa1(const float* Q, const float* K, const float* V,
                    float* O, float* l, float* m, int N, float scale, bool causal) {
    extern __shared__ float sram[];
    auto& [Qi, Kj, Vj, Sij, Oi, mi, li] = *reinterpret_cast<Sram<Br, Bc, d>*>(sram);
    HOLD(Qi, Kj, Vj, Sij, Oi, mi, li);
    const int Tr = (N + Br - 1) / Br, Tc = (N + Bc - 1) / Bc;

    const size_t first_row = size_t(blockIdx.x) * N;  // of this block's head
    Q += first_row * d;
    K += first_row * d;
    V += first_row * d;
    O += first_row * d;
    l += first_row;
    m += first_row;

    for (int j = 0; j < Tc; j++) {
        const int columns = min(Bc, N - j * Bc);  // the last tile may be ragged

        // --8<-- [start:load_kv]
        for (int x = threadIdx.x; x < columns * d; x += blockDim.x) {
            Kj[x / d][x % d] = K[j * Bc * d + x];
            Vj[x / d][x % d] = V[j * Bc * d + x];
        }
        SNAPSHOT(load_kv, j);
        // --8<-- [end:load_kv]

        for (int i = 0; i < Tr; i++) {
            if (causal && (i + 1) * Br <= j * Bc) continue;  // the whole tile lies above the diagonal
            const int rows = min(Br, N - i * Br);

            // --8<-- [start:load_q]
            for (int x = threadIdx.x; x < rows * d; x += blockDim.x) {
                Qi[x / d][x % d] = Q[i * Br * d + x];
                Oi[x / d][x % d] = O[i * Br * d + x];
            }
            for (int r = threadIdx.x; r < rows; r += blockDim.x) {
                mi[r] = m[i * Br + r];
                li[r] = l[i * Br + r];
            }
            __syncthreads();
            SNAPSHOT(load_q, j, i);
            // --8<-- [end:load_q]

            // --8<-- [start:compute]
            for (int x = threadIdx.x; x < rows * columns; x += blockDim.x) {
                const int r = x / columns, c = x % columns;
                float s = 0;
                for (int k = 0; k < d; k++) s += Qi[r][k] * Kj[c][k];
                const bool masked = causal && j * Bc + c > i * Br + r;
                Sij[r][c] = masked ? -INFINITY : scale * s;
            }
            __syncthreads();
            SNAPSHOT(compute, j, i);
            // --8<-- [end:compute]

            // --8<-- [start:update]
            for (int r = threadIdx.x; r < rows; r += blockDim.x) {
                float m_new = mi[r];
                for (int c = 0; c < columns; c++) m_new = fmaxf(m_new, Sij[r][c]);

                const float l_rescaled = li[r] * expf(mi[r] - m_new);
                float l_new = l_rescaled;
                for (int c = 0; c < columns; c++) l_new += expf(Sij[r][c] - m_new);

                for (int k = 0; k < d; k++) Oi[r][k] *= l_rescaled / l_new;
                for (int c = 0; c < columns; c++) {
                    const float weight = expf(Sij[r][c] - m_new) / l_new;
                    for (int k = 0; k < d; k++) Oi[r][k] += weight * Vj[c][k];
                }
                mi[r] = m_new;
                li[r] = l_new;
            }
            __syncthreads();
            SNAPSHOT(update, j, i);
            // --8<-- [end:update]

            // --8<-- [start:write]
            for (int x = threadIdx.x; x < rows * d; x += blockDim.x)
                O[i * Br * d + x] = Oi[x / d][x % d];
            for (int r = threadIdx.x; r < rows; r += blockDim.x) {
                m[i * Br + r] = mi[r];
                l[i * Br + r] = li[r];
            }
            SNAPSHOT(write, j, i);
            // --8<-- [end:write]
        }
    }
}
