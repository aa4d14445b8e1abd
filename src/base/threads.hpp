// How many threads a plan of an engine on the host runs on.
//
// A plan's number of threads is fixed when it is compiled: what the caller
// states in compile_settings, or default_threads(). oneDNN's OpenMP builds
// divide the work of a primitive among the threads that omp_get_max_threads()
// promises when the primitive is made. Some of them (those that split a sum)
// compute a wrong result, or wait for ever, when fewer run it, and their bits
// depend on the number. So oneDNN's primitives are made and executed under a
// fixed_threads guard. gradnn's own kernels give the same bits on any number:
// an at_most_threads guard keeps them from using more than the plan's.
#pragma once

#include <algorithm>
#include <exception>
#include <thread>

#ifdef _OPENMP
#include <omp.h>
#endif

namespace gradnn::detail {

/// The most threads of a plan. OpenMP's runtimes end the process where the
/// machine has no more threads to give, so numbers that are a mistake are
/// refused first.
inline constexpr int most_threads = 4096;

#ifdef _OPENMP

/// most_threads, or fewer where OMP_THREAD_LIMIT says so.
inline int thread_limit() {
    return std::clamp(omp_get_thread_limit(), 1, most_threads);
}

/// The threads of a plan whose caller states none: omp_get_max_threads() as it
/// was when this was first asked, which is at the first compile. Read once, so
/// that the bits of a process do not change when it sets another number.
inline int default_threads() {
    static const int threads
            = std::clamp(omp_get_max_threads(), 1, thread_limit());
    return threads;
}

inline bool in_parallel_region() {
    return omp_in_parallel() != 0;
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

/// While it lives, parallel regions of the calling thread have at most this
/// many threads, and no more than the caller allowed before.
class at_most_threads {
public:
    explicit at_most_threads(int threads)
        : before_(omp_get_max_threads()), fewer_(threads < before_) {
        if (fewer_) omp_set_num_threads(threads);
    }
    ~at_most_threads() {
        if (fewer_) omp_set_num_threads(before_);
    }
    at_most_threads(const at_most_threads &) = delete;
    at_most_threads &operator=(const at_most_threads &) = delete;

private:
    const int before_;
    const bool fewer_;
};

#else

inline int thread_limit() {
    return most_threads;
}

inline int default_threads() {
    return 1;
}

inline bool in_parallel_region() {
    return false;
}

class fixed_threads {
public:
    explicit fixed_threads(int) {}
    ~fixed_threads() {}
};

class at_most_threads {
public:
    explicit at_most_threads(int) {}
    ~at_most_threads() {}
};

#endif

/// Calls body() with exactly `threads` threads at its disposal.
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

} // namespace gradnn::detail
