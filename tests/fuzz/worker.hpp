// The process that runs problems.
#pragma once

#include <set>

#include "statistics.hpp"
#include "supervisor.hpp"

namespace gradnn::fuzz {

/// Runs what is left, from statistics::next on, or as much of it as one process
/// should, but not the indices in `skip` (which ended an earlier process). False
/// where it had to end early. Never throws.
bool work(const fuzz_options &options, const std::set<uint64_t> &skip,
        statistics &counts);

/// Writes the problem of an index to a file in options.folder, prints what
/// was found and counts it. `kind` groups findings of one cause: of each group
/// the first few are printed.
void report(const fuzz_options &options, uint64_t index,
        const std::string &finding, statistics &counts);

/// What the problem of an index is, as a file has it; empty where it is none.
std::string text_of(const fuzz_options &options, uint64_t index);

int64_t milliseconds_now();

} // namespace gradnn::fuzz
