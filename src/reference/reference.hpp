// The float64 reference: what every kernel of every engine is checked against.
//
// Plain loops over ops as the user described them, before lowering, so that it
// checks the lowering too. Nothing of what it computes comes from the kernels,
// the axis map or the shape rules.
#pragma once

#include <cstdint>
#include <vector>

#include <gradnn/op.hpp>

namespace gradnn::detail {

/// Dense row-major float64 values of a tensor, in its logical dims order.
struct reference_tensor {
    std::vector<int64_t> dims;
    std::vector<double> values;
};

/// All outputs of an op (absent ones empty) from its inputs, in float64, in the
/// order of the op's ports. Output dims must be known in `the_op`; attributes
/// may have their defaults. Absent inputs are empty; the values of `sizes`,
/// `dst_shape` and `weights_shape` inputs are not read. The op is taken to be
/// right: what is checked here throws error invalid_arguments.
std::vector<reference_tensor> reference(
        const op &the_op, const std::vector<reference_tensor> &inputs);

} // namespace gradnn::detail
