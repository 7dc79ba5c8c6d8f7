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

constexpr unsigned poison = 0x7fc5a110u;  // a quiet NaN that no kernel computes: what a slot holds before its first write
constexpr int most_loops = 4;
constexpr int flipped = 0x7fffffff;  // a minimum is kept as the maximum of (flipped - value), so that 0 means "none yet"

// One array in HBM. Sizes count elements; `patch` is how many of its elements one step of a block may write.
struct Array {
    void* base;
    int size, per_head, columns, patch;
};

enum FaultKind { no_fault, outside, other_head, patch_too_large, too_many_steps };

// The first thing that went wrong in a run.
struct Fault {
    int kind, array, step, block;
    long long index;
};

// Where the steps of a launch go. A record is, in words of 4 bytes: 1 + the step, its loops, Tally words for each
// array, the SRAM, and for each array its patch. The host zeroes all records before the launch.
struct Config {
    unsigned* records;
    int* steps;  // per block: how many it has left
    Fault* fault;
    int capacity, record_words, sram_words, arrays;
    Array array[KIM_ARRAYS];
};

// What one thread did to one array since the last snapshot.
struct Tally {
    int reads, writes, first_head, last_head;
    int first_row, last_row, first_column, last_column;          // touched
    int first_row_w, last_row_w, first_column_w, last_column_w;  // written
};
constexpr int tally_words = sizeof(Tally) / 4;

struct Tracer {
    const Config* config;
    int step = 0;
    Tally tally[KIM_ARRAYS] = {};

    __device__ explicit Tracer(const Config* config) : config(config) {}

    __device__ static int block() { return blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z); }

    __device__ void report(int kind, int array, long long index) {
        if (atomicCAS(&config->fault->kind, no_fault, kind) != no_fault) return;
        config->fault->array = array;
        config->fault->step = step;
        config->fault->block = block();
        config->fault->index = index;
    }

    // Counts one access; false if it lies outside the array and must not happen.
    __device__ bool touch(int id, const void* at, int bytes, bool writes) {
        const Array& array = config->array[id];
        const long long index = (static_cast<const char*>(at) - static_cast<const char*>(array.base)) / bytes;
        if (index < 0 || index >= array.size) {
            report(outside, id, index);
            return false;
        }
        const int head = int(index) / array.per_head, rest = int(index) % array.per_head;
        const int row = rest / array.columns, column = rest % array.columns;
        Tally& t = tally[id];
        if (t.last_head && t.last_head != head + 1) report(other_head, id, index);
        (writes ? t.writes : t.reads)++;
        t.first_head = max(t.first_head, flipped - head);
        t.last_head = max(t.last_head, head + 1);
        t.first_row = max(t.first_row, flipped - row);
        t.last_row = max(t.last_row, row + 1);
        t.first_column = max(t.first_column, flipped - column);
        t.last_column = max(t.last_column, column + 1);
        if (writes) {
            t.first_row_w = max(t.first_row_w, flipped - row);
            t.last_row_w = max(t.last_row_w, row + 1);
            t.first_column_w = max(t.first_column_w, flipped - column);
            t.last_column_w = max(t.last_column_w, column + 1);
        }
        return true;
    }

    __device__ void flush(int* words) {
        for (int id = 0; id < KIM_ARRAYS; id++) {
            Tally& t = tally[id];
            if (t.reads | t.writes) {
                int* out = words + id * tally_words;
                const int* in = reinterpret_cast<const int*>(&t);
                atomicAdd(&out[0], in[0]);
                atomicAdd(&out[1], in[1]);
                for (int w = 2; w < tally_words; w++)
                    if (in[w]) atomicMax(&out[w], in[w]);
            }
            const int first_head = t.first_head, last_head = t.last_head;
            t = Tally{};  // the head stays: a block that moves on to another head is at fault in any step
            t.first_head = first_head;
            t.last_head = last_head;
        }
    }

    __device__ void snapshot(int name, int j0 = 0, int j1 = 0, int j2 = 0, int j3 = 0) {
        __syncthreads();
        if (step >= config->capacity) {
            report(too_many_steps, -1, step);
            return;
        }
        unsigned* record = config->records + (size_t(block()) * config->capacity + step) * config->record_words;
        const bool first = threadIdx.x == 0;
        if (first) {
            const int head[1 + most_loops] = {name + 1, j0, j1, j2, j3};
            for (int w = 0; w < 1 + most_loops; w++) record[w] = head[w];
            config->steps[block()] = step + 1;
        }
        int* tallies = reinterpret_cast<int*>(record + 1 + most_loops);
        flush(tallies);

        unsigned* slots = record + 1 + most_loops + KIM_ARRAYS * tally_words;
        const unsigned* shared = reinterpret_cast<const unsigned*>(KIM_SHARED);
        for (int w = threadIdx.x; w < config->sram_words; w += blockDim.x) slots[w] = shared[w];

        __syncthreads();
        unsigned* patch = slots + config->sram_words;
        for (int id = 0; id < KIM_ARRAYS; id++) {
            const Array& array = config->array[id];
            const volatile Tally& t = reinterpret_cast<const volatile Tally*>(tallies)[id];
            if (t.writes) {
                const int row = flipped - t.first_row_w, rows = t.last_row_w - row;
                const int column = flipped - t.first_column_w, columns = t.last_column_w - column;
                const size_t corner = size_t(t.last_head - 1) * array.per_head + size_t(row) * array.columns + column;
                if (rows * columns > array.patch) {
                    if (first) report(patch_too_large, id, rows * columns);
                } else {
                    const unsigned* from = static_cast<const unsigned*>(array.base) + corner;
                    for (int x = threadIdx.x; x < rows * columns; x += blockDim.x)
                        patch[x] = from[x / columns * array.columns + x % columns];
                }
            }
            patch += array.patch;
        }
        step++;
        __syncthreads();
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

    __device__ T read() const { return tracer->touch(array, at, sizeof(T), false) ? *at : T(); }
    __device__ HbmElement&& write(T value) {
        if (tracer->touch(array, at, sizeof(T), true)) *at = value;
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

    T* at;
    int array;
    kim::Tracer* tracer;

private:
    template <class U>
    __device__ U element(const U*) const {  // of a constant array: its value
        return tracer->touch(array, at, sizeof(U), false) ? *at : U();
    }
    template <class U>
    __device__ HbmElement<U> element(U*) const {
        return HbmElement<U>(at, array, tracer);
    }
};

template <class T>
__device__ inline T& sram() {
    unsigned* words = reinterpret_cast<unsigned*>(KIM_SHARED);
    for (int w = threadIdx.x; w < int(sizeof(T) / 4); w += blockDim.x) words[w] = kim::poison;
    __syncthreads();
    return *reinterpret_cast<T*>(KIM_SHARED);
}

// KIM_HBM names the first Hbm argument of the kernel this stands in; the host defines it before each kernel.
#define SNAPSHOT(name, ...) KIM_HBM.tracer->snapshot(kim_step::name, ##__VA_ARGS__)

#endif
