// Runs problems in a process that may die, and starts it again.
#pragma once

#include <cstdint>
#include <string>

#include "generate.hpp"

namespace gradnn::fuzz {

struct fuzz_options {
    generator_options problems;
    uint64_t seed = 0;
    uint64_t first = 0;
    /// Problems, counted from `first`.
    uint64_t count = UINT64_MAX;
    double minutes = 0; ///< 0: no limit
    /// Seconds that one problem may take before it counts as hung.
    int64_t timeout = 60;
    /// Threads that draw problems and compute references beside the one that
    /// executes; 0 does all of it on one thread.
    int jobs = 0;
    /// Where the graphs of findings are written.
    std::string folder = "fuzz_findings";
    /// Broken files and misuse of the API too.
    bool all_subjects = true;
};

/// How many findings there were; -1 where the engine is not on this machine.
int64_t fuzz(const fuzz_options &options);

} // namespace gradnn::fuzz
