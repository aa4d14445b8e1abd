// The process-wide cache of compiled partitions, bounded by their number and by
// the bytes of their tables: least recently used goes first, safe to use from
// many threads. Here because an engine whose memory they hold empties it of them.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace gradnn::detail {

struct executable;

/// Of tables in the cache; the last one used stays though it has more. Caches of
/// handles (src/c_api, src/torch, python) hold to the same.
constexpr size_t most_cached_table_bytes = size_t {128} << 20;

/// The executable kept under `key`, or null.
std::shared_ptr<const executable> find_cached(const std::string &key);

/// Keeps an executable with so many bytes of tables. If another thread was faster,
/// returns the one it put there, so that all share one. `owner` is
/// engine_impl::cache_owner, which is also a part of the key.
std::shared_ptr<const executable> keep_cached(const std::string &key,
        std::shared_ptr<const executable> made, size_t table_bytes,
        size_t owner = 0);

/// A number for an engine whose executables no other may share, never 0.
size_t new_cache_owner();
/// Forgets what is kept for an owner, whose engine is going.
void drop_cached(size_t owner) noexcept;

} // namespace gradnn::detail
