// Convolution in f64 on tensor cores, forward and backward: products and sums
// as IEEE's fused multiply-add rounds them. f64_mma.cuh has the
// instruction, implicit_gemm.cpp the plan.

#include "gpu/convolution/implicit_gemm/implicit_gemm.hpp"
#include "gpu/kernels.hpp"

namespace gradnn::gpu {

namespace f64 {

namespace {

using implicit_gemm::operation;

template <operation Operation, int Space, int Rows, int Columns>
constexpr implicit_gemm::tile row(int resident, double efficiency) {
    return implicit_gemm::tile_of<implicit_gemm::arithmetic::f64, Operation,
            Space, Rows, Columns>(resident, efficiency);
}

// The blocks that a multiprocessor holds follow from their registers. The
// shares of the rate are guesses by the instructions of a k tile beside those
// of the tensor cores: gathering src for a gradient of weights takes the most.
constexpr implicit_gemm::tile tiles[] = {
        row<operation::forward, 2, 128, 128>(1, 1.0),
        row<operation::forward, 2, 128, 64>(1, 0.9),
        row<operation::forward, 2, 64, 64>(3, 0.85),
        row<operation::forward, 2, 128, 32>(2, 0.7),
        row<operation::strided_data, 2, 128, 64>(1, 0.85),
        row<operation::weights, 2, 128, 128>(1, 0.85),
        row<operation::weights, 2, 64, 128>(1, 0.65),
        row<operation::weights, 2, 64, 64>(2, 0.6),
        row<operation::forward, 3, 128, 128>(1, 0.95),
        row<operation::forward, 3, 128, 64>(1, 0.8),
        row<operation::weights, 3, 128, 128>(1, 0.75),
        row<operation::weights, 3, 64, 128>(1, 0.45),
};

/// Chains of 4096 terms where a slice costs little, of 12288 in all cases.
constexpr implicit_gemm::tile_set set {.kernel = "convolution.gpu_f64",
        .types = implicit_gemm::all_of(detail::data_type::f64),
        .tiles = tiles,
        .terms = 16,
        // Three quarters of what the tensor cores of an H200 can do.
        .rate = 100.0,
        .least_useful = 0.15, // columns of 3 channels on an H200 have 0.13
        .longest_chain = 256,
        .longest_possible_chain = 768};

} // namespace

} // namespace f64

plan_or_refusal make_convolution_f64(
        const convolution_problem &problem, const compile_options &options) {
    return implicit_gemm::make_plan(f64::set, problem, options);
}

} // namespace gradnn::gpu
