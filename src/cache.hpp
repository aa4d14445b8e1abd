// The process-wide cache of compiled partitions: least recently used goes
// first, safe to use from many threads.
#pragma once

#include <memory>
#include <string>

namespace gradnn::detail {

struct executable;

/// The executable kept under `key`, or null.
std::shared_ptr<const executable> find_cached(const std::string &key);

/// Keeps an executable. If another thread was faster, returns the one it put
/// there, so that all share one.
std::shared_ptr<const executable> keep_cached(
        const std::string &key, std::shared_ptr<const executable> made);

} // namespace gradnn::detail
