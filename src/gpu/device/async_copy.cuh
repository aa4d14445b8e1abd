// Copies from global to shared memory that a thread does not wait for.
//
// Loads to registers that are in flight share a few scoreboards: to wait for
// the oldest is to wait for the youngest. These copies are waited for in the
// order in which they were submitted, so that the younger go on.
#pragma once

#include <cstdint>

namespace gradnn::gpu {

__device__ __forceinline__ uint32_t address_in_shared(const void *pointer) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

/// 4, 8 or 16 bytes, both addresses at multiples of that, if `wanted`: by a predicate and
/// no branch. Neighbouring copies without a branch between them cost the fewest instructions
/// (the compiler puts three that do nothing before each group of them).
template <int bytes>
__device__ __forceinline__ void copy_async_if(
        bool wanted, void *shared, const void *global) {
    static_assert(bytes == 4 || bytes == 8 || bytes == 16);
    asm volatile("{\n\t"
                 ".reg .pred wanted;\n\t"
                 "setp.ne.u32 wanted, %0, 0;\n\t"
                 "@wanted cp.async.ca.shared.global [%1], [%2], %3;\n\t"
                 "}" ::"r"(static_cast<uint32_t>(wanted)),
                 "r"(address_in_shared(shared)), "l"(global), "n"(bytes)
                 : "memory");
}
/// The same in any case.
template <int bytes>
__device__ __forceinline__ void copy_async(void *shared, const void *global) {
    copy_async_if<bytes>(true, shared, global);
}

/// The same for 16 bytes that no other block of the SM reads: past its L1 cache.
__device__ __forceinline__ void copy_async_past_l1_if(
        bool wanted, void *shared, const void *global) {
    asm volatile("{\n\t"
                 ".reg .pred wanted;\n\t"
                 "setp.ne.u32 wanted, %0, 0;\n\t"
                 "@wanted cp.async.cg.shared.global [%1], [%2], 16;\n\t"
                 "}" ::"r"(static_cast<uint32_t>(wanted)),
                 "r"(address_in_shared(shared)), "l"(global)
                 : "memory");
}
__device__ __forceinline__ void copy_async_past_l1(
        void *shared, const void *global) {
    copy_async_past_l1_if(true, shared, global);
}

/// 4, 8 or 16 bytes, the latter past the L1 cache, or zeros where they are not
/// `wanted`.
template <int bytes>
__device__ __forceinline__ void copy_async_or_zero(
        bool wanted, void *shared, const void *global) {
    static_assert(bytes == 4 || bytes == 8 || bytes == 16);
    if constexpr (bytes == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                             address_in_shared(shared)),
                     "l"(global), "r"(wanted ? bytes : 0)
                     : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(
                             address_in_shared(shared)),
                     "l"(global), "n"(bytes), "r"(wanted ? bytes : 0)
                     : "memory");
}

/// What was submitted since the last call is one group.
__device__ __forceinline__ void commit_copies() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/// Waits for this thread's groups but the `last` ones.
template <int last>
__device__ __forceinline__ void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(last) : "memory");
}

// Copies of many bytes from global to shared memory by one thread, from compute
// capability 9.0 on. One thread begins the barrier, a __syncthreads follows, one thread
// says how many bytes it copies and copies them, all threads wait. Phases of a barrier
// have the parity 0, 1, 0, ...

using copy_barrier = uint64_t; ///< in shared memory

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

} // namespace gradnn::gpu
