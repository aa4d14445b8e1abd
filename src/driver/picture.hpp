// Tensors as pictures, for `--image`.
#pragma once

#include <cstdint>
#include <span>

#include "files/png.hpp"

namespace gradnn::driver {

/// The planes of the last two axes beside each other, at most 16 of them: blue
/// below zero, white at zero, red above, by the largest magnitude of what is
/// shown; grey for what is not finite. Elements of small planes are squares of
/// several pixels; of large planes rows and columns are left out at even distances.
detail::rgb_image picture_of(
        std::span<const int64_t> dims, std::span<const double> values);

} // namespace gradnn::driver
