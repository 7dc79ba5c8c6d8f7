// Flash decoding (Dao et al. 2023), in float32: few rows of Q against a long cache of K and V, cut into splits.
// First launch: one block for each split, tile of Q and head leaves a partial O, l and m in HBM, as FlashAttention-2
// would if the cache ended there. Second launch: one block for each tile of Q and head folds the splits together.

#include <kernels_in_motion.h>

template <int Br, int Bc, int d>
struct Sram {
    float Qi[Br][d], Kj[Bc][d], Vj[Bc][d];
    float Sij[Br][Bc];
    float Oi[Br][d], mi[Br], li[Br];
};

template <int Br, int Bc, int d>
__global__ void flash_decoding(const float* Q, const float* K, const float* V,
                               float* Op, float* lp, float* mp,
                               int Nq, int Nk, int splits, float scale, bool causal) {
    extern __shared__ float sram[];
    auto& [Qi, Kj, Vj, Sij, Oi, mi, li] = *reinterpret_cast<Sram<Br, Bc, d>*>(sram);
    HOLD(Qi, Kj, Vj, Sij, Oi, mi, li);
    const int Tc = (Nk + Bc - 1) / Bc, tiles = (Tc + splits - 1) / splits;  // of a split; the last ones may get none

    const int s = blockIdx.x, i = blockIdx.y;
    const size_t head = blockIdx.z;
    Q += head * Nq * d;
    K += head * Nk * d;
    V += head * Nk * d;
    Op += head * splits * Nq * d;
    lp += head * splits * Nq;
    mp += head * splits * Nq;

    const int rows = min(Br, Nq - i * Br);

    // --8<-- [start:load_q]
    for (int x = threadIdx.x; x < rows * d; x += blockDim.x) {
        Qi[x / d][x % d] = Q[i * Br * d + x];
        Oi[x / d][x % d] = 0;
    }
    for (int r = threadIdx.x; r < rows; r += blockDim.x) {
        mi[r] = -INFINITY;
        li[r] = 0;
    }
    SNAPSHOT(load_q);
    // --8<-- [end:load_q]

    const int offset = Nk - Nq;  // the causal mask is aligned bottom-right: row q sees the keys up to q + offset

    for (int j = s * tiles; j < min((s + 1) * tiles, Tc); j++) {
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
            float dot = 0;
            for (int k = 0; k < d; k++) dot += Qi[r][k] * Kj[c][k];
            const bool masked = causal && j * Bc + c > i * Br + r + offset;
            Sij[r][c] = masked ? -INFINITY : scale * dot;
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

    // --8<-- [start:write_part]
    const int part = s * Nq + i * Br;
    for (int x = threadIdx.x; x < rows * d; x += blockDim.x) Op[part * d + x] = Oi[x / d][x % d];
    for (int r = threadIdx.x; r < rows; r += blockDim.x) {
        mp[part + r] = mi[r];
        lp[part + r] = li[r];
    }
    SNAPSHOT(write_part);
    // --8<-- [end:write_part]
}

template <int Br, int d>
struct CombineSram {
    float Os[Br][d], ms[Br], ls[Br];
    float Oi[Br][d], mi[Br], li[Br], Li[Br];
};

template <int Br, int d>
__global__ void combine(const float* Op, const float* lp, const float* mp,
                        float* O, float* L, int Nq, int splits) {
    extern __shared__ float sram[];
    auto& [Os, ms, ls, Oi, mi, li, Li] = *reinterpret_cast<CombineSram<Br, d>*>(sram);
    HOLD(Os, ms, ls, Oi, mi, li, Li);

    const int i = blockIdx.x;
    const size_t head = blockIdx.y;
    Op += head * splits * Nq * d;
    lp += head * splits * Nq;
    mp += head * splits * Nq;
    O += head * Nq * d;
    L += head * Nq;

    const int rows = min(Br, Nq - i * Br);

    // --8<-- [start:start]
    for (int r = threadIdx.x; r < rows; r += blockDim.x) {
        for (int k = 0; k < d; k++) Oi[r][k] = 0;
        mi[r] = -INFINITY;
        li[r] = 0;
    }
    SNAPSHOT(start);
    // --8<-- [end:start]

    for (int s = 0; s < splits; s++) {
        // --8<-- [start:load_part]
        const int part = s * Nq + i * Br;
        for (int x = threadIdx.x; x < rows * d; x += blockDim.x) Os[x / d][x % d] = Op[part * d + x];
        for (int r = threadIdx.x; r < rows; r += blockDim.x) {
            ms[r] = mp[part + r];
            ls[r] = lp[part + r];
        }
        __syncthreads();
        SNAPSHOT(load_part, s);
        // --8<-- [end:load_part]

        // --8<-- [start:combine]
        for (int r = threadIdx.x; r < rows; r += blockDim.x) {
            const float m_new = fmaxf(mi[r], ms[r]);
            const float shift = m_new == -INFINITY ? 0 : m_new;  // as above: no key seen in either

            const float rescale = expf(mi[r] - shift), rescale_part = expf(ms[r] - shift);
            li[r] = rescale * li[r] + rescale_part * ls[r];
            for (int k = 0; k < d; k++) Oi[r][k] = rescale * Oi[r][k] + rescale_part * Os[r][k];
            mi[r] = m_new;
        }
        __syncthreads();
        SNAPSHOT(combine, s);
        // --8<-- [end:combine]
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
