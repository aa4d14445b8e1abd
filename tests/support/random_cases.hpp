// Cases with random shapes and attributes.
#pragma once

#include "cases.hpp"
#include "random.hpp"

namespace gradnn::test {

/// GRADNN_TEST_SEED, or a number that differs from run to run; printed once,
/// so that a failure can be repeated.
uint64_t printed_seed();

/// Small shapes of rank 1 to 3.
interpolation_case random_interpolation(random_source &numbers);

/// Groups, strides, dilations, pads (negative ones too) and auto_pad.
convolution_case random_convolution(random_source &numbers);

/// The case for a transposed convolution: with auto_pad same_* its dst has
/// src * stride elements.
convolution_case transposable(const convolution_case &c);

} // namespace gradnn::test
