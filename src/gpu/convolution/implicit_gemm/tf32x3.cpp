// Convolution in strict f32 on tensor cores, forward and backward: each
// product as three TF32 products, each sum in f32.
//
// As exact as f32 products and sums: tf32x3_split.hpp says how a
// number is split and what becomes of infinities, tf32x3_mma.cuh
// where the sums are kept; implicit_gemm.cpp has the plan.
#include "gpu/convolution/implicit_gemm/implicit_gemm.hpp"
#include "gpu/kernels.hpp"

namespace gradnn::gpu {

namespace tf32x3 {

namespace {

using implicit_gemm::operation;

template <operation Operation, int Space, int Rows, int Columns>
constexpr implicit_gemm::tile row(int resident, double efficiency) {
    return implicit_gemm::tile_of<implicit_gemm::arithmetic::tf32x3, Operation,
            Space, Rows, Columns>(resident, efficiency);
}

// The blocks that a multiprocessor holds follow from their registers, the
// shares of the rate from measurements on an H200 (convolutions of
// bench/cases.json). Tiles that gained next to nothing there are left out:
// strided_data_128x128, and weights_64x128, which spills registers.
constexpr implicit_gemm::tile tiles[] = {
        row<operation::forward, 2, 128, 128>(1, 1.0),
        row<operation::forward, 2, 128, 64>(2, 0.93),
        row<operation::forward, 2, 64, 64>(3, 0.91),
        row<operation::forward, 2, 128, 32>(3, 0.82),
        row<operation::strided_data, 2, 128, 64>(2, 0.86),
        row<operation::weights, 2, 128, 128>(1, 0.86),
        row<operation::weights, 2, 64, 64>(2, 0.72),
        row<operation::weights, 2, 32, 128>(2, 0.6),
        row<operation::forward, 3, 128, 64>(2, 0.88),
        row<operation::forward, 3, 128, 32>(3, 0.7),
        row<operation::weights, 3, 64, 128>(2, 0.59),
        row<operation::weights, 3, 32, 128>(2, 0.43),
};

/// 256 k tiles in one chain are off by 4e-7, 4096 by 1.6e-6: the error grows
/// with the root of their number.
constexpr implicit_gemm::tile_set set {.kernel = "convolution.gpu_tf32x3",
        .types = implicit_gemm::all_of(detail::data_type::f32),
        .tiles = tiles,
        .terms = 16,
        .rate = 466.0 / 3.0, // of TF32 products
        .least_useful = 0.2, // terms of 3 channels on an H200 have 0.19
        .longest_chain = 256,
        .longest_possible_chain = 4096};

} // namespace

} // namespace tf32x3

plan_or_refusal make_convolution_tf32x3(
        const convolution_problem &problem, const compile_options &options) {
    if (options.fpmath != fpmath_mode::strict)
        return plan_or_refusal::refuse(
                "serves fpmath_mode strict; others allow faster kernels");
    return implicit_gemm::make_plan(tf32x3::set, problem, options);
}

} // namespace gradnn::gpu
