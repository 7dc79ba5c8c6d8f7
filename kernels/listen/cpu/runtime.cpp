// Behind runtime.h: a block's threads as fibers that take turns, and a log of what each does to memory.
//
// The kernel's object calls __tsan_read4 and its like before each access (-fsanitize=thread, without its library). One
// OS thread runs everything, so a fiber keeps its turn until it waits, and a run is the same each time.

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <mutex>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <thread>
#include <ucontext.h>
#include <unistd.h>
#include <vector>

#define EXPORT extern "C" __attribute__((visibility("default")))
#define HERE __builtin_return_address(0)

// --- what Python gives and takes; kernels/launch/cpu_library.py has the same in ctypes

struct Array {
    uintptr_t at;
    uint64_t bytes;
};
struct Config {
    uint32_t grid[3], block[3];
    uint32_t shared_bytes, traced;
    uint64_t first_block, last_block;  // half open, those to log
    uint64_t last_step;                // steps to log of each block
    uint64_t room;                     // bytes that the log may take
    uint64_t arena, arena_bytes;       // where the arrays lie, with gaps
    const Array* arrays;
    uint32_t array_count, barriers_end_steps;
    double seconds;  // patience
    // Of the library's own memory: where it lies (0 bytes where that is not known), and the parts of it that a kernel may
    // touch as more than shared memory, ascending. Both are relative to where the library is loaded.
    uint64_t image, image_bytes;
    const Array* globals;
    uint32_t global_count, unused;
};
struct Row {
    uint64_t address, value;
    uint32_t site, request, size;
    uint16_t thread;
    uint8_t kind, space;
};
static_assert(sizeof(Row) == 32, "as ROW of log.py");
struct BlockRange {
    uint64_t number, rows, row_count, payload, payload_bytes;
};
struct Text {
    const char* at;
    uint64_t bytes;
};
struct Variable {  // a name that an address may have: that of a HOLD, as an index into texts and into its names
    uint32_t text, index;
};
struct Touch {  // a place in the program (or a line), how it touches memory and what: `site` is of the first two
    uint32_t code;
    uint16_t name;
    uint8_t kind, unused;
    uint32_t site;
};
struct Waiting {
    uint32_t kind, line, count, first;  // kind 0: barrier of the block, else a WarpOp + 1
};
enum Status { DONE, OUTSIDE, MISALIGNED, CRASHED, STUCK, FULL, HUNG, TRAPPED, OVERFLOWN, DIVIDED, NO_MEMORY, OUTSIDE_SHARED };
struct Result {
    uint32_t status, writes;
    uint64_t address, size, pc;
    uint32_t block[3], thread;
    uint64_t blocks_done;
    Row* rows;
    uint16_t* names;  // of each row until its block is done: an array's number, or their count + a number into variables
    uint64_t row_count;
    uint8_t* payload;
    uint64_t payload_bytes;
    BlockRange* blocks;
    uint64_t block_count;
    Text* texts;
    uint64_t text_count;
    Variable* variables;
    uint64_t variable_count;
    Touch* touches;
    uint64_t touch_count;
    Waiting waiting[8];
    uint32_t waiting_count, returned;
    uint64_t base;  // what sites are relative to
    // Of OUTSIDE_SHARED: the variable that is nearest, with an index into ELEMENTS of log.py. No name: there is none.
    const char* near_name;
    uint64_t near_name_bytes, near_at, near_bytes;
    uint32_t near_element, near_dynamic;
};

enum Kind : uint8_t { READ, WRITE, ATOMIC, BARRIER, WARP_BARRIER, SNAPSHOT, HOLD, DROP };
enum Space : uint8_t { HBM, SRAM, REGISTERS };
enum BarrierOp { SYNC, OR, AND, COUNT };
enum WarpOp { SYNC_WARP, SHUFFLE, UP, DOWN, XOR, VOTE, ACTIVE, MATCH, ADD, MIN, MAX, MIN_UNSIGNED, MAX_UNSIGNED, BIT_AND, BIT_OR, BIT_XOR };
constexpr uint32_t A_LINE = 0x80000000u;  // a site that is a line, not a place in the program
constexpr uint16_t NO_NAME = 0xFFFF;
constexpr size_t STACK = 256 << 10, GUARD = 64 << 10, SHARED_GUARD = 1 << 20;
constexpr unsigned MOST_THREADS = 1024, MOST_HOLDS = 64, MOST_SHARED = 256;

// --- switching between fibers

#if defined(__x86_64__) || defined(__aarch64__)
extern "C" void kim_switch(void** from, void* to);
#if defined(__APPLE__)
#define SYMBOL "_kim_switch"
#else
#define SYMBOL "kim_switch"
#endif
#ifdef __x86_64__
asm(".text\n.globl " SYMBOL "\n" SYMBOL ":\n"
    "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
    "mov %rsp, (%rdi)\nmov %rsi, %rsp\n"
    "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n");
static void* first_frame(char* top, void (*start)()) {
    void** at = (void**)top;
    *--at = nullptr;  // where a return would go, and the alignment that a call leaves
    *--at = (void*)start;
    for (int n = 0; n < 6; n++) *--at = nullptr;
    return at;
}
#else
asm(".text\n.globl " SYMBOL "\n" SYMBOL ":\n"
    "sub sp, sp, #160\n"
    "stp x19, x20, [sp]\nstp x21, x22, [sp, #16]\nstp x23, x24, [sp, #32]\nstp x25, x26, [sp, #48]\n"
    "stp x27, x28, [sp, #64]\nstp x29, x30, [sp, #80]\n"
    "stp d8, d9, [sp, #96]\nstp d10, d11, [sp, #112]\nstp d12, d13, [sp, #128]\nstp d14, d15, [sp, #144]\n"
    "mov x9, sp\nstr x9, [x0]\nmov sp, x1\n"
    "ldp x19, x20, [sp]\nldp x21, x22, [sp, #16]\nldp x23, x24, [sp, #32]\nldp x25, x26, [sp, #48]\n"
    "ldp x27, x28, [sp, #64]\nldp x29, x30, [sp, #80]\n"
    "ldp d8, d9, [sp, #96]\nldp d10, d11, [sp, #112]\nldp d12, d13, [sp, #128]\nldp d14, d15, [sp, #144]\n"
    "add sp, sp, #160\nret\n");
