#include <limits>
#include <numeric>

#include "gpu/convolution/operands.hpp"
#include "gpu/convolution/weights_sum.cuh"
#include "gpu/runtime/launch.hpp"
#include "gpu/runtime/with_type.hpp"

namespace gradnn::gpu {

size_t partial_weights_bytes(
        const detail::convolution_problem &problem, int64_t parts) {
    const detail::weights_view part = partial_weights_view(problem);
    return static_cast<size_t>(
            std::accumulate(part.dims.begin(), part.dims.end(),
                    parts * detail::size_of(part.type), std::multiplies()));
}

detail::weights_view partial_weights_view(
        const detail::convolution_problem &problem) {
    detail::weights_view view = problem.weights;
    view.type = problem.src.type == detail::data_type::f64
            ? detail::data_type::f64
            : detail::data_type::f32;
    view.strides = dense_strides(view.dims, {1, 0, 5, 4, 3, 2});
    return view;
}

launcher weights_sum_launcher(const char *name,
        const detail::convolution_problem &problem, int64_t parts,
        bool has_zeros) {
    if (parts == 0) return {};
    const auto launch_of =
            [&]<typename Type, typename Result, typename Index>() -> launcher {
        const partial_weights<Index> of(problem, parts, has_zeros);
        return [=](const tensor_pointers &at, const launch_stream &stream) {
            launch_early(name,
                    convolution_weights_sum_kernel<Type, Result, Index>,
                    blocks_for(of.count, weights_sum_threads / of.rows),
                    weights_sum_threads, 0, stream, at.workspace, at.src,
                    at.dst, at.weights, of);
        };
    };
    const auto launch_to = [&]<typename Type, typename Result>() {
        constexpr int64_t most = std::numeric_limits<int32_t>::max();
        return partial_weights_bytes(problem, 1) / sizeof(sum_of<Type>) <= most
                ? launch_of.template operator()<Type, Result, int32_t>()
                : launch_of.template operator()<Type, Result, int64_t>();
    };
    return with_float_type(problem.src.type, [&]<typename Type>() {
        if constexpr (sizeof(Type) == 2)
            if (problem.weights.type == detail::data_type::f32)
                return launch_to.template operator()<Type, float>();
        return launch_to.template operator()<Type, Type>();
    });
}

} // namespace gradnn::gpu
