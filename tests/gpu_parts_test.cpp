// The parts of a convolution are the convolution: every set of them is carried out
// by plain loops and compared with the problem's formula. Needs no GPU.
#include <algorithm>
#include <array>
#include <string>

#include <gtest/gtest.h>

#include "gpu/convolution/operands.hpp"
#include "gpu/convolution/parts.hpp"
#include "support/plain_convolution.hpp"

namespace gradnn::test {
namespace {

constexpr std::array<bool, 3> all_axes {true, true, true};

TEST(convolution_parts, refuse_too_many) {
    convolution_problem p = plain_problem(data_type::f32, order::nxc, 1);
    p.direction = convolution_direction::backward_data;
    p.strides = {1, 2, 2};
    p.dst.dims[3] = p.dst.dims[4] = 4;
    EXPECT_EQ(gpu::parts_of(p, true, all_axes, 3).refusal,
            "takes up to 3 parts (of groups and strides), given 4");
    EXPECT_EQ(gpu::parts_of(p, true, all_axes, 4).refusal, "");
}

// A dilation that shares a divisor with the stride leaves positions without taps.
TEST(convolution_parts, leaves_positions_without_taps) {
    convolution_problem p = plain_problem(data_type::f32, order::nxc, 1);
    p.direction = convolution_direction::backward_data;
    p.dst.dims[3] = p.dst.dims[4] = 4;
    for (const int64_t dilation : {2, 3}) {
        p.strides = {1, 2, 2};
        p.dilations = {1, dilation, dilation};
        const auto made = gpu::parts_of(p, true, all_axes, 32);
        EXPECT_EQ(made.zeros, dilation == 2);
        EXPECT_EQ(made.parts.size(), dilation == 2 ? 1U : 4U);
        for (const auto &part : made.parts)
            EXPECT_EQ(part.problem.dilations[1], dilation == 2 ? 1 : 3);
    }
}

/// No more than one position of dst lies beside src, as convolution.cudnn requires.
bool strays(const convolution_problem &p, size_t axis) {
    const int64_t span = (p.weights.dims[3 + axis] - 1) * p.dilations[axis];
    const int64_t pad = p.pads_begin[axis];
    return pad > span + 1
            || p.dst.dims[2 + axis] - 1 - pad >= p.src.dims[2 + axis] + 1;
}

TEST(convolution_parts, compute_the_problem) {
    const uint64_t seed = test_seed(20261123);
    SCOPED_TRACE("GRADNN_TEST_SEED=" + std::to_string(seed));
    random_source random(seed);
    size_t tried = 0;
    size_t with_zeros = 0;
    for (int round = 0; round < 8000; ++round) {
        convolution_problem p = random_problem(random);
        for (size_t axis = 0; axis < 3; ++axis)
            if (p.src.dims[2 + axis] != 1 && random.integer(0, 1) == 1) {
                p.strides[axis] = random.integer(1, 6);
                p.dilations[axis] = random.integer(1, 6);
            }
        const bool groups = random.integer(0, 1) == 1;
        std::array<bool, 3> axes {};
        for (bool &axis : axes)
            axis = random.integer(0, 3) != 0;
        const auto made = gpu::parts_of(p, groups, axes, 32);
        if (!made.refusal.empty()) continue;
        if (made.parts.size() < 2 && !made.zeros) continue;
        const bool to_src = p.direction == convolution_direction::backward_data;
        const size_t output = gpu::output_of(p.direction);
        const std::array<data_type, 3> types {
                p.src.type, p.weights.type, p.dst.type};
        const auto by_parts = [&](std::array<memory, 3> &data) {
            if (made.zeros)
                for_each(p.src.dims, [&](const auto &i) {
                    data[0][static_cast<size_t>(dot(i, p.src.strides))] = 0.0;
                });
            for (const auto &part : made.parts) {
                EXPECT_TRUE(!groups || part.problem.weights.dims[0] == 1);
                for (size_t a = 0; to_src && a < 3; ++a) {
                    if (!axes[a] || p.strides[a] == 1) continue;
                    EXPECT_EQ(part.problem.strides[a], 1);
                    EXPECT_FALSE(strays(part.problem, a));
                }
                std::array<memory, 3> slices;
                std::array<int64_t, 3> begin {};
                for (size_t i = 0; i < 3; ++i) {
                    begin[i] = part.offsets[i] / detail::size_of(types[i]);
                    slices[i].assign(data[i].begin() + begin[i], data[i].end());
                }
                by_formula(part.problem, output, slices);
                std::copy(slices[output].begin(), slices[output].end(),
                        data[output].begin() + begin[output]);
            }
        };
        ASSERT_TRUE(computes(p, output, random, by_parts)) << "round " << round;
        ++tried;
        if (made.zeros) ++with_zeros;
    }
    EXPECT_GT(tried, 2000U);
    EXPECT_GT(with_zeros, 500U);
}

/// Elements of a tensor, gaps included.
template <typename View>
int64_t extent_of(const View &view) {
    int64_t last = 0;
    for (size_t i = 0; i < view.dims.size(); ++i)
        last += (view.dims[i] - 1) * view.strides[i];
    return last + 1;
}

/// What was seen.
struct tally {
    size_t tried = 0;
    size_t with_zeros = 0;
    size_t sums = 0;
    std::array<size_t, 3> ways {}; ///< images, channels, slabs
};

void compute_in_slices(
        const convolution_problem &p, random_source &random, tally &seen) {
    const int64_t most_elements = random.integer(1, 400);
    const auto fits = [&](const convolution_problem &part) {
        return std::max(extent_of(part.src), extent_of(part.dst))
                <= most_elements;
    };
    constexpr size_t most = 20;
    const bool may_be_sums = random.integer(0, 1) == 1;
    const auto made = detail::slices_of(p, most, fits, may_be_sums);
    ASSERT_LE(made.parts.size(), most);
    if (made.parts.size() == 1 && !made.zeros) {
        ASSERT_EQ(made.parts.front().offsets, (std::array<int64_t, 3> {}));
        return;
    }
    const size_t output = gpu::output_of(p.direction);
    const std::array<data_type, 3> types {
            p.src.type, p.weights.type, p.dst.type};
    const auto by_slices = [&](std::array<memory, 3> &data) {
        if (made.zeros)
            for_each(p.src.dims, [&](const auto &i) {
                data[0][static_cast<size_t>(dot(i, p.src.strides))] = 0.0;
            });
        memory sums;
        for (const auto &part : made.parts) {
            EXPECT_TRUE(fits(part.problem));
            std::array<memory, 3> slices;
            std::array<int64_t, 3> begin {};
            for (size_t i = 0; i < 3; ++i) {
                begin[i] = part.offsets[i] / detail::size_of(types[i]);
                slices[i].assign(data[i].begin() + begin[i], data[i].end());
            }
            by_formula(part.problem, output, slices);
            if (made.sums) {
                EXPECT_EQ(part.problem.weights.dims, p.weights.dims);
                sums.resize(slices[output].size());
                for_each(p.weights.dims, [&](const auto &i) {
                    const auto at
                            = static_cast<size_t>(dot(i, p.weights.strides));
                    sums[at] += slices[output][at];
                });
            } else
                std::copy(slices[output].begin(), slices[output].end(),
                        data[output].begin() + begin[output]);
        }
        if (made.sums)
            for_each(p.weights.dims, [&](const auto &i) {
                const auto at = static_cast<size_t>(dot(i, p.weights.strides));
                data[output][at] = sums[at];
            });
    };
    ASSERT_TRUE(computes(p, output, random, by_slices));
    ++seen.tried;
    if (made.zeros) ++seen.with_zeros;
    if (made.sums) ++seen.sums;
    const convolution_problem &first = made.parts.front().problem;
    seen.ways[0] += first.src.dims[0] != p.src.dims[0] ? 1 : 0;
    seen.ways[1] += first.weights.dims != p.weights.dims ? 1 : 0;
    seen.ways[2] += first.weights.dims == p.weights.dims
                    && first.src.dims[0] == p.src.dims[0]
            ? 1
            : 0;
}

TEST(convolution_slices, compute_the_problem) {
    const uint64_t seed = test_seed(20261128);
    SCOPED_TRACE("GRADNN_TEST_SEED=" + std::to_string(seed));
    random_source random(seed);
    tally seen;
    for (int round = 0; round < 20000; ++round) {
        convolution_problem p = random_problem(random);
        SCOPED_TRACE(round);
        for (size_t axis = 0; axis < 3; ++axis)
            if (p.src.dims[2 + axis] != 1 && random.integer(0, 3) == 0) {
                p.strides[axis] = random.integer(1, 5);
                p.dilations[axis] = random.integer(1, 4);
                p.pads_begin[axis] = random.integer(-3, 5);
            }
        compute_in_slices(p, random, seen);
        if (HasFatalFailure()) return;
    }
    EXPECT_GT(seen.tried, 1500U);
    EXPECT_GT(seen.with_zeros, 10U);
    EXPECT_GT(seen.sums, 100U);
    for (const size_t way : seen.ways)
        EXPECT_GT(way, 100U);
}

/// A gradient of src of 16 bits with copies of both tensors of at most 1 GiB.
bool has_room(const convolution_problem &p) {
    int64_t src = 1;
    int64_t dst = 1;
    for (size_t i = 0; i < 5; ++i) {
        src *= p.src.dims[i];
        dst *= p.dst.dims[i];
    }
    return src + dst <= int64_t {1} << 29;
}

// Slices of 8 channels would leave most of each tile empty.
TEST(convolution_slices, keep_channels_that_fill_a_tile) {
    convolution_problem p = plain_problem(data_type::bf16, order::ncx, 1);
    p.direction = convolution_direction::backward_data;
    p.src.dims = {1, 256, 5, 1090, 1922};
    p.dst.dims = {1, 64, 3, 1088, 1920};
    p.weights.dims = {1, 64, 256, 3, 3, 3};
    p.pads_begin = {0, 0, 0};
    const auto slabs = detail::slices_of(p, 64, has_room);
    EXPECT_EQ(slabs.parts.size(), 6U);
    for (const auto &part : slabs.parts)
        EXPECT_EQ(part.problem.weights.dims, p.weights.dims);
    // Of a gradient of more channels, 64 and more at a time.
    p.src.dims = {1, 1024, 2, 400, 1000};
    p.dst.dims = {1, 4, 2, 400, 1000};
    p.weights.dims = {1, 4, 1024, 1, 1, 1};
    const auto channels = detail::slices_of(p, 64, has_room);
    EXPECT_EQ(channels.parts.size(), 2U);
    EXPECT_EQ(channels.parts.front().problem.weights.dims[2], 512);
    // Where no slabs fit, any number of channels.
    const auto few = detail::slices_of(p, 64, [](const auto &part) {
        return part.src.dims[1] <= 16 && part.src.dims[3] == 400;
    });
    EXPECT_EQ(few.parts.size(), 64U);
}

// What is there in one piece, and what no slices make fit.
TEST(convolution_slices, leave_it_whole) {
    const convolution_problem p = plain_problem(data_type::f32, order::nxc, 1);
    for (const bool fit : {true, false}) {
        const auto made = detail::slices_of(
                p, 8, [&](const convolution_problem &) { return fit; });
        ASSERT_EQ(made.parts.size(), 1U);
        EXPECT_EQ(made.parts[0].problem.src.dims, p.src.dims);
        EXPECT_FALSE(made.zeros);
    }
}

} // namespace
} // namespace gradnn::test