static void* first_frame(char* top, void (*start)()) {
    void** at = (void**)(top - 160);
    memset((void*)at, 0, 160);
    at[11] = (void*)start;  // x30
    return at;
}
#endif
#else
static void kim_switch(void** from, void* to) {
    ucontext_t here;
    *from = &here;
    swapcontext(&here, (ucontext_t*)to);
}
static void* first_frame(char* top, void (*start)()) {
    ucontext_t* context = (ucontext_t*)((uintptr_t)(top - sizeof(ucontext_t)) & ~uintptr_t(63));
    getcontext(context);
    context->uc_stack.ss_sp = top - STACK;
    context->uc_stack.ss_size = (char*)context - (top - STACK);
    context->uc_link = nullptr;
    makecontext(context, start, 0);
    return context;
}
#endif

// --- state of the running launch

// The last write to each byte of a fiber's stack, so that a HOLD knows what was written to a variable before it.
struct Mark {
    uint32_t site;
    uint16_t size, turn;
};
struct Held {
    uintptr_t at;
    uint32_t bytes;
    uint16_t name;
};
struct Copy {
    void* to;
    uint32_t bytes, site, read;  // read: the row of its read in its block's log + 1, 0 if it has none
    alignas(16) uint8_t data[16];
};
enum State : uint8_t { READY, AT_BARRIER, AT_WARP, RETURNED };
struct Fiber {
    void* stack_pointer;
    uintptr_t stack;
    Mark* marks;
    uint32_t index[3];
    uint16_t number;
    State state;
    bool logging;
    uint8_t op;
    uint32_t line, mask, argument;
    int width, said;
    uint64_t bits;
    uint64_t steps;
    uint32_t held_count;
    uintptr_t held_low, held_high;
    Held held[MOST_HOLDS];
    Copy* copies;
    uint32_t copy_count, copy_room, group_count, group_room;
    uint32_t* groups;  // how many copies had been made at each commit
};
struct Shared {
    uintptr_t at;
    uint64_t bytes;
    uint16_t name;
    bool hidden;
    uint32_t element;
};

extern "C" {
struct Three {
    uint32_t x, y, z;
};
// What a kernel may read here is far from what it shares, so that an index too many is not taken for that.
#if defined(__GNUC__) && !defined(__clang__)
#define IN_ORDER __attribute__((used, no_reorder))
#else
#define IN_ORDER __attribute__((used))
#endif
IN_ORDER char kim_room_before[4096];
IN_ORDER Three threadIdx, blockIdx, blockDim, gridDim;
IN_ORDER char kim_room_behind[4096];
}

static Fiber fibers[MOST_THREADS];
static char* stacks;
static size_t stack_step;
static Mark* marks;
static Fiber* current;
static bool logging;  // of the current fiber
static void* scheduler;
static Config config;
static Result result;
static void (*entry)(void**);
static void** entry_arguments;
static unsigned threads, queue[MOST_THREADS], queue_first, queue_count, at_barrier, returned;
static uint16_t turn;  // which block, for marks
static bool recording;
static char* dynamic_memory;
static Shared shared[MOST_SHARED];
static unsigned shared_count;
static bool in_image;  // whether one of them is of the library's own memory
static uintptr_t shared_low, shared_high;
static volatile int busy;  // in the allocator: do not leave
static volatile bool running;
static pthread_t running_thread;

static uint64_t row_room, payload_room, text_room, variable_room, block_room, block_payload;
static uintptr_t pending_at;
static uint32_t pending_size;
static uint64_t pending_value;
static unsigned last_array;
static const void* last_pc;  // of the last access that was about to be

[[noreturn]] static void leave(Status status) {
    result.status = status;
    if (current) result.thread = current->number;
    result.block[0] = blockIdx.x, result.block[1] = blockIdx.y, result.block[2] = blockIdx.z;
    void* never;
    kim_switch(&never, scheduler);
    abort();
}

template <class T>
static void reserve(T*& at, uint64_t& room, uint64_t needed) {
    if (needed <= room) return;
    const uint64_t grown = needed + needed / 4 + 64;
    busy = busy + 1;
    void* moved = realloc((void*)at, grown * sizeof(T));
    busy = busy - 1;
    if (!moved) running ? leave(NO_MEMORY) : abort();
    at = (T*)moved, room = grown;
}

static uint32_t site_of(const void* pc) { return uint32_t((uintptr_t)pc - result.base) & ~A_LINE; }

// --- the log

static __attribute__((noinline)) void more_rows() {
    uint64_t room = row_room;
    reserve(result.names, room, result.row_count + 1);
    reserve(result.rows, row_room, result.row_count + 1);
}

static void check_room() {
    if (result.row_count * (sizeof(Row) + 2) + result.payload_bytes > config.room) leave(FULL);
}

static inline void settle() {
    if (!pending_size) return;
    memcpy(result.payload + pending_value, (const void*)pending_at, pending_size);
    pending_size = 0;
}

static uint64_t payload(uint64_t bytes) {
    const uint64_t at = result.payload_bytes;
    if (at + bytes > payload_room) {
        check_room();
        reserve(result.payload, payload_room, at + bytes);
    }
    result.payload_bytes = at + bytes;
    return at;
}

static inline Row* append(Kind kind, Space space, uintptr_t at, uint32_t size, uint32_t site, uint16_t name) {
    if (result.row_count == row_room) {
        check_room();
        more_rows();
    }
    Row* row = result.rows + result.row_count;
    result.names[result.row_count++] = name;
    *row = Row{at, 0, site, 0, size, current->number, kind, space};
    return row;
}

static void log_access(Kind kind, Space space, uintptr_t at, uint32_t size, uint32_t site, uint16_t name) {
    Row* row = append(kind, space, at, size, site, name);
    if (kind == READ) return;
    pending_value = payload(size);
    row->value = pending_value - block_payload;
    pending_at = at, pending_size = size;
}

