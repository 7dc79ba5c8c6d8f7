// The instrumentation: three names a kernel uses.
//
//   Hbm<T>                  how a kernel takes a pointer to HBM
//   sram<T>()               the block's shared memory as one struct, whose fields are the slots
//   SNAPSHOT(step, loops…)  the end of a step, with the values of the loops it stands in
//
// Without KIM_TRACE they are a pointer, a cast and nothing: the compiled kernel is the kernel without them.

#ifndef KIM_TRACE

template <class T>
using Hbm = T*;

template <class T>
__device__ inline T& sram() {
    return *reinterpret_cast<T*>(KIM_SHARED);
}

#define SNAPSHOT(...)

#else

namespace kim {

// What a slot holds before its first write: a signalling NaN, which any arithmetic would turn into another one.
constexpr unsigned poison = 0x7f85a110u;
constexpr int most_loops = 4;
constexpr int flipped = 0x7fffffff;  // a minimum is kept as the maximum of (flipped - value), so that 0 means "none yet"

// One array in HBM. Sizes count elements; `patch` is how many of its elements one step of a block may write.
struct Array {
    void* base;
    int size, per_head, columns, patch;
    unsigned magic, shift;  // divide an index by `columns` (Granlund and Montgomery 1994, theorem 4.2)

    __device__ int row(unsigned index) const { return int(static_cast<unsigned long long>(index) * magic >> shift); }
};

enum FaultKind { no_fault, outside, other_head, patch_too_large, too_many_steps, after_the_last_step };

// The first thing that went wrong in a run.
struct Fault {
    int kind, array, step, block;
    long long index;
};

// Where the steps of a launch go: those of `blocks` blocks from `first_block` on, up to `last_step` of each. A record is,
// in words of 4 bytes: 1 + the step, its loops, two Tallies for each array, and for each array its patch; the host zeroes
// all records before the launch. From `first_step` on there is the SRAM too, in `slots`.
struct Config {
    unsigned *records, *slots;
    int* steps;  // per block: how many it has left
    Fault* fault;
    int capacity, first_block, blocks, first_step, last_step;
    int record_words, slot_words, sram_words;
    Array array[KIM_ARRAYS];
};

// The elements of one array that one thread read, or wrote, since the last snapshot: how many, and their range.
struct Tally {
    int count, first, last, first_column, last_column;
};
constexpr int tally_words = sizeof(Tally) / 4;

__device__ inline int block() { return blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z); }

// What follows is called, not inlined: it stands at every SNAPSHOT of a kernel, and a kernel many times as long waits for
// its own instructions. A Tracer is never passed on: its tallies would leave their registers.

KIM_OUTLINE void report(Fault* fault, int step, int kind, int array, long long index) {
    if (atomicCAS(&fault->kind, no_fault, kind) != no_fault) return;
    fault->array = array;
    fault->step = step;
    fault->block = block();
    fault->index = index;
}

// Adds a thread's tally to that in a record (if there is one). The one head of the array that the thread may touch: a
// block that moves on to another is at fault, in whatever step.
KIM_OUTLINE int add_tally(Fault* fault, int step, int id, int per_head, int head, Tally t, int* out) {
    if (out) {
        add(out, t.count);
        raise(out + 1, t.first);
        raise(out + 2, t.last);
        raise(out + 3, t.first_column);
        raise(out + 4, t.last_column);
    }
    const int first = flipped - t.first, last = t.last - 1;
    if (!head) head = 1 + first / per_head;
    if (1 + first / per_head != head) report(fault, step, other_head, id, first);
    if (1 + last / per_head != head) report(fault, step, other_head, id, last);
    return head;
}

KIM_OUTLINE void copy_sram(unsigned* to, int count) {
    const int quads = count / 4;
    const uint4* from = reinterpret_cast<const uint4*>(KIM_SHARED);
#pragma unroll 4
    for (int q = threadIdx.x; q < quads; q += blockDim.x) reinterpret_cast<uint4*>(to)[q] = from[q];
    const unsigned* words = reinterpret_cast<const unsigned*>(KIM_SHARED);
    for (int w = 4 * quads + threadIdx.x; w < count; w += blockDim.x) to[w] = words[w];
}

KIM_OUTLINE void copy(unsigned* __restrict__ to, const unsigned* __restrict__ from, int count) {
#pragma unroll 8
    for (int x = threadIdx.x; x < count; x += blockDim.x) to[x] = from[x];
}

