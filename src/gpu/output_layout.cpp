// The layout of a convolution's output where the caller leaves it to the library.
//
// cuDNN in 16 bits and CUTLASS's kernels compute with channels last and copy
// tensors in other layouts. They write a gradient with channels last straight to
// its place, and the convolution that follows reads it there. Kernels that read
// NCX as it is (groups, few channels, TF32 by cuDNN) gain nothing. The decision is
// plain host arithmetic, by the kernels' own rules of what they copy.
#include "gpu/convolution/cudnn/arrangement.hpp"
#include "gpu/convolution/facts.hpp"
#include "gpu/convolution/implicit_gemm/implicit_gemm.hpp"
#include "gpu/convolution/operands.hpp"
#include "gpu/convolution/pointwise/shape.hpp"
#include "gpu/kernels.hpp"

namespace gradnn::gpu {

using detail::data_type;

bool writes_channels_last(
        const convolution_problem &problem, const compile_options &options) {
    if (is_of_weights(problem) || problem.weights.dims[0] != 1) return false;
    const size_t output = output_of(problem.direction);
    convolution_problem other = problem;
    detail::tensor_view &made = output == 0 ? other.src : other.dst;
    made = dense_channels_last(made);
    const data_type type = problem.src.type;
    const int64_t src = problem.src.dims[1];
    const int64_t dst = problem.dst.dims[1];
    if (detail::size_of(type) == 2) {
        std::string refusal;
        const bool copies_nothing = pointwise::describe(problem, refusal)
                && pointwise_yields(problem, options).empty();
        // cuDNN fills up other channels in a copy.
        if (copies_nothing || src % cudnn::channels_at_once != 0
                || dst % cudnn::channels_at_once != 0)
            return false;
        const auto before = cudnn::arrangements_of(problem);
        const auto after = cudnn::arrangements_of(other);
        return !before.empty() && !after.empty()
                && before.front().operands[output].staged
                && !after.front().operands[output].staged
                && after.front().staged_bytes < before.front().staged_bytes;
    }
    // Other kernels take fewer channels, because most of a tile would be empty.
    constexpr int64_t least_channels = 16;
    if (src < least_channels || dst < least_channels) return false;
    if (type == data_type::f32 && options.fpmath != fpmath_mode::strict)
        return false;
    const auto &weights = problem.weights.dims;
    const bool product = weights[3] * weights[4] * weights[5] == 1
            && problem.strides == std::array<int64_t, 3> {1, 1, 1};
    if (type == data_type::f64 && product) return false; // cuDNN's, in NCX
    const auto types = implicit_gemm::all_of(type);
    std::string refusal;
    const auto before
            = implicit_gemm::dense_mapping_of(problem, types, refusal);
    const auto after = implicit_gemm::dense_mapping_of(other, types, refusal);
    return before && after && before->operands[output].staged
            && !after->operands[output].staged;
}

} // namespace gradnn::gpu