[[noreturn]] static void leave_at(Status status, uintptr_t at, size_t size, bool writes, const void* pc) {
    result.address = at, result.size = size, result.writes = writes;
    result.pc = pc ? (uintptr_t)pc - result.base : 0;
    leave(status);
}

// The array that [at, at + size) lies in; -1 if in none.
static inline int array_of(uintptr_t at, size_t size) {
    for (unsigned tried = 0, n = last_array; tried < config.array_count; tried++) {
        const Array& array = config.arrays[n];
        if (at - array.at < array.bytes && at - array.at + size <= array.bytes) {
            last_array = n;
            return int(n);
        }
        if (++n == config.array_count) n = 0;
    }
    return -1;
}

// The name of a shared address: that of the smallest variable it lies in. False if it is no shared memory.
static inline bool shared_at(uintptr_t at, uint16_t& name) {
    if (at - shared_low >= shared_high - shared_low) return false;
    uint64_t best = ~uint64_t(0);
    for (unsigned n = 0; n < shared_count; n++)
        if (at - shared[n].at < shared[n].bytes && shared[n].bytes <= best) best = shared[n].bytes, name = shared[n].name;
    return best != ~uint64_t(0);
}

// Whether an address that lies in no variable known to be shared must be meant for one that is.
static bool beside_shared(uintptr_t at, size_t size) {
    const uintptr_t dynamic = (uintptr_t)dynamic_memory, place = at - result.base;
    if (at - (dynamic - SHARED_GUARD) < config.shared_bytes + 2 * SHARED_GUARD)
        return at - dynamic >= config.shared_bytes || at - dynamic + size > config.shared_bytes;
    if (place - config.image >= config.image_bytes || !in_image || shared_count == MOST_SHARED) return false;
    unsigned low = 0, high = config.global_count;
    while (low < high) {
        const unsigned middle = (low + high) / 2;
        if (config.globals[middle].at <= place) low = middle + 1;
        else high = middle;
    }
    return low == 0 || place - config.globals[low - 1].at >= config.globals[low - 1].bytes;
}

[[noreturn]] static void leave_beside_shared(uintptr_t at, size_t size, bool writes, const void* pc) {
    const uintptr_t dynamic = (uintptr_t)dynamic_memory;
    const bool in_dynamic = at - (dynamic - SHARED_GUARD) < config.shared_bytes + 2 * SHARED_GUARD;
    uint64_t best = ~uint64_t(0);
    result.near_dynamic = in_dynamic;
    result.near_at = in_dynamic ? dynamic : 0, result.near_bytes = in_dynamic ? config.shared_bytes : 0;
    for (unsigned n = 0; n < shared_count; n++) {
        const Shared& one = shared[n];
        if (!one.hidden || in_dynamic != (one.at - dynamic < config.shared_bytes)) continue;
        const uint64_t away = at < one.at ? one.at - at : at - one.at >= one.bytes ? at - one.at - one.bytes : 0;
        if (away >= best) continue;
        const Text& text = result.texts[result.variables[one.name - config.array_count].text];
        best = away, result.near_name = text.at, result.near_name_bytes = text.bytes;
        result.near_at = one.at, result.near_bytes = one.bytes, result.near_element = one.element;
    }
    leave_at(OUTSIDE_SHARED, at, size, writes, pc);
}

static inline void touch(const void* pointer, size_t size, Kind kind, const void* pc, bool aligned) {
    last_pc = pc;
    if (!logging) return;
    settle();
    const uintptr_t at = (uintptr_t)pointer;
    if (at - current->stack < STACK) {
        if (at - current->held_low < current->held_high - current->held_low)
            for (unsigned n = current->held_count; n--;)
                if (at - current->held[n].at < current->held[n].bytes)
                    return log_access(kind, REGISTERS, at, size, site_of(pc), current->held[n].name);
        if (kind != READ && size) {
            Mark& mark = current->marks[at - current->stack];
            mark = Mark{site_of(pc), uint16_t(size < 0xFFFF ? size : 0xFFFF), turn};
        }
        return;
    }
    uint16_t name;
    if (at - config.arena < config.arena_bytes) {
        const int array = array_of(at, size);
        if (array < 0) leave_at(OUTSIDE, at, size, kind != READ, pc);
        if (aligned && at % size) leave_at(MISALIGNED, at, size, kind != READ, pc);
        log_access(kind, HBM, at, size, site_of(pc), uint16_t(array));
    } else if (shared_at(at, name)) {
        if (aligned && at % size) leave_at(MISALIGNED, at, size, kind != READ, pc);
        if (at - shared_low + size > shared_high - shared_low && beside_shared(at + size - 1, 1)) leave_beside_shared(at, size, kind != READ, pc);
        log_access(kind, SRAM, at, size, site_of(pc), name);
    } else if (beside_shared(at, size)) {
        leave_beside_shared(at, size, kind != READ, pc);
    }
}

extern "C" {

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
#define HOOKS(n) \
    void __tsan_read##n(void* at) { touch(at, n, READ, HERE, true); } \
    void __tsan_write##n(void* at) { touch(at, n, WRITE, HERE, true); } \
    void __tsan_unaligned_read##n(void* at) { touch(at, n, READ, HERE, false); } \
    void __tsan_unaligned_write##n(void* at) { touch(at, n, WRITE, HERE, false); } \
    void __tsan_volatile_read##n(void* at) { touch(at, n, READ, HERE, true); } \
    void __tsan_volatile_write##n(void* at) { touch(at, n, WRITE, HERE, true); } \
    void __tsan_read_write##n(void* at) { \
        touch(at, n, READ, HERE, true); \
        touch(at, n, WRITE, HERE, true); \
    } \
    void __tsan_unaligned_read_write##n(void* at) { \
        touch(at, n, READ, HERE, false); \
        touch(at, n, WRITE, HERE, false); \
    }
