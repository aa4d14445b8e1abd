// convolution.gpu_col2im on the CPU: copies and the product by plain loops, the kernel
// that adds what comes of it executed (emulated/simt.hpp). Random problems against the
// formula. Needs no GPU.
#include "emulated/simt.hpp"

#include <gtest/gtest.h>

#include "gpu/convolution/col2im/sum_kernel.cuh"
#include "gpu/convolution/implicit_gemm/implicit_gemm.hpp"
#include "gpu/device/rounding.hpp"
#include "support/plain_convolution.hpp"

namespace gradnn::test {
namespace {

using gpu::col2im::product_taps;
using gpu::col2im::window_axis;
using gpu::implicit_gemm::dense_mapping;

// Every axis against the definition, with strides and dilations that have divisors in
// common, and pads that crop.
TEST(Col2im, FindsTheTapsOfAPosition) {
    random_source random(test_seed(20261126));
    size_t met = 0;
    for (int round = 0; round < 20000; ++round) {
        convolution_problem p;
        p.src.dims[2] = random.integer(1, 30);
        p.dst.dims[2] = random.integer(1, 12);
        p.weights.dims[3] = random.integer(1, 9);
        p.strides[0] = random.integer(1, 7);
        p.dilations[0] = random.integer(1, 7);
        p.pads_begin[0] = random.integer(-4, 12);
        const window_axis axis(p, 0);
        for (int64_t x = 0; x < axis.src; ++x) {
            const auto taps = axis.taps_of(x);
            int64_t found = 0;
            for (int64_t k = 0; k < axis.window; ++k) {
                const int64_t at = x + p.pads_begin[0] - k * p.dilations[0];
                if (at < 0 || at % p.strides[0] != 0
                        || at / p.strides[0] >= axis.dst)
                    continue;
                ASSERT_EQ(k, taps.first + found * axis.step);
                ASSERT_EQ(at / p.strides[0], taps.position - found * axis.back);
                ++found;
            }
            ASSERT_EQ(found, taps.count) << "x = " << x;
            met += static_cast<size_t>(found);
        }
    }
    EXPECT_GT(met, 100000U);
}

/// What lies where the kernels read an input.
memory brought(const gpu::convolution_operand &operand, const memory &callers) {
    if (!operand.staged) return callers;
    memory staged(operand.bytes / sizeof(double),
            operand.zero_first ? 0.0 : std::nan(""));
    copy(operand.copy, callers.data(), staged.data());
    return staged;
}

template <int Held>
void add(const gpu::col2im::problem_shape &shape,
        const std::vector<product_taps> &taps, int64_t images,
        const memory &products, double *diff_src) {
    using namespace gpu::col2im;
    const int64_t threads = images * shape.threads_of_image;
    for (int64_t index = 0; index < gpu::ceil_div(threads, int64_t {block});
            ++index)
        emulated::block::run(
                static_cast<unsigned>(index), block, index % 2 == 0, [&] {
                    add_products_kernel<double, Held>(shape, taps.data(),
                            threads, products.data(), diff_src);
                });
}

void by_col2im(const convolution_problem &problem, const dense_mapping &mapping,
        std::array<memory, 3> &data) {
    const auto &p = mapping.problem;
    const memory weights = brought(mapping.operands[1], data[1]);
    const memory dst = brought(mapping.operands[2], data[2]);
    memory products(static_cast<size_t>(p.output_elements()));
    for (int64_t row = 0; row < p.n * p.dst[2]; ++row)
        for (int64_t column = 0; column < p.k; ++column) {
            double &product = products[static_cast<size_t>(row * p.k + column)];
            for (int64_t o = 0; o < p.c; ++o)
                product += dst[static_cast<size_t>(row * p.c + o)]
                        * weights[static_cast<size_t>(column * p.c + o)];
        }
    const gpu::convolution_operand &out = mapping.operands[0];
    std::vector<product_taps> taps;
    const auto shape = gpu::col2im::shape_of(problem, p.k,
            out.staged ? gpu::dense_channels_last(problem.src) : problem.src,
            taps);
    memory staged(out.bytes / sizeof(double), std::nan(""));
    double *const to = out.staged ? staged.data() : data[0].data();
    switch (gpu::col2im::held_channels(problem.src.dims[1], sizeof(double))) {
        case 1: add<1>(shape, taps, p.n, products, to); break;
        case 2: add<2>(shape, taps, p.n, products, to); break;
        default: add<3>(shape, taps, p.n, products, to); break;
    }
    if (out.staged) copy(out.copy, staged.data(), data[0].data());
}

TEST(Col2im, ComputesTheProblem) {
    const uint64_t seed = test_seed(20261127);
    SCOPED_TRACE("GRADNN_TEST_SEED=" + std::to_string(seed));
    random_source random(seed);
    size_t tried = 0;
    for (int round = 0; round < 4000; ++round) {
        convolution_problem p = random_problem(random);
        p.src.type = p.weights.type = p.dst.type = data_type::f64;
        p.direction = convolution_direction::backward_data;
        std::string refusal;
        const bool in_place = gpu::col2im::writes_in_place(p.src);
        const auto mapping = gpu::implicit_gemm::products_mapping_of(p,
                gpu::implicit_gemm::all_of(data_type::f64), in_place, refusal);
        EXPECT_EQ(mapping.has_value(), refusal.empty());
        if (!mapping) continue;
        ASSERT_TRUE(computes(p, 0, random,
                [&](auto &data) { by_col2im(p, *mapping, data); }))
                << "round " << round;
        ++tried;
    }
    EXPECT_GT(tried, 500U);
}

} // namespace
} // namespace gradnn::test
