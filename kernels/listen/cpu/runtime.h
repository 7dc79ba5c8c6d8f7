// CUDA's words on a CPU. It stands before a kernel's own text; runtime.cpp is behind it.

#pragma once

#include <cassert>
#include <cfloat>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <math.h>
#include <type_traits>
#include <utility>

#define KIM_IN inline __attribute__((always_inline))
// Not inlined, so that the return address is in the user's line, and with no calls before its own accesses.
#define KIM_OUT __attribute__((noinline, no_sanitize("thread")))
#define KIM_HERE __builtin_return_address(0)

#ifndef KIM_TRACED
#define KIM_SHARED(x)
#define KIM_SHARED_DYNAMIC(x)
#endif

// --- what runtime.cpp offers

extern "C" {
void* kim_dynamic_memory();
unsigned kim_dynamic_bytes();
void kim_access(const void* at, size_t bytes, int kind, const void* pc);
void kim_copy(void* to, const void* from, size_t bytes);
void kim_fill(void* to, int value, size_t bytes);
int kim_barrier(int op, int said, unsigned line);
unsigned long long kim_warp(int op, unsigned mask, unsigned long long bits, unsigned argument, int width, unsigned line);
void kim_async(void* to, const void* from, size_t bytes, size_t zeros, const void* pc);
void kim_async_commit();
void kim_async_wait(unsigned but);
void kim_trap(const void* pc);
long long kim_clock();
}

namespace kim {
inline void* dynamic_shared() { return kim_dynamic_memory(); }
}

namespace kim_cpu {

template <size_t bytes> struct Word;
template <> struct Word<2> { using type = unsigned short; };
template <> struct Word<4> { using type = unsigned; };
template <> struct Word<8> { using type = unsigned long long; };
template <> struct Word<16> { typedef unsigned type __attribute__((vector_size(16))); };

// One access, as on a GPU, and not one for each part: the compiler may not look through the asm.
template <class T>
KIM_IN void move(T* to, const T* from) {
    using W = typename Word<sizeof(T)>::type;
    W word = *(const W*)from;
    if constexpr (sizeof(T) == 16) {
#ifdef __aarch64__
        asm("" : "+w"(word));
#elif defined(__x86_64__)
        asm("" : "+x"(word));
#endif
    } else {
        asm("" : "+r"(word));
    }
    *(W*)to = word;
}

template <class To, class From>
KIM_IN To bits(From from) {
    static_assert(sizeof(To) == sizeof(From), "as many bits");
    To to;
    __builtin_memcpy((void*)&to, (const void*)&from, sizeof to);
    return to;
}

enum Op { READ, WRITE, ATOMIC };
enum BarrierOp { SYNC, OR, AND, COUNT };
enum WarpOp { SYNC_WARP, SHUFFLE, UP, DOWN, XOR, VOTE, ACTIVE, MATCH, ADD, MIN, MAX, MIN_UNSIGNED, MAX_UNSIGNED, BIT_AND, BIT_OR, BIT_XOR };

}  // namespace kim_cpu

// --- vector types

#define KIM_WHOLE(name) \
    KIM_IN name(const name& o) { kim_cpu::move(this, &o); } \
    KIM_IN name& operator=(const name& o) { kim_cpu::move(this, &o); return *this; } \
    KIM_IN name(const volatile name& o) { kim_cpu::move(this, (const name*)&o); } \
    KIM_IN void operator=(const name& o) volatile { kim_cpu::move((name*)this, &o); }
#define KIM_VECTORS(T, base) \
    struct base##1 { T x; }; \
    struct alignas(2 * sizeof(T)) base##2 { \
        T x, y; \
        base##2() = default; \
        constexpr KIM_IN base##2(T x, T y = 0) : x(x), y(y) {} \
        KIM_WHOLE(base##2) \
    }; \
    struct base##3 { T x, y, z; }; \
    struct alignas(4 * sizeof(T) > 16 ? 16 : 4 * sizeof(T)) base##4 { \
        T x, y, z, w; \
        base##4() = default; \
        constexpr KIM_IN base##4(T x, T y = 0, T z = 0, T w = 0) : x(x), y(y), z(z), w(w) {} \
        KIM_WHOLE_##T(base##4) \
    }; \
    KIM_IN base##1 make_##base##1(T x) { return {x}; } \
    KIM_IN base##2 make_##base##2(T x, T y) { return base##2(x, y); } \
    KIM_IN base##3 make_##base##3(T x, T y, T z) { return {x, y, z}; } \
    KIM_IN base##4 make_##base##4(T x, T y, T z, T w) { return base##4(x, y, z, w); }

