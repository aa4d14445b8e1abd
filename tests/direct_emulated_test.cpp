// convolution.gpu_direct on the CPU: its kernels executed (emulated/simt.hpp), under
// AddressSanitizer, in random problems of all directions, against the formula. Needs no
// GPU.
#include "emulated/simt.hpp"

#include <gtest/gtest.h>

#include "gpu/convolution/direct/kernels.cuh"
#include "gpu/convolution/direct/parts.cuh"
#include "gpu/convolution/operands.hpp"
#include "support/plain_convolution.hpp"

namespace gradnn::gpu::direct {
alignas(16) double direct_shared[1024];
} // namespace gradnn::gpu::direct

namespace gradnn::test {
namespace {

namespace direct = gpu::direct;

/// One block goes over all that a grid would.
void run(bool descending, const std::function<void()> &kernel) {
    emulated::block::run(0, direct::threads, descending, kernel);
}

template <typename Type>
std::vector<Type> narrowed(const memory &values) {
    return std::vector<Type>(values.begin(), values.end());
}

/// By indices of a type; `long_sums` of data.
template <typename Type, typename Index>
void by_direct(const convolution_problem &p, bool long_sums,
        const direct::weights_cut &cut, std::array<memory, 3> &data) {
    auto src = narrowed<Type>(data[0]);
    auto weights = narrowed<Type>(data[1]);
    auto dst = narrowed<Type>(data[2]);
    auto shape = direct::shape_of<Index>(p);
    if (cut.parts % 4 == 0) shape.table = 0; // as of long axes
    const bool descending = cut.parts % 2 == 0;
    switch (p.direction) {
        case convolution_direction::forward:
            run(descending, [&] {
                const auto kernel = long_sums
                        ? direct::gather_kernel<Type, true, gpu::long_sum,
                                Index>
                        : direct::gather_kernel<Type, true, direct::plain_sum,
                                Index>;
                kernel(src.data(), weights.data(), dst.data(), shape);
            });
            data[2].assign(dst.begin(), dst.end());
            break;
        case convolution_direction::backward_data:
            run(descending, [&] {
                const auto kernel = long_sums
                        ? direct::gather_kernel<Type, false, gpu::long_sum,
                                Index>
                        : direct::gather_kernel<Type, false, direct::plain_sum,
                                Index>;
                kernel(dst.data(), weights.data(), src.data(), shape);
            });
            data[0].assign(src.begin(), src.end());
            break;
        case convolution_direction::backward_weights: {
            ASSERT_EQ(cut.taps * cut.channels, shape.count);
            std::vector<Type> partials(
                    static_cast<size_t>(shape.count * cut.parts), std::nan(""));
            run(descending, [&] {
                direct::weights_kernel<Type, Index>(
                        src.data(), dst.data(), partials.data(), shape, cut);
            });
            run(descending, [&] {
                direct::parts_kernel<Type, Type, Index>(
                        partials.data(), weights.data(), shape, cut);
            });
            data[1].assign(weights.begin(), weights.end());
            break;
        }
    }
}

TEST(Direct, ComputesTheProblem) {
    const uint64_t seed = test_seed(20261128);
    SCOPED_TRACE("GRADNN_TEST_SEED=" + std::to_string(seed));
    random_source random(seed);
    size_t lanes = 0;
    for (int round = 0; round < 240; ++round) {
        convolution_problem p = random_problem(random);
        constexpr convolution_direction directions[]
                = {convolution_direction::forward,
                        convolution_direction::backward_data,
                        convolution_direction::backward_weights};
        p.direction = directions[round % 3];
        if (round % 24 == 5) {
            // Each thread has several positions; some channels in all lanes.
            p.src.dims[0] = p.dst.dims[0] = random.integer(200, 600);
            lay_out(p, random);
        }
        const size_t output = gpu::output_of(p.direction);
        direct::weights_cut cut = direct::cut_weights(p, 132);
        ASSERT_GE(cut.parts, 1);
        cut.parts = random.integer(1, 4);
        lanes += cut.lanes > 1 ? 1 : 0;
        ASSERT_TRUE(direct::is_small(p));
        // Whole numbers, whose sums f32 holds.
        std::array<memory, 3> found = random_data(p, output, random);
        for (size_t input = 0; input < 3; ++input)
            if (input != output)
                for (double &value : found[input])
                    value = std::round(8 * value);
        std::array<memory, 3> expected = found;
        by_formula(p, output, expected);
        const bool long_sums = round % 4 < 2;
        if (round % 2 == 0)
            by_direct<float, int32_t>(p, long_sums, cut, found);
        else
            by_direct<double, int64_t>(p, long_sums, cut, found);
        ASSERT_TRUE(same(found[output], expected[output])) << "round " << round;
    }
    EXPECT_GT(lanes, 20U);
}

// Where 32 bits do not hold all offsets and counts, of memory that nobody touches here.
TEST(Direct, KnowsWhat32BitsHold) {
    convolution_problem p = plain_problem(data_type::f32, order::nxc, 0);
    EXPECT_TRUE(direct::is_small(p));
    p.src.strides[0] = int64_t {1} << 30;
    p.src.dims[0] = p.dst.dims[0] = 2;
    EXPECT_FALSE(direct::is_small(p));
    p = plain_problem(data_type::f32, order::nxc, 0);
    p.src.strides[3] = 0; // expanded
    p.src.dims[3] = int64_t {1} << 31;
    EXPECT_FALSE(direct::is_small(p));
    p = plain_problem(data_type::f32, order::nxc, 0);
    p.pads_begin[2] = int64_t {1} << 30;
    EXPECT_FALSE(direct::is_small(p));
    p = plain_problem(data_type::f32, order::nxc, 0);
    p.dilations[1] = int64_t {1} << 29;
    EXPECT_FALSE(direct::is_small(p));
}

} // namespace
} // namespace gradnn::test
