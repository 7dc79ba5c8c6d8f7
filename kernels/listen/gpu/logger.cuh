// The logger of a traced kernel on a GPU. `kernels/listen/ptx.py` puts a call of it before each access; it is compiled
// apart from the kernel and joined to it as PTX, so that neither is optimised for the other.
//
// A warp's lanes log together: one Request for the instruction, and in the block's payload each lane's address (unless
// they are evenly spaced) and, for a write, its value. Layouts are those of `kernels/listen/gpu_log.py`.

typedef unsigned long long u64;

namespace {

enum Kind : unsigned { READ, WRITE, ATOMIC, BARRIER, WARP_BARRIER, SNAPSHOT, HOLD, DROP, COPY, COMMIT, WAIT };
enum Space : unsigned { HBM, SRAM, REGISTERS, GENERIC };

struct alignas(16) Request {
    u64 base;          // the address of the first lane
    unsigned payload;  // where in the block's payload, in words
    unsigned mask;     // the lanes
    unsigned site;
    unsigned short warp;
    unsigned char kind;
    unsigned char space;  // 0x80 is added if the payload begins with each lane's address, 0x40 if it is one for all lanes
    int stride;           // between lanes
    unsigned size;        // bytes of each lane's access
};

struct Stray {
    u64 address;
    unsigned site, size, kind, space;
    unsigned block[3], thread[3];
};

constexpr int most_globals = 32, most_strays = 64;

struct Config {
    Request* requests;
    unsigned* payload;
    unsigned* counts;  // of each block recorded: requests, words of payload
    Stray* strays;
    unsigned* stray_count;
    u64 arena, arena_bytes;  // where all array arguments are
    u64 global_at[most_globals], global_bytes[most_globals];  // variables of the module
    unsigned globals;
    unsigned first, blocks;  // recorded
    unsigned most_requests, most_words;  // of one block
    unsigned steps;         // after so many of them a warp logs no more; 0: it logs all
    unsigned barriers_end;  // whether it is barriers that end steps, or else SNAPSHOT
};

struct State {
    Request* requests;
    unsigned* payload;
    unsigned request_count, word_count;
    unsigned passed[32];  // by warp: ends of steps, counted for each of its threads
};

}  // namespace

extern "C" {
__constant__ Config kim_config;
}

__device__ __forceinline__ State& state() {
    __shared__ alignas(128) State shared_state;
    return shared_state;
}

__device__ __forceinline__ unsigned linear_block() { return blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z); }
__device__ __forceinline__ unsigned linear_thread() {
    return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}
// Whether all threads of this one's warp have passed the last step that is wanted.
__device__ __forceinline__ bool silent() {
    if (!kim_config.steps) return false;
    const unsigned warp = linear_thread() >> 5, threads = blockDim.x * blockDim.y * blockDim.z - 32 * warp;
    return *static_cast<const volatile unsigned*>(&state().passed[warp]) >= kim_config.steps * min(threads, 32u);
}
__device__ __forceinline__ unsigned active() {
    unsigned mask;
    asm volatile("activemask.b32 %0;" : "=r"(mask));
    return mask;
}
__device__ __forceinline__ unsigned shared_bytes() {
    unsigned bytes;
    asm("mov.u32 %0, %%total_smem_size;" : "=r"(bytes));
    return bytes;
}
__device__ __forceinline__ void to_space(u64& address, unsigned& space) {
    const void* p = reinterpret_cast<const void*>(address);
    if (__isShared(p)) {
        space = SRAM;
        address = __cvta_generic_to_shared(p);
    } else if (__isLocal(p)) {
        space = REGISTERS;
        address = __cvta_generic_to_local(p);
    } else {
        space = HBM;
    }
}

