// What cuDNN and the kernels of the implicit GEMM are asked to compute is
// the problem: every arrangement, and every set of parts, is carried out by
// plain loops, copies included, and compared with the problem's formula. Needs
// no GPU.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "gpu/convolution_implicit_gemm.hpp"
#include "gpu/convolution_operands.hpp"
#include "gpu/convolution_parts.hpp"
#include "gpu/cudnn_arrangement.hpp"
#include "support/random.hpp"

namespace {

using gradnn::detail::convolution_direction;
using gradnn::detail::convolution_problem;
using gradnn::detail::data_type;
using gradnn::gpu::convolution_operand;
using gradnn::gpu::convolution_operands;
using gradnn::gpu::cudnn_arrangement;
using gradnn::gpu::cudnn_operand;
using gradnn::gpu::cudnn_tensor;
using gradnn::gpu::strided_copy;
using gradnn::gpu::implicit_gemm::all_of;
using gradnn::gpu::implicit_gemm::dense_mapping_of;
using gradnn::gpu::implicit_gemm::element_types;
using gradnn::test::random_source;

using memory = std::vector<double>;

/// Calls body with every index below dims.
template <size_t Rank, typename Body>
void for_each(const std::array<int64_t, Rank> &dims, const Body &body) {
    std::array<int64_t, Rank> index {};
    for (;;) {
        body(index);
        size_t axis = Rank;
        while (axis > 0 && ++index[axis - 1] == dims[axis - 1])
            index[--axis] = 0;
        if (axis == 0) return;
    }
}

template <size_t Rank>
int64_t dot(const std::array<int64_t, Rank> &a,
        const std::array<int64_t, Rank> &b) {
    return std::inner_product(a.begin(), a.end(), b.begin(), int64_t {0});
}

void copy(const strided_copy &c, const double *src, double *dst) {
    for_each(c.dims, [&](const std::array<int64_t, 6> &i) {
        dst[dot(i, c.dst_strides)] = src[dot(i, c.src_strides)];
    });
}

/// Adds up one convolution; where each element lies is said by `at`, and
/// `pads`, the loops' bounds, by dims of [N or O, C, D, H, W].
struct loops {
    int64_t groups;
    std::array<int64_t, 5> src, weights, dst; ///< dims; weights[0] is all O
    std::array<int64_t, 3> strides, dilations, pads;

