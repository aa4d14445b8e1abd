// Copies from global to shared memory that a thread does not wait for.
//
// Loads to registers that are in flight share a few scoreboards: to wait for
// the oldest is to wait for the youngest. These copies are waited for in the
// order in which they were submitted, so that the younger go on.
#pragma once

#include <cstdint>

namespace gradnn::gpu {

/// 4, 8 or 16 bytes, both addresses at multiples of that, if `wanted`: by a predicate and
/// no branch. Neighbouring copies without a branch between them cost the fewest instructions
/// (the compiler puts three that do nothing before each group of them).
template <int bytes>
__device__ __forceinline__ void copy_async_if(
        bool wanted, void *shared, const void *global) {
    static_assert(bytes == 4 || bytes == 8 || bytes == 16);
    const auto to = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
    asm volatile("{\n\t"
                 ".reg .pred wanted;\n\t"
                 "setp.ne.u32 wanted, %0, 0;\n\t"
                 "@wanted cp.async.ca.shared.global [%1], [%2], %3;\n\t"
                 "}" ::"r"(static_cast<uint32_t>(wanted)),
                 "r"(to), "l"(global), "n"(bytes)
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
    const auto to = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
    asm volatile("{\n\t"
                 ".reg .pred wanted;\n\t"
                 "setp.ne.u32 wanted, %0, 0;\n\t"
                 "@wanted cp.async.cg.shared.global [%1], [%2], 16;\n\t"
                 "}" ::"r"(static_cast<uint32_t>(wanted)),
                 "r"(to), "l"(global)
                 : "memory");
}
__device__ __forceinline__ void copy_async_past_l1(
        void *shared, const void *global) {
    copy_async_past_l1_if(true, shared, global);
}

/// The same: the first `bytes` of them are copied, the rest become zeros.
__device__ __forceinline__ void copy_async_up_to_16(
        void *shared, const void *global, int bytes) {
    const auto to = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to),
                 "l"(global), "r"(bytes)
                 : "memory");
}

/// 4, 8 or 16 bytes, the latter past the L1 cache, or zeros where they are not
/// `wanted`.
template <int bytes>
__device__ __forceinline__ void copy_async_or_zero(
        bool wanted, void *shared, const void *global) {
    static_assert(bytes == 4 || bytes == 8 || bytes == 16);
    if constexpr (bytes == 16) {
        copy_async_up_to_16(shared, global, wanted ? 16 : 0);
    } else {
        const auto to = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to),
                     "l"(global), "n"(bytes), "r"(wanted ? bytes : 0)
                     : "memory");
    }
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

} // namespace gradnn::gpu
