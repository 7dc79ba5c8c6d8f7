// Online softmax (Milakov and Gimelshein 2018, Algorithm 3), over the rows of a matrix, in float32.
// One block of threads takes one row, in tiles of b numbers: a first pass carries the max m and the denominator d,
// a second pass fetches the tiles again and writes y. Any number of threads in a block will do.

#include <kernels_in_motion.h>

template <int b>
struct Sram {
    float xi[b], yi[b];
    float m[1], d[1];
};

template <int b>
__global__ void online_softmax(const float* x, float* y, int N) {
    extern __shared__ float sram[];
    auto& [xi, yi, m, d] = *reinterpret_cast<Sram<b>*>(sram);
    HOLD(xi, yi, m, d);
    const int T = (N + b - 1) / b;

    x += size_t(blockIdx.x) * N;
    y += size_t(blockIdx.x) * N;

    // --8<-- [start:start]
    if (threadIdx.x == 0) {
        m[0] = -INFINITY;
        d[0] = 0;
    }
    SNAPSHOT(start);
    // --8<-- [end:start]

    for (int i = 0; i < T; i++) {
        const int width = min(b, N - i * b);  // the last tile may be ragged

        // --8<-- [start:load]
        for (int c = threadIdx.x; c < width; c += blockDim.x) xi[c] = x[i * b + c];
        __syncthreads();
        SNAPSHOT(load, 0, i);
        // --8<-- [end:load]

        // --8<-- [start:update]
        if (threadIdx.x == 0) {
            float m_new = m[0];
            for (int c = 0; c < width; c++) m_new = fmaxf(m_new, xi[c]);

            float d_new = d[0] * expf(m[0] - m_new);
            for (int c = 0; c < width; c++) d_new += expf(xi[c] - m_new);

            m[0] = m_new;
            d[0] = d_new;
        }
        __syncthreads();
        SNAPSHOT(update, 0, i);
        // --8<-- [end:update]
    }

    for (int i = 0; i < T; i++) {
        const int width = min(b, N - i * b);

        // --8<-- [start:reload]
        for (int c = threadIdx.x; c < width; c += blockDim.x) xi[c] = x[i * b + c];
        SNAPSHOT(reload, 1, i);
        // --8<-- [end:reload]

        // --8<-- [start:normalise]
        for (int c = threadIdx.x; c < width; c += blockDim.x) yi[c] = expf(xi[c] - m[0]) / d[0];
        SNAPSHOT(normalise, 1, i);
        // --8<-- [end:normalise]

        // --8<-- [start:write]
        for (int c = threadIdx.x; c < width; c += blockDim.x) y[i * b + c] = yi[c];
        SNAPSHOT(write, 1, i);
        // --8<-- [end:write]
    }
}
