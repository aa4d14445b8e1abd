// A problem of the fuzzer: a graph, how it is run, and what its inputs hold.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <gradnn/graph.hpp>

namespace gradnn::fuzz {

using data_type = logical_tensor::data_type;
using layout_type = logical_tensor::layout_type;
using dims = logical_tensor::dims;

/// What the elements of the inputs are.
enum class values_kind {
    mostly_positive, ///< in [-0.25, 1.25)
    of_either_sign, ///< in [-1, 1)
    equal, ///< all 0.1: the worst case of sums in one chain
    sparse, ///< three of four are 0
    wide, ///< magnitudes from 2^-10 to 2^5
    special, ///< a few are Inf, -Inf or NaN
};

/// Everything that a run depends on, except the engine.
struct problem {
    std::vector<op> ops;
    fpmath_mode fpmath = fpmath_mode::strict;
    bool deterministic = true;
    /// What GRADNN_KERNEL is set to; empty leaves the choice to the library.
    std::string kernel;
    values_kind values = values_kind::mostly_positive;
    uint64_t values_seed = 0;
    /// Bytes by which the first elements miss a multiple of 64, in elements.
    int64_t misalignment = 0;
    /// The library may refuse it, as beyond its limits.
    bool may_refuse = false;
};

/// A file for the readers of graphs (gradnn check reads it); what is no part
/// of such a file is under the key "fuzz".
std::string to_json(const problem &of, const std::string &engine);

/// From what to_json wrote, or from any graph. Throws input_error.
problem from_json(const std::string &path);

/// "ConvBackward+Add".
std::string kinds_of(const problem &of);

} // namespace gradnn::fuzz
