// What rules (measured_*.cpp) and estimates ask of a convolution.
#pragma once

#include <initializer_list>

#include "gpu/convolution/makers.hpp"

namespace gradnn::gpu {

double rounded_up(int64_t count, int64_t multiple);

double elements_of(const detail::tensor_view &tensor);

bool is_of_weights(const convolution_problem &problem);

bool is_to_src(const convolution_problem &problem);

/// Whether src and dst have neighbouring channels, or one.
bool are_channels_last(const convolution_problem &problem);

/// Whether these axes follow each other without gaps, the innermost first.
bool are_dense(
        const detail::tensor_view &tensor, std::initializer_list<size_t> axes);

int64_t positions_of(const detail::tensor_view &tensor);

/// Of one group, a window of one point: a product of matrices where they lie.
bool is_matrix_product(const convolution_problem &problem);

/// Terms of a sum that is no gradient of weights.
int64_t terms_of_data(const convolution_problem &problem);

/// Up to which cuDNN's sums of that kind are trusted, in strict f32 and in f64: in f32 18,432
/// terms are 2.4e-6 off in norm, 2e-6 is promised.
constexpr int64_t most_cudnn_terms(detail::data_type type) {
    return type == detail::data_type::f64 ? 65536 : 12288;
}

} // namespace gradnn::gpu
