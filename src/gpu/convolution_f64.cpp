// Convolution in f64 on tensor cores, forward and backward: products and sums
// as IEEE's fused multiply-add rounds them. convolution_f64_mma.cuh has the
// instruction, convolution_implicit_gemm.cpp the plan.
#include <limits>

#include "gpu/convolution_f64.hpp"
#include "gpu/kernels.hpp"

namespace gradnn::gpu {

namespace f64 {

namespace {

// The blocks that a multiprocessor holds follow from their registers. The
// shares of the rate are guesses by the instructions of a k tile beside those
// of the tensor cores: gathering src for a gradient of weights takes the most.
constexpr implicit_gemm::tile tiles[] = {
        {"forward_128x128", operation::forward, 2, 128, 128, 1, 1.0,
                make_forward_128x128},
        {"forward_128x64", operation::forward, 2, 128, 64, 1, 0.9,
                make_forward_128x64},
        {"forward_64x64", operation::forward, 2, 64, 64, 3, 0.85,
                make_forward_64x64},
        {"forward_128x32", operation::forward, 2, 128, 32, 2, 0.7,
                make_forward_128x32},
        {"strided_data_128x64", operation::strided_data, 2, 128, 64, 1, 0.85,
                make_strided_data_128x64},
        {"weights_128x128", operation::weights, 2, 128, 128, 1, 0.85,
                make_weights_128x128},
        {"weights_64x128", operation::weights, 2, 64, 128, 1, 0.65,
                make_weights_64x128},
        {"weights_64x64", operation::weights, 2, 64, 64, 2, 0.6,
                make_weights_64x64},
        {"forward_3d_128x128", operation::forward, 3, 128, 128, 1, 0.95,
                make_forward_3d_128x128},
        {"forward_3d_128x64", operation::forward, 3, 128, 64, 1, 0.8,
                make_forward_3d_128x64},
        {"weights_3d_128x128", operation::weights, 3, 128, 128, 1, 0.75,
                make_weights_3d_128x128},
        {"weights_3d_64x128", operation::weights, 3, 64, 128, 1, 0.45,
                make_weights_3d_64x128},
};

constexpr int64_t any_chain = std::numeric_limits<int64_t>::max();

constexpr implicit_gemm::tile_set set {.kernel = "convolution.gpu_f64",
        .types = implicit_gemm::all_of(detail::data_type::f64),
        .tiles = tiles,
        .terms = 16,
        // Three quarters of what the tensor cores of an H200 can do.
        .rate = 100.0,
        .least_useful = 0.2, // 3 channels on an H200
        .longest_chain = any_chain,
        .longest_possible_chain = any_chain};

} // namespace

} // namespace f64

plan_or_refusal make_convolution_f64(
        const convolution_problem &problem, const compile_options &options) {
    return implicit_gemm::make_plan(f64::set, problem, options);
}

} // namespace gradnn::gpu