HOOKS(1) HOOKS(2) HOOKS(4) HOOKS(8) HOOKS(16)
void __tsan_read_range(void* at, size_t bytes) { touch(at, bytes, READ, HERE, false); }
void __tsan_write_range(void* at, size_t bytes) { touch(at, bytes, WRITE, HERE, false); }
void kim_access(const void* at, size_t bytes, int kind, const void* pc) { touch(at, bytes, Kind(kind), pc, true); }
void kim_copy(void* to, const void* from, size_t bytes) {
    if (bytes) touch(from, bytes, READ, HERE, false), touch(to, bytes, WRITE, HERE, false);
    memmove(to, from, bytes);
}
void kim_fill(void* to, int value, size_t bytes) {
    if (bytes) touch(to, bytes, WRITE, HERE, false);
    memset(to, value, bytes);
}
void* __tsan_memcpy(void* to, const void* from, size_t bytes) {
    if (bytes) touch(from, bytes, READ, HERE, false), touch(to, bytes, WRITE, HERE, false);
    return memmove(to, from, bytes);
}
void* __tsan_memmove(void* to, const void* from, size_t bytes) {
    if (bytes) touch(from, bytes, READ, HERE, false), touch(to, bytes, WRITE, HERE, false);
    return memmove(to, from, bytes);
}
void* __tsan_memset(void* to, int value, size_t bytes) {
    if (bytes) touch(to, bytes, WRITE, HERE, false);
    return memset(to, value, bytes);
}
#define ATOMICS(bits, T) \
    T __tsan_atomic##bits##_load(const volatile T* at, int) { \
        touch((const void*)at, sizeof(T), READ, HERE, true); \
        return *at; \
    } \
    void __tsan_atomic##bits##_store(volatile T* at, T value, int) { \
        touch((const void*)at, sizeof(T), WRITE, HERE, true); \
        *at = value; \
    } \
    int __tsan_atomic##bits##_compare_exchange_strong(volatile T* at, T* expected, T value, int, int) { \
        touch((const void*)at, sizeof(T), ATOMIC, HERE, true); \
        const T old = *at; \
        if (old == *expected) { \
            *at = value; \
            return 1; \
        } \
        *expected = old; \
        return 0; \
    } \
    int __tsan_atomic##bits##_compare_exchange_weak(volatile T* at, T* expected, T value, int a, int b) { \
        return __tsan_atomic##bits##_compare_exchange_strong(at, expected, value, a, b); \
    } \
    CHANGE(bits, T, exchange, value) CHANGE(bits, T, fetch_add, T(old + value)) CHANGE(bits, T, fetch_sub, T(old - value)) \
    CHANGE(bits, T, fetch_and, T(old & value)) CHANGE(bits, T, fetch_or, T(old | value)) \
    CHANGE(bits, T, fetch_xor, T(old ^ value))
#define CHANGE(bits, T, name, changed) \
    T __tsan_atomic##bits##_##name(volatile T* at, T value, int) { \
        touch((const void*)at, sizeof(T), ATOMIC, HERE, true); \
        const T old = *at; \
        *at = changed; \
        return old; \
    }
ATOMICS(8, uint8_t) ATOMICS(16, uint16_t) ATOMICS(32, uint32_t) ATOMICS(64, uint64_t)
void __tsan_atomic_thread_fence(int) {}
void __tsan_atomic_signal_fence(int) {}

}  // extern "C"

// --- taking turns

static void push(unsigned number) {
    queue[(queue_first + queue_count++) % MOST_THREADS] = number;
    fibers[number].state = READY;
}

static void activate(Fiber* fiber) {
    current = fiber;
    threadIdx = Three{fiber->index[0], fiber->index[1], fiber->index[2]};
    logging = recording && fiber->logging;
}

static bool release_active_masks();

[[noreturn]] static void stuck() {
    result.waiting_count = 0;
    result.returned = returned;
    for (unsigned t = 0; t < threads; t++) {
        const Fiber& fiber = fibers[t];
        if (fiber.state != AT_BARRIER && fiber.state != AT_WARP) continue;
        const uint32_t kind = fiber.state == AT_BARRIER ? 0 : fiber.op + 1;
        unsigned n = 0;
        while (n < result.waiting_count && !(result.waiting[n].kind == kind && result.waiting[n].line == fiber.line)) n++;
        if (n == 8) continue;
        if (n == result.waiting_count) result.waiting[result.waiting_count++] = Waiting{kind, fiber.line, 0, t};
        result.waiting[n].count++;
    }
    leave(STUCK);
}

// Gives the turn to the next that can run; comes back when it is this fiber's turn again.
static void next() {
    settle();
    Fiber* self = current;
    while (!queue_count)
        if (!release_active_masks()) stuck();
    Fiber* to = fibers + queue[queue_first];
    queue_first = (queue_first + 1) % MOST_THREADS, queue_count--;
    if (to == self) return;
    activate(to);
    kim_switch(&self->stack_pointer, to->stack_pointer);
}

static void fiber_main() {
    entry(entry_arguments);
    settle();
    current->state = RETURNED;
    if (++returned == threads) {
        void* never;
        kim_switch(&never, scheduler);
    }
    next();
    abort();
}

static void end_step() {
    if (++current->steps >= config.last_step) {
        settle();
        current->logging = logging = false;
    }
}

extern "C" int kim_barrier(int op, int said, uint32_t line) {
    Fiber* self = current;
    if (logging) {
        settle();
        append(BARRIER, SRAM, 0, 0, A_LINE | line, NO_NAME);
        if (config.barriers_end_steps) end_step();
    }
    self->state = AT_BARRIER, self->line = line, self->op = uint8_t(op), self->said = said;
    if (++at_barrier == threads) {
        int yes = 0;
        for (unsigned t = 0; t < threads; t++) {
            if (fibers[t].line != line) stuck();
            yes += fibers[t].said != 0;
        }
        const int answer = op == COUNT ? yes : op == OR ? yes > 0 : op == AND ? yes == int(threads) : 0;
        at_barrier = 0;
        for (unsigned t = 0; t < threads; t++) {
            fibers[t].said = answer;
            push(t);
        }
    }
    next();
    return self->said;
}

// --- within a warp

static unsigned first_of_warp(const Fiber* fiber) { return fiber->number & ~31u; }
static unsigned lanes_of_warp(const Fiber* fiber) {
    const unsigned left = threads - first_of_warp(fiber);
    return left < 32 ? left : 32;
}

