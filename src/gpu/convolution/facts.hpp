// What rules (measured_*.cpp) and estimates ask of a convolution.
#pragma once

#include "gpu/convolution/makers.hpp"

namespace gradnn::gpu {

double rounded_up(int64_t count, int64_t multiple);

double elements_of(const detail::tensor_view &tensor);

/// In NCX, of more channels than one.
bool is_ncx(const detail::tensor_view &tensor);

/// Of one group, a window of one point: a product of matrices where they lie.
bool is_matrix_product(const convolution_problem &problem);

/// Terms of a sum that is no gradient of weights.
int64_t terms_of_data(const convolution_problem &problem);

/// Up to which cuDNN's sums of that kind are trusted, in strict f32 and in f64: in f32 18,432
/// terms are 2.4e-6 off in norm, 2e-6 is promised.
constexpr int64_t most_cudnn_terms(detail::data_type type) {
    return type == detail::data_type::f64 ? 65536 : 12288;
}

/// A gradient of src in strict f32 of at most 4 channels.
bool has_few_channels(
        const convolution_problem &problem, const compile_options &options);

/// Whether planes are so small that most of gpu_few_channels' lanes have nothing to do.
bool leaves_lanes_idle(const convolution_problem &problem);

} // namespace gradnn::gpu
