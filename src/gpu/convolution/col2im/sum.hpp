// The second launch of convolution.gpu_col2im (sum.cu).
#pragma once

#include <functional>

#include "gpu/convolution/col2im/shape.hpp"
#include "gpu/runtime/launch.hpp"

namespace gradnn::gpu::col2im {

/// diff_src of so many images, in its type, from the products in the type of its sums:
/// of each position of dst the window's positions one after the other, channels within.
using products_sum = std::function<void(int64_t images, const void *products,
        void *diff_src, const launch_stream &)>;
/// `taps` are those of the shape, on the device.
products_sum sum_of_products(detail::data_type type, const problem_shape &shape,
        const product_taps *taps);

} // namespace gradnn::gpu::col2im