static uint64_t shuffled(const Fiber* warp, unsigned lane, uint32_t group) {
    const Fiber& self = warp[lane];
    const unsigned width = self.width > 0 && self.width <= 32 ? unsigned(self.width) : 32, first = lane & ~(width - 1);
    unsigned from = lane;
    if (self.op == SHUFFLE) from = first + (self.argument & (width - 1));
    if (self.op == UP && self.argument <= lane - first) from = lane - self.argument;
    if (self.op == DOWN && self.argument < width && lane + self.argument < first + width) from = lane + self.argument;
    if (self.op == XOR && (lane ^ self.argument) < first + width) from = lane ^ self.argument;
    if (group >> from & 1) return warp[from].bits;
    return 0x7F85A1107F85A110u;  // a lane that takes no part has no value to give
}

static uint64_t reduced(const Fiber* warp, uint32_t group, int op) {
    bool any = false;
    uint32_t all = 0;
    for (unsigned n = 0; n < 32; n++) {
        if (!(group >> n & 1)) continue;
        const uint32_t x = uint32_t(warp[n].bits);
        if (!any) all = x;
        else if (op == ADD) all += x;
        else if (op == MIN) all = int32_t(x) < int32_t(all) ? x : all;
        else if (op == MAX) all = int32_t(x) > int32_t(all) ? x : all;
        else if (op == MIN_UNSIGNED) all = x < all ? x : all;
        else if (op == MAX_UNSIGNED) all = x > all ? x : all;
        else if (op == BIT_AND) all &= x;
        else if (op == BIT_OR) all |= x;
        else if (op == BIT_XOR) all ^= x;
        any = true;
    }
    return all;
}

static void answer(Fiber* warp, uint32_t group, int op) {
    uint64_t answers[32] = {};
    uint32_t votes = 0;
    for (unsigned n = 0; n < 32; n++)
        if (group >> n & 1 && warp[n].bits) votes |= 1u << n;
    const uint64_t total = op >= ADD ? reduced(warp, group, op) : 0;
    for (unsigned n = 0; n < 32; n++) {
        if (!(group >> n & 1)) continue;
        if (op >= SHUFFLE && op <= XOR) answers[n] = shuffled(warp, n, group);
        else if (op == VOTE) answers[n] = votes;
        else if (op == ACTIVE) answers[n] = group;
        else if (op >= ADD) answers[n] = total;
        else if (op == MATCH)
            for (unsigned m = 0; m < 32; m++)
                if (group >> m & 1 && warp[m].bits == warp[n].bits) answers[n] |= 1u << m;
    }
    for (unsigned n = 0; n < 32; n++)
        if (group >> n & 1) warp[n].bits = answers[n];
}

extern "C" uint64_t kim_warp(int op, uint32_t mask, uint64_t bits, uint32_t argument, int width, uint32_t line) {
    Fiber* self = current;
    if (logging && op != ACTIVE) {
        settle();
        append(WARP_BARRIER, SRAM, 0, 0, A_LINE | line, NO_NAME);
    }
    self->state = AT_WARP, self->line = line, self->op = uint8_t(op), self->bits = bits;
    self->argument = argument, self->width = width, self->mask = mask;
    if (op != ACTIVE) {
        Fiber* warp = fibers + first_of_warp(self);
        const unsigned lanes = lanes_of_warp(self);
        const uint32_t group = mask & (lanes == 32 ? ~0u : (1u << lanes) - 1);
        bool all = group >> (self - warp) & 1;
        for (unsigned n = 0; n < lanes && all; n++)
            if (group >> n & 1)
                all = warp[n].state == AT_WARP && warp[n].op == op && warp[n].line == line && warp[n].mask == mask;
        if (all) {
            answer(warp, group, op);
            for (unsigned n = 0; n < lanes; n++)
                if (group >> n & 1 && warp + n != self) push(first_of_warp(self) + n);
            self->state = READY;
            return self->bits;
        }
    }
    next();
    return self->bits;
}

// Those of a warp that ask who is active, when nobody can come to join them.
static bool release_active_masks() {
    for (unsigned t = 0; t < threads; t++) {
        if (fibers[t].state != AT_WARP || fibers[t].op != ACTIVE) continue;
        Fiber* warp = fibers + first_of_warp(fibers + t);
        uint32_t group = 0;
        for (unsigned n = 0; n < lanes_of_warp(fibers + t); n++)
            if (warp[n].state == AT_WARP && warp[n].op == ACTIVE && warp[n].line == fibers[t].line) group |= 1u << n;
        answer(warp, group, ACTIVE);
        for (unsigned n = 0; n < 32; n++)
            if (group >> n & 1) push(first_of_warp(fibers + t) + n);
        return true;
    }
    return false;
}

// --- cp.async

extern "C" void kim_async(void* to, const void* from, size_t bytes, size_t zeros, const void* pc) {
    Fiber* self = current;
    const size_t read = zeros < bytes ? bytes - zeros : 0;
    const uint64_t rows = result.row_count;
    if (read) touch(from, read, READ, pc, read == bytes);
    const uint32_t row = result.row_count > rows ? uint32_t(result.row_count - result.blocks[result.block_count - 1].rows) : 0;
    if (((uintptr_t)to | (uintptr_t)from) % bytes) leave_at(MISALIGNED, (uintptr_t)((uintptr_t)to % bytes ? to : from), bytes, false, pc);
    if (self->copy_count == self->copy_room) {
        uint64_t room = self->copy_room;
        reserve(self->copies, room, self->copy_count + 1);
        self->copy_room = uint32_t(room);
    }
    Copy& copy = self->copies[self->copy_count++];
    copy = Copy{to, uint32_t(bytes), site_of(pc), row, {}};
    memcpy(copy.data, from, read);
}

extern "C" void kim_async_commit() {
    Fiber* self = current;
    if (self->group_count == self->group_room) {
        uint64_t room = self->group_room;
        reserve(self->groups, room, self->group_count + 1);
        self->group_room = uint32_t(room);
    }
    self->groups[self->group_count++] = self->copy_count;
}

