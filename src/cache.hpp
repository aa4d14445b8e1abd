// The process-wide cache of compiled partitions: least recently used goes
// first, safe to use from many threads.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace gradnn::detail {

struct executable;

/// The executable kept under `key`, or null.
std::shared_ptr<const executable> find_cached(const std::string &key);

/// Keeps an executable. If another thread was faster, returns the one it put
/// there, so that all share one. `owner` is engine_impl::cache_owner, which is
/// also a part of the key.
std::shared_ptr<const executable> keep_cached(const std::string &key,
        std::shared_ptr<const executable> made, size_t owner = 0);

/// A number for an engine whose executables no other may share, never 0.
size_t new_cache_owner();
/// Forgets what is kept for an owner, whose engine is going.
void drop_cached(size_t owner) noexcept;

} // namespace gradnn::detail
