// What NVRTC leaves out, and the name of a block's shared memory.

#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif

extern __shared__ float4 kim_shared[];
#define KIM_SHARED kim_shared

#define KIM_OFFSET(type, field) __INTADDR__(&(static_cast<type*>(nullptr)->field))  // NVRTC before 13.1 has no offsetof
