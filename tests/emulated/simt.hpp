// Device code as C++ on the CPU: a block's threads are fibers, each of which runs to
// its next barrier, of its warp or its block, in turn. Include it ahead of the device
// code, in a translation unit of its own; the folder has headers in place of those with inline assembly.
//
// What it cannot show: races between two barriers, but that threads run in ascending
// and descending order; and what a warp does at once.
#pragma once

#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#undef __device__
#define __device__
#undef __global__
#define __global__
#undef __host__
#define __host__
#undef __shared__
#define __shared__
#undef __noinline__
#define __noinline__
#undef __forceinline__
#define __forceinline__ inline
#undef __launch_bounds__
#define __launch_bounds__(...)
#undef __grid_constant__
#define __grid_constant__

namespace gradnn::emulated {

struct index3 {
    unsigned x = 0;
    unsigned y = 0;
    unsigned z = 0;
};

inline index3 thread_index;
inline index3 block_index;
inline index3 block_size;
inline index3 grid_size {1, 1, 1};

/// Where the kernel's dynamic shared memory is, and how much of it there is.
inline char *shared_memory = nullptr;
inline size_t shared_bytes = 0;
/// What copies from global memory may read, each from its begin to its end; no limits
/// where there are none.
inline std::vector<std::pair<const void *, const void *>> tensors;

class block {
public:
    inline static uint64_t count = 0; ///< blocks that have begun
    /// Asynchronous copies are made when they are submitted, else when they are
    /// waited for: the earliest and the latest that a GPU may make them.
    inline static bool copies_early = false;

    /// Runs `kernel` in `threads` threads; `descending`: the last one first.
    static void run(unsigned index, unsigned threads, bool descending,
            const std::function<void()> &kernel) {
        body = &kernel;
        ++count;
        copies_early = count % 2 == 0;
        while (fibers.size() < threads)
            fibers.push_back(std::make_unique<fiber>());
        block_size = {threads, 1, 1};
        of_block = barrier(threads);
        of_warps.clear();
        for (unsigned i = 0; i < threads; i += 32)
            of_warps.emplace_back(std::min(threads - i, 32U));
        for (unsigned i = 0; i < threads; ++i)
            fibers[i]->begin();
        for (bool left = true; left;) {
            left = false;
            for (unsigned i = 0; i < threads; ++i) {
                fiber &each = *fibers[descending ? threads - 1 - i : i];
                if (each.ended) continue;
                running = &each;
                thread_index = {descending ? threads - 1 - i : i, 0, 0};
                block_index = grid_size.y == 1
                        ? index3 {index}
                        : index3 {index % grid_size.x, index / grid_size.x};
                swapcontext(&scheduler, &each.context);
                left = left || !each.ended;
            }
        }
    }

    /// Until all threads of the block that have not ended are there.
    static void wait() { of_block.wait(); }
    /// Until those of the warp are.
    static void wait_for_warp() { of_warps[thread_index.x / 32].wait(); }

    /// Lets the other threads go on.
    static void yield() { swapcontext(&running->context, &scheduler); }

private:
    class barrier {
    public:
        barrier() : barrier(0) {}
        explicit barrier(unsigned threads)
            : threads_(threads), arrived_(0), passed_(0) {}

        void wait() {
            const uint64_t before = passed_;
            ++arrived_;
            pass_if_all();
            while (passed_ == before)
                yield();
        }
        void leave() {
            --threads_;
            pass_if_all();
        }

    private:
        void pass_if_all() {
            if (threads_ == 0 || arrived_ < threads_) return;
            arrived_ = 0;
            ++passed_;
        }

        unsigned threads_;
        unsigned arrived_;
        uint64_t passed_;
    };

    struct fiber {
        static constexpr size_t stack_bytes = 1 << 18;
        ucontext_t context {};
        std::vector<char> stack = std::vector<char>(stack_bytes);
        bool ended = false;

        void begin() {
            ended = false;
            getcontext(&context);
            context.uc_stack.ss_sp = stack.data();
            context.uc_stack.ss_size = stack.size();
            context.uc_link = nullptr;
            makecontext(&context, &enter, 0);
        }
    };

    static void enter() {
        (*body)();
        running->ended = true;
        of_block.leave();
        of_warps[thread_index.x / 32].leave();
        yield();
    }

    static inline std::vector<std::unique_ptr<fiber>> fibers;
    static inline barrier of_block;
    static inline std::vector<barrier> of_warps;
    static inline ucontext_t scheduler {};
    static inline fiber *running = nullptr;
    static inline const std::function<void()> *body = nullptr;
};

} // namespace gradnn::emulated

#define threadIdx gradnn::emulated::thread_index
#define blockIdx gradnn::emulated::block_index
#define blockDim gradnn::emulated::block_size
#define gridDim gradnn::emulated::grid_size