    template <typename Visit>
    void run(const Visit &visit) const {
        const int64_t outputs = weights[0] / groups;
        for_each(dst, [&](const std::array<int64_t, 5> &y) {
            for_each(
                    std::array {weights[1], weights[2], weights[3], weights[4]},
                    [&](const std::array<int64_t, 4> &k) {
                        std::array<int64_t, 5> x {
                                y[0], y[1] / outputs * weights[1] + k[0]};
                        for (size_t a = 0; a < 3; ++a) {
                            x[2 + a] = y[2 + a] * strides[a] - pads[a]
                                    + k[1 + a] * dilations[a];
                            if (x[2 + a] < 0 || x[2 + a] >= src[2 + a]) return;
                        }
                        visit(x,
                                std::array<int64_t, 5> {
                                        y[1], k[0], k[1], k[2], k[3]},
                                y);
                    });
        });
    }
};

void accumulate(
        convolution_direction direction, double &x, double &w, double &y) {
    switch (direction) {
        case convolution_direction::forward: y += x * w; break;
        case convolution_direction::backward_data: x += y * w; break;
        case convolution_direction::backward_weights: w += x * y; break;
    }
}

template <size_t Rank>
size_t extent(const std::array<int64_t, Rank> &dims,
        const std::array<int64_t, Rank> &strides) {
    int64_t last = 0;
    for (size_t axis = 0; axis < Rank; ++axis)
        last += (dims[axis] - 1) * strides[axis];
    return static_cast<size_t>(last + 1);
}

/// Of the three tensors, in the order of the problem's arguments.
void zero_elements(
        const convolution_problem &p, size_t tensor, memory &values) {
    if (tensor == 1) {
        for_each(p.weights.dims, [&](const auto &i) {
            values[static_cast<size_t>(dot(i, p.weights.strides))] = 0.0;
        });
        return;
    }
    const auto &view = tensor == 0 ? p.src : p.dst;
    for_each(view.dims, [&](const auto &i) {
        values[static_cast<size_t>(dot(i, view.strides))] = 0.0;
    });
}

/// What the problem's own formula gives, in the caller's memory.
void by_formula(const convolution_problem &p, size_t output,
        std::array<memory, 3> &data) {
    zero_elements(p, output, data[output]);
    loops all {p.weights.dims[0], p.src.dims, {}, p.dst.dims, p.strides,
            p.dilations, p.pads_begin};
    all.weights = {p.weights.dims[0] * p.weights.dims[1], p.weights.dims[2],
            p.weights.dims[3], p.weights.dims[4], p.weights.dims[5]};
    all.run([&](const auto &x, const auto &w, const auto &y) {
        const std::array<int64_t, 6> grouped {w[0] / p.weights.dims[1],
                w[0] % p.weights.dims[1], w[1], w[2], w[3], w[4]};
        accumulate(p.direction,
                data[0][static_cast<size_t>(dot(x, p.src.strides))],
                data[1][static_cast<size_t>(dot(grouped, p.weights.strides))],
                data[2][static_cast<size_t>(dot(y, p.dst.strides))]);
    });
}

/// Dims or strides with a depth, as cuDNN was told of them.
std::array<int64_t, 5> deep(
        const std::array<int64_t, 5> &list, int rank, int64_t depth) {
    if (rank == 5) return list;
    return {list[0], list[1], depth, list[2], list[3]};
}

std::array<int64_t, 3> deep(
        const std::array<int64_t, 3> &list, int space, int64_t depth) {
    if (space == 3) return list;
    return {depth, list[0], list[1]};
}

/// What execute does with an arrangement, with loops in cuDNN's place. Both
/// sides of src are checked to be padded enough.
void by_arrangement(const convolution_problem &p, const cudnn_arrangement &a,
        std::array<memory, 3> &data) {
    const size_t output = a.output();
    std::array<memory, 3> staged;
    std::array<double *, 3> seen {};
    for (size_t i = 0; i < 3; ++i) {
        const cudnn_operand &operand = a.operands[i];
        seen[i] = data[i].data();
        if (!operand.staged) continue;
        const auto size = static_cast<int64_t>(
                gradnn::detail::size_of(operand.seen.type));
        EXPECT_EQ(operand.bytes,
                static_cast<size_t>(operand.seen.extent() * size));
        const bool fill = i != output && operand.zero_first;
        staged[i].assign(static_cast<size_t>(operand.seen.extent()),
                fill ? 0.0 : std::nan(""));
        seen[i] = staged[i].data();
        if (i != output)
            copy(operand.copy,
                    data[i].data()
                            + operand.callers_start
                                    / gradnn::detail::size_of(
                                            operand.copy.src_type),
                    staged[i].data() + operand.staged_start / size);
    }
    const auto dims_of = [&](size_t i) {
        return deep(a.operands[i].seen.dims, a.operands[i].seen.rank, 1);
    };
    const auto strides_of = [&](size_t i) {
        return deep(a.operands[i].seen.strides, a.operands[i].seen.rank, 0);
    };
    const loops all {p.weights.dims[0], dims_of(0), dims_of(1), dims_of(2),
            deep(a.strides, a.space, 1), deep(a.dilations, a.space, 1),
            deep(a.pads_begin, a.space, 0)};
    for (size_t axis = 0; axis < 3; ++axis) {
        const auto end = deep(a.pads_end, a.space, 0)[axis];
        EXPECT_GE(all.pads[axis], 0);
        EXPECT_GE(end, 0);
        const int64_t window
                = (all.weights[2 + axis] - 1) * all.dilations[axis] + 1;
        EXPECT_EQ((all.src[2 + axis] + all.pads[axis] + end - window)
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
    const cudnn_operand &result = a.operands[output];
    if (!result.staged) return;
    const double zero = 0.0;
    if (result.zero_first) copy(result.fill, &zero, data[output].data());
    copy(result.copy,
            staged[output].data()
                    + result.staged_start
                            / gradnn::detail::size_of(result.copy.src_type),
            data[output].data()
                    + result.callers_start
                            / gradnn::detail::size_of(result.copy.dst_type));
}

/// Whether all elements are those of the formula; not, with the first that
/// differs.
testing::AssertionResult same(const memory &found, const memory &expected) {
    if (found.size() != expected.size())
        return testing::AssertionFailure()
                << found.size() << " elements, not " << expected.size();
    for (size_t i = 0; i < found.size(); ++i)
        if (!(std::abs(found[i] - expected[i]) <= 1e-12))
            return testing::AssertionFailure()
                    << "element " << i << " is " << found[i] << ", not "
                    << expected[i];
    return testing::AssertionSuccess();
}

enum class order { ncx, nxc, sliced };

template <size_t Rank>
std::array<int64_t, Rank> strides_in(const std::array<int64_t, Rank> &dims,
        std::vector<size_t> outer_to_inner, int64_t gap) {
    std::array<int64_t, Rank> strides {};
    int64_t next = 1;
    for (size_t i = outer_to_inner.size(); i-- > 0;) {
        strides[outer_to_inner[i]] = next;
        next *= dims[outer_to_inner[i]] + gap;
    }
    return strides;
}

std::array<int64_t, 5> data_strides(
        const std::array<int64_t, 5> &dims, order o) {
    if (o == order::nxc) return strides_in(dims, {0, 2, 3, 4, 1}, 0);
    return strides_in(dims, {0, 1, 2, 3, 4}, o == order::sliced ? 1 : 0);
}

std::array<int64_t, 6> weights_strides(
        const std::array<int64_t, 6> &dims, int how) {
    if (how == 0) return strides_in(dims, {0, 1, 2, 3, 4, 5}, 0); // OIX
    if (how == 1) return strides_in(dims, {0, 1, 3, 4, 5, 2}, 0); // OXI
    return strides_in(dims, {3, 4, 5, 2, 0, 1}, 0); // XIO
}

convolution_problem random_problem(random_source &random) {
    convolution_problem p;
    const int64_t n = random.integer(1, 2);
    const int64_t groups = random.integer(1, 3);
    const int64_t o = random.integer(1, 3);
    const int64_t i = random.integer(1, 3);
    p.src.dims = {n, groups * i, 1, 1, 1};
    p.dst.dims = {n, groups * o, 1, 1, 1};
    p.weights.dims = {groups, o, i, 1, 1, 1};
    const auto rank = static_cast<size_t>(random.integer(1, 3));
    for (size_t axis = 3 - rank; axis < 3; ++axis) {
        p.strides[axis] = random.integer(1, 3);
        p.dilations[axis] = random.integer(1, 2);
        p.pads_begin[axis] = random.integer(-1, 2);
        p.src.dims[2 + axis] = random.integer(1, 6);
        p.dst.dims[2 + axis] = random.integer(1, 5);
        p.weights.dims[3 + axis] = random.integer(1, 3);
    }
    const std::vector<data_type> types {
            data_type::f32, data_type::f64, data_type::bf16};
    const data_type type = random.pick(types);
    p.src.type = p.dst.type = p.weights.type = type;
    const std::vector<convolution_direction> directions {
            convolution_direction::forward,
            convolution_direction::backward_data,
            convolution_direction::backward_weights};
    p.direction = random.pick(directions);
    if (type == data_type::bf16
            && p.direction == convolution_direction::backward_weights
            && random.integer(0, 1) == 1)
        p.weights.type = data_type::f32;
    const std::vector<order> orders {order::ncx, order::nxc, order::sliced};
    p.src.strides = data_strides(p.src.dims, random.pick(orders));
    p.dst.strides = data_strides(p.dst.dims, random.pick(orders));
    p.weights.strides = weights_strides(
            p.weights.dims, static_cast<int>(random.integer(0, 2)));
    return p;
}

std::array<memory, 3> random_data(
        const convolution_problem &p, size_t output, random_source &random) {
    std::array<memory, 3> data {memory(extent(p.src.dims, p.src.strides)),
            memory(extent(p.weights.dims, p.weights.strides)),
            memory(extent(p.dst.dims, p.dst.strides))};
    for (size_t i = 0; i < 3; ++i)
        for (double &value : data[i])
            value = i == output ? 7.0 : random.value();
    return data;
}

TEST(CudnnArrangement, EveryWayComputesTheProblem) {
    const uint64_t seed = gradnn::test::test_seed(20261121);
    SCOPED_TRACE("GRADNN_TEST_SEED=" + std::to_string(seed));
    random_source random(seed);
    size_t tried = 0;
    for (int round = 0; round < 3000; ++round) {
        const convolution_problem p = random_problem(random);
        const auto arrangements = gradnn::gpu::cudnn_arrangements(p);
        if (arrangements.empty()) continue; // src and its windows never meet
        const size_t output = arrangements.front().output();
        const auto start = random_data(p, output, random);
        auto expected = start;
        by_formula(p, output, expected);
        for (const cudnn_arrangement &a : arrangements) {
            auto found = start;
            by_arrangement(p, a, found);
            ASSERT_TRUE(same(found[output], expected[output]))
                    << "round " << round << ", " << a.copies();
            ++tried;
        }
    }
    EXPECT_GT(tried, 5000U);
}

convolution_problem plain_problem(data_type type, order o, int weights) {
    convolution_problem p;
    p.direction = convolution_direction::backward_data;
    p.src = {type, {2, 8, 1, 12, 10}, {}};
    p.dst = {type, {2, 16, 1, 12, 10}, {}};
    p.weights = {type, {1, 16, 8, 1, 3, 3}, {}};
    p.pads_begin = {0, 1, 1};
    p.src.strides = data_strides(p.src.dims, o);
    p.dst.strides = data_strides(p.dst.dims, o);
    p.weights.strides = weights_strides(p.weights.dims, weights);
    return p;
}

TEST(CudnnArrangement, TakesDenseLayoutsAsTheyAre) {
    for (const auto &[o, weights] :
            {std::pair(order::ncx, 0), std::pair(order::nxc, 1)}) {
        const auto ways = gradnn::gpu::cudnn_arrangements(
                plain_problem(data_type::f32, o, weights));
        ASSERT_FALSE(ways.empty());
        EXPECT_EQ(ways.front().staged_bytes, 0U);
        EXPECT_EQ(ways.front().copies(), "");
        EXPECT_EQ(ways.front().space, 2);
        EXPECT_EQ(ways.front().pads_begin[0], 1);
        EXPECT_EQ(ways.front().pads_end[0], 1);
    }
}

TEST(CudnnArrangement, CopiesNoMoreThanTheWeightsOfXio) {
    const auto ways = gradnn::gpu::cudnn_arrangements(
            plain_problem(data_type::f32, order::nxc, 2));
    ASSERT_FALSE(ways.empty());
    EXPECT_EQ(ways.front().copies(), "weights copied");
}

// 16-bit kernels of cuDNN's like NXC; but a 1x1 convolution of NCX is a product
// of matrices, good where their rows begin at multiples of 16 bytes.
TEST(CudnnArrangement, CopiesSixteenBitsOfNcx) {
    const auto first = [](const convolution_problem &p) {
        const auto ways = gradnn::gpu::cudnn_arrangements(p);
        return ways.empty() ? "none" : ways.front().copies();
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

TEST(CudnnArrangement, WidensSixteenBitsLast) {
    const auto ways = gradnn::gpu::cudnn_arrangements(
            plain_problem(data_type::bf16, order::nxc, 1));
    ASSERT_GT(ways.size(), 1U);
    EXPECT_FALSE(ways.front().widened);
    EXPECT_TRUE(ways.back().widened);
    EXPECT_EQ(ways.back().copies(), "src, weights, dst copied as f32");
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

// Copies of 16 bits have channels in whole 16 bytes, unless many would be
// zeros or cuDNN reads a tensor where it lies.
TEST(CudnnArrangement, FillsChannelsOfCopies) {
    const auto channels_of = [](int64_t src, int64_t dst, order src_order,
                                     order dst_order) {
        const auto ways = gradnn::gpu::cudnn_arrangements(
                with_channels(plain_problem(data_type::bf16, order::ncx, 0),
                        src, dst, src_order, dst_order));
        const auto &operands = ways.front().operands;
        EXPECT_EQ(operands[1].seen.dims[1], operands[0].seen.dims[1]);
        EXPECT_EQ(operands[1].seen.dims[0], operands[2].seen.dims[1]);
        // An output is written whole.
        EXPECT_FALSE(operands[0].zero_first);
        EXPECT_EQ(operands[2].zero_first, operands[2].seen.dims[1] != dst);
        return std::pair(operands[0].seen.dims[1], operands[2].seen.dims[1]);
    };
    using pair = std::pair<int64_t, int64_t>;
    const auto ncx = order::ncx, nxc = order::nxc;
    EXPECT_EQ(channels_of(67, 131, ncx, ncx), pair(72, 136));
    EXPECT_EQ(channels_of(64, 21, ncx, ncx), pair(64, 24));
    EXPECT_EQ(channels_of(64, 128, ncx, ncx), pair(64, 128));
    EXPECT_EQ(channels_of(3, 64, ncx, ncx), pair(3, 64));
    EXPECT_EQ(channels_of(3, 131, ncx, ncx), pair(3, 131));
    EXPECT_EQ(channels_of(67, 131, nxc, nxc), pair(67, 131));
    EXPECT_EQ(channels_of(67, 131, ncx, nxc), pair(67, 131));
    EXPECT_EQ(channels_of(67, 128, ncx, nxc), pair(72, 128));
}

TEST(CudnnArrangement, FilledChannelsComputeTheProblem) {
    const uint64_t seed = gradnn::test::test_seed(20261125);
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
        const auto arrangements = gradnn::gpu::cudnn_arrangements(p);
        if (arrangements.empty()) continue;
        const size_t output = arrangements.front().output();
        const auto start = random_data(p, output, random);
        auto expected = start;
        by_formula(p, output, expected);
        for (const cudnn_arrangement &a : arrangements) {
            auto found = start;
            by_arrangement(p, a, found);
            ASSERT_TRUE(same(found[output], expected[output]))
                    << "round " << round << ", " << a.copies();
            if (a.operands[0].seen.dims[1] != p.src.dims[1]
                    || a.operands[2].seen.dims[1] != p.dst.dims[1])
                ++filled;
        }
    }
    EXPECT_GT(filled, 20U);
}

TEST(CudnnArrangement, LeavesHugeTensorsToOthers) {
    convolution_problem p = plain_problem(data_type::f32, order::nxc, 1);
    p.src.dims[0] = p.dst.dims[0] = int64_t {1} << 24;
    p.src.strides = data_strides(p.src.dims, order::nxc);
    p.dst.strides = data_strides(p.dst.dims, order::nxc);
    EXPECT_TRUE(gradnn::gpu::cudnn_arrangements(p).empty());
}

/// What execute does with a mapping, with loops in CUTLASS's place.
void by_mapping(const gradnn::gpu::implicit_gemm::dense_mapping &m,
        std::array<memory, 3> &data) {
    using gradnn::gpu::implicit_gemm::operation;
    const auto &p = m.problem;
    const int64_t input_size = gradnn::detail::size_of(p.types.input);
    EXPECT_EQ(p.c * input_size % 16, 0);
    EXPECT_EQ(p.k * input_size % 16, 0);
    const auto [first, second, output] = m.order;
    std::array<memory, 3> staged;
    std::array<double *, 3> seen {};
    for (const size_t i : {first, second, output}) {
        const auto &operand = m.operands[i];
        seen[i] = data[i].data();
        if (!operand.staged) continue;
        const bool fill = operand.zero_first;
        const data_type type = i == output ? p.types.output : p.types.input;
        EXPECT_EQ(operand.copy.src_type, type);
        EXPECT_EQ(operand.copy.dst_type, type);
        const int64_t element = gradnn::detail::size_of(type);
        staged[i].assign(operand.bytes / static_cast<size_t>(element),
                fill ? 0.0 : std::nan(""));
        seen[i] = staged[i].data();
        if (i != output) copy(operand.copy, data[i].data(), seen[i]);
    }
    const auto at = [](const std::array<int64_t, 3> &dims, int64_t channels,
                            const std::array<int64_t, 5> &i) {
        return (((i[0] * dims[0] + i[2]) * dims[1] + i[3]) * dims[2] + i[4])
                * channels
                + i[1];
    };
    // The kernel's own three tensors: src, weights, dst of a convolution that
    // may be another than the caller's.
    std::array<double *, 3> own {seen[first], seen[second], seen[output]};
    auto direction = convolution_direction::forward;
    if (p.operation == operation::weights) {
        own = {seen[second], seen[output], seen[first]};
        direction = convolution_direction::backward_weights;
    } else if (p.operation == operation::strided_data) {
        own = {seen[output], seen[second], seen[first]};
        direction = convolution_direction::backward_data;
    }
    std::fill_n(seen[output], p.output_elements(), 0.0);
    const auto &[src, window, dst] = std::tie(p.src, p.window, p.dst);
    const loops all {1, {p.n, p.c, src[0], src[1], src[2]},
            {p.k, p.c, window[0], window[1], window[2]},
            {p.n, p.k, dst[0], dst[1], dst[2]}, p.strides, p.dilations, p.pads};
    all.run([&](const auto &x, auto w, const auto &y) {
        if (p.flipped)
            for (size_t a = 0; a < 3; ++a)
                w[2 + a] = window[a] - 1 - w[2 + a];
        accumulate(direction, own[0][at(src, p.c, x)],
                own[1][at(window, p.c, w)], own[2][at(dst, p.k, y)]);
    });
    const auto &result = m.operands[output];
    if (result.staged) copy(result.copy, seen[output], data[output].data());
}

TEST(DenseMapping, ComputesTheProblem) {
    const element_types wanted[] {all_of(data_type::f32),
            all_of(data_type::f64), {data_type::bf16, data_type::f32}};
    const uint64_t seed = gradnn::test::test_seed(20261122);
    SCOPED_TRACE("GRADNN_TEST_SEED=" + std::to_string(seed));
    random_source random(seed);
    size_t tried = 0;
    for (int round = 0; round < 6000; ++round) {
        const convolution_problem p = random_problem(random);
        std::string refusal;
        const auto mapping = dense_mapping_of(p, wanted[round % 3], refusal);
        EXPECT_EQ(mapping.has_value(), refusal.empty());
        if (!mapping) continue;
        const size_t output = mapping->order[2];
        const auto start = random_data(p, output, random);
        auto expected = start;
        by_formula(p, output, expected);
        auto found = start;
        by_mapping(*mapping, found);
        ASSERT_TRUE(same(found[output], expected[output])) << "round " << round;
        ++tried;
    }
    EXPECT_GT(tried, 300U);
}

/// Windows side by side that tile src, or all but its end.
convolution_problem random_patches(random_source &random, data_type type) {
    convolution_problem p = random_problem(random);
    p.src.type = p.weights.type = p.dst.type = type;
    p.weights.dims[0] = 1;
    p.src.dims[1] = p.weights.dims[2] = random.integer(1, 5);
    p.dst.dims[1] = p.weights.dims[1];
    const bool exact = p.direction == convolution_direction::backward_data
            || random.integer(0, 1) == 1;
    for (size_t axis = 0; axis < 3; ++axis) {
        const int64_t window = axis == 0 ? 1 : random.integer(1, 4);
        const int64_t count = axis == 0 ? 1 : random.integer(1, 4);
        p.weights.dims[3 + axis] = window;
        p.dst.dims[2 + axis] = count;
        p.src.dims[2 + axis] = count * window
                + (exact || axis == 0 ? 0 : random.integer(0, window));
        p.strides[axis] = count == 1 ? random.integer(1, 5) : window;
        p.dilations[axis] = window == 1 ? random.integer(1, 3) : 1;
        p.pads_begin[axis] = 0;
    }
    const std::vector<order> orders {order::ncx, order::nxc, order::sliced};
    p.src.strides = data_strides(p.src.dims, random.pick(orders));
    p.dst.strides = data_strides(p.dst.dims, random.pick(orders));
    p.weights.strides = weights_strides(
            p.weights.dims, static_cast<int>(random.integer(0, 2)));
    return p;
}

// As a product of matrices: without a window.
TEST(DenseMapping, ComputesPatches) {
    const uint64_t seed = gradnn::test::test_seed(20261124);
    SCOPED_TRACE("GRADNN_TEST_SEED=" + std::to_string(seed));
    random_source random(seed);
    size_t tried = 0;
    for (int round = 0; round < 2000; ++round) {
        const data_type type = round % 2 == 0 ? data_type::f32 : data_type::f64;
        const convolution_problem p = random_patches(random, type);
        std::string refusal;
        const auto mapping = dense_mapping_of(p, all_of(type), refusal);
        ASSERT_TRUE(mapping) << refusal;
        EXPECT_EQ(mapping->problem.window, (std::array<int64_t, 3> {1, 1, 1}));
        EXPECT_EQ(mapping->problem.strides, (std::array<int64_t, 3> {1, 1, 1}));
        const size_t output = mapping->order[2];
        const auto start = random_data(p, output, random);
        auto expected = start;
        by_formula(p, output, expected);
        auto found = start;
        by_mapping(*mapping, found);
        ASSERT_TRUE(same(found[output], expected[output])) << "round " << round;
        ++tried;
    }
    EXPECT_EQ(tried, 2000U);
}

// What no window meets has a gradient of zero, which no product writes.
TEST(DenseMapping, LeavesPatchesWithRestsToWindows) {
    convolution_problem p = plain_problem(data_type::f32, order::nxc, 1);
    p.weights.dims = {1, 16, 8, 1, 3, 3};
    p.strides = {1, 3, 3};
    p.pads_begin = {0, 0, 0};
    p.dst.dims = {2, 16, 1, 4, 3};
    p.dst.strides = data_strides(p.dst.dims, order::nxc);
    std::string refusal;
    const auto m = dense_mapping_of(p, all_of(data_type::f32), refusal);
    ASSERT_TRUE(m) << refusal;
    EXPECT_EQ(m->problem.window[1], 3);
    p.direction = convolution_direction::backward_weights;
    const auto weights = dense_mapping_of(p, all_of(data_type::f32), refusal);
    ASSERT_TRUE(weights) << refusal;
    EXPECT_EQ(weights->problem.window[1], 1);
}

/// Operands of one op's gradients of src and of weights, with copies of all.
std::array<convolution_operands, 2> gradients_with_copies() {
    const auto copied = [](size_t bytes) {
        convolution_operand made;
        made.staged = true;
        made.bytes = bytes;
        return made;
    };
    return {convolution_operands {copied(100), copied(200), copied(300), 0},
            convolution_operands {copied(100), copied(200), copied(300), 1}};
}

// Each shared copy lies at the start of the workspace: there is room for one.
TEST(ConvolutionOperands, ShareOneInput) {
    auto [data, weights] = gradients_with_copies();
    EXPECT_FALSE(weights.share(data, 0)); // an output of one
    EXPECT_FALSE(weights.share(data, 1));
    EXPECT_TRUE(weights.share(data, 2));
    EXPECT_TRUE(weights.is_shared(2));
    EXPECT_FALSE(data.is_shared(2));
    // Two forward ones, whose inputs are src and weights.
    const auto forward = [] {
        convolution_operand staged;
        staged.staged = true;
        staged.bytes = 100;
        return convolution_operands {staged, staged, staged, 2};
    };
    convolution_operands first = forward();
    convolution_operands second = forward();
    convolution_operands third = forward();
    EXPECT_TRUE(second.share(first, 0));
    EXPECT_FALSE(second.share(first, 1));
    EXPECT_FALSE(third.share(second, 1));
    EXPECT_TRUE(third.share(second, 0));
    // What differs is two copies.
    auto [other_data, other_weights] = gradients_with_copies();
    convolution_operand wider;
    wider.staged = true;
    wider.bytes = 400;
    convolution_operands differs {wider, wider, wider, 0};
    EXPECT_FALSE(other_weights.share(differs, 2));
}

TEST(ConvolutionParts, LeavesOnePositionWhole) {
    convolution_problem p = plain_problem(data_type::f32, order::nxc, 1);
    p.strides = {1, 2, 3};
    p.dst.dims = {2, 16, 1, 1, 1};
    std::string refusal;
    EXPECT_EQ(gradnn::gpu::convolution_parts(p, true, 32, refusal).size(), 1U);
    p.dst.dims[3] = 4;
    EXPECT_EQ(gradnn::gpu::convolution_parts(p, true, 32, refusal).size(), 2U);
}

TEST(ConvolutionParts, ComputeTheProblem) {
    const uint64_t seed = gradnn::test::test_seed(20261123);
    SCOPED_TRACE("GRADNN_TEST_SEED=" + std::to_string(seed));
    random_source random(seed);
    size_t tried = 0;
    for (int round = 0; round < 4000; ++round) {
        const convolution_problem p = random_problem(random);
        const bool without_strides = random.integer(0, 1) == 1;
        std::string refusal;
        const auto parts = gradnn::gpu::convolution_parts(
                p, without_strides, 32, refusal);
        EXPECT_NE(parts.empty(), refusal.empty());
        if (parts.size() < 2) continue;
        const bool to_src = p.direction == convolution_direction::backward_data;
        const bool to_dst = p.direction == convolution_direction::forward;
        const size_t output = to_src ? 0 : to_dst ? 2 : 1;
        const auto start = random_data(p, output, random);
        auto expected = start;
        by_formula(p, output, expected);
        auto found = start;
        const std::array<data_type, 3> types {
                p.src.type, p.weights.type, p.dst.type};
        for (const auto &part : parts) {
            EXPECT_EQ(part.problem.weights.dims[0], 1);
            if (to_src && without_strides) {
                for (size_t a = 0; a < 3; ++a) {
                    EXPECT_TRUE(part.problem.strides[a] == 1
                            || p.dst.dims[2 + a] == 1);
                }
            }
            std::array<memory, 3> slices;
            std::array<int64_t, 3> begin {};
            for (size_t i = 0; i < 3; ++i) {
                begin[i] = part.offsets[i] / gradnn::detail::size_of(types[i]);
                slices[i].assign(found[i].begin() + begin[i], found[i].end());
            }
            by_formula(part.problem, output, slices);
            std::copy(slices[output].begin(), slices[output].end(),
                    found[output].begin() + begin[output]);
        }
        ASSERT_TRUE(same(found[output], expected[output])) << "round " << round;
        ++tried;
    }
    EXPECT_GT(tried, 1000U);
}

TEST(DenseMapping, TakesChannelsLastAsItIs) {
    convolution_problem p = plain_problem(data_type::f32, order::nxc, 1);
    std::string refusal;
    for (const auto direction : {convolution_direction::forward,
                 convolution_direction::backward_weights}) {
        p.direction = direction;
        const auto m = dense_mapping_of(p, all_of(data_type::f32), refusal);
        ASSERT_TRUE(m) << refusal;
        for (const auto &operand : m->operands)
            EXPECT_FALSE(operand.staged);
    }
    // A gradient of src reads the weights with their channels exchanged.
    p.direction = convolution_direction::backward_data;
    const auto m = dense_mapping_of(p, all_of(data_type::f32), refusal);
    ASSERT_TRUE(m) << refusal;
    EXPECT_FALSE(m->operands[0].staged);
    EXPECT_TRUE(m->operands[1].staged);
    EXPECT_FALSE(m->operands[2].staged);
}

// Kernels read or write 16 bytes at once: four channels of f32, two of f64.
TEST(DenseMapping, FillsChannelsToSixteenBytes) {
    for (const data_type type : {data_type::f32, data_type::f64}) {
        convolution_problem p = plain_problem(type, order::nxc, 1);
        p.direction = convolution_direction::forward;
        p.src.dims[1] = p.weights.dims[2] = 6;
        p.src.strides = data_strides(p.src.dims, order::nxc);
        p.weights.strides = weights_strides(p.weights.dims, 1);
        std::string refusal;
        const auto m = dense_mapping_of(p, all_of(type), refusal);
        ASSERT_TRUE(m) << refusal;
        const bool filled = type == data_type::f32;
        EXPECT_EQ(m->problem.c, filled ? 8 : 6);
        EXPECT_EQ(m->problem.callers_terms, filled ? 0.75 : 1.0);
        for (const size_t input : {0U, 1U})
            EXPECT_EQ(m->operands[input].staged, filled);
        EXPECT_FALSE(m->operands[2].staged);
    }
}

// Eight channels of data, which kernels read 16 bytes at a time, and as many
// of the f32 weights that they write.
TEST(DenseMapping, WritesWeightsInF32OfSixteenBits) {
    for (const data_type type : {data_type::bf16, data_type::f16}) {
        const element_types wide {type, data_type::f32};
        convolution_problem p = plain_problem(type, order::nxc, 1);
        p.direction = convolution_direction::backward_weights;
        std::string refusal;
        EXPECT_FALSE(dense_mapping_of(p, wide, refusal));
        p.weights.type = data_type::f32;
        const auto m = dense_mapping_of(p, wide, refusal);
        ASSERT_TRUE(m) << refusal;
        for (const auto &operand : m->operands)
            EXPECT_FALSE(operand.staged);
        EXPECT_EQ(m->problem.output_bytes(), size_t {4} * 16 * 9 * 8);
        p.src.dims[1] = p.weights.dims[2] = 12;
        p.src.strides = data_strides(p.src.dims, order::nxc);
        p.weights.strides = weights_strides(p.weights.dims, 1);
        const auto odd = dense_mapping_of(p, wide, refusal);
        ASSERT_TRUE(odd) << refusal;
        EXPECT_EQ(odd->problem.c, 16);
        EXPECT_EQ(odd->problem.k, 16);
        for (const size_t filled : {0U, 1U})
            EXPECT_TRUE(odd->operands[filled].staged);
        EXPECT_FALSE(odd->operands[2].staged);
        EXPECT_EQ(odd->operands[1].bytes, size_t {4} * 16 * 9 * 16);
    }
}

TEST(DenseMapping, RefusesWithReasons) {
    const auto reason = [](const convolution_problem &p) {
        std::string refusal;
        EXPECT_FALSE(dense_mapping_of(p, all_of(data_type::f32), refusal));
        return refusal;
    };
    const auto plain = plain_problem(data_type::f32, order::nxc, 1);
    EXPECT_EQ(reason(plain_problem(data_type::f64, order::nxc, 1)),
            "takes inputs of f32 and an output of f32");
    auto p = plain;
    p.weights.dims = {2, 8, 4, 1, 3, 3};
    EXPECT_EQ(reason(p), "takes convolutions of one group, given 2");
    p = plain;
    p.src.dims[0] = p.dst.dims[0] = int64_t {1} << 20;
    EXPECT_NE(reason(p).find("tensors of up to 536870911 elements"),
            std::string::npos);
    p = plain;
    p.weights.dims[5] = 33;
    EXPECT_NE(reason(p).find("given 33"), std::string::npos);
    p = plain;
    p.strides = p.dilations = {1, 2, 2};
    EXPECT_NE(reason(p).find("without dilations"), std::string::npos);
}

} // namespace
