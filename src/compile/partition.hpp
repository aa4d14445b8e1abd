// What stands behind graph and partition.
#pragma once

#include <vector>

#include <gradnn/graph.hpp>
#include <gradnn/settings.hpp>

#include "kernel/kernel.hpp"
#include "op/checked_op.hpp"

namespace gradnn::detail {

struct graph_impl {
    engine::kind engine_kind = engine::kind::any;
    fpmath_mode fpmath = fpmath_mode::strict;
    bool fpmath_of_int = false; ///< remembered; no op has integer products
    bool deterministic = true;
    compile_settings settings;
    bool finalized = false;
    std::vector<checked_op> ops; ///< in execution order once finalized
    /// Once finalized: the ops of each partition under policy::fusion.
    std::vector<std::vector<size_t>> groups;
    /// Once finalized: of the first group; the others' and then the ops' follow.
    size_t first_partition_id = 0;
};

struct partition_impl {
    size_t id = 0; ///< unique in the process
    engine::kind engine_kind = engine::kind::any;
    fpmath_mode fpmath = fpmath_mode::strict;
    bool deterministic = true;
    compile_settings settings;
    std::vector<checked_op> ops; ///< in execution order
    bool alone = false; ///< made from an op, without a graph
    std::string unsupported; ///< why not; empty if supported
};

} // namespace gradnn::detail