KIM_OUTLINE void copy_patches(const Config& config, int step, const int* tallies, unsigned* patch) {
    int written[KIM_ARRAYS];  // fetched together: one trip to memory, not one for each array
#pragma unroll
    for (int id = 0; id < KIM_ARRAYS; id++)
        written[id] = config.array[id].patch ? static_cast<const volatile int*>(tallies)[(2 * id + 1) * tally_words] : 0;
#pragma unroll
    for (int id = 0; id < KIM_ARRAYS; id++) {
        const Array& array = config.array[id];
        if (written[id]) {
            const volatile Tally& t = reinterpret_cast<const volatile Tally*>(tallies)[2 * id + 1];
            const int row = array.row(flipped - t.first), rows = array.row(t.last - 1) - row + 1;
            const int column = flipped - t.first_column, columns = t.last_column - column;
            const unsigned* from = static_cast<const unsigned*>(array.base) + size_t(row) * array.columns + column;
            if (rows * columns > array.patch) {
                if (threadIdx.x == 0) report(config.fault, step, patch_too_large, id, rows * columns);
            } else if (columns == array.columns) {
                copy(patch, from, rows * columns);
            } else {
                for (int r = 0; r < rows; r++) copy(patch + r * columns, from + size_t(r) * array.columns, columns);
            }
        }
        patch += array.patch;
    }
}

struct Tracer {
    const Config& config;
    int step = 0;
    int head[KIM_ARRAYS] = {};  // 1 + the one head of each array that this thread may touch
    Tally tally[KIM_ARRAYS][2] = {};
    int strayed = 0;  // 1 + the array of the first access outside of it
    long long stray_index = 0;

    __device__ explicit Tracer(const Config& config) : config(config) {}

    __device__ ~Tracer() {
        if (strayed) report(config.fault, step, outside, strayed - 1, stray_index);
#pragma unroll
        for (int id = 0; id < KIM_ARRAYS; id++)
            if (tally[id][0].count | tally[id][1].count) report(config.fault, step, after_the_last_step, id, 0);
    }

    // Counts one access; false if it lies outside the array and must not happen. It touches no memory itself: a report
    // from here would keep the compiler from moving one fetch before another.
    template <class T>
    KIM_INLINE bool touch(int id, const T* at, bool writes) {
        const Array& array = config.array[id];
        const long long index = at - static_cast<const T*>(array.base);
        const bool inside = index >= 0 && index < array.size;
        if (!inside && !strayed) {
            strayed = 1 + id;
            stray_index = index;
        }
        const int i = inside ? int(index) : 0, column = i - array.columns * array.row(i);
        Tally& t = tally[id][writes];
        t.count++;
        t.first = max(t.first, flipped - i);
        t.last = max(t.last, i + 1);
        t.first_column = max(t.first_column, flipped - column);
        t.last_column = max(t.last_column, column + 1);
        return inside;
    }

    // The value of one element, counted; of one outside the array, 0. The fetch itself hangs on no condition, as without
    // tracing, so that many can be under way at once.
    template <class T>
    KIM_INLINE T read(int id, const T* at) {
        const bool inside = touch(id, at, false);
        const T value = *(inside ? at : static_cast<const T*>(config.array[id].base));
        return inside ? value : T();
    }

    // Adds this thread's tallies to those in a record (if there is one), and starts afresh. Whether it wrote anything.
    KIM_INLINE bool flush(int* words) {
        bool wrote = false;
        if (strayed) report(config.fault, step, outside, strayed - 1, stray_index);
#pragma unroll
        for (int id = 0; id < KIM_ARRAYS; id++)
#pragma unroll
            for (int writes = 0; writes < 2; writes++) {
                Tally& t = tally[id][writes];
                if (t.count) {
                    int* out = words ? words + (2 * id + writes) * tally_words : nullptr;
                    head[id] = add_tally(config.fault, step, id, config.array[id].per_head, head[id], t, out);
                    wrote |= writes;
                }
                t = Tally{};
            }
        return wrote;
    }