extern "C" void kim_async_wait(unsigned but) {
    Fiber* self = current;
    if (self->group_count <= but) return;
    const uint32_t done = self->group_count - but, count = self->groups[done - 1];
    for (uint32_t n = 0; n < count; n++) {
        const Copy& copy = self->copies[n];
        const uint64_t rows = result.row_count;
        touch(copy.to, copy.bytes, WRITE, (const void*)(uintptr_t)(result.base + copy.site), true);
        if (result.row_count > rows) result.rows[rows].request = copy.read;  // number_rows makes it the read's
        memcpy(copy.to, copy.data, copy.bytes);
    }
    settle();
    memmove((void*)self->copies, (const void*)(self->copies + count), (self->copy_count - count) * sizeof(Copy));
    self->copy_count -= count;
    for (uint32_t n = done; n < self->group_count; n++) self->groups[n - done] = self->groups[n] - count;
    self->group_count = but;
}

// --- what the header says

static uint32_t text_index(const char* at, uint32_t bytes) {
    static uint32_t last;
    if (last < result.text_count && result.texts[last].at == at && result.texts[last].bytes == bytes) return last;
    for (uint32_t n = 0; n < result.text_count; n++)
        if (result.texts[n].bytes == bytes && (result.texts[n].at == at || !memcmp(result.texts[n].at, at, bytes))) return last = n;
    reserve(result.texts, text_room, result.text_count + 1);
    result.texts[result.text_count] = Text{at, bytes};
    return last = uint32_t(result.text_count++);
}

static uint16_t variable_name(uint32_t text, uint32_t index) {
    uint64_t n = 0;
    while (n < result.variable_count && !(result.variables[n].text == text && result.variables[n].index == index)) n++;
    if (n == result.variable_count) {
        reserve(result.variables, variable_room, n + 1);
        result.variables[result.variable_count++] = Variable{text, index};
    }
    return uint16_t(config.array_count + n);
}

// NaN in every float type, and another for each: what nobody wrote tells on a kernel.
static void poison(void* at, uint64_t bytes, uint32_t element) {
    const uint64_t word = element == 2 ? 0x7FF5A1107F85A110u : element == 11 || element == 12 ? 0x7F857F857F857F85u : 0x7F85A1107F85A110u;
    uint8_t* to = (uint8_t*)at;
    for (uint64_t n = 0; n + 8 <= bytes; n += 8) memcpy(to + n, &word, 8);
    memcpy(to + (bytes & ~uint64_t(7)), &word, bytes & 7);
}

struct HoldInfo {
    uint64_t text;
    uint32_t index, element, rank, hidden, extents[6];
};
struct SnapshotInfo {
    uint64_t text, count;
    int64_t loops[6];
};
static uint64_t last_snapshot, last_hold[8];
static bool have_snapshot;
static unsigned hold_count;

extern "C" void kim_hold(const char* text, uint32_t text_bytes, uint32_t index, uint32_t element, const void* at, uint32_t bytes,
                         uint32_t hidden, uint32_t rank, uint32_t e0, uint32_t e1, uint32_t e2, uint32_t e3, uint32_t e4,
                         uint32_t e5, uint32_t line) {
    settle();
    Fiber* self = current;
    const uintptr_t address = (uintptr_t)at;
    const bool own = address - self->stack < STACK, in_hbm = address - config.arena < config.arena_bytes;
    if (own && !recording) return;
    const HoldInfo info = {text_index(text, text_bytes), index, element, rank, hidden, {e0, e1, e2, e3, e4, e5}};
    const uint16_t name = variable_name(uint32_t(info.text), index);
    if (own) {
        if (self->held_count < MOST_HOLDS) {
            self->held[self->held_count++] = Held{address, bytes, name};
            if (self->held_count == 1 || address < self->held_low) self->held_low = address;
            if (self->held_count == 1 || address + bytes > self->held_high) self->held_high = address + bytes;
        }
    } else if (!in_hbm) {
        unsigned n = 0;
        while (n < shared_count && !(shared[n].at == address && shared[n].bytes == bytes && shared[n].name == name)) n++;
        if (n == shared_count && n < MOST_SHARED) {
            shared[shared_count++] = Shared{address, bytes, name, bool(hidden), element};
            if (n == 0 || address < shared_low) shared_low = address;
            if (n == 0 || address + bytes > shared_high) shared_high = address + bytes;
            if (hidden && address - result.base - config.image < config.image_bytes) in_image = true;
            if (hidden) poison((void*)at, bytes, element);  // in blocks that are not logged too: they run the same
        }
    }
    if (!logging) return;
    uint64_t value = ~uint64_t(0);
    for (unsigned n = 0; n < 8 && n < hold_count; n++)
        if (!memcmp(result.payload + last_hold[n], &info, sizeof info)) value = last_hold[n];
    if (value == ~uint64_t(0)) {
        value = payload(sizeof info);
        memcpy(result.payload + value, &info, sizeof info);
        last_hold[hold_count++ % 8] = value;
    }
    append(HOLD, own ? REGISTERS : in_hbm ? HBM : SRAM, address, bytes, A_LINE | line, name)->value = value - block_payload;
    if (!own) return;
    for (uint32_t n = 0; n < bytes; n++) {  // what was written to it before it was held
        const Mark mark = self->marks[address - self->stack + n];
        if (mark.turn != turn || !mark.size) continue;
        const uint32_t size = mark.size < bytes - n ? mark.size : bytes - n;
        log_access(WRITE, REGISTERS, address + n, size, mark.site, name);
        settle();
    }
}

extern "C" void kim_drop(const void* at, uint32_t line) {
    if (!recording) return;
    settle();
    Fiber* self = current;
    const uintptr_t address = (uintptr_t)at;
    const bool own = address - self->stack < STACK;
    for (unsigned n = self->held_count; own && n--;) {
        if (self->held[n].at != address) continue;
        const Held held = self->held[n];
        memset((void*)(self->marks + (address - self->stack)), 0, held.bytes * sizeof(Mark));
        memmove((void*)(self->held + n), (const void*)(self->held + n + 1), (self->held_count - n - 1) * sizeof(Held));
        self->held_count--;
        if (logging) append(DROP, REGISTERS, address, held.bytes, A_LINE | line, held.name);
        return;
    }
    uint16_t name = NO_NAME;
    uint32_t bytes = 0;
    for (unsigned n = 0; n < shared_count; n++)
        if (shared[n].at == address && !shared[n].hidden) name = shared[n].name, bytes = uint32_t(shared[n].bytes);
    if (logging) append(DROP, SRAM, address, bytes, A_LINE | line, name);
}

