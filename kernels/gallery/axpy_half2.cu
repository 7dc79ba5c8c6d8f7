// y = a x + y in half precision, two numbers at a time; an odd last one is done alone.
// There is no SNAPSHOT here and nothing to hold: the whole kernel is one step.

#include <cuda_fp16.h>

__global__ void axpy_half2(float a, const __half* x, __half* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (2 * i + 1 < n) {
        const __half2 pair = reinterpret_cast<const __half2*>(x)[i];
        __half2* out = reinterpret_cast<__half2*>(y) + i;
        *out = __hfma2(__float2half2_rn(a), pair, *out);
    } else if (2 * i < n) {
        y[2 * i] = __hfma(__float2half(a), x[2 * i], y[2 * i]);
    }
}
