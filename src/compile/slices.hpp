// Cutting a chain of ops so that what is between them stays in the caches.
#pragma once

#include <cstddef>
#include <vector>

#include "compile/executable.hpp"
#include "op/checked_op.hpp"

namespace gradnn::detail {

/// How to compute a partition's ops by turns, each for some images, or channels of an
/// image, and then the next, so that what is between them has at most `cached_bytes`,
/// or one image where its channels are no planes. One slice where all fits anyway. Not with convolutions:
/// the bits of an image depend on how many oneDNN computes at once.
slicing slicing_of(const std::vector<checked_op> &ops, size_t cached_bytes);

/// The op of the first slice: as many images and channels as a slice has, in the
/// layouts of the whole.
checked_op first_slice(const checked_op &the_op, const slicing &how);

/// From one slice of a tensor to the next, in bytes.
slice_stride stride_of_slices(const logical_tensor &lt, const slicing &how);

} // namespace gradnn::detail
