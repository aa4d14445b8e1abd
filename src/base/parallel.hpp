// The one way in which gradnn uses threads of the host.
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>

#ifdef __SANITIZE_THREAD__
#include <thread>
#include <vector>
#endif
#ifdef _OPENMP
#include <omp.h>
#endif

namespace gradnn::detail {

/// Threads that the next parallel_for may use.
inline int max_threads() {
#ifdef _OPENMP
    return omp_get_max_threads();
#else
    return 1;
#endif
}

/// Calls body(begin, end) on disjoint ranges that cover [0, count), one a
/// thread, on at most count / grain threads. Which thread gets which range may
/// differ between runs: a body writes only what its items own, and computes
/// each item alike whatever the range, so that the bits do not depend on the
/// number of threads. The body must not throw.
///
/// ThreadSanitizer does not know libgomp's barriers and would report every
/// region: under it the ranges run on std::thread, which it does know, so the
/// kernels' own accesses are still checked.
template <typename Body>
void parallel_for(int64_t count, int64_t grain, const Body &body) {
    const int64_t wanted
            = std::max<int64_t>(1, count / std::max<int64_t>(1, grain));
    const int threads
            = static_cast<int>(std::min<int64_t>(wanted, max_threads()));
    if (threads <= 1) {
        if (count > 0) body(int64_t {0}, count);
        return;
    }
    const auto run_share = [&](int64_t index, int64_t shares) {
        const int64_t begin = count * index / shares;
        const int64_t end = count * (index + 1) / shares;
        if (begin < end) body(begin, end);
    };
#ifdef __SANITIZE_THREAD__
    std::vector<std::thread> workers;
    for (int index = 1; index < threads; ++index)
        workers.emplace_back([&, index] { run_share(index, threads); });
    run_share(0, threads);
    for (auto &worker : workers)
        worker.join();
#elif defined(_OPENMP)
#pragma omp parallel num_threads(threads)
    run_share(omp_get_thread_num(), omp_get_num_threads());
#endif
}

} // namespace gradnn::detail
