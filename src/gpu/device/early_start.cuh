// Kernels that start before the work ahead of them on their stream is done
// (CUDA's programmatic dependent launch): launch_early launches such a kernel,
// and its head, which may read nothing but the plan's own tables, runs beside
// the end of that work. Every block must call wait_for_earlier_work before it
// touches a tensor or the workspace, and must not read those by loads that
// promise that nothing writes them while the kernel is alive (__ldg, and what
// the compiler makes of const with __restrict__).
#pragma once

namespace gradnn::gpu {

/// Returns when all that was submitted to the stream before is done and seen.
__device__ __forceinline__ void wait_for_earlier_work() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// Also lets the kernel after this one start where blocks of this one have ended, as most
/// kernels do.
__device__ __forceinline__ void wait_and_let_later_work_start() {
    wait_for_earlier_work();
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

} // namespace gradnn::gpu