static __device__ __noinline__ unsigned stray(u64 address, unsigned site, unsigned kind, unsigned space, unsigned size) {
    const Config& c = kim_config;
    if (space == HBM)
        for (unsigned n = 0; n < c.globals; n++)
            if (address - c.global_at[n] + size <= c.global_bytes[n]) return 1;
    const unsigned n = atomicAdd(c.stray_count, 1u);
    if (n < most_strays)
        c.strays[n] = Stray{address, site, size, kind, space, {blockIdx.x, blockIdx.y, blockIdx.z},
                            {threadIdx.x, threadIdx.y, threadIdx.z}};
    return 0;
}

__device__ __forceinline__ bool inside(u64 address, unsigned space, unsigned size) {
    if (space == HBM) {
        const u64 offset = address - kim_config.arena;
        return offset < kim_config.arena_bytes && offset + size <= kim_config.arena_bytes;
    }
    return space != SRAM || address + size <= shared_bytes();
}

// Logs one access of this lane, together with those of the lanes that are here too. Words are the value of a write.
template <int Words>
__device__ __forceinline__ void note(u64 address, unsigned site, unsigned kind, unsigned space, unsigned size,
                                     const unsigned* value, bool mixed) {
    if (silent()) return;
    State& s = state();
    const unsigned thread = linear_thread(), lane = thread & 31;
    unsigned mask = active();
    if (mixed) mask = __match_any_sync(mask, space);
    const unsigned first = __ffs(mask) - 1, rest = mask & (mask - 1);
    const unsigned lanes = __popc(mask), rank = __popc(mask & ((1u << lane) - 1));
    const u64 base = __shfl_sync(mask, address, first);
    const long long delta = static_cast<long long>(address - base);
    const int stride = rest ? __shfl_sync(mask, static_cast<int>(delta), __ffs(rest) - 1) : 0;
    const bool even = __all_sync(mask, delta == static_cast<long long>(stride) * rank);
    const unsigned words = Words ? (size + 3) / 4 : 0, each = words + (even ? 0 : 2);
    unsigned index = 0, at = 0;
    if (lane == first) {
        index = atomicAdd(&s.request_count, 1u);
        if (each) at = atomicAdd(&s.word_count, each * lanes);
        if (index < kim_config.most_requests) {
            int4* out = reinterpret_cast<int4*>(s.requests + index);
            out[0] = make_int4(static_cast<int>(base), static_cast<int>(base >> 32), at, mask);
            out[1] = make_int4(site, thread >> 5 | kind << 16 | (space | (even ? 0 : 0x80)) << 24, stride, size);
        }
    }
    if (!each) return;
    at = __shfl_sync(mask, at, first) + each * rank;
    if (at + each > kim_config.most_words) return;
    unsigned* out = s.payload + at;
    if (!even) {
        out[0] = static_cast<unsigned>(address);
        out[1] = static_cast<unsigned>(address >> 32);
        out += 2;
    }
    if constexpr (Words > 0)
        for (unsigned w = 0; w < words; w++) out[w] = value[w];
}

template <int Words>
__device__ __forceinline__ unsigned access(u64 address, unsigned site, unsigned info, const unsigned* value) {
    const unsigned size = info & 0xff, kind = info >> 8 & 0xff;
    unsigned space = info >> 16;
    const bool mixed = space == GENERIC;
    if (mixed) to_space(address, space);
    if (!inside(address, space, size) && !stray(address, site, kind, space, size)) return 0;
    note<Words>(address, site, kind, space, size, value, mixed);
    return 1;
}