// The number types by one-word names, which the macro above pastes; those of 8 bytes have no 32-byte access.
typedef signed char kim_schar;
typedef unsigned char kim_uchar;
typedef unsigned short kim_ushort;
typedef unsigned kim_uint;
typedef long kim_long;
typedef unsigned long kim_ulong;
typedef long long kim_longlong;
typedef unsigned long long kim_ulonglong;
#define KIM_WHOLE_kim_schar(name) KIM_WHOLE(name)
#define KIM_WHOLE_kim_uchar(name) KIM_WHOLE(name)
#define KIM_WHOLE_short(name) KIM_WHOLE(name)
#define KIM_WHOLE_kim_ushort(name) KIM_WHOLE(name)
#define KIM_WHOLE_int(name) KIM_WHOLE(name)
#define KIM_WHOLE_kim_uint(name) KIM_WHOLE(name)
#define KIM_WHOLE_float(name) KIM_WHOLE(name)
#define KIM_WHOLE_double(name)
#define KIM_WHOLE_kim_long(name)
#define KIM_WHOLE_kim_ulong(name)
#define KIM_WHOLE_kim_longlong(name)
#define KIM_WHOLE_kim_ulonglong(name)
KIM_VECTORS(kim_schar, char)
KIM_VECTORS(kim_uchar, uchar)
KIM_VECTORS(short, short)
KIM_VECTORS(kim_ushort, ushort)
KIM_VECTORS(int, int)
KIM_VECTORS(kim_uint, uint)
KIM_VECTORS(float, float)
KIM_VECTORS(double, double)
KIM_VECTORS(kim_long, long)
KIM_VECTORS(kim_ulong, ulong)
KIM_VECTORS(kim_longlong, longlong)
KIM_VECTORS(kim_ulonglong, ulonglong)

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    constexpr operator uint3() const { return {x, y, z}; }
};

// Constant as long as a thread runs, so the compiler puts no calls before their reads.
extern "C" {
extern const uint3 threadIdx, blockIdx;
extern const dim3 blockDim, gridDim;
}
static const int warpSize = 32;

// --- half and bfloat16, by their bits; one operation rounds once, to nearest even

namespace kim_cpu {

KIM_IN float from_half(unsigned short h) {
    const unsigned sign = (h & 0x8000u) << 16, exponent = (h >> 10) & 31, fraction = h & 1023u;
    if (exponent == 31) return bits<float>(sign | 0x7F800000u | fraction << 13);
    if (exponent) return bits<float>(sign | (exponent + 112) << 23 | fraction << 13);
    const float small = float(fraction) * 0x1p-24f;
    return bits<float>(sign | bits<unsigned>(small));
}
inline unsigned short to_half(float f) {
    const unsigned all = bits<unsigned>(f), sign = all >> 16 & 0x8000u, size = all & 0x7FFFFFFFu;
    if (size > 0x7F800000u) return 0x7FFF;
    if (size >= 0x477FF000u) return sign | 0x7C00u;  // 65520 and more round to infinity
    if (size < 0x38800000u) return sign | unsigned(__builtin_nearbyintf(bits<float>(size) * 0x1p24f));
    return sign | ((size - 0x38000000u + 0xFFFu + (size >> 13 & 1)) >> 13);
}
inline unsigned short to_half(double d) {
    float f = float(d);  // rounded to odd, so that rounding again is rounding once
    if (double(f) != d && f == f) {
        unsigned all = bits<unsigned>(f);
        if (!(all & 1)) all = (__builtin_fabs(double(f)) > __builtin_fabs(d)) ? all - 1 : all + 1;
        if (__builtin_isfinite(f)) f = bits<float>(all);
    }
    return to_half(f);
}
KIM_IN float from_bfloat(unsigned short b) { return bits<float>(unsigned(b) << 16); }
inline unsigned short to_bfloat(float f) {
    const unsigned all = bits<unsigned>(f);
    if ((all & 0x7FFFFFFFu) > 0x7F800000u) return 0x7FFF;
    return (all + 0x7FFFu + (all >> 16 & 1)) >> 16;
}
inline unsigned short to_bfloat(double d) {
    float f = float(d);
    if (double(f) != d && f == f && __builtin_isfinite(f)) {
        unsigned all = bits<unsigned>(f);
        if (!(all & 1)) all = (__builtin_fabs(double(f)) > __builtin_fabs(d)) ? all - 1 : all + 1;
        f = bits<float>(all);
    }
    return to_bfloat(f);
}

}  // namespace kim_cpu

