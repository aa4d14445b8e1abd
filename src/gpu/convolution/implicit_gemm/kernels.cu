// The kernels of the list that are implicit GEMMs: the tiles of each arithmetic
// and what bounds them. This source alone includes CUTLASS.
#include "gpu/convolution/implicit_gemm/kernel.cuh"
#include "gpu/kernels.hpp"
#include "kernel/problem_text.hpp"

namespace gradnn::gpu::implicit_gemm {

namespace {

using detail::data_type;

using enum operation;

/// The blocks that a multiprocessor holds follow from registers and shared memory.
template <typename Arithmetic, operation Operation, int Space, int Rows,
        int Columns>
constexpr tile tile_of(int resident, double efficiency) {
    return {Operation, Space, Rows, Columns, resident, efficiency,
            make_of<Arithmetic, Operation, Space, Rows, Columns>};
}

/// Strict f32, each product as three TF32 products, each sum in f32, as exact as
/// f32 products and sums: tf32x3_split.hpp says how a number is split and what
/// becomes of infinities.
///
/// The shares of the rate are measured on an H200 (convolutions of bench/cases.json).
constexpr tile tf32x3_tiles[] = {
        tile_of<tf32x3, forward, 2, 128, 128>(1, 1.0),
        tile_of<tf32x3, forward, 2, 128, 64>(2, 0.93),
        tile_of<tf32x3, forward, 2, 64, 64>(3, 0.91),
        tile_of<tf32x3, forward, 2, 128, 32>(3, 0.82),
        tile_of<tf32x3, strided_data, 2, 128, 64>(2, 0.86),
        tile_of<tf32x3, weights, 2, 128, 128>(1, 0.86),
        tile_of<tf32x3, weights, 2, 64, 64>(2, 0.72),
        tile_of<tf32x3, weights, 2, 32, 128>(2, 0.6),
        tile_of<tf32x3, forward, 3, 128, 64>(2, 0.88),
        tile_of<tf32x3, forward, 3, 128, 32>(3, 0.7),
        tile_of<tf32x3, weights, 3, 64, 128>(2, 0.59),
        tile_of<tf32x3, weights, 3, 32, 128>(2, 0.43),
};

/// 4096 k tiles in one chain are off by 1.6e-6: the error grows with the root of their
/// number.
constexpr tile_set tf32x3_set {.kernel = "convolution.gpu_tf32x3",
        .types = all_of(data_type::f32),
        .tiles = tf32x3_tiles,
        .terms = 16,
        .rate = 466.0 / 3.0, // of TF32 products
        .least_useful = 0.2, // terms of 3 channels on an H200 have 0.19
        .longest_chain = 4096};

/// f64, products and sums as IEEE's fused multiply-add rounds them. The shares of the rate are
/// guesses by the instructions of a k tile beside those of the tensor cores: gathering src for
/// a gradient of weights takes the most.
constexpr tile f64_tiles[] = {
        tile_of<f64, forward, 2, 128, 128>(1, 1.0),
        tile_of<f64, forward, 2, 128, 64>(1, 0.9),
        tile_of<f64, forward, 2, 64, 64>(3, 0.85),
        tile_of<f64, forward, 2, 128, 32>(2, 0.7),
        tile_of<f64, strided_data, 2, 128, 64>(1, 0.85),
        tile_of<f64, weights, 2, 128, 128>(1, 0.85),
        tile_of<f64, weights, 2, 64, 128>(1, 0.65),
        tile_of<f64, weights, 2, 64, 64>(2, 0.6),
        tile_of<f64, forward, 3, 128, 128>(1, 0.95),
        tile_of<f64, forward, 3, 128, 64>(1, 0.8),
        tile_of<f64, weights, 3, 128, 128>(1, 0.75),
        tile_of<f64, weights, 3, 64, 128>(1, 0.45),
};

constexpr tile_set f64_set {.kernel = "convolution.gpu_f64",
        .types = all_of(data_type::f64),
        .tiles = f64_tiles,
        .terms = 16,
        // Three quarters of what the tensor cores of an H200 can do.
        .rate = 100.0,
        // cuDNN takes 4.7 times as long in the mean of 55 gradients of a larger share (H200).
        .least_useful = 0.05,
        .longest_chain = 768};

/// Gradients of weights of bf16 or f16 data, in f32 or in the data's type. Each product
/// is exact in f32 (but beyond its range), each sum is f32's own.
///
/// The shares of the rate are measured on an H200 (convolutions of bench/cases.json), where
/// tiles of 64x128 and 128x64, with 255 registers a thread, were slower.
constexpr tile wide_weights_tiles[] = {
        tile_of<wide_weights, weights, 2, 128, 128>(1, 1.0),
        tile_of<wide_weights, weights, 2, 64, 64>(3, 0.56),
        tile_of<wide_weights, weights, 3, 128, 128>(1, 0.71),
        tile_of<wide_weights, weights, 3, 64, 64>(3, 0.45),
        // Products for convolution.gpu_col2im.
        tile_of<wide_weights, forward, 2, 128, 128>(1, 1.0),
        tile_of<wide_weights, forward, 2, 64, 64>(3, 0.56),
        tile_of<wide_weights, forward, 2, 128, 32>(3, 0.5),
};

/// A chain adds up its k tiles as that of tf32x3 does, with the same errors.
constexpr tile_set wide_weights_set(const element_types &types) {
    return {.kernel = "convolution.gpu_wide_weights",
            .types = types,
            .tiles = wide_weights_tiles,
            .terms = 64,
            // Of the 2048 that the tensor cores of an H200 can do.
            .rate = 720.0,
            // In f32 what cuDNN would run is a tenth as fast: its strict f32
            // kernels, on widened copies.
            .least_useful = 0.05,
            .longest_chain = 4096};
}

} // namespace

plan_or_refusal make_tf32x3(const detail::fused_convolution &problem,
        const compile_options &options) {
    if (options.fpmath != fpmath_mode::strict)
        return plan_or_refusal::refuse(
                "takes fpmath_mode strict, given a relaxed one");
    return make_plan(tf32x3_set, problem, options);
}

plan_or_refusal make_f64(const detail::fused_convolution &problem,
        const compile_options &options) {
    return make_plan(f64_set, problem, options);
}

plan_or_refusal make_wide_weights(
        const convolution_problem &problem, const compile_options &options) {
    const data_type input = problem.src.type;
    if (problem.direction != detail::convolution_direction::backward_weights
            || detail::size_of(input) != 2)
        return detail::refuse(
                "gradients of weights of bf16 or f16 data", problem);
    const element_types types {input,
            problem.weights.type == data_type::f32 ? data_type::f32 : input};
    return make_plan(wide_weights_set(types), {problem}, options);
}

const tile_set *products_of(data_type type, fpmath_mode fpmath) {
    static constexpr tile_set of_bf16
            = wide_weights_set({data_type::bf16, data_type::f32});
    static constexpr tile_set of_f16
            = wide_weights_set({data_type::f16, data_type::f32});
    switch (type) {
        case data_type::f64: return &f64_set;
        case data_type::bf16: return &of_bf16;
        case data_type::f16: return &of_f16;
        default: return fpmath == fpmath_mode::strict ? &tf32x3_set : nullptr;
    }
}

} // namespace gradnn::gpu::implicit_gemm
