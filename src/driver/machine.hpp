// What the machine has: names, memory, caches.
#pragma once

#include <cstdint>
#include <string>

namespace gradnn::driver {

/// gradnn's own version: "0.1.0".
std::string version_text();

/// "AMD EPYC 9B45"; "unknown" where the system does not say.
std::string cpu_name();

/// Logical processors that this process may use.
int cpu_count();

/// Bytes that can still be allocated: the least of what the system has free or
/// can free (MemAvailable), what the control groups of this process leave, and
/// its address-space limit.
int64_t available_memory();

/// Bytes of the largest cache that a core of this machine sees; 32 MiB where
/// the system does not say.
int64_t last_level_cache_bytes();

/// "1.5 GiB", for messages.
std::string bytes_text(int64_t bytes);

} // namespace gradnn::driver