#define KIM_SMALL_FLOAT(T, T2, T_raw, T2_raw, from, to) \
    struct T_raw { unsigned short x; }; \
    struct T { \
        unsigned short kim_bits; \
        T() = default; \
        KIM_IN T(float f) : kim_bits(kim_cpu::to(f)) {} \
        KIM_IN T(double d) : kim_bits(kim_cpu::to(d)) {} \
        KIM_IN T(int i) : kim_bits(kim_cpu::to(double(i))) {} \
        KIM_IN T(unsigned i) : kim_bits(kim_cpu::to(double(i))) {} \
        KIM_IN T(short i) : kim_bits(kim_cpu::to(double(i))) {} \
        KIM_IN T(unsigned short i) : kim_bits(kim_cpu::to(double(i))) {} \
        KIM_IN T(long long i) : kim_bits(kim_cpu::to(double(i))) {} \
        KIM_IN T(unsigned long long i) : kim_bits(kim_cpu::to(double(i))) {} \
        KIM_IN T(T_raw r) : kim_bits(r.x) {} \
        KIM_IN T(const T&) = default; \
        KIM_IN T& operator=(const T&) = default; \
        KIM_IN T(const volatile T& o) : kim_bits(o.kim_bits) {} \
        KIM_IN void operator=(const T& o) volatile { kim_bits = o.kim_bits; } \
        KIM_IN operator float() const { return kim_cpu::from(kim_bits); } \
        KIM_IN operator T_raw() const { return {kim_bits}; } \
        KIM_IN explicit operator bool() const { return (kim_bits & 0x7FFF) != 0; } \
        KIM_IN explicit operator int() const { return int(float(*this)); } \
    }; \
    struct alignas(4) T2_raw { unsigned short x, y; }; \
    struct alignas(4) T2 { \
        T x, y; \
        T2() = default; \
        KIM_IN T2(T x, T y) : x(x), y(y) {} \
        KIM_IN T2(T2_raw r) { x.kim_bits = r.x, y.kim_bits = r.y; } \
        KIM_WHOLE(T2) \
    }; \
    KIM_IN T operator+(T a, T b) { return float(a) + float(b); } \
    KIM_IN T operator-(T a, T b) { return float(a) - float(b); } \
    KIM_IN T operator*(T a, T b) { return float(a) * float(b); } \
    KIM_IN T operator/(T a, T b) { return float(a) / float(b); } \
    KIM_IN T operator-(T a) { T r; r.kim_bits = a.kim_bits ^ 0x8000; return r; } \
    KIM_IN T operator+(T a) { return a; } \
    KIM_IN T& operator+=(T& a, T b) { return a = a + b; } \
    KIM_IN T& operator-=(T& a, T b) { return a = a - b; } \
    KIM_IN T& operator*=(T& a, T b) { return a = a * b; } \
    KIM_IN T& operator/=(T& a, T b) { return a = a / b; } \
    KIM_IN bool operator==(T a, T b) { return float(a) == float(b); } \
    KIM_IN bool operator!=(T a, T b) { return float(a) != float(b); } \
    KIM_IN bool operator<(T a, T b) { return float(a) < float(b); } \
    KIM_IN bool operator>(T a, T b) { return float(a) > float(b); } \
    KIM_IN bool operator<=(T a, T b) { return float(a) <= float(b); } \
    KIM_IN bool operator>=(T a, T b) { return float(a) >= float(b); } \
    KIM_IN T __hadd(T a, T b) { return a + b; } \
    KIM_IN T __hadd_rn(T a, T b) { return a + b; } \
    KIM_IN T __hsub(T a, T b) { return a - b; } \
    KIM_IN T __hmul(T a, T b) { return a * b; } \
    KIM_IN T __hmul_rn(T a, T b) { return a * b; } \
    KIM_IN T __hdiv(T a, T b) { return a / b; } \
    KIM_IN T __hneg(T a) { return -a; } \
    KIM_IN T __habs(T a) { a.kim_bits &= 0x7FFF; return a; } \
    KIM_IN T __hfma(T a, T b, T c) { return T(double(float(a)) * double(float(b)) + double(float(c))); } \
    KIM_IN T __hfma_relu(T a, T b, T c) { const T r = __hfma(a, b, c); return float(r) > 0 ? r : T(0.0f); } \
    KIM_IN T __hadd_sat(T a, T b) { return fminf(fmaxf(float(a + b), 0.0f), 1.0f); } \
    KIM_IN T __hmax(T a, T b) { return T(fmaxf(float(a), float(b))); } \
    KIM_IN T __hmin(T a, T b) { return T(fminf(float(a), float(b))); } \
    KIM_IN bool __heq(T a, T b) { return a == b; } \
    KIM_IN bool __hne(T a, T b) { return a != b; } \
    KIM_IN bool __hlt(T a, T b) { return a < b; } \
    KIM_IN bool __hgt(T a, T b) { return a > b; } \
    KIM_IN bool __hle(T a, T b) { return a <= b; } \
    KIM_IN bool __hge(T a, T b) { return a >= b; } \
    KIM_IN bool __hisnan(T a) { return float(a) != float(a); } \
    KIM_IN int __hisinf(T a) { return __builtin_isinf_sign(float(a)); } \
    KIM_IN T hexp(T a) { return T(expf(float(a))); } \
    KIM_IN T hexp2(T a) { return T(exp2f(float(a))); } \
    KIM_IN T hlog(T a) { return T(logf(float(a))); } \
    KIM_IN T hlog2(T a) { return T(log2f(float(a))); } \
    KIM_IN T hsqrt(T a) { return T(sqrtf(float(a))); } \
    KIM_IN T hrsqrt(T a) { return T(1.0f / sqrtf(float(a))); } \
    KIM_IN T hrcp(T a) { return T(1.0f / float(a)); } \
    KIM_IN T hsin(T a) { return T(sinf(float(a))); } \
    KIM_IN T hcos(T a) { return T(cosf(float(a))); } \
    KIM_IN T htanh(T a) { return T(tanhf(float(a))); } \
    KIM_IN T hfloor(T a) { return T(floorf(float(a))); } \
    KIM_IN T hceil(T a) { return T(ceilf(float(a))); } \
    KIM_IN T hrint(T a) { return T(rintf(float(a))); } \
    KIM_IN T2 operator+(T2 a, T2 b) { return T2(a.x + b.x, a.y + b.y); } \
    KIM_IN T2 operator-(T2 a, T2 b) { return T2(a.x - b.x, a.y - b.y); } \
    KIM_IN T2 operator*(T2 a, T2 b) { return T2(a.x * b.x, a.y * b.y); } \
    KIM_IN T2 operator/(T2 a, T2 b) { return T2(a.x / b.x, a.y / b.y); } \
    KIM_IN T2 operator-(T2 a) { return T2(-a.x, -a.y); } \
    KIM_IN T2& operator+=(T2& a, T2 b) { return a = a + b; } \
    KIM_IN T2& operator-=(T2& a, T2 b) { return a = a - b; } \
    KIM_IN T2& operator*=(T2& a, T2 b) { return a = a * b; } \
    KIM_IN T2& operator/=(T2& a, T2 b) { return a = a / b; } \
    KIM_IN T2 __hadd2(T2 a, T2 b) { return a + b; } \
    KIM_IN T2 __hsub2(T2 a, T2 b) { return a - b; } \
    KIM_IN T2 __hmul2(T2 a, T2 b) { return a * b; } \
    KIM_IN T2 __h2div(T2 a, T2 b) { return a / b; } \
    KIM_IN T2 __hneg2(T2 a) { return -a; } \
    KIM_IN T2 __habs2(T2 a) { return T2(__habs(a.x), __habs(a.y)); } \
    KIM_IN T2 __hfma2(T2 a, T2 b, T2 c) { return T2(__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)); } \
    KIM_IN T2 __hmax2(T2 a, T2 b) { return T2(__hmax(a.x, b.x), __hmax(a.y, b.y)); } \
    KIM_IN T2 __hmin2(T2 a, T2 b) { return T2(__hmin(a.x, b.x), __hmin(a.y, b.y)); } \
    KIM_IN T2 h2exp(T2 a) { return T2(hexp(a.x), hexp(a.y)); } \
    KIM_IN T2 h2exp2(T2 a) { return T2(hexp2(a.x), hexp2(a.y)); } \
    KIM_IN T2 h2log(T2 a) { return T2(hlog(a.x), hlog(a.y)); } \
    KIM_IN T2 h2sqrt(T2 a) { return T2(hsqrt(a.x), hsqrt(a.y)); } \
    KIM_IN T2 h2rsqrt(T2 a) { return T2(hrsqrt(a.x), hrsqrt(a.y)); } \
    KIM_IN T2 h2rcp(T2 a) { return T2(hrcp(a.x), hrcp(a.y)); }
