// What cuDNN is asked to compute is the problem: every arrangement is carried
// out by plain loops, copies included, and compared with the problem's formula.
// Needs no GPU.
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "gpu/convolution/cudnn/arrangement.hpp"
#include "gpu/convolution/operands.hpp"
#include "support/plain_convolution.hpp"

namespace gradnn::test {
namespace {

using gpu::cudnn::described_tensor;
using gpu::cudnn::problem_arrangement;

/// Dims or strides with a depth, as cuDNN was told of them.
std::array<int64_t, 5> deep(
        const std::array<int64_t, 5> &list, size_t rank, int64_t depth) {
    if (rank == 5) return list;
    return {list[0], list[1], depth, list[2], list[3]};
}

std::array<int64_t, 3> deep(
        const std::array<int64_t, 3> &list, size_t space, int64_t depth) {
    if (space == 3) return list;
    return {depth, list[0], list[1]};
}

std::string copies_of(const problem_arrangement &a) {
    const std::string copies = gpu::copies_of(a.operands);
    return a.widened && !copies.empty() ? copies + " as f32" : copies;
}

/// What execute does with an arrangement, with loops in cuDNN's place. Both
/// sides of src are checked to be padded enough.
void by_arrangement(const convolution_problem &p, const problem_arrangement &a,
        std::array<memory, 3> &data) {
    const size_t output = a.output();
    std::array<memory, 3> staged;
    std::array<double *, 3> seen {};
    for (size_t i = 0; i < 3; ++i) {
        const gpu::convolution_operand &operand = a.operands[i];
        seen[i] = data[i].data();
        if (!operand.staged) continue;
        const auto size = static_cast<int64_t>(detail::size_of(a.seen[i].type));
        EXPECT_EQ(
                operand.bytes, static_cast<size_t>(a.seen[i].extent() * size));
        const bool fill = i != output && operand.zero_first;
        staged[i].assign(static_cast<size_t>(a.seen[i].extent()),
                fill ? 0.0 : std::nan(""));
        seen[i] = staged[i].data();
        if (i != output)
            copy(operand.copy,
                    data[i].data()
                            + operand.callers_start
                                    / detail::size_of(operand.copy.src_type),
                    staged[i].data() + operand.staged_start / size);
    }
    const auto dims_of
            = [&](size_t i) { return deep(a.seen[i].dims, a.seen[i].rank, 1); };
    const auto strides_of = [&](size_t i) {
        return deep(a.seen[i].strides, a.seen[i].rank, 0);
    };
    const loops all {p.weights.dims[0], dims_of(0), dims_of(1), dims_of(2),
            deep(a.strides, a.space, 1), deep(a.dilations, a.space, 1),
            deep(a.pads, a.space, 0)};
    for (size_t axis = 0; axis < 3; ++axis) {
        EXPECT_GE(all.pads[axis], 0);
        const int64_t window
                = (all.weights[2 + axis] - 1) * all.dilations[axis] + 1;
        EXPECT_EQ((all.src[2 + axis] + 2 * all.pads[axis] - window)
                                / all.strides[axis]
                        + 1,
                all.dst[2 + axis]);
    }
    // As with beta = 0: every element is written.
    for_each(dims_of(output), [&](const auto &index) {
        seen[output][dot(index, strides_of(output))] = 0.0;
    });
    all.run([&](const auto &x, const auto &w, const auto &y) {
        accumulate(p.direction, seen[0][dot(x, strides_of(0))],
                seen[1][dot(w, strides_of(1))], seen[2][dot(y, strides_of(2))]);
    });
    const gpu::convolution_operand &result = a.operands[output];
    if (!result.staged) return;
    const double zero = 0.0;
    gpu::strided_copy fill = result.fill;
    fill.src_strides = {};
    if (result.zero_first) copy(fill, &zero, data[output].data());
    copy(result.copy,
            staged[output].data()
                    + result.staged_start
                            / detail::size_of(result.copy.src_type),
            data[output].data()
                    + result.callers_start
                            / detail::size_of(result.copy.dst_type));
}

TEST(cudnn_arrangement, every_way_computes_the_problem) {
    const uint64_t seed = test_seed(20261121);
    SCOPED_TRACE("GRADNN_TEST_SEED=" + std::to_string(seed));
    random_source random(seed);
    size_t tried = 0;
    for (int round = 0; round < 3000; ++round) {
        const convolution_problem p = random_problem(random);
        const auto arrangements = gpu::cudnn::arrangements_of(p);
        if (arrangements.empty()) continue; // src and its windows never meet
        for (const problem_arrangement &a : arrangements) {
            ASSERT_TRUE(computes(p, a.output(), random,
                    [&](auto &data) { by_arrangement(p, a, data); }))
                    << "round " << round << ", " << copies_of(a);
            ++tried;
        }
    }
    EXPECT_GT(tried, 5000U);
}

TEST(cudnn_arrangement, copies_no_more_of_src_than_taps_meet) {
    const uint64_t seed = test_seed(20261126);
    SCOPED_TRACE("GRADNN_TEST_SEED=" + std::to_string(seed));
    random_source random(seed);
    size_t tried = 0;
    for (int round = 0; round < 1000; ++round) {
        const convolution_problem p = random_with_passed_over(random);
        const auto met = gpu::of_met_positions(p);
        if (detail::size_of(p.src.type) == 2) {
            EXPECT_FALSE(met); // slower
        }
        if (!met) continue;
        for (const problem_arrangement &a : gpu::cudnn::arrangements_of(p)) {
            if (!a.operands[0].staged) continue;
            const auto dims = deep(a.seen[0].dims, a.seen[0].rank, 1);
            for (size_t axis = 0; axis < 3; ++axis)
                if (met->strides[axis] != p.strides[axis]) {
                    EXPECT_EQ(dims[2 + axis], p.dst.dims[2 + axis]);
                }
            ASSERT_TRUE(computes(p, a.output(), random,
                    [&](auto &data) { by_arrangement(p, a, data); }))
                    << "round " << round << ", " << copies_of(a);
            ++tried;
        }
    }
    EXPECT_GT(tried, 500U);
}

TEST(cudnn_arrangement, takes_dense_layouts_as_they_are) {
    for (const auto &[o, weights] :
            {std::pair(order::ncx, 0), std::pair(order::nxc, 1)}) {
        const auto ways = gpu::cudnn::arrangements_of(
                plain_problem(data_type::f32, o, weights));
        ASSERT_FALSE(ways.empty());
        EXPECT_EQ(ways.front().staged_bytes, 0U);
        EXPECT_EQ(copies_of(ways.front()), "");
        EXPECT_EQ(ways.front().space, 2);
        EXPECT_EQ(ways.front().pads[0], 1);
    }
}

// A stride, which has no effect there, makes pads of both ends the caller's, but only
// where src then is read in place.
TEST(cudnn_arrangement, pads_of_one_position_are_the_callers) {
    const auto first_way = [](int64_t size, int64_t pad, int64_t channels,
                                   order data) {
        convolution_problem p = plain_problem(data_type::f16, data, 1);
        p.direction = convolution_direction::backward_data;
        p.src.dims[1] = p.weights.dims[2] = channels;
        p.dst.dims[1] = p.weights.dims[1] = channels;
        for (size_t axis : {1U, 2U}) {
            p.src.dims[2 + axis] = size;
            p.weights.dims[3 + axis] = 3;
            p.dst.dims[2 + axis] = 1;
            p.pads_begin[axis] = pad;
            p.strides[axis] = p.dilations[axis] = 1;
        }
        p.src.strides = data_strides(p.src.dims, data);
        p.weights.strides = weights_strides(p.weights.dims, 1);
        p.dst.strides = data_strides(p.dst.dims, data);
        return gpu::cudnn::arrangements_of(p).front();
    };
    const problem_arrangement small = first_way(2, 1, 64, order::nxc);
    EXPECT_FALSE(small.operands[0].staged);
    EXPECT_EQ(small.pads[0], 1);
    EXPECT_EQ(small.strides[0], 2);
    EXPECT_FALSE(first_way(8, 0, 64, order::nxc).operands[0].staged);
    // Copied all the same: cropped to the window, and nothing else is copied.
    for (const auto &[size, pad, channels, data] :
            {std::tuple(8, 0, 67, order::ncx),
                    std::tuple(8, -2, 64, order::nxc),
                    std::tuple(8, 0, 64, order::ncx)}) {
        const problem_arrangement way = first_way(size, pad, channels, data);
        EXPECT_TRUE(way.operands[0].staged);
        EXPECT_EQ(way.seen[0].dims[2], 3);
        EXPECT_EQ(way.strides[0], 1);
    }
    EXPECT_FALSE(first_way(8, 0, 67, order::nxc).operands[2].staged);
}

TEST(cudnn_arrangement, copies_no_more_than_the_weights_of_xio) {
    const auto ways = gpu::cudnn::arrangements_of(
            plain_problem(data_type::f32, order::nxc, 2));
    ASSERT_FALSE(ways.empty());
    EXPECT_EQ(copies_of(ways.front()), "weights copied");
}

// 16-bit kernels of cuDNN's like NXC; but a 1x1 convolution of NCX is a product
// of matrices, good where their rows begin at multiples of 16 bytes.
TEST(cudnn_arrangement, copies_sixteen_bits_of_ncx) {
    const auto first = [](const convolution_problem &p) {
        const auto ways = gpu::cudnn::arrangements_of(p);
        return ways.empty() ? "none" : copies_of(ways.front());
    };
    EXPECT_EQ(first(plain_problem(data_type::bf16, order::ncx, 0)),
            "src, weights, dst copied");
    const auto product = [&](int64_t width) {
        convolution_problem p = plain_problem(data_type::bf16, order::ncx, 0);
        p.weights.dims = {1, 16, 16, 1, 1, 1};
        p.src.dims = p.dst.dims = {4, 16, 1, 8, width};
        p.pads_begin = {0, 0, 0};
        p.src.strides = p.dst.strides = data_strides(p.src.dims, order::ncx);
        p.weights.strides = weights_strides(p.weights.dims, 0);
        return p;
    };
    EXPECT_EQ(first(product(9)), "");
    convolution_problem odd = product(9);
    odd.src.dims[3] = odd.dst.dims[3] = 7;
    odd.src.strides = odd.dst.strides = data_strides(odd.src.dims, order::ncx);
    EXPECT_NE(first(odd), "");
}

TEST(cudnn_arrangement, widens_sixteen_bits_last) {
    const auto ways = gpu::cudnn::arrangements_of(
            plain_problem(data_type::bf16, order::nxc, 1));
    ASSERT_GT(ways.size(), 1U);
    EXPECT_FALSE(ways.front().widened);
    EXPECT_TRUE(ways.back().widened);
    EXPECT_EQ(copies_of(ways.back()), "src, weights, dst copied as f32");
}

/// A problem of 16 bits with so many channels.
convolution_problem with_channels(convolution_problem p, int64_t src,
        int64_t dst, order src_order, order dst_order) {
    p.src.dims[1] = p.weights.dims[2] = src;
    p.dst.dims[1] = p.weights.dims[1] = dst;
    p.src.strides = data_strides(p.src.dims, src_order);
    p.dst.strides = data_strides(p.dst.dims, dst_order);
    p.weights.strides = weights_strides(p.weights.dims, 1);
    return p;
}

// Copies of 16 bits have channels in whole 16 bytes, unless much would be zeros. What
// could be read in place is copied for gradients of weights and of strided src alone.
TEST(cudnn_arrangement, fills_channels_of_copies) {
    convolution_problem problem = plain_problem(data_type::bf16, order::ncx, 0);
    problem.direction = convolution_direction::backward_data;
    const auto channels_of = [&](int64_t src, int64_t dst, order src_order,
                                     order dst_order) {
        const auto ways = gpu::cudnn::arrangements_of(
                with_channels(problem, src, dst, src_order, dst_order));
        const auto &operands = ways.front().operands;
        const auto &seen = ways.front().seen;
        EXPECT_EQ(seen[1].dims[1], seen[0].dims[1]);
        EXPECT_EQ(seen[1].dims[0], seen[2].dims[1]);
        // An output is written whole.
        if (problem.direction == convolution_direction::backward_data) {
            EXPECT_FALSE(operands[0].zero_first);
            EXPECT_EQ(operands[2].zero_first, seen[2].dims[1] != dst);
        }
        return std::pair(seen[0].dims[1], seen[2].dims[1]);
    };
    using pair = std::pair<int64_t, int64_t>;
    const auto ncx = order::ncx, nxc = order::nxc;
    EXPECT_EQ(channels_of(67, 131, ncx, ncx), pair(72, 136));
    EXPECT_EQ(channels_of(64, 21, ncx, ncx), pair(64, 24));
    EXPECT_EQ(channels_of(64, 128, ncx, ncx), pair(64, 128));
    EXPECT_EQ(channels_of(3, 64, ncx, ncx), pair(3, 64));
    EXPECT_EQ(channels_of(3, 131, ncx, ncx), pair(8, 136));
    EXPECT_EQ(channels_of(3, 19, ncx, ncx), pair(3, 19));
    EXPECT_EQ(channels_of(67, 131, nxc, nxc), pair(67, 131));
    EXPECT_EQ(channels_of(67, 131, ncx, nxc), pair(67, 131));
    EXPECT_EQ(channels_of(67, 128, ncx, nxc), pair(72, 128));
    problem.strides[2] = 2;
    EXPECT_EQ(channels_of(67, 131, nxc, nxc), pair(72, 136));
    problem.strides[2] = 1;
    problem.direction = convolution_direction::backward_weights;
    EXPECT_EQ(channels_of(67, 131, nxc, nxc), pair(72, 136));
    EXPECT_EQ(channels_of(67, 131, ncx, nxc), pair(72, 136));
    EXPECT_EQ(channels_of(3, 131, nxc, nxc), pair(8, 136));
    EXPECT_EQ(channels_of(3, 64, nxc, nxc), pair(3, 64));
}

TEST(cudnn_arrangement, filled_channels_compute_the_problem) {
    const uint64_t seed = test_seed(20261125);
    SCOPED_TRACE("GRADNN_TEST_SEED=" + std::to_string(seed));
    random_source random(seed);
    const std::vector<order> orders {order::ncx, order::nxc, order::sliced};
    size_t filled = 0;
    for (int round = 0; round < 1000; ++round) {
        convolution_problem p = random_problem(random);
        if (p.src.type != data_type::bf16) continue;
        p.weights.dims[0] = 1;
        p = with_channels(p, random.integer(5, 8), random.integer(6, 9),
                random.pick(orders), random.pick(orders));
        const auto arrangements = gpu::cudnn::arrangements_of(p);
        if (arrangements.empty()) continue;
        for (const problem_arrangement &a : arrangements) {
            ASSERT_TRUE(computes(p, a.output(), random,
                    [&](auto &data) { by_arrangement(p, a, data); }))
                    << "round " << round << ", " << copies_of(a);
            if (a.seen[0].dims[1] != p.src.dims[1]
                    || a.seen[2].dims[1] != p.dst.dims[1])
                ++filled;
        }
    }
    EXPECT_GT(filled, 20U);
}

TEST(cudnn_arrangement, tells_of_shapes_beyond_a_grid) {
    const auto exceeds = [](const std::array<int64_t, 5> &src_dims,
                                 int64_t groups) {
        convolution_problem p;
        p.direction = convolution_direction::backward_data;
        p.src.type = p.dst.type = p.weights.type = data_type::f32;
        p.src.dims = p.dst.dims = src_dims;
        const auto &d = src_dims;
        p.src.strides = {d[1] * d[2] * d[3] * d[4], d[2] * d[3] * d[4],
                d[3] * d[4], d[4], 1};
        p.dst.strides = p.src.strides;
        p.weights.dims = {groups, d[1] / groups, d[1] / groups, 1, 1, 1};
        p.weights.strides = {p.weights.dims[1] * p.weights.dims[2],
                p.weights.dims[2], 1, 0, 0, 0};
        const auto found = gpu::cudnn::arrangements_of(p);
        return !found.empty() && found.front().exceeds_a_grid();
    };
    EXPECT_FALSE(exceeds({65535, 8, 1, 2, 2}, 1));
    EXPECT_TRUE(exceeds({65536, 8, 1, 2, 2}, 1));
    EXPECT_FALSE(exceeds({8191, 16, 1, 2, 2}, 8));
    EXPECT_TRUE(exceeds({8192, 16, 1, 2, 2}, 8)) << "images times groups";
    EXPECT_TRUE(exceeds({1, 8, 1, 65536, 2}, 1)) << "rows";
    EXPECT_FALSE(exceeds({1, 8, 1, 1, 65536}, 1)) << "columns";
}

TEST(cudnn_arrangement, leaves_huge_tensors_to_others) {
    convolution_problem p = plain_problem(data_type::f32, order::nxc, 1);
    p.src.dims[0] = p.dst.dims[0] = int64_t {1} << 24;
    p.src.strides = data_strides(p.src.dims, order::nxc);
    p.dst.strides = data_strides(p.dst.dims, order::nxc);
    EXPECT_TRUE(gpu::cudnn::arrangements_of(p).empty());
}

} // namespace
} // namespace gradnn::test
