// The second launch of convolution.gpu_col2im (sum.cu).
#pragma once

#include "gpu/convolution/col2im/shape.hpp"

namespace gradnn::gpu {

struct launch_stream;

namespace col2im {

/// diff_src, in `type`, from the products in the type of its sums: `products` has
/// `pitch` of each position of dst, the window's positions one after the other,
/// channels within.
void add_products(detail::data_type type, const problem_shape &shape,
        const void *products, void *diff_src, const launch_stream &stream);

} // namespace col2im
} // namespace gradnn::gpu
