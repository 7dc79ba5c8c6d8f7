// HOLD, HOLD_AT and SNAPSHOT: what a kernel says of itself. They are nothing at all unless the kernel is traced.
//
//   HOLD(As, Bs, acc);          show these variables from here to the end of this scope: arrays of any rank, scalars,
//                               float2, float4, half2 …, in shared memory or in each thread's registers
//   HOLD_AT(p, rows, columns);  the same for memory that p points to
//   SNAPSHOT(step, i, j);       a step ends here, with its loop counters (six at most); it synchronises nothing

#ifndef KERNELS_IN_MOTION_H
#define KERNELS_IN_MOTION_H

#ifndef KIM_TRACED

#define HOLD(...)
#define HOLD_AT(pointer, rows, columns)
#define SNAPSHOT(...)

#else

#ifdef __CUDACC__
#define KIM_DEVICE __device__
#else
#define KIM_DEVICE
#endif

// What listens: kernels/listen/gpu on a GPU, kernels/listen/cpu on a CPU.
extern "C" {
KIM_DEVICE void kim_hold(const char* text, unsigned text_bytes, unsigned index, unsigned element, const void* at,
                         unsigned bytes, unsigned hidden, unsigned rank, unsigned e0, unsigned e1, unsigned e2,
                         unsigned e3, unsigned e4, unsigned e5, unsigned line);
KIM_DEVICE void kim_drop(const void* at, unsigned line);
KIM_DEVICE void kim_snapshot(const char* text, unsigned text_bytes, unsigned line, unsigned count, long long l0,
                             long long l1, long long l2, long long l3, long long l4, long long l5);
KIM_DEVICE unsigned kim_dynamic_bytes();
}

struct __half;
struct __half2;
struct __nv_bfloat16;
struct __nv_bfloat162;