// What the lanes that are here say alike is logged once; lanes that say otherwise log apart.
template <int Words>
__device__ void say(u64 address, unsigned site, unsigned kind, unsigned space, unsigned size, const unsigned* words) {
    if (silent()) return;
    State& s = state();
    const unsigned thread = linear_thread(), lane = thread & 31;
    unsigned left = active();
    while (true) {
        const unsigned first = __ffs(left) - 1;
        bool same = __shfl_sync(left, address, first) == address;
        for (int w = 0; w < Words; w++) same &= __shfl_sync(left, words[w], first) == words[w];
        const unsigned mask = __ballot_sync(left, same);
        if (lane == first) {
            const unsigned index = atomicAdd(&s.request_count, 1u);
            const unsigned at = Words ? atomicAdd(&s.word_count, unsigned(Words)) : 0;
            if (index < kim_config.most_requests) {
                int4* out = reinterpret_cast<int4*>(s.requests + index);
                out[0] = make_int4(static_cast<int>(address), static_cast<int>(address >> 32), at, mask);
                out[1] = make_int4(site, thread >> 5 | kind << 16 | (space | 0x40) << 24, 0, size);
            }
            if constexpr (Words > 0)
                if (at + Words <= kim_config.most_words)
                    for (int w = 0; w < Words; w++) s.payload[at + w] = words[w];
            if (kind == (kim_config.barriers_end ? BARRIER : SNAPSHOT)) atomicAdd(&s.passed[thread >> 5], __popc(mask));
        }
        if (same) return;
        left &= ~mask;
    }
}