KIM_SMALL_FLOAT(__half, __half2, __half_raw, __half2_raw, from_half, to_half)
KIM_SMALL_FLOAT(__nv_bfloat16, __nv_bfloat162, __nv_bfloat16_raw, __nv_bfloat162_raw, from_bfloat, to_bfloat)
typedef __half half;
typedef __half2 half2;
typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;

KIM_IN __half __float2half(float f) { return __half(f); }
KIM_IN __half __float2half_rn(float f) { return __half(f); }
KIM_IN __half __double2half(double d) { return __half(d); }
KIM_IN float __half2float(__half h) { return float(h); }
KIM_IN __half __int2half_rn(int i) { return __half(i); }
KIM_IN __half __uint2half_rn(unsigned i) { return __half(i); }
KIM_IN int __half2int_rn(__half h) { return int(rintf(float(h))); }
KIM_IN int __half2int_rz(__half h) { return int(float(h)); }
KIM_IN __half2 __float2half2_rn(float f) { return __half2(__half(f), __half(f)); }
KIM_IN __half2 __floats2half2_rn(float a, float b) { return __half2(__half(a), __half(b)); }
KIM_IN __half2 __float22half2_rn(float2 f) { return __half2(__half(f.x), __half(f.y)); }
KIM_IN float2 __half22float2(__half2 h) { return float2(float(h.x), float(h.y)); }
KIM_IN __half2 __half2half2(__half h) { return __half2(h, h); }
KIM_IN __half2 __halves2half2(__half a, __half b) { return __half2(a, b); }
KIM_IN __half2 make_half2(__half a, __half b) { return __half2(a, b); }
KIM_IN __half __low2half(__half2 h) { return h.x; }
KIM_IN __half __high2half(__half2 h) { return h.y; }
KIM_IN float __low2float(__half2 h) { return float(h.x); }
KIM_IN float __high2float(__half2 h) { return float(h.y); }
KIM_IN __half2 __low2half2(__half2 h) { return __half2(h.x, h.x); }
KIM_IN __half2 __high2half2(__half2 h) { return __half2(h.y, h.y); }
KIM_IN __half2 __lowhigh2highlow(__half2 h) { return __half2(h.y, h.x); }
KIM_IN __half2 __lows2half2(__half2 a, __half2 b) { return __half2(a.x, b.x); }
KIM_IN __half2 __highs2half2(__half2 a, __half2 b) { return __half2(a.y, b.y); }
KIM_IN unsigned short __half_as_ushort(__half h) { return h.kim_bits; }
KIM_IN short __half_as_short(__half h) { return short(h.kim_bits); }
KIM_IN __half __ushort_as_half(unsigned short b) { __half h; h.kim_bits = b; return h; }
KIM_IN __half __short_as_half(short b) { __half h; h.kim_bits = (unsigned short)b; return h; }
KIM_IN __nv_bfloat16 __float2bfloat16(float f) { return __nv_bfloat16(f); }
KIM_IN __nv_bfloat16 __float2bfloat16_rn(float f) { return __nv_bfloat16(f); }
KIM_IN __nv_bfloat16 __double2bfloat16(double d) { return __nv_bfloat16(d); }
KIM_IN float __bfloat162float(__nv_bfloat16 b) { return float(b); }
KIM_IN __nv_bfloat162 __float2bfloat162_rn(float f) { return __nv_bfloat162(__nv_bfloat16(f), __nv_bfloat16(f)); }
KIM_IN __nv_bfloat162 __floats2bfloat162_rn(float a, float b) { return __nv_bfloat162(__nv_bfloat16(a), __nv_bfloat16(b)); }
KIM_IN __nv_bfloat162 __float22bfloat162_rn(float2 f) { return __nv_bfloat162(__nv_bfloat16(f.x), __nv_bfloat16(f.y)); }
KIM_IN float2 __bfloat1622float2(__nv_bfloat162 b) { return float2(float(b.x), float(b.y)); }
KIM_IN __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 b) { return __nv_bfloat162(b, b); }
KIM_IN __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 a, __nv_bfloat16 b) { return __nv_bfloat162(a, b); }
KIM_IN __nv_bfloat162 make_bfloat162(__nv_bfloat16 a, __nv_bfloat16 b) { return __nv_bfloat162(a, b); }
KIM_IN __nv_bfloat16 __low2bfloat16(__nv_bfloat162 b) { return b.x; }
KIM_IN __nv_bfloat16 __high2bfloat16(__nv_bfloat162 b) { return b.y; }
KIM_IN float __low2float(__nv_bfloat162 b) { return float(b.x); }
KIM_IN float __high2float(__nv_bfloat162 b) { return float(b.y); }
KIM_IN unsigned short __bfloat16_as_ushort(__nv_bfloat16 b) { return b.kim_bits; }
KIM_IN __nv_bfloat16 __ushort_as_bfloat16(unsigned short x) { __nv_bfloat16 b; b.kim_bits = x; return b; }

