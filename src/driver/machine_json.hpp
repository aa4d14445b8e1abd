// The machine and the libraries, as `info --json` and `bench --json` say them.
#pragma once

#include <nlohmann/json.hpp>

namespace gradnn::driver {

/// {"cpu", "processors", "threads", "isa", "cache_bytes", "memory_bytes",
/// "gradnn", "onednn", "engines": [{"kind", "count"}], "gpus": [{"name",
/// "memory_bytes", "compute_capability", "multiprocessors", "l2_bytes",
/// "code"}],
/// "gpu_code", "no_gpu" (why there is none), "cuda_driver", "cuda_runtime",
/// "cudnn", "no_cudnn", "nvrtc", "nvrtc_file", "no_nvrtc"}; empty strings stand
/// for what there is nothing to say of.
nlohmann::ordered_json machine_json();

} // namespace gradnn::driver
