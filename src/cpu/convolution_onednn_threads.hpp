// The threads that oneDNN's primitives are made for and run on.
//
// oneDNN's OpenMP builds divide the work of a primitive among the threads that
// omp_get_max_threads() promises when the primitive is made, and some of them
// (the ones that split a reduction) compute a wrong result, or wait for ever,
// when fewer run it. So a plan names its number of threads, and both creation
// and execution happen under a fixed_threads guard.
#pragma once

#include <algorithm>
#include <exception>
#include <thread>

#ifdef _OPENMP
#include <omp.h>
#endif

namespace gradnn::cpu::onednn {

#ifdef _OPENMP

/// The threads of a deterministic plan: a property of the process, read once,
/// that neither omp_set_num_threads nor OMP_NUM_THREADS changes.
inline int process_threads() {
    static const int threads
            = std::max(1, std::min(omp_get_num_procs(), omp_get_thread_limit()));
    return threads;
}

/// While it lives, parallel regions of the calling thread have exactly this
/// many threads. Must not be made inside an active parallel region.
class fixed_threads {
public:
    explicit fixed_threads(int threads)
        : threads_(omp_get_max_threads()),
          dynamic_(omp_get_dynamic()),
          levels_(omp_get_max_active_levels()) {
        omp_set_num_threads(threads);
        omp_set_dynamic(0);
        if (levels_ < 1) omp_set_max_active_levels(1);
    }
    ~fixed_threads() {
        omp_set_num_threads(threads_);
        omp_set_dynamic(dynamic_);
        if (levels_ < 1) omp_set_max_active_levels(levels_);
    }
    fixed_threads(const fixed_threads &) = delete;
    fixed_threads &operator=(const fixed_threads &) = delete;

private:
    const int threads_;
    const int dynamic_;
    const int levels_;
};

inline bool in_parallel_region() {
    return omp_in_parallel() != 0;
}

#else

inline int process_threads() {
    return 1;
}

class fixed_threads {
public:
    explicit fixed_threads(int) {}
    ~fixed_threads() {}
};

inline bool in_parallel_region() {
    return false;
}

#endif

/// Calls body() with `threads` threads at its disposal.
///
/// Inside an active parallel region of the caller oneDNN takes one thread
/// whatever the runtime would give (it asks omp_in_parallel), so the body then
/// runs on a thread of its own, which is in no region.
template <typename Body>
void run_with_threads(int threads, const Body &body) {
    if (!in_parallel_region()) {
        const fixed_threads guard(threads);
        body();
        return;
    }
    std::exception_ptr failure;
    std::thread([&] {
        try {
            const fixed_threads guard(threads);
            body();
        } catch (...) {
            failure = std::current_exception();
        }
    }).join();
    if (failure) std::rethrow_exception(failure);
}

} // namespace gradnn::cpu::onednn
