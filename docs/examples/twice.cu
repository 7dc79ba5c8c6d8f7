// y = 2 x, row by row, in tiles of b numbers: the smallest kernel worth tracing.

template <int b>
struct Sram {
    float xi[b], yi[b];
};

template <int b>
__global__ void twice(Hbm<const float> x, Hbm<float> y, int N) {
    auto& [xi, yi] = sram<Sram<b>>();
    x += size_t(blockIdx.x) * N;
    y += size_t(blockIdx.x) * N;

    for (int i = 0; i * b < N; i++) {
        const int width = min(b, N - i * b);  // the last tile may be ragged

        // --8<-- [start:load]
        for (int c = threadIdx.x; c < width; c += blockDim.x) xi[c] = x[i * b + c];
        SNAPSHOT(load, i);
        // --8<-- [end:load]

        // --8<-- [start:twice]
        for (int c = threadIdx.x; c < width; c += blockDim.x) yi[c] = 2 * xi[c];
        SNAPSHOT(twice, i);
        // --8<-- [end:twice]

        // --8<-- [start:write]
        for (int c = threadIdx.x; c < width; c += blockDim.x) y[i * b + c] = yi[c];
        SNAPSHOT(write, i);
        // --8<-- [end:write]
    }
}
