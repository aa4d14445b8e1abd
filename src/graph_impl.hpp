// What stands behind graph and partition.
#pragma once

#include <vector>

#include <gradnn/graph.hpp>

#include "kernel.hpp"

namespace gradnn::detail {

struct graph_impl {
    engine::kind engine_kind = engine::kind::cpu;
    fpmath_mode fpmath = fpmath_mode::strict;
    bool deterministic = true;
    bool finalized = false;
    std::vector<op> ops; ///< checked; in execution order once finalized
};

struct partition_impl {
    size_t id = 0;
    engine::kind engine_kind = engine::kind::cpu;
    fpmath_mode fpmath = fpmath_mode::strict;
    bool deterministic = true;
    std::vector<op> ops; ///< checked, in execution order
    std::string unsupported; ///< why not; empty if supported
};

} // namespace gradnn::detail
