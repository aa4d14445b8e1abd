// What the shape rules of all op families (shapes_*.cpp) are made of.
#pragma once

#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "op/checked_op.hpp"

namespace gradnn::detail {

using dims = logical_tensor::dims;

/// What gave dims: a port, an attribute, or something that words say. Becomes
/// text only in a message.
using dims_source = std::variant<const char *, port_reference, op::attr>;

/// The dims that all ports of a role have.
struct role_dims {
    std::optional<dims> known;
    dims_source from = "the other ports and the attributes";

    /// Keeps the first dims that are given; throws invalid_shape where later
    /// ones that are known differ.
    void agree(const checked_op &the_op, std::span<const int64_t> given,
            dims_source source);
};

/// What the ports of a role say whose dims are known, inputs before outputs.
role_dims collect(const checked_op &the_op, port_role role);

/// The outputs of an op, whose dims the rules fill in.
class output_dims {
public:
    explicit output_dims(const checked_op &the_op)
        : the_op_(the_op), outputs_(the_op.outputs) {}

    /// Gives outputs of a role their dims, which must agree with what those
    /// outputs say themselves.
    void settle(port_role role, const dims &shape, dims_source source);

    std::vector<logical_tensor> take() { return std::move(outputs_); }

private:
    const checked_op &the_op_;
    std::vector<logical_tensor> outputs_;
};

// The rules of the op families.

/// These two leave the dims of an interpolation's dst and of diff_weights unknown
/// where nothing gives them, or throw if `complete` is set.
void shape_interpolation(
        const checked_op &the_op, output_dims &outputs, bool complete);
void shape_convolution(
        const checked_op &the_op, output_dims &outputs, bool complete);

} // namespace gradnn::detail
