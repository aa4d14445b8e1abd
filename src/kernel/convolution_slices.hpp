// A convolution as several of slices of its tensors: for kernels that take one group, or
// tensors up to a size. Plain host arithmetic.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "kernel/problem.hpp"

namespace gradnn::detail {

/// A convolution of slices of the whole one's tensors.
struct convolution_part {
    convolution_problem problem;
    /// Where the slices of src, weights and dst begin, in bytes.
    std::array<int64_t, 3> offsets {};
};

/// One for each group.
std::vector<convolution_part> groups_of(const convolution_part &whole);

/// Of a gradient of src the positions that a stride along an axis meets with the same
/// taps, as gradients without that stride: those that have taps, and positions of src
/// and of dst; phases_along at most.
std::vector<convolution_part> phases_of(
        const convolution_part &whole, size_t axis);
int64_t phases_along(const convolution_problem &p, size_t axis);

/// Each element of the whole convolution's output is in one part, or with `sums`, which
/// are of weights, the sum of the parts'.
struct convolution_slices {
    std::vector<convolution_part> parts;
    /// Whether elements are in no part: no tap meets them, and they are 0.
    bool zeros = false;
    bool sums = false;

    /// Whether there is one, which has all elements of the output where they are.
    bool is_whole() const {
        return parts.size() == 1 && !zeros
                && parts.front().offsets == std::array<int64_t, 3> {};
    }
};

/// As few slices as have problems that `fits` takes, at most `most`: of the images,
/// where not the weights are computed; of the channels of what is computed, 64 and more
/// together, which fill a tile of tensor cores, or of either tensor where the weights are;
/// slabs of what is computed along a spatial axis, with what of the other tensor they
/// meet; or of fewer channels. No slice's sums differ from the whole's. Just the whole
/// where it fits, or where there are no such slices.
///
/// Where weights `may_be_sums` of their slices', these are of images, and slabs of dst,
/// before they are of channels.
convolution_slices slices_of(const convolution_problem &whole, size_t most,
        const std::function<bool(const convolution_problem &)> &fits,
        bool may_be_sums = false);

} // namespace gradnn::detail