    KIM_INLINE void snapshot(int name, int j0 = 0, int j1 = 0, int j2 = 0, int j3 = 0) {
        __syncthreads();
        const int number = block() - config.first_block;
        const bool recorded = number >= 0 && number < config.blocks && step < config.last_step;
        if (!recorded || step >= config.capacity) {
            if (step >= config.capacity) report(config.fault, step, too_many_steps, -1, step);
            flush(nullptr);
            step++;
            return;
        }
        unsigned* record = config.records + (size_t(number) * config.last_step + step) * config.record_words;
        if (threadIdx.x == 0) {
            const int start[1 + most_loops] = {name + 1, j0, j1, j2, j3};
            for (int w = 0; w < 1 + most_loops; w++) record[w] = start[w];
            config.steps[number] = step + 1;
        }
        int* tallies = reinterpret_cast<int*>(record + 1 + most_loops);
        const bool wrote = flush(tallies);
        if (step >= config.first_step) {
            const size_t slot = size_t(number) * (config.last_step - config.first_step) + step - config.first_step;
            copy_sram(config.slots + slot * config.slot_words, config.sram_words);
        }
        // Few steps write HBM: the others need not wait for their tallies to come back from memory.
        if (__syncthreads_or(wrote)) {
            copy_patches(config, step, tallies, record + 1 + most_loops + 2 * KIM_ARRAYS * tally_words);
            __syncthreads();
        }
        step++;
    }
};

}  // namespace kim

template <class T>
class Hbm;

// One element of HBM. Its operators take it only as a temporary, so that `auto x = O[i]`, which would keep a reference
// where the untraced kernel keeps a value, does not compile: write `float x = O[i]`.
template <class T>
class HbmElement {
public:
    __device__ HbmElement(T* at, int array, kim::Tracer* tracer) : at(at), array(array), tracer(tracer) {}

    __device__ operator T() && { return read(); }
    __device__ HbmElement&& operator=(T value) && { return write(value); }
    __device__ HbmElement&& operator=(HbmElement&& other) && { return write(other.read()); }
    __device__ HbmElement&& operator+=(T value) && { return write(read() + value); }
    __device__ HbmElement&& operator-=(T value) && { return write(read() - value); }
    __device__ HbmElement&& operator*=(T value) && { return write(read() * value); }
    __device__ HbmElement&& operator/=(T value) && { return write(read() / value); }
    __device__ auto operator&() && { return Hbm<T>(at, array, tracer); }

private:
    template <class>
    friend class Hbm;

    __device__ T read() const { return tracer->read(array, at); }
    __device__ HbmElement&& write(T value) {
        if (tracer->touch(array, at, true)) *at = value;
        return static_cast<HbmElement&&>(*this);
    }

    T* at;
    int array;
    kim::Tracer* tracer;
};

// A pointer to HBM that counts what goes through it. Copies and sums of it count for the same array.
template <class T>
class Hbm {
public:
    __device__ Hbm(T* at, int array, kim::Tracer* tracer) : at(at), array(array), tracer(tracer) {}
    template <class U>
    __device__ operator Hbm<const U>() const { return Hbm<const U>(at, array, tracer); }

    __device__ auto operator[](long long index) const { return (*this + index).element(static_cast<T*>(nullptr)); }
    __device__ auto operator*() const { return (*this)[0]; }
    __device__ Hbm operator+(long long n) const { return Hbm(at + n, array, tracer); }
    __device__ Hbm operator-(long long n) const { return Hbm(at - n, array, tracer); }
    __device__ Hbm& operator+=(long long n) { at += n; return *this; }
    __device__ Hbm& operator-=(long long n) { at -= n; return *this; }
    __device__ Hbm& operator++() { return *this += 1; }

    template <class... Loops>
    __device__ void snapshot(int step, Loops... loops) const { tracer->snapshot(step, loops...); }

private:
    template <class U>
    __device__ U element(const U*) const {  // of a constant array: its value
        return tracer->read<U>(array, at);
    }
    template <class U>
    __device__ HbmElement<U> element(U*) const {
        return HbmElement<U>(at, array, tracer);
    }

    T* at;  // out of reach: what a kernel does with a bare pointer, nothing counts
    int array;
    kim::Tracer* tracer;
};

template <class T>
__device__ inline T& sram() {
    unsigned* words = reinterpret_cast<unsigned*>(KIM_SHARED);
    for (int w = threadIdx.x; w < int(sizeof(T) / 4); w += blockDim.x) words[w] = kim::poison;
    __syncthreads();
    return *reinterpret_cast<T*>(KIM_SHARED);
}

// KIM_HBM names the first Hbm argument of the kernel this stands in; the host defines it before each kernel.
#define SNAPSHOT(name, ...) KIM_HBM.snapshot(kim_step::name, ##__VA_ARGS__)

#endif
