// Cutting a chain of ops so that what is between them stays in the caches.
#pragma once

#include <cstddef>
#include <vector>

#include "compile/composed.hpp"
#include "compile/executable.hpp"
#include "op/checked_op.hpp"

namespace gradnn::detail {

/// How to compute a partition's ops, whose steps are these, by turns: each for some
/// images, or channels of an image, and then the next, so that what is between them stays
/// in the caches, or is one image where its channels are no planes or an op is a
/// convolution. Such an op may only give the gradient of its data, and slices must be
/// estimated to be faster. One slice where all stays there anyway.
slicing slicing_of(const std::vector<checked_op> &ops,
        const std::vector<placed_step> &steps, engine::kind kind,
        const compile_options &options);

/// Whether a slice of the port's tensor is a part of it: not of weights and shapes.
bool is_cut(const checked_op &the_op, port_reference port);

/// The op of the first slice: as many images and channels as a slice has, in the
/// layouts of the whole.
checked_op first_slice(const checked_op &the_op, const slicing &how);

/// From one slice of a tensor to the next, in bytes.
slice_stride stride_of_slices(const logical_tensor &lt, const slicing &how);

} // namespace gradnn::detail
