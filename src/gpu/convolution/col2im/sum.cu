// The launch of the kernel that adds the products of convolution.gpu_col2im.
#include "gpu/convolution/col2im/cut.hpp"
#include "gpu/convolution/col2im/sum_kernel.cuh"
#include "gpu/device/constants.hpp"
#include "gpu/runtime/launch.hpp"
#include "gpu/runtime/with_type.hpp"

namespace gradnn::gpu::col2im {

products_sum sum_of_products(detail::data_type type, const problem_shape &shape,
        const std::shared_ptr<const device_buffer> &taps) {
    return with_float_type(type, [&]<typename Type>() -> products_sum {
        const auto sum_by = [&]<int held>() -> products_sum {
            return [=](int64_t images, const void *products, void *diff_src,
                           const launch_stream &stream) {
                const int64_t threads = images * shape.threads_of_image;
                launch_early("convolution.gpu_col2im",
                        add_products_kernel<Type, held>,
                        ceil_div(threads, block), block, 0, stream, shape,
                        taps->as<product_taps>(), threads,
                        static_cast<const sum_of<Type> *>(products),
                        static_cast<Type *>(diff_src));
            };
        };
        constexpr int64_t bytes = sizeof(sum_of<Type>);
        constexpr int most = bytes == 4 ? 4 : 2;
        return with_chosen(sum_by,
                one_of<1, 3, 2, most> {held_channels(shape.channels, bytes)});
    });
}

} // namespace gradnn::gpu::col2im
