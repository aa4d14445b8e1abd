// Instructions that C++ has no words for, as inline PTX. tests/emulated has this header
// as C++ for the CPU.
#pragma once

#include <cstdint>

namespace gradnn::gpu::jit {

/// The block's dynamic shared memory.
__device__ __forceinline__ char *dynamic_shared() {
    extern __shared__ __align__(128) char memory_of_block[];
    return memory_of_block;
}

/// The two f16 in a word.
__device__ __forceinline__ float low_f16(uint32_t pair) {
    float value;
    asm("{.reg .b16 low, high;\n\t"
        "mov.b32 {low, high}, %1;\n\t"
        "cvt.f32.f16 %0, low;}"
            : "=f"(value)
            : "r"(pair));
    return value;
}
__device__ __forceinline__ float high_f16(uint32_t pair) {
    float value;
    asm("{.reg .b16 low, high;\n\t"
        "mov.b32 {low, high}, %1;\n\t"
        "cvt.f32.f16 %0, high;}"
            : "=f"(value)
            : "r"(pair));
    return value;
}

/// Two values in a word, each rounded to nearest even.
__device__ __forceinline__ uint32_t pair_of_f16(float low, float high) {
    uint32_t pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}
__device__ __forceinline__ uint32_t pair_of_bf16(float low, float high) {
    uint32_t pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

// Copies of many bytes from global to shared memory by one thread, from compute
// capability 9.0 on. One thread begins the barrier, a __syncthreads follows, one thread
// says how many bytes it copies and copies them, all threads wait. Phases of a barrier
// have the parity 0, 1, 0, ...

using copy_barrier = uint64_t; ///< in shared memory

__device__ __forceinline__ uint32_t address_in_shared(const void *pointer) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

/// For phases that the expect_copies of one thread and its bytes complete.
__device__ __forceinline__ void begin_barrier(copy_barrier *barrier) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\n\t"
                 "fence.mbarrier_init.release.cluster;" ::"r"(
                         address_in_shared(barrier))
                 : "memory");
}
__device__ __forceinline__ void expect_copies(
        copy_barrier *barrier, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(
                         address_in_shared(barrier)),
                 "r"(bytes)
                 : "memory");
}
/// Addresses and bytes are multiples of 16.
__device__ __forceinline__ void copy_bulk(void *shared, const void *global,
        uint32_t bytes, copy_barrier *barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global"
                 ".mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                         address_in_shared(shared)),
                 "l"(global), "r"(bytes), "r"(address_in_shared(barrier))
                 : "memory");
}
__device__ __forceinline__ void wait_for_copies(
        copy_barrier *barrier, uint32_t parity) {
    uint32_t done = 0;
    while (done == 0)
        asm volatile("{.reg .pred done;\n\t"
                     "mbarrier.try_wait.parity.shared::cta.b64 "
                     "done, [%1], %2;\n\t"
                     "selp.u32 %0, 1, 0, done;}"
                     : "=r"(done)
                     : "r"(address_in_shared(barrier)), "r"(parity)
                     : "memory");
}

/// A barrier of the block's for copies.
__device__ __forceinline__ copy_barrier *shared_barrier() {
    __shared__ copy_barrier barrier;
    return &barrier;
}

} // namespace gradnn::gpu::jit
