// Gradients of weights in f32 of bf16 or f16 data, on tensor cores.
//
// Each product is exact in f32 (but beyond its range), each sum is f32's own:
// wide_weights_mma.cuh says where the sums are kept,
// implicit_gemm.cpp has the plan.
#include <cstdint>

#include "gpu/convolution/implicit_gemm/implicit_gemm.hpp"
#include "gpu/kernels.hpp"

namespace gradnn::gpu {

namespace wide_weights {

namespace {

using detail::data_type;
using implicit_gemm::operation;

template <operation Operation, int Space, int Rows, int Columns>
constexpr implicit_gemm::tile row(int resident, double efficiency) {
    return implicit_gemm::tile_of<implicit_gemm::arithmetic::wide_weights,
            Operation, Space, Rows, Columns>(resident, efficiency);
}

// The blocks that a multiprocessor holds follow from their registers and their
// shared memory, the shares of the rate from measurements on an H200
// (convolutions of bench/cases.json). Tiles of 64x128 and 128x64, with 255
// registers a thread, were slower than one of these two everywhere.
constexpr implicit_gemm::tile tiles[] = {
        row<operation::weights, 2, 128, 128>(1, 1.0),
        row<operation::weights, 2, 64, 64>(3, 0.56),
        row<operation::weights, 3, 128, 128>(1, 0.71),
        row<operation::weights, 3, 64, 64>(3, 0.45),
};

/// A chain adds up its k tiles as that of convolution.gpu_tf32x3 does, by f32
/// additions that round, so that the error follows from their number alone: 256
/// are off by 4e-7, 4096 by 1.6e-6.
constexpr implicit_gemm::tile_set set_of(data_type input) {
    return {.kernel = "convolution.gpu_wide_weights",
            .types = {input, data_type::f32},
            .tiles = tiles,
            .terms = 64,
            // Of the 2048 that the tensor cores of an H200 can do.
            .rate = 720.0,
            // What cuDNN would run is a tenth as fast: its strict f32 kernels,
            // on widened copies.
            .least_useful = 0.05,
            .longest_chain = 256,
            .longest_possible_chain = 4096};
}

} // namespace

} // namespace wide_weights

plan_or_refusal make_convolution_wide_weights(
        const convolution_problem &problem, const compile_options &options) {
    using detail::data_type;
    const data_type input = problem.src.type;
    if (problem.direction != detail::convolution_direction::backward_weights
            || problem.weights.type != data_type::f32
            || problem.dst.type != input
            || (input != data_type::bf16 && input != data_type::f16))
        return plan_or_refusal::refuse(
                "takes gradients of weights in f32 of bf16 or f16 data");
    return implicit_gemm::make_plan(
            wide_weights::set_of(input), problem, options);
}

} // namespace gradnn::gpu