extern "C" {

// Before all else in a block: whether it is recorded.
__device__ __noinline__ unsigned kim_enter() {
    const unsigned block = linear_block() - kim_config.first;
    if (block >= kim_config.blocks) return 0;
    if (linear_thread() == 0) {
        State& s = state();
        s.requests = kim_config.requests + static_cast<u64>(block) * kim_config.most_requests;
        s.payload = kim_config.payload + static_cast<u64>(block) * kim_config.most_words;
        s.request_count = s.word_count = 0;
        for (unsigned& passed : s.passed) passed = 0;
    }
    __syncthreads();
    return 1;
}

// After all else in each thread: the last of them leaves the final counts.
__device__ __noinline__ void kim_exit() {
    const State& s = state();
    unsigned* counts = kim_config.counts + 2 * (linear_block() - kim_config.first);
    atomicMax(counts, *static_cast<const volatile unsigned*>(&s.request_count));
    atomicMax(counts + 1, *static_cast<const volatile unsigned*>(&s.word_count));
}

// Each gives whether the access lies where it may happen. `info` is the size, the kind << 8 and the space << 16.
__device__ __noinline__ unsigned kim_read(u64 address, unsigned site, unsigned info) {
    return access<0>(address, site, info, nullptr);
}
__device__ __noinline__ unsigned kim_write(u64 address, unsigned site, unsigned info, unsigned v0) {
    return access<1>(address, site, info, &v0);
}
__device__ __noinline__ unsigned kim_write4(u64 address, unsigned site, unsigned info, unsigned v0, unsigned v1,
                                            unsigned v2, unsigned v3) {
    const unsigned value[4] = {v0, v1, v2, v3};
    return access<4>(address, site, info, value);
}
__device__ __noinline__ unsigned kim_check(u64 address, unsigned site, unsigned info) {
    const unsigned size = info & 0xff, kind = info >> 8 & 0xff;
    unsigned space = info >> 16;
    if (space == GENERIC) to_space(address, space);
    return inside(address, space, size) || stray(address, site, kind, space, size);
}

// After an atomic: with the value that its place holds now.
__device__ __noinline__ void kim_atomic(u64 address, unsigned site, unsigned info) {
    const unsigned size = info & 0xff;
    unsigned space = info >> 16, value[4] = {};
    if (space == GENERIC) to_space(address, space);
    const void* p = reinterpret_cast<const void*>(address);
    if (space == SRAM) p = __cvta_shared_to_generic(address);
    if (size < 4) {
        value[0] = *static_cast<const volatile unsigned short*>(p);
    } else {
        for (unsigned w = 0; w < size / 4; w++) value[w] = static_cast<const volatile unsigned*>(p)[w];
    }
    note<4>(address, site, ATOMIC, space, size, value, info >> 16 == GENERIC);
}

// An asynchronous copy from HBM to SRAM, of which `given` bytes are read and the rest become zero.
__device__ __noinline__ unsigned kim_copy(unsigned to, u64 from, unsigned site, unsigned size, unsigned given) {
    if (given && !inside(from, HBM, given) && !stray(from, site, READ, HBM, given)) return 0;
    if (!inside(to, SRAM, size) && !stray(to, site, WRITE, SRAM, size)) return 0;
    unsigned value[4] = {};
    for (unsigned w = 0; w < given / 4; w++) value[w] = reinterpret_cast<const volatile unsigned*>(from)[w];
    if (given) note<0>(from, site, READ, HBM, given, nullptr, false);
    note<4>(to, site, COPY, SRAM, size, value, false);
    return 1;
}
__device__ __noinline__ void kim_event(unsigned site, unsigned kind, unsigned number) {
    say<0>(0, site, kind, HBM, number, nullptr);
}

// A tile that a warp moves as one: `vectors` of `bytes` each (a multiple of 16), `pitch` bytes apart. Written tiles are
// noted after they were written.
__device__ __noinline__ void kim_tile(u64 address, unsigned site, unsigned info, unsigned vectors, unsigned bytes,
                                      unsigned pitch) {
    const unsigned kind = info >> 8 & 0xff, each = bytes / 16;
    unsigned space = info >> 16;
    u64 base = address;
    if (space == GENERIC) to_space(base, space);
    for (unsigned n = linear_thread() & 31; n < vectors * each; n += 32) {
        const u64 at = base + static_cast<u64>(n / each) * pitch + n % each * 16;
        if (!inside(at, space, 16) && !stray(at, site, kind, space, 16)) continue;
        if (kind == WRITE) {
            const void* p = space == SRAM ? __cvta_shared_to_generic(at) : reinterpret_cast<const void*>(at);
            unsigned value[4];
            for (int w = 0; w < 4; w++) value[w] = static_cast<const volatile unsigned*>(p)[w];
            note<4>(at, site, kind, space, 16, value, false);
        } else {
            note<0>(at, site, kind, space, 16, nullptr, false);
        }
    }
}

// Rows of 16 bytes that the first `lanes` lanes name for their warp.
__device__ __noinline__ void kim_rows(u64 address, unsigned site, unsigned info, unsigned lanes) {
    if ((linear_thread() & 31) < lanes) access<0>(address, site, info, nullptr);
}

__device__ __noinline__ void kim_hold(const char* text, unsigned text_bytes, unsigned index, unsigned element,
                                      const void* at, unsigned bytes, unsigned hidden, unsigned rank, unsigned e0,
                                      unsigned e1, unsigned e2, unsigned e3, unsigned e4, unsigned e5, unsigned line) {
    u64 address = reinterpret_cast<u64>(at);
    unsigned space;
    to_space(address, space);
    const u64 name = reinterpret_cast<u64>(text);
    const unsigned words[14] = {unsigned(name), unsigned(name >> 32), text_bytes, index, element, hidden, rank, 0,
                                e0,             e1,                   e2,         e3,    e4,      e5};
    say<14>(address, line, HOLD, space, bytes, words);
}
__device__ __noinline__ void kim_drop(const void* at, unsigned line) {
    u64 address = reinterpret_cast<u64>(at);
    unsigned space;
    to_space(address, space);
    say<0>(address, line, DROP, space, 0, nullptr);
}
__device__ __noinline__ void kim_snapshot(const char* text, unsigned text_bytes, unsigned line, unsigned count, long long l0,
                                          long long l1, long long l2, long long l3, long long l4, long long l5) {
    const u64 name = reinterpret_cast<u64>(text);
    const u64 all[6] = {u64(l0), u64(l1), u64(l2), u64(l3), u64(l4), u64(l5)};
    unsigned words[16] = {unsigned(name), unsigned(name >> 32), text_bytes, count};
    for (int n = 0; n < 6; n++) {
        words[4 + 2 * n] = unsigned(all[n]);
        words[5 + 2 * n] = unsigned(all[n] >> 32);
    }
    say<16>(0, line, SNAPSHOT, HBM, 0, words);
}
__device__ __noinline__ unsigned kim_dynamic_bytes() {
    unsigned bytes;
    asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(bytes));
    return bytes;
}
}
