// The launch of the kernel that adds the products of convolution.gpu_col2im.
#include "gpu/convolution/col2im/sum.hpp"
#include "gpu/convolution/col2im/sum_kernel.cuh"
#include "gpu/runtime/launch.hpp"

namespace gradnn::gpu::col2im {

void add_products(detail::data_type type, const problem_shape &shape,
        const product_taps *taps, int64_t images, const void *products,
        void *diff_src, const launch_stream &stream) {
    const int64_t threads = images * shape.threads_of_image;
    with_float_type(type, [&]<typename Type>() {
        using sum = sum_of<Type>;
        const auto start = [&](auto *kernel) {
            launch_early("convolution.gpu_col2im", kernel,
                    ceil_div(threads, block), block, 0, stream, shape, taps,
                    threads, static_cast<const sum *>(products),
                    static_cast<Type *>(diff_src));
        };
        switch (held_channels(shape.channels, sizeof(sum))) {
            case 1: return start(add_products_kernel<Type, 1>);
            case 2: return start(add_products_kernel<Type, 2>);
            case 3: return start(add_products_kernel<Type, 3>);
            default:
                if constexpr (sizeof(sum) == 4)
                    start(add_products_kernel<Type, 4>);
        }
    });
}

} // namespace gradnn::gpu::col2im
