// convolution.gpu_col2im on the CPU: copies and the product by plain loops, the kernel
// that adds what comes of it executed (emulated/simt.hpp). Random problems against the
// formula. Needs no GPU.
#include "emulated/simt.hpp"

#include <gtest/gtest.h>

#include "gpu/convolution/col2im/cut.hpp"
#include "gpu/convolution/col2im/sum_kernel.cuh"
#include "gpu/device/rounding.hpp"
#include "support/plain_convolution.hpp"

namespace gradnn::test {
namespace {

using gpu::col2im::product_taps;
using gpu::col2im::window_axis;
using gpu::implicit_gemm::dense_mapping;

// Every axis against the definition, with strides and dilations that have divisors in
// common, and pads that crop.
TEST(col2im, finds_the_taps_of_a_position) {
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
    memory staged(operand.bytes
                    / static_cast<size_t>(
                            detail::size_of(operand.copy.dst_type)),
            operand.zero_first ? 0.0 : std::nan(""));
    copy(operand.copy, callers.data(), staged.data());
    return staged;
}

/// Runs the kernel for sums of a type on what plain loops computed.
template <typename Type, int Held>
void add(const gpu::col2im::problem_shape &shape,
        const std::vector<product_taps> &taps, int64_t images,
        const std::vector<Type> &products, Type *diff_src) {
    using namespace gpu::col2im;
    const int64_t threads = images * shape.threads_of_image;
    for (int64_t index = 0; index < gpu::ceil_div(threads, int64_t {block});
            ++index)
        emulated::block::run(
                static_cast<unsigned>(index), block, index % 2 == 0, [&] {
                    add_products_kernel<Type, Held>(shape, taps.data(), threads,
                            products.data(), diff_src);
                });
}

template <typename Type>
void add(int held, const gpu::col2im::problem_shape &shape,
        const std::vector<product_taps> &taps, int64_t images,
        const std::vector<Type> &products, Type *diff_src) {
    switch (held) {
        case 1: return add<Type, 1>(shape, taps, images, products, diff_src);
        case 2: return add<Type, 2>(shape, taps, images, products, diff_src);
        case 3: return add<Type, 3>(shape, taps, images, products, diff_src);
        default:
            if constexpr (sizeof(Type) == 4)
                add<Type, 4>(shape, taps, images, products, diff_src);
    }
}

/// The products of so many images from the first one's.
template <typename Type>
std::vector<Type> multiply(const dense_mapping &mapping, int64_t first,
        int64_t images, const memory &dst, const memory &weights) {
    const auto &p = mapping.problem;
    std::vector<Type> products;
    for (int64_t row = first * p.dst[2]; row < (first + images) * p.dst[2];
            ++row)
        for (int64_t column = 0; column < p.k; ++column) {
            double product = 0;
            for (int64_t o = 0; o < p.c; ++o)
                product += dst[static_cast<size_t>(row * p.c + o)]
                        * weights[static_cast<size_t>(column * p.c + o)];
            products.push_back(static_cast<Type>(product));
        }
    return products;
}

/// In one portion of images and the rest.
template <typename Type>
void by_col2im(const convolution_problem &problem, const dense_mapping &mapping,
        int64_t portion, std::array<memory, 3> &data) {
    const memory weights = brought(mapping.operands[1], data[1]);
    const memory dst = brought(mapping.operands[2], data[2]);
    const gpu::convolution_operand &out = mapping.operands[0];
    std::vector<product_taps> taps;
    const auto shape = gpu::col2im::shape_of(problem, mapping.problem.k,
            out.staged ? gpu::dense_channels_last(problem.src) : problem.src,
            taps);
    const memory &whole = data[0];
    std::vector<Type> written(
            out.staged ? out.bytes / sizeof(Type) : whole.size());
    if (!out.staged) std::copy(whole.begin(), whole.end(), written.begin());
    const int held = gpu::col2im::held_channels(
            problem.src.dims[1], static_cast<int64_t>(sizeof(Type)));
    for (int64_t n = 0; n < mapping.problem.n; n += portion) {
        const int64_t images = std::min(portion, mapping.problem.n - n);
        add(held, shape, taps, images,
                multiply<Type>(mapping, n, images, dst, weights),
                written.data() + n * shape.strides[0]);
    }
    const memory found(written.begin(), written.end());
    if (out.staged)
        copy(out.copy, found.data(), data[0].data());
    else
        data[0] = found;
}

/// A gradient of src of one group, of up to 12 channels.
convolution_problem random_gradient(random_source &random, data_type type) {
    convolution_problem p = random_problem(random);
    p.src.type = p.weights.type = p.dst.type = type;
    p.direction = convolution_direction::backward_data;
    p.weights.dims[0] = 1;
    p.src.dims[1] = p.weights.dims[2] = random.integer(1, 12);
    p.dst.dims[1] = p.weights.dims[1];
    lay_out(p, random);
    return p;
}

TEST(col2im, computes_the_problem) {
    const uint64_t seed = test_seed(20261127);
    SCOPED_TRACE("GRADNN_TEST_SEED=" + std::to_string(seed));
    random_source random(seed);
    size_t staged = 0;
    size_t in_place = 0;
    for (int round = 0; round < 1500; ++round) {
        const data_type type = round % 2 == 0 ? data_type::f32 : data_type::f64;
        const convolution_problem p = random_gradient(random, type);
        std::string refusal;
        const auto mapping = gpu::implicit_gemm::products_mapping_of(p,
                gpu::implicit_gemm::all_of(type),
                gpu::col2im::writes_in_place(p.src), refusal);
        ASSERT_TRUE(mapping) << refusal;
        ++(mapping->operands[0].staged ? staged : in_place);
        const int64_t portion = random.integer(1, p.src.dims[0]);
        // Whole numbers, whose sums f32 holds.
        std::array<memory, 3> found = random_data(p, 0, random);
        for (const size_t input : {1U, 2U})
            for (double &value : found[input])
                value = std::round(8 * value);
        std::array<memory, 3> expected = found;
        by_formula(p, 0, expected);
        if (type == data_type::f32)
            by_col2im<float>(p, *mapping, portion, found);
        else
            by_col2im<double>(p, *mapping, portion, found);
        ASSERT_TRUE(same(found[0], expected[0])) << "round " << round;
    }
    EXPECT_GT(staged, 200U);
    EXPECT_GT(in_place, 200U);
}

} // namespace
} // namespace gradnn::test
