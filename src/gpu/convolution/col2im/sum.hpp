// The second launch of convolution.gpu_col2im (sum.cu).
#pragma once

#include "gpu/convolution/col2im/shape.hpp"

namespace gradnn::gpu {

struct launch_stream;

namespace col2im {

/// diff_src of so many images, in `type`, from the products in the type of its sums:
/// of each position of dst the window's positions one after the other, channels within.
/// `taps` are those of the shape, on the device.
void add_products(detail::data_type type, const problem_shape &shape,
        const product_taps *taps, int64_t images, const void *products,
        void *diff_src, const launch_stream &stream);

} // namespace col2im
} // namespace gradnn::gpu
