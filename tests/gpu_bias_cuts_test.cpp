// How the bias gradient is cut: each element of diff_dst is added to one partial sum, of its
// channel. The loops are those of the kernels (src/gpu/bias) without their arithmetic. Host
// arithmetic; needs no GPU.
#include "emulated/simt.hpp"

#include <gtest/gtest.h>

#include "gpu/bias/cut.hpp"
#include "gpu_cuts/tally.hpp"
#include "support/random.hpp"

namespace gradnn::test {
namespace {

using namespace gpu::bias;
using gpu::ceil_div;

detail::bias_problem draw(random_source &random, bool nxc) {
    detail::bias_problem p;
    p.diff_dst.type = random.pick(std::vector {detail::data_type::f32,
            detail::data_type::f64, detail::data_type::bf16});
    auto &dims = p.diff_dst.dims;
    dims = {random.integer(1, random.integer(1, 40)),
            random.integer(1, random.integer(1, 70)), 1, 1, 1};
    for (size_t axis = static_cast<size_t>(random.integer(2, 4)); axis < 5;
            ++axis)
        dims[axis] = random.integer(1, random.integer(1, 30));
    const std::array<size_t, 5> order = nxc
            ? std::array<size_t, 5> {1, 4, 3, 2, 0}
            : std::array<size_t, 5> {4, 3, 2, 1, 0};
    const size_t gap = static_cast<size_t>(random.integer(0, 12));
    int64_t stride = 1;
    for (size_t i = 0; i < 5; ++i) {
        p.diff_dst.strides[order[i]] = stride;
        stride = stride * dims[order[i]] + (i == gap ? 3 : 0);
    }
    return p;
}

/// Elements of dense memory, by the blocks and threads of columns_kernel.
void go_through_columns(const detail::bias_problem &p, const columns_cut &cut) {
    const int64_t vector = 16 / detail::size_of(p.diff_dst.type);
    const int64_t vectors = cut.row_elements / vector;
    const int64_t packs = cut.elements / vector;
    EXPECT_EQ(cut.row_elements % vector, 0);
    EXPECT_EQ(cut.row_elements % cut.period, 0);
    EXPECT_EQ(cut.period, cut.run * p.diff_dst.dims[1]);
    EXPECT_EQ(cut.partials, cut.parts * cut.row_elements);
    EXPECT_LE(ceil_div(vectors, threads), 65535);
    EXPECT_LE(cut.lanes == 1 ? 1 : cut.lanes * vectors, threads);
    tally elements({1, 1, 1, 1, cut.elements});
    const int64_t width = cut.lanes == 1 ? threads : vectors;
    for (int64_t part = 0; part < cut.parts; ++part) {
        const int64_t begin = part * cut.rows / cut.parts;
        const int64_t limit = (part + 1) * cut.rows / cut.parts * vectors;
        for (int64_t of_columns = 0; of_columns < ceil_div(vectors, threads);
                ++of_columns)
            for (int64_t thread = 0; thread < threads; ++thread) {
                const int64_t lane = thread / width;
                const int64_t column = of_columns * threads + thread % width;
                if (lane >= cut.lanes || column >= vectors) continue;
                const int64_t first = (begin + lane) * vectors + column;
                const int64_t step = cut.lanes * vectors;
                for (int64_t at = first; at < std::min(limit, packs);
                        at += step)
                    for (int64_t e = 0; e < vector; ++e)
                        elements.add({0, 0, 0, 0, at * vector + e});
                // The pack that the tensor ends within.
                if (packs >= first && packs < limit
                        && (packs - first) % step == 0)
                    for (int64_t e = packs * vector; e < cut.elements; ++e)
                        elements.add({0, 0, 0, 0, e});
            }
    }
    EXPECT_TRUE(elements.all_once());
}

/// Items of a channel, by the parts and lanes of rows_kernel.
void go_through_rows(const detail::bias_problem &p, const rows_cut &cut) {
    const channel_shape &shape = cut.shape;
    const auto &dims = p.diff_dst.dims;
    const int64_t vector = 16 / detail::size_of(p.diff_dst.type);
    EXPECT_EQ(
            shape.dims[0] * shape.rows, dims[0] * dims[2] * dims[3] * dims[4]);
    EXPECT_EQ(cut.partials, cut.parts * dims[1]);
    EXPECT_EQ(shape.packs * vector + shape.singles, shape.dims[0]);
    // As many packs begin at multiples of their length wherever a row begins.
    if (shape.packs > 0)
        for (int64_t row = 0; row < shape.rows; ++row) {
            int64_t offset = 0;
            int64_t rest = row;
            for (int axis = 1; axis < 4; ++axis)
                offset += take(rest, shape.dims[axis]) * shape.strides[axis];
            const int64_t before = -offset & (vector - 1);
            EXPECT_LE(before + shape.packs * vector, shape.dims[0]);
        }
    for (const int64_t items : {shape.packs, shape.singles}) {
        if (items == 0) continue;
        const int64_t all = items * shape.rows;
        const int64_t steps = ceil_div(all, 32);
        tally taken({1, 1, 1, 1, all});
        for (int64_t part = 0; part < cut.parts; ++part)
            for (int64_t lane = 0; lane < 32; ++lane)
                for (int64_t at = part * steps / cut.parts * 32 + lane;
                        at < std::min((part + 1) * steps / cut.parts * 32, all);
                        at += 32)
                    taken.add({0, 0, 0, 0, at});
        EXPECT_TRUE(taken.all_once());
    }
}

TEST(bias_cuts, add_each_element_once) {
    random_source random(test_seed(1));
    std::array<int, 2> kinds {};
    for (int left = 1500; left > 0 && !HasFailure(); --left) {
        const auto p = draw(random, left % 2 == 0);
        SCOPED_TRACE(detail::text("dims ", detail::text_of(p.diff_dst.dims),
                " strides ", detail::text_of(p.diff_dst.strides), " type ",
                static_cast<int>(p.diff_dst.type)));
        const int64_t wave = random.integer(1, 400);
        const auto columns = cut_columns(p, wave);
        if (columns) go_through_columns(p, *columns);
        go_through_rows(p, cut_rows(p, wave * warps));
        ++kinds[columns ? 0 : 1];
    }
    EXPECT_GE(kinds[0], 100);
    EXPECT_GE(kinds[1], 100);
}

// Numbers that the kernels hold in 32 bits.
TEST(bias_cuts, fit_in_huge_problems) {
    random_source random(test_seed(2));
    int columns = 0;
    for (int left = 3000; left > 0 && !HasFailure(); --left) {
        auto p = draw(random, left % 2 == 0);
        auto &dims = p.diff_dst.dims;
        const bool nxc = left % 2 == 0;
        dims[static_cast<size_t>(random.integer(0, 4))] = int64_t {1}
                << random.integer(8, 31);
        const std::array<size_t, 5> order = nxc
                ? std::array<size_t, 5> {1, 4, 3, 2, 0}
                : std::array<size_t, 5> {4, 3, 2, 1, 0};
        int64_t stride = 1;
        for (const size_t axis : order) {
            p.diff_dst.strides[axis] = stride;
            stride *= dims[axis];
        }
        const int64_t vector = 16 / detail::size_of(p.diff_dst.type);
        if (const auto cut = cut_columns(p, 132 * 3)) {
            ++columns;
            const int64_t vectors = cut->row_elements / vector;
            EXPECT_LT(cut->parts, INT32_MAX);
            EXPECT_LT(cut->partials, int64_t {1} << 31);
            EXPECT_LT(cut->lanes * vectors * vector, INT32_MAX);
        }
        const rows_cut rows = cut_rows(p, 132 * 3 * warps);
        EXPECT_LT(ceil_div(rows.partials, int64_t {warps}), INT32_MAX);
        EXPECT_GE(rows.parts, 1);
    }
    EXPECT_GE(columns, 100);
}

} // namespace
} // namespace gradnn::test
