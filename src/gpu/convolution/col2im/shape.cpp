#include "gpu/convolution/col2im/cut.hpp"

namespace gradnn::gpu::col2im {

bool writes_in_place(const detail::tensor_view &src) {
    constexpr int64_t few = 4;
    return src.strides[1] == 1 || src.dims[1] <= few;
}

problem_shape shape_of(const detail::convolution_problem &problem,
        int64_t pitch, const detail::tensor_view &out,
        std::vector<product_taps> &taps) {
    problem_shape shape;
    const auto &dims = problem.src.dims;
    const int64_t sum_bytes
            = problem.src.type == detail::data_type::f64 ? 8 : 4;
    const int64_t groups = dims[1] / held_channels(dims[1], sum_bytes);
    shape.channels = static_cast<int>(dims[1]);
    shape.threads_of_image = groups * dims[2] * dims[3] * dims[4];
    shape.groups = exact_divider(groups);
    std::copy(out.strides.begin(), out.strides.end(), shape.strides);
    // Of a position of dst and of the window, the innermost axis first.
    int64_t dst_pitch = pitch;
    int64_t window_pitch = dims[1];
    for (size_t axis = 3; axis-- > 0;) {
        const window_axis along(problem, axis);
        shape.src[axis] = exact_divider(along.src);
        shape.next[axis] = static_cast<int32_t>(
                along.step * window_pitch - along.back * dst_pitch);
        shape.table[axis] = static_cast<int>(taps.size());
        for (int64_t x = 0; x < along.src; ++x) {
            const axis_taps of = along.taps_of(x);
            taps.push_back({static_cast<int32_t>(of.position * dst_pitch
                                    + of.first * window_pitch),
                    static_cast<int32_t>(of.count)});
        }
        dst_pitch *= along.dst;
        window_pitch *= along.window;
    }
    shape.image = dst_pitch;
    return shape;
}

} // namespace gradnn::gpu::col2im
