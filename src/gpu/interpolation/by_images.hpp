// Images whose planes are not at even distances, as in a slice of the channels of
// NCX tensors (the gradient of a concatenation): a kernel that needs even distances
// takes one image after the other.
#pragma once

#include "gpu/interpolation/makers.hpp"

namespace gradnn::gpu::interpolation {

/// Whether the rows of a tensor of several images have no gaps, and its planes are
/// at even distances within an image, but not over all images.
bool has_images_apart(const interpolation_problem &problem);

/// What `make` gives for the problem, or else, where images are apart, a plan that
/// executes its plan for one image once for each.
plan_or_refusal make_by_images(const interpolation_problem &problem,
        const compile_options &options, interpolation_maker *make);

/// A maker that does the same.
template <interpolation_maker *make>
plan_or_refusal by_images(
        const interpolation_problem &problem, const compile_options &options) {
    return make_by_images(problem, options, make);
}

} // namespace gradnn::gpu::interpolation