// --- numbers

namespace kim_cpu {
template <class A, class B>
using Numbers = std::enable_if_t<std::is_arithmetic_v<A> && std::is_arithmetic_v<B>, std::common_type_t<A, B>>;
}
template <class A, class B>
constexpr KIM_IN kim_cpu::Numbers<A, B> max(A left, B right) {
    using T = std::common_type_t<A, B>;
    const T a = T(left), b = T(right);
    return a != a || a < b ? b : a;  // of a NaN and a number, the number
}
template <class A, class B>
constexpr KIM_IN kim_cpu::Numbers<A, B> min(A left, B right) {
    using T = std::common_type_t<A, B>;
    const T a = T(left), b = T(right);
    return a != a || b < a ? b : a;
}

#define KIM_SAME(name, T, ...) KIM_IN T name(T x) { return __VA_ARGS__; }
KIM_SAME(rsqrtf, float, 1.0f / sqrtf(x))
KIM_SAME(rsqrt, float, 1.0f / sqrtf(x))
KIM_SAME(rsqrt, double, 1.0 / sqrt(x))
KIM_SAME(rcbrtf, float, 1.0f / cbrtf(x))
KIM_SAME(__expf, float, expf(x))
KIM_SAME(__exp10f, float, powf(10.0f, x))
KIM_SAME(__logf, float, logf(x))
KIM_SAME(__log2f, float, log2f(x))
KIM_SAME(__log10f, float, log10f(x))
KIM_SAME(__sinf, float, sinf(x))
KIM_SAME(__cosf, float, cosf(x))
KIM_SAME(__tanf, float, tanf(x))
KIM_SAME(__tanhf, float, tanhf(x))
KIM_SAME(__saturatef, float, x != x ? 0.0f : fminf(fmaxf(x, 0.0f), 1.0f))
KIM_SAME(__frcp_rn, float, 1.0f / x)
KIM_SAME(__fsqrt_rn, float, sqrtf(x))
KIM_SAME(__frsqrt_rn, float, float(1.0 / sqrt(double(x))))
KIM_SAME(normcdff, float, 0.5f * erfcf(-x * 0.70710678f))
KIM_SAME(sinpif, float, sinf(3.14159265358979f * x))
KIM_SAME(cospif, float, cosf(3.14159265358979f * x))
KIM_IN float __powf(float a, float b) { return powf(a, b); }
KIM_IN float __fdividef(float a, float b) { return a / b; }
KIM_IN float fdividef(float a, float b) { return a / b; }
KIM_IN float __fdiv_rn(float a, float b) { return a / b; }
KIM_IN float __fadd_rn(float a, float b) { return a + b; }
KIM_IN float __fsub_rn(float a, float b) { return a - b; }
KIM_IN float __fmul_rn(float a, float b) { return a * b; }
KIM_IN float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
KIM_IN double __dadd_rn(double a, double b) { return a + b; }
KIM_IN double __dmul_rn(double a, double b) { return a * b; }
KIM_IN double __fma_rn(double a, double b, double c) { return __builtin_fma(a, b, c); }
KIM_IN void __sincosf(float x, float* s, float* c) { *s = sinf(x), *c = cosf(x); }

