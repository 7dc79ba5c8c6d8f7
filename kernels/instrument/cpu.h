// CUDA's words on a CPU: one real thread for each thread of a block, a real barrier, blocks one after another.

#include <chrono>
#include <climits>
#include <math.h>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#define __global__ static
#define __device__
#define KIM_INLINE inline
#define KIM_OUTLINE inline

struct alignas(16) uint4 {
    unsigned x, y, z, w;
};

struct dim3 {
    unsigned x = 1, y = 1, z = 1;
};

inline thread_local dim3 threadIdx, blockIdx;
inline dim3 blockDim, gridDim;

template <class T>
constexpr T max(T a, T b) { return a < b ? b : a; }
template <class T>
constexpr T min(T a, T b) { return b < a ? b : a; }

inline int atomicAdd(int* at, int value) { return __atomic_fetch_add(at, value, __ATOMIC_RELAXED); }
inline int atomicCAS(int* at, int expected, int value) {
    __atomic_compare_exchange_n(at, &expected, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return expected;
}
inline int atomicMax(int* at, int value) {
    int old = __atomic_load_n(at, __ATOMIC_RELAXED);
    while (old < value && !__atomic_compare_exchange_n(at, &old, value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}
    return old;
}

namespace kim {

inline void add(int* to, int value) { atomicAdd(to, value); }
inline void raise(int* to, int value) { atomicMax(to, value); }

struct Stuck {};  // thrown in every thread once they can no longer all reach a barrier

class Barrier {
public:
    // Waits for all `threads`; whether any of them `said` so. Throws Stuck if some wait `inside` the kernel while others
    // have left it.
    bool wait(int threads, bool inside, bool said) {
        std::unique_lock<std::mutex> lock(mutex);
        if (stuck) throw Stuck{};
        (inside ? here : gone)++;
        saying |= said;
        if (here + gone < threads) {
            const long turn = turns;
            const bool moved = turned.wait_for(lock, std::chrono::seconds(120), [&] { return stuck || turns != turn; });
            if (!moved) give_up();
            if (stuck) throw Stuck{};
            return result;
        }
        if (here && gone) {
            give_up();
            throw Stuck{};
        }
        here = gone = 0;
        result = saying;
        saying = false;
        turns++;
        turned.notify_all();
        return result;
    }

private:
    void give_up() {
        stuck = true;
        turned.notify_all();
    }

    std::mutex mutex;
    std::condition_variable turned;
    int here = 0, gone = 0;
    long turns = 0;
    bool stuck = false, saying = false, result = false;
};

inline Barrier* barriers;  // two, used in turn: with one, ThreadSanitizer takes a late waker for ordered and misses races
inline thread_local bool second_barrier;

inline bool wait(bool inside, bool said = false) {
    const bool result = barriers[second_barrier].wait(blockDim.x, inside, said);
    second_barrier = !second_barrier;
    return result;
}

inline unsigned char* shared_memory;

// Runs `kernel` as `grid` blocks of `threads` threads with `bytes` of shared memory each; false if threads got stuck.
template <class Kernel>
bool launch(dim3 grid, unsigned threads, size_t bytes, Kernel kernel) {
    Barrier pair[2];
    std::vector<unsigned char> memory(bytes, 0xff);  // NaN in every float, and not a byte too many: both tell on a kernel
    barriers = pair;
    shared_memory = memory.data();
    gridDim = grid;
    blockDim = dim3{threads};
    std::vector<char> finished(threads, 0);
    const auto thread = [&](unsigned t) {
        threadIdx = dim3{t, 0, 0};
        second_barrier = false;
        try {
            for (unsigned z = 0; z < grid.z; z++)
                for (unsigned y = 0; y < grid.y; y++)
                    for (unsigned x = 0; x < grid.x; x++) {
                        blockIdx = dim3{x, y, z};
                        kernel();
                        wait(false);
                    }
            finished[t] = 1;
        } catch (const Stuck&) {
        }
    };
    std::vector<std::thread> others;
    for (unsigned t = 1; t < threads; t++) others.emplace_back(thread, t);
    thread(0);
    for (std::thread& other : others) other.join();
    for (char done : finished)
        if (!done) return false;
    return true;
}

}  // namespace kim

#define __syncthreads() kim::wait(true)
#define __syncthreads_or(said) kim::wait(true, said)
#define KIM_SHARED kim::shared_memory
#define KIM_OFFSET(type, field) __builtin_offsetof(type, field)