inline void __syncthreads() {
    gradnn::emulated::block::wait();
}
inline void __syncwarp() {
    gradnn::emulated::block::wait_for_warp();
}
/// Four of the eight bytes of two words, by their numbers.
inline unsigned __byte_perm(unsigned low, unsigned high, unsigned numbers) {
    const uint64_t bytes = uint64_t {high} << 32 | low;
    unsigned taken = 0;
    for (unsigned i = 0; i < 4; ++i)
        taken |= static_cast<unsigned>(
                         bytes >> (numbers >> (4 * i) & 7) * 8 & 0xff)
                << (8 * i);
    return taken;
}
inline void *__cvta_shared_to_generic(size_t address) {
    return gradnn::emulated::shared_memory + address;
}
/// The lower word of both, moved right by so many of 32 bits.
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned bits) {
    return static_cast<unsigned>((uint64_t {high} << 32 | low) >> (bits & 31));
}
/// Of two numbers in one word.
inline __half2 __hfma2(__half2 a, __half2 b, __half2 c) {
    const float2 x = __half22float2(a);
    const float2 y = __half22float2(b);
    const float2 z = __half22float2(c);
    return __floats2half2_rn(std::fma(x.x, y.x, z.x), std::fma(x.y, y.y, z.y));
}
inline __nv_bfloat162 __hfma2(
        __nv_bfloat162 a, __nv_bfloat162 b, __nv_bfloat162 c) {
    const float2 x = __bfloat1622float2(a);
    const float2 y = __bfloat1622float2(b);
    const float2 z = __bfloat1622float2(c);
    return __floats2bfloat162_rn(
            std::fma(x.x, y.x, z.x), std::fma(x.y, y.y, z.y));
}
inline float __fmaf_rn(float a, float b, float c) {
    return std::fma(a, b, c);
}
inline double __fma_rn(double a, double b, double c) {
    return std::fma(a, b, c);
}
inline float __uint_as_float(unsigned bits) {
    float value = 0;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}
inline __half half_of_bits(unsigned short bits) {
    __half value;
    std::memcpy(static_cast<void *>(&value), &bits, sizeof value);
    return value;
}
#define __ushort_as_half half_of_bits
template <typename Value>
void __stcs(Value *to, Value value) {
    if (reinterpret_cast<uintptr_t>(to) % sizeof value != 0)
        throw std::out_of_range("store of " + std::to_string(sizeof value)
                + " bytes between its multiples");
    const auto *const at = reinterpret_cast<const char *>(to);
    using gradnn::emulated::shared_memory;
    if (at >= shared_memory
            && at < shared_memory + gradnn::emulated::shared_bytes)
        throw std::out_of_range("store to global memory, in shared memory");
    *to = value;
}
template <typename Value>
Value __ldg(const Value *from) {
    if (reinterpret_cast<uintptr_t>(from) % sizeof(Value) != 0)
        throw std::out_of_range("load of " + std::to_string(sizeof(Value))
                + " bytes between their multiples");
    return *from;
}
/// The value of another lane of the warp, all of whose threads call it.
template <typename Value>
Value __shfl_sync(unsigned, Value value, int lane) {
    static std::vector<Value> of_threads;
    const size_t thread = threadIdx.x;
    if (of_threads.size() <= thread) of_threads.resize(thread + 1);
    of_threads[thread] = value;
    __syncwarp();
    const Value taken = of_threads[thread / 32 * 32 + lane % 32];
    __syncwarp();
    return taken;
}
template <typename Value>
Value __shfl_xor_sync(unsigned mask, Value value, int lanes) {
    return __shfl_sync(mask, value, static_cast<int>(threadIdx.x % 32) ^ lanes);
}
template <typename Value>
Value __shfl_up_sync(unsigned mask, Value value, int lanes) {
    const int from = static_cast<int>(threadIdx.x % 32) - lanes;
    return __shfl_sync(mask, value, from >= 0 ? from : from + lanes);
}
template <typename Value>
Value __shfl_down_sync(unsigned mask, Value value, int lanes) {
    const int from = static_cast<int>(threadIdx.x % 32) + lanes;
    return __shfl_sync(mask, value, from < 32 ? from : from - lanes);
}
inline bool __any_sync(unsigned mask, bool wanted) {
    bool any = wanted;
    for (int lanes = 16; lanes > 0; lanes /= 2)
        any = __shfl_xor_sync(mask, any ? 1 : 0, lanes) != 0 || any;
    return any;
}
/// Whether a thread of the block says so, all of which are there.
inline int __syncthreads_or(int wanted) {
    static bool any = false;
    __syncthreads();
    any = false;
    __syncthreads();
    any = any || wanted != 0;
    __syncthreads();
    return any ? 1 : 0;
}
using std::isfinite;
using std::max;
using std::min;
