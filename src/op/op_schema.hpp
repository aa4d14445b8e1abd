// Op schemas: a table row an op kind. Ports, their roles and types, attributes
// with defaults and allowed values.
#pragma once

#include <span>

#include <gradnn/op.hpp>

namespace gradnn::detail {

/// What a port is to the shape rules. Every convolution, transposed or not,
/// relates a spatially large tensor and a small one: window positions are
/// small * stride - pads_begin + k * dilation within large. Weights are
/// [channels of small, channels of large / groups, k...] or, in the X-first
/// formats, [k..., channels of large / groups, channels of small].
enum class port_role {
    large, ///< src or diff_src of a convolution, diff_dst of a transposed one
    small, ///< diff_dst of a convolution, src or diff_src of a transposed one
    weights, ///< weights or diff_weights
    bias, ///< diff_bias: one value a channel of diff_dst
    resampled, ///< dst or diff_dst of an interpolation
    source, ///< src or diff_src of an interpolation
    element, ///< an operand of an elementwise op or of a bias reduction
    shape, ///< s32, one-dimensional, in host memory, only checked
};

struct port_row {
    const char *name;
    port_role role;
    bool required = true;
};

enum class attr_type {
    s64,
    f32,
    boolean,
    string,
    s64_list,
    f32_list,
    f64_list
};

struct attr_row {
    op::attr name;
    attr_type type;
    bool required = false;
    /// Of a string: the allowed values, separated by '|'.
    const char *allowed = nullptr;
    /// What an absent optional attribute means; null where absence itself
    /// means something.
    const char *fallback = nullptr;
};

/// Which shape rules hold.
enum class op_family {
    interpolation,
    convolution,
    transposed,
    bias,
    elementwise
};

struct op_schema {
    op::kind kind;
    const char *name;
    op_family family;
    std::span<const port_row> inputs;
    std::span<const port_row> outputs;
    std::span<const attr_row> attrs;
    /// Ranks that the data ports may have.
    int min_rank;
    int max_rank;
};

/// All schemas.
std::span<const op_schema> all_schemas();

/// The schema of a kind; null for a value that is no kind.
const op_schema *find_schema(op::kind kind);

/// The index of a port by its role; -1 where the op has none.
int port_index(std::span<const port_row> ports, port_role role);

} // namespace gradnn::detail