KIM_IN int __float2int_rn(float x) { return int(rintf(x)); }
KIM_IN int __float2int_rz(float x) { return int(x); }
KIM_IN int __float2int_rd(float x) { return int(floorf(x)); }
KIM_IN int __float2int_ru(float x) { return int(ceilf(x)); }
KIM_IN unsigned __float2uint_rn(float x) { return unsigned(rintf(x)); }
KIM_IN unsigned __float2uint_rz(float x) { return unsigned(x); }
KIM_IN unsigned __float2uint_rd(float x) { return unsigned(floorf(x)); }
KIM_IN float __int2float_rn(int x) { return float(x); }
KIM_IN float __int2float_rz(int x) { return float(x); }
KIM_IN float __uint2float_rn(unsigned x) { return float(x); }
KIM_IN double __int2double_rn(int x) { return double(x); }
KIM_IN float __double2float_rn(double x) { return float(x); }
KIM_IN int __double2int_rn(double x) { return int(rint(x)); }
KIM_IN int __float_as_int(float x) { return kim_cpu::bits<int>(x); }
KIM_IN unsigned __float_as_uint(float x) { return kim_cpu::bits<unsigned>(x); }
KIM_IN float __int_as_float(int x) { return kim_cpu::bits<float>(x); }
KIM_IN float __uint_as_float(unsigned x) { return kim_cpu::bits<float>(x); }
KIM_IN long long __double_as_longlong(double x) { return kim_cpu::bits<long long>(x); }
KIM_IN double __longlong_as_double(long long x) { return kim_cpu::bits<double>(x); }

KIM_IN int __popc(unsigned x) { return __builtin_popcount(x); }
KIM_IN int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
KIM_IN int __clz(int x) { return x ? __builtin_clz(unsigned(x)) : 32; }
KIM_IN int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
KIM_IN int __ffs(int x) { return __builtin_ffs(x); }
KIM_IN int __ffsll(long long x) { return __builtin_ffsll(x); }
KIM_IN unsigned __brev(unsigned x) {
    x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
    x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
    x = (x >> 4 & 0x0F0F0F0Fu) | (x & 0x0F0F0F0Fu) << 4;
    return __builtin_bswap32(x);
}
KIM_IN int __mulhi(int a, int b) { return int((long long)a * b >> 32); }
KIM_IN unsigned __umulhi(unsigned a, unsigned b) { return unsigned((unsigned long long)a * b >> 32); }
KIM_IN int __mul24(int a, int b) { return (a << 8 >> 8) * (b << 8 >> 8); }
KIM_IN unsigned __umul24(unsigned a, unsigned b) { return (a & 0xFFFFFFu) * (b & 0xFFFFFFu); }
KIM_IN int __abs(int x) { return x < 0 ? -x : x; }
KIM_IN unsigned __sad(int a, int b, unsigned c) { return c + unsigned(a > b ? a - b : b - a); }
KIM_IN unsigned __funnelshift_l(unsigned low, unsigned high, unsigned by) {
    return unsigned(((unsigned long long)high << 32 | low) << (by & 31) >> 32);
}
KIM_IN unsigned __funnelshift_r(unsigned low, unsigned high, unsigned by) {
    return unsigned(((unsigned long long)high << 32 | low) >> (by & 31));
}
KIM_IN unsigned __byte_perm(unsigned a, unsigned b, unsigned how) {
    const unsigned long long both = (unsigned long long)b << 32 | a;
    unsigned result = 0;
    for (int n = 0; n < 4; n++) {
        const unsigned pick = how >> 4 * n & 15, byte = unsigned(both >> 8 * (pick & 7)) & 255;
        result |= (pick & 8 ? (byte & 128 ? 255u : 0u) : byte) << 8 * n;
    }
    return result;
}
KIM_IN int __dp4a(int a, int b, int c) {
    for (int n = 0; n < 4; n++) c += int((signed char)(a >> 8 * n)) * int((signed char)(b >> 8 * n));
    return c;
}