extern "C" void kim_snapshot(const char* text, uint32_t text_bytes, uint32_t line, uint32_t count, long long l0, long long l1,
                             long long l2, long long l3, long long l4, long long l5) {
    if (!logging) return;
    settle();
    const SnapshotInfo info = {text_index(text, text_bytes), count, {l0, l1, l2, l3, l4, l5}};
    if (!have_snapshot || memcmp(result.payload + last_snapshot, &info, sizeof info)) {
        last_snapshot = payload(sizeof info);
        memcpy(result.payload + last_snapshot, &info, sizeof info);
        have_snapshot = true;
    }
    append(SNAPSHOT, SRAM, 0, 0, A_LINE | line, NO_NAME)->value = last_snapshot - block_payload;
    if (!config.barriers_end_steps) end_step();
}

extern "C" void* kim_dynamic_memory() { return dynamic_memory; }
extern "C" uint32_t kim_dynamic_bytes() { return config.shared_bytes; }
extern "C" void kim_trap(const void* pc) { leave_at(TRAPPED, 0, 0, false, pc); }
extern "C" long long kim_clock() {
    return std::chrono::steady_clock::now().time_since_epoch().count();
}

// --- starting a launch

static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGUSR2};
static struct sigaction before[4];

static void on_signal(int number, siginfo_t* info, void* context) {
    if (!running || !pthread_equal(pthread_self(), running_thread)) {
        if (number != SIGUSR2) signal(number, SIG_DFL);
        return;
    }
    if (number == SIGUSR2 && busy) return;  // it comes again
    uintptr_t pc = 0;
    bool writes = false;
#if defined(__linux__) && defined(__x86_64__)
    pc = ((ucontext_t*)context)->uc_mcontext.gregs[REG_RIP];
    writes = ((ucontext_t*)context)->uc_mcontext.gregs[REG_ERR] & 2;
#elif defined(__linux__) && defined(__aarch64__)
    pc = ((ucontext_t*)context)->uc_mcontext.pc;
#endif
    const uintptr_t at = (uintptr_t)info->si_addr;
    // Backwards by one, as sites are return addresses: the reader takes one off.
    const void* place = (const void*)(pc + 1);
    if (number == SIGUSR2) leave_at(HUNG, 0, 0, false, last_pc ? last_pc : place);
    if (number == SIGFPE) leave_at(DIVIDED, 0, 0, false, place);
    if (current && at - (current->stack - GUARD) < GUARD) leave_at(OVERFLOWN, at, 0, writes, place);
    leave_at(CRASHED, at, 0, writes, place);
}