namespace kim {

// The number type that stands in a variable, as an index into ELEMENTS of log.py (0: none that is shown), and how many
// of them one value of the type holds.
template <class T>
struct Element {
    static constexpr unsigned code = 0, lanes = 1;
};
template <class T>
struct Element<const T> : Element<T> {};
template <class T>
struct Element<volatile T> : Element<T> {};
template <class T>
struct Element<const volatile T> : Element<T> {};

#define KIM_ELEMENT(type, number, count) \
    template <> \
    struct Element<type> { \
        static constexpr unsigned code = number, lanes = count; \
    };
KIM_ELEMENT(float, 1, 1) KIM_ELEMENT(float2, 1, 2) KIM_ELEMENT(float3, 1, 3) KIM_ELEMENT(float4, 1, 4)
KIM_ELEMENT(double, 2, 1) KIM_ELEMENT(double2, 2, 2)
KIM_ELEMENT(char, 3, 1) KIM_ELEMENT(signed char, 3, 1) KIM_ELEMENT(char4, 3, 4)
KIM_ELEMENT(unsigned char, 4, 1) KIM_ELEMENT(uchar4, 4, 4)
KIM_ELEMENT(short, 5, 1) KIM_ELEMENT(unsigned short, 6, 1)
KIM_ELEMENT(int, 7, 1) KIM_ELEMENT(int2, 7, 2) KIM_ELEMENT(int4, 7, 4)
KIM_ELEMENT(unsigned, 8, 1) KIM_ELEMENT(uint2, 8, 2) KIM_ELEMENT(uint4, 8, 4)
KIM_ELEMENT(long, sizeof(long) == 8 ? 9 : 7, 1) KIM_ELEMENT(unsigned long, sizeof(long) == 8 ? 10 : 8, 1)
KIM_ELEMENT(long long, 9, 1) KIM_ELEMENT(unsigned long long, 10, 1)
KIM_ELEMENT(__half, 11, 1) KIM_ELEMENT(__half2, 11, 2)
KIM_ELEMENT(__nv_bfloat16, 12, 1) KIM_ELEMENT(__nv_bfloat162, 12, 2)
KIM_ELEMENT(bool, 13, 1)
#undef KIM_ELEMENT

// An array's type taken apart: its number type and its extents, outermost first.
template <class T>
struct Shape {
    using Base = T;
    static constexpr unsigned rank = 0;
    static KIM_DEVICE constexpr unsigned extent(unsigned) { return 1; }
};
template <class T, decltype(sizeof(0)) N>
struct Shape<T[N]> {
    using Base = typename Shape<T>::Base;
    static constexpr unsigned rank = 1 + Shape<T>::rank;
    static KIM_DEVICE constexpr unsigned extent(unsigned axis) { return axis ? Shape<T>::extent(axis - 1) : unsigned(N); }
};

template <class T>
struct IsPointer {
    static constexpr bool value = false;
};
template <class T>
struct IsPointer<T*> {
    static constexpr bool value = true;
};
template <class T>
struct IsPointer<T* const> {
    static constexpr bool value = true;
};

template <bool B>
struct Bool {
    static constexpr bool value = B;
};
template <class... T>
Bool<(!IsPointer<T>::value && ...)> no_pointer(T&...);
template <class... T>
Bool<((IsPointer<T>::value || Element<typename Shape<T>::Base>::code) && ...)> all_numbers(T&...);

// The extents of T with a last one for the lanes of a vector type.
template <class T>
KIM_DEVICE constexpr unsigned extent(unsigned axis) {
    return axis < Shape<T>::rank ? Shape<T>::extent(axis) : axis == Shape<T>::rank ? Element<typename Shape<T>::Base>::lanes : 1;
}

template <class T>
KIM_DEVICE inline void hold(const char* text, unsigned text_bytes, unsigned index, T& x, unsigned hidden, unsigned line) {
    using E = Element<typename Shape<T>::Base>;
    if (E::code) {
        const unsigned rank = Shape<T>::rank + (E::lanes > 1);
        kim_hold(text, text_bytes, index, E::code, (const void*)&x, sizeof(T), hidden, rank, extent<T>(0), extent<T>(1),
                 extent<T>(2), extent<T>(3), extent<T>(4), extent<T>(5), line);
    } else {
        kim_hold(text, text_bytes, index, 0, (const void*)&x, sizeof(T), hidden, 1, sizeof(T), 1, 1, 1, 1, 1, line);
    }
}

template <class... T>
struct Holder {
    const void* at[sizeof...(T)];
    unsigned line;
    KIM_DEVICE Holder(const char* text, unsigned text_bytes, unsigned line, T&... x) : at{(const void*)&x...}, line(line) {
        unsigned index = 0;
        (hold(text, text_bytes, index++, x, 0, line), ...);
    }
    KIM_DEVICE ~Holder() {
        for (unsigned n = sizeof...(T); n--;) kim_drop(at[n], line);
    }
};

template <class T>
struct HolderAt {
    const void* at;
    unsigned line;
    KIM_DEVICE HolderAt(const char* text, unsigned text_bytes, unsigned line, T* p, unsigned rows, unsigned columns)
        : at((const void*)p), line(line) {
        using E = Element<T>;
        static_assert(E::code != 0, "HOLD_AT shows memory that holds numbers, not structs");
        kim_hold(text, text_bytes, 0, E::code, at, unsigned(sizeof(T)) * rows * columns, 0, E::lanes > 1 ? 3 : 2, rows, columns,
                 E::lanes, 1, 1, 1, line);
    }
    KIM_DEVICE ~HolderAt() { kim_drop(at, line); }
};

template <class... Loops>
KIM_DEVICE inline void snapshot(const char* text, unsigned text_bytes, unsigned line, Loops... loops) {
    static_assert(sizeof...(Loops) <= 6, "SNAPSHOT takes a name and at most six loop counters");
    const long long all[7] = {(long long)loops..., 0};
    constexpr unsigned n = sizeof...(Loops);
    kim_snapshot(text, text_bytes, line, n, n > 0 ? all[0] : 0, n > 1 ? all[1] : 0, n > 2 ? all[2] : 0,
                 n > 3 ? all[3] : 0, n > 4 ? all[4] : 0, n > 5 ? all[5] : 0);
}

template <class T>
KIM_DEVICE inline void hold_dynamic(const char* text, unsigned text_bytes, T* at, unsigned line) {
    using E = Element<T>;
    const unsigned bytes = kim_dynamic_bytes(), element = E::code ? unsigned(sizeof(T)) / E::lanes : 1;
    if (bytes) kim_hold(text, text_bytes, 0, E::code, (const void*)at, bytes, 1, 1, bytes / element, 1, 1, 1, 1, 1, line);
}

}  // namespace kim

#define KIM_JOIN2(a, b) a##b
#define KIM_JOIN(a, b) KIM_JOIN2(a, b)
#define HOLD(...) \
    static_assert(decltype(kim::no_pointer(__VA_ARGS__))::value, \
                  "HOLD shows variables, not what a pointer points to: use HOLD_AT(pointer, rows, columns)"); \
    static_assert(decltype(kim::all_numbers(__VA_ARGS__))::value, "HOLD shows numbers and arrays of numbers, not structs"); \
    kim::Holder KIM_JOIN(kim_held_, __LINE__)(#__VA_ARGS__, sizeof(#__VA_ARGS__) - 1, __LINE__, __VA_ARGS__)
#define HOLD_AT(pointer, rows, columns) \
    kim::HolderAt KIM_JOIN(kim_held_, __LINE__)(#pointer, sizeof(#pointer) - 1, __LINE__, pointer, rows, columns)
#define KIM_SNAPSHOT(text, step, ...) kim::snapshot(text, sizeof(text) - 1, __LINE__, ##__VA_ARGS__)
#define SNAPSHOT(...) KIM_SNAPSHOT(#__VA_ARGS__, __VA_ARGS__)
#define KIM_SHARED(x) kim::hold(#x, sizeof(#x) - 1, 0, x, 1, __LINE__)
#define KIM_SHARED_DYNAMIC(x) kim::hold_dynamic(#x, sizeof(#x) - 1, x, __LINE__)

#endif
#endif