#define CUDART_INF_F __builtin_inff()
#define CUDART_INF __builtin_inf()
#define CUDART_NAN_F __builtin_nanf("")
#define CUDART_MAX_NORMAL_F 3.402823466e+38f
#define CUDART_PI_F 3.141592654f
#define CUDART_PI 3.1415926535897931
#define CUDART_INF_FP16 __ushort_as_half(0x7C00)
#define CUDART_NAN_FP16 __ushort_as_half(0x7FFF)

template <class T> KIM_IN T __ldg(const T* at) { return *at; }
template <class T> KIM_IN T __ldcs(const T* at) { return *at; }
template <class T> KIM_IN T __ldcg(const T* at) { return *at; }
template <class T> KIM_IN T __ldca(const T* at) { return *at; }
template <class T> KIM_IN T __ldlu(const T* at) { return *at; }
template <class T> KIM_IN T __ldcv(const T* at) { return *at; }
template <class T> KIM_IN void __stcs(T* at, T value) { *at = value; }
template <class T> KIM_IN void __stcg(T* at, T value) { *at = value; }
template <class T> KIM_IN void __stwb(T* at, T value) { *at = value; }
template <class T> KIM_IN void __stwt(T* at, T value) { *at = value; }

// --- waiting for one another

KIM_IN void __syncthreads(unsigned line = __builtin_LINE()) { kim_barrier(kim_cpu::SYNC, 0, line); }
KIM_IN int __syncthreads_or(int said, unsigned line = __builtin_LINE()) { return kim_barrier(kim_cpu::OR, said, line); }
KIM_IN int __syncthreads_and(int said, unsigned line = __builtin_LINE()) { return kim_barrier(kim_cpu::AND, said, line); }
KIM_IN int __syncthreads_count(int said, unsigned line = __builtin_LINE()) { return kim_barrier(kim_cpu::COUNT, said, line); }
KIM_IN void __syncwarp(unsigned mask = ~0u, unsigned line = __builtin_LINE()) { kim_warp(kim_cpu::SYNC_WARP, mask, 0, 0, 32, line); }
KIM_IN void __threadfence() {}
KIM_IN void __threadfence_block() {}
KIM_IN void __threadfence_system() {}
KIM_IN void __nanosleep(unsigned) {}
KIM_IN void __prof_trigger(int) {}
KIM_IN long long clock64() { return kim_clock(); }
KIM_IN int clock() { return int(kim_clock()); }
KIM_OUT inline void __trap() { kim_trap(KIM_HERE); }

namespace kim_cpu {

template <class T>
KIM_IN T shuffle(WarpOp op, unsigned mask, T value, unsigned argument, int width, unsigned line) {
    static_assert(sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8, "a shuffle takes a value of 2, 4 or 8 bytes");
    unsigned long long word = 0;
    __builtin_memcpy((void*)&word, (const void*)&value, sizeof(T));
    word = kim_warp(op, mask, word, argument, width, line);
    __builtin_memcpy((void*)&value, (const void*)&word, sizeof(T));
    return value;
}

}  // namespace kim_cpu

template <class T>
KIM_IN T __shfl_sync(unsigned mask, T value, int lane, int width = 32, unsigned line = __builtin_LINE()) {
    return kim_cpu::shuffle(kim_cpu::SHUFFLE, mask, value, unsigned(lane), width, line);
}
template <class T>
KIM_IN T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32, unsigned line = __builtin_LINE()) {
    return kim_cpu::shuffle(kim_cpu::UP, mask, value, by, width, line);
}
template <class T>
KIM_IN T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32, unsigned line = __builtin_LINE()) {
    return kim_cpu::shuffle(kim_cpu::DOWN, mask, value, by, width, line);
}
template <class T>
KIM_IN T __shfl_xor_sync(unsigned mask, T value, int with, int width = 32, unsigned line = __builtin_LINE()) {
    return kim_cpu::shuffle(kim_cpu::XOR, mask, value, unsigned(with), width, line);
}
KIM_IN unsigned __ballot_sync(unsigned mask, int said, unsigned line = __builtin_LINE()) {
    return unsigned(kim_warp(kim_cpu::VOTE, mask, said != 0, 0, 32, line));
}
KIM_IN int __any_sync(unsigned mask, int said, unsigned line = __builtin_LINE()) {
    return __ballot_sync(mask, said, line) != 0;
}
KIM_IN int __all_sync(unsigned mask, int said, unsigned line = __builtin_LINE()) {
    return __ballot_sync(mask, !said, line) == 0;
}
KIM_IN int __uni_sync(unsigned mask, int said, unsigned line = __builtin_LINE()) {
    const unsigned yes = __ballot_sync(mask, said, line);
    return yes == 0 || __ballot_sync(mask, !said, line) == 0;
}
KIM_IN unsigned __activemask(unsigned line = __builtin_LINE()) {
    return unsigned(kim_warp(kim_cpu::ACTIVE, 0, 0, 0, 32, line));
}
template <class T>
KIM_IN unsigned __match_any_sync(unsigned mask, T value, unsigned line = __builtin_LINE()) {
    unsigned long long word = 0;
    __builtin_memcpy((void*)&word, (const void*)&value, sizeof(T));
    return unsigned(kim_warp(kim_cpu::MATCH, mask, word, 0, 32, line));
}
template <class T>
KIM_IN unsigned __match_all_sync(unsigned mask, T value, int* all, unsigned line = __builtin_LINE()) {
    const unsigned same = __match_any_sync(mask, value, line);
    const unsigned there = __ballot_sync(mask, 1, line);
    *all = same == there;
    return *all ? same : 0;
}
#define KIM_REDUCE(name, op, T) \
    KIM_IN T name(unsigned mask, T value, unsigned line = __builtin_LINE()) { \
        return T(kim_warp(kim_cpu::op, mask, (unsigned long long)value, 0, 32, line)); \
    }