static bool prepare_stacks() {
    const size_t all = (STACK + GUARD) * threads;
    void* memory = mmap(nullptr, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return false;
    stacks = (char*)memory, stack_step = STACK + GUARD;
    marks = nullptr;
    if (config.traced) {
        memory = mmap(nullptr, STACK * sizeof(Mark) * threads, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) return false;
        marks = (Mark*)memory;
    }
    for (unsigned t = 0; t < threads; t++) {
        Fiber& fiber = fibers[t];
        fiber = Fiber{};
        mprotect(stacks + t * stack_step, GUARD, PROT_NONE);
        fiber.stack = (uintptr_t)(stacks + t * stack_step + GUARD);
        fiber.marks = marks ? marks + STACK * t : nullptr;
        fiber.number = uint16_t(t);
        fiber.index[0] = t % config.block[0];
        fiber.index[1] = t / config.block[0] % config.block[1];
        fiber.index[2] = t / config.block[0] / config.block[1];
    }
    return true;
}

static std::vector<uint32_t> touch_table;  // open addressing: number + 1, 0 where free
static uint64_t touch_room;
static uint32_t site_count;

static uint64_t hash(uint64_t key) { return (key ^ key >> 29) * 0x9E3779B97F4A7C15u >> 20; }
static uint64_t key_of(const Touch& touch) { return touch.code | uint64_t(touch.name) << 32 | uint64_t(touch.kind) << 48; }

static uint32_t site_number(uint32_t code, uint16_t name, uint8_t kind) {
    Touch wanted = {code, name, kind, 0, 0};
    if (touch_table.size() < 4 * result.touch_count + 64) {
        touch_table.assign(16 * result.touch_count + 256, 0);
        for (uint64_t n = 0; n < result.touch_count; n++) {
            uint64_t at = hash(key_of(result.touches[n])) % touch_table.size();
            while (touch_table[at]) at = (at + 1) % touch_table.size();
            touch_table[at] = uint32_t(n + 1);
        }
    }
    const uint64_t key = key_of(wanted);
    uint64_t at = hash(key) % touch_table.size();
    for (; touch_table[at]; at = (at + 1) % touch_table.size()) {
        const Touch& known = result.touches[touch_table[at] - 1];
        if (key_of(known) == key) return known.site;
    }
    wanted.site = site_count;
    for (uint64_t n = 0; n < result.touch_count; n++)
        if (result.touches[n].code == code && result.touches[n].kind == kind) wanted.site = result.touches[n].site;
    if (wanted.site == site_count) site_count++;
    reserve(result.touches, touch_room, result.touch_count + 1);
    result.touches[result.touch_count++] = wanted;
    touch_table[at] = uint32_t(result.touch_count);
    return wanted.site;
}

static void run_block() {
    queue_first = queue_count = at_barrier = returned = 0;
    shared_count = 0, shared_low = shared_high = 0, in_image = false;
    hold_count = 0, have_snapshot = false, pending_size = 0;
    if (++turn == 0) {
        if (marks) madvise((void*)marks, STACK * sizeof(Mark) * threads, MADV_DONTNEED);
        turn = 1;
    }
    poison(dynamic_memory, config.shared_bytes, 0);
    for (unsigned t = 0; t < threads; t++) {
        Fiber& fiber = fibers[t];
        fiber.stack_pointer = first_frame((char*)fiber.stack + STACK - 256, fiber_main);
        fiber.logging = config.last_step > 0;
        fiber.steps = 0, fiber.held_count = 0, fiber.held_low = fiber.held_high = 0;
        fiber.copy_count = fiber.group_count = 0;
        push(t);
    }
    queue_first = 1, queue_count = threads - 1;
    activate(fibers);
    running = true;
    kim_switch(&scheduler, current->stack_pointer);
    running = false;
}

// Numbers the sites of a finished block's rows, and the requests: the k-th time that lanes of a warp come by a site.
// What an asynchronous copy writes has the request of its read.
static void number_rows(const BlockRange& block) {
    const unsigned warps = (threads + 31) / 32;
    std::vector<std::vector<uint32_t>> times;     // of each site seen in this block, by thread
    std::vector<std::vector<std::vector<uint32_t>>> requests;  // by warp
    uint32_t count = 0;
    for (uint64_t n = block.rows; n < block.rows + block.row_count; n++) {
        Row& row = result.rows[n];
        const uint32_t site = site_number(row.site, result.names[n], row.kind < BARRIER ? row.kind : uint8_t(BARRIER));
        if (site >= times.size()) times.resize(site + 1), requests.resize(site + 1);
        if (times[site].empty()) times[site].resize(threads), requests[site].resize(warps);
        if (row.request) {
            row.site = site, row.request = result.rows[block.rows + row.request - 1].request;
            continue;
        }
        const uint32_t time = times[site][row.thread]++;
        std::vector<uint32_t>& numbers = requests[site][row.thread / 32];
        if (time == numbers.size()) numbers.push_back(count++);
        row.site = site, row.request = numbers[time];
    }
}

static void run_blocks() {
    for (uint32_t z = 0; z < config.grid[2]; z++)
        for (uint32_t y = 0; y < config.grid[1]; y++)
            for (uint32_t x = 0; x < config.grid[0]; x++) {
                const uint64_t number = x + uint64_t(config.grid[0]) * (y + uint64_t(config.grid[1]) * z);
                blockIdx = Three{x, y, z};
                recording = config.traced && number >= config.first_block && number < config.last_block;
                if (recording) {
                    current = fibers;
                    reserve(result.blocks, block_room, result.block_count + 1);
                    result.blocks[result.block_count++] = BlockRange{number, result.row_count, 0, result.payload_bytes, 0};
                    block_payload = result.payload_bytes;
                }
                run_block();
                if (result.status != DONE) return;
                if (recording) {
                    BlockRange& block = result.blocks[result.block_count - 1];
                    block.row_count = result.row_count - block.rows;
                    block.payload_bytes = result.payload_bytes - block.payload;
                    number_rows(block);
                }
                result.blocks_done++;
            }
}

static char kim_launch_anchor;

EXPORT const Result* kim_launch(void (*function)(void**), void** arguments, const Config* given) {
    config = *given;
    result = Result{};
    Dl_info library;
    result.base = dladdr((void*)&kim_launch_anchor, &library) ? (uintptr_t)library.dli_fbase : 0;
    row_room = payload_room = text_room = variable_room = block_room = touch_room = site_count = 0;
    touch_table.clear();
    entry = function, entry_arguments = arguments;
    threads = config.block[0] * config.block[1] * config.block[2];
    gridDim = Three{config.grid[0], config.grid[1], config.grid[2]};
    blockDim = Three{config.block[0], config.block[1], config.block[2]};
    last_array = 0, last_pc = nullptr, current = nullptr, busy = 0, turn = 0;
    const size_t dynamic_room = config.shared_bytes + 2 * SHARED_GUARD;
    char* dynamic_base = (char*)mmap(nullptr, dynamic_room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    dynamic_memory = dynamic_base + SHARED_GUARD;
    if (dynamic_base == MAP_FAILED || (config.shared_bytes && mprotect(dynamic_memory, config.shared_bytes, PROT_READ | PROT_WRITE)) ||
        !prepare_stacks()) {
        result.status = NO_MEMORY;
        return &result;
    }

    running_thread = pthread_self();
    stack_t own{}, old{};
    own.ss_size = 64 << 10, own.ss_sp = malloc(own.ss_size);
    sigaltstack(&own, &old);
    struct sigaction action{};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    for (int n = 0; n < 4; n++) sigaction(signals[n], &action, &before[n]);

    std::mutex mutex;
    std::condition_variable over;
    bool finished = false;
    std::thread watchdog([&] {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_BLOCK, &all, nullptr);
        std::unique_lock<std::mutex> lock(mutex);
        auto patience = std::chrono::duration<double>(config.seconds);
        while (!over.wait_for(lock, patience, [&] { return finished; })) {
            pthread_kill(running_thread, SIGUSR2);
            patience = std::chrono::milliseconds(20);
        }
    });
    run_blocks();
    {
        std::lock_guard<std::mutex> lock(mutex);
        finished = true;
    }
    over.notify_all();
    watchdog.join();

    for (int n = 0; n < 4; n++) sigaction(signals[n], &before[n], nullptr);
    sigaltstack(&old, nullptr);
    free(own.ss_sp);
    munmap(stacks, stack_step * threads);
    if (marks) munmap((void*)marks, STACK * sizeof(Mark) * threads);
    munmap(dynamic_base, dynamic_room);
    for (unsigned t = 0; t < threads; t++) {
        free((void*)fibers[t].copies);
        free((void*)fibers[t].groups);
    }
    return &result;
}

EXPORT void kim_free() {
    free((void*)result.rows);
    free((void*)result.names);
    free((void*)result.payload);
    free((void*)result.blocks);
    free((void*)result.texts);
    free((void*)result.variables);
    free((void*)result.touches);
    result = Result{};
}

// Memory for arrays with nothing around each: `bytes` in all, of which kim_open makes parts usable.
EXPORT void* kim_reserve(uint64_t bytes) {
    void* at = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return at == MAP_FAILED ? nullptr : at;
}
EXPORT int kim_open(void* at, uint64_t bytes) { return mprotect(at, bytes, PROT_READ | PROT_WRITE); }
EXPORT void kim_release(void* at, uint64_t bytes) { munmap(at, bytes); }
