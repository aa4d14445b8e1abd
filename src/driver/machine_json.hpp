// The machine and the libraries, as `info --json` and `bench --json` say them.
#pragma once

#include <nlohmann/json.hpp>

namespace gradnn::driver {

/// {"cpu", "processors", "threads", "isa", "cache_bytes", "memory_bytes",
/// "gradnn", "onednn", "engines": [{"kind", "count"}]}.
nlohmann::ordered_json machine_json();

} // namespace gradnn::driver