KIM_REDUCE(__reduce_add_sync, ADD, int) KIM_REDUCE(__reduce_add_sync, ADD, unsigned)
KIM_REDUCE(__reduce_min_sync, MIN, int) KIM_REDUCE(__reduce_min_sync, MIN_UNSIGNED, unsigned)
KIM_REDUCE(__reduce_max_sync, MAX, int) KIM_REDUCE(__reduce_max_sync, MAX_UNSIGNED, unsigned)
KIM_REDUCE(__reduce_and_sync, BIT_AND, unsigned) KIM_REDUCE(__reduce_or_sync, BIT_OR, unsigned)
KIM_REDUCE(__reduce_xor_sync, BIT_XOR, unsigned)
KIM_IN unsigned kim_lane() {
    return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) & 31;
}

// --- atomics: a block's threads take turns, so an atomic is a plain change with its own row in the log

#ifdef KIM_TRACED
#define KIM_ATOMIC_ROW(at) kim_access((const void*)at, sizeof *at, kim_cpu::ATOMIC, KIM_HERE)
#else
#define KIM_ATOMIC_ROW(at)
#endif
namespace kim_cpu {
template <class T> struct Same { using type = T; };
}
#define KIM_ATOMIC(name, ...) \
    template <class T> \
    KIM_OUT T name(T* at, typename kim_cpu::Same<T>::type value) { \
        KIM_ATOMIC_ROW(at); \
        T old; \
        kim_cpu::move(&old, (const T*)at); \
        const T changed = __VA_ARGS__; \
        kim_cpu::move(at, &changed); \
        return old; \
    } \
    template <class T> KIM_IN T name##_block(T* at, typename kim_cpu::Same<T>::type value) { return name(at, value); } \
    template <class T> KIM_IN T name##_system(T* at, typename kim_cpu::Same<T>::type value) { return name(at, value); }
KIM_ATOMIC(atomicAdd, old + value)
KIM_ATOMIC(atomicSub, old - value)
KIM_ATOMIC(atomicMax, old < value ? value : old)
KIM_ATOMIC(atomicMin, value < old ? value : old)
KIM_ATOMIC(atomicExch, value)
KIM_ATOMIC(atomicAnd, old & value)
KIM_ATOMIC(atomicOr, old | value)
KIM_ATOMIC(atomicXor, old ^ value)
KIM_ATOMIC(atomicInc, old >= value ? T(0) : T(old + 1))
KIM_ATOMIC(atomicDec, old == 0 || old > value ? value : T(old - 1))
template <class T>
KIM_OUT T atomicCAS(T* at, typename kim_cpu::Same<T>::type compare, typename kim_cpu::Same<T>::type value) {
    KIM_ATOMIC_ROW(at);
    T old;
    kim_cpu::move(&old, (const T*)at);
    if (__builtin_memcmp((const void*)&old, (const void*)&compare, sizeof(T)) == 0) kim_cpu::move(at, (const T*)&value);
    return old;
}

#undef assert
#define assert(holds) ((holds) ? (void)0 : __trap())

// --- cp.async: what was copied arrives at the wait that covers it

KIM_OUT inline void __pipeline_memcpy_async(void* to, const void* from, size_t bytes, size_t zeros = 0) {
    kim_async(to, from, bytes, zeros, KIM_HERE);
}
KIM_IN void __pipeline_commit() { kim_async_commit(); }
KIM_IN void __pipeline_wait_prior(size_t but) { kim_async_wait(unsigned(but)); }

#ifdef KIM_TRACED
namespace std {
using ::kim_copy;
using ::kim_fill;
}
#define memcpy kim_copy
#define memset kim_fill
#endif

// --- the words that mean nothing here; after the system's headers, which use some of them otherwise

#define __global__
#define __device__
#define __host__
#define __constant__
#define __managed__
#define __shared__ static
#define __grid_constant__
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))
#define __CUDA_ARCH__ 900

// --- starting a kernel

namespace kim_cpu {

template <class... P, size_t... N>
KIM_OUT void call(void (*kernel)(P...), void** arguments, std::index_sequence<N...>) {
    kernel(*static_cast<std::remove_cv_t<std::remove_reference_t<P>>*>(arguments[N])...);
}
template <class... P>
KIM_OUT void call(void (*kernel)(P...), void** arguments) {
    call(kernel, arguments, std::index_sequence_for<P...>());
}

}  // namespace kim_cpu
