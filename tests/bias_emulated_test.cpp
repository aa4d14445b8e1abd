// The bias gradient on a GPU: its kernels executed on the CPU (emulated/simt.hpp), as
// random problems are cut, against plain sums; and the cuts of huge ones. Needs no GPU.
#include "emulated/simt.hpp"

#undef __shared__
#define __shared__ static

#include <gtest/gtest.h>

#include "base/text.hpp"
#include "gpu/bias/cut.hpp"
#include "gpu_cuts/layout.hpp"
#include "support/random.hpp"

namespace gradnn::test {
namespace {

using namespace gpu::bias;
using detail::bias_problem;
using gpu::ceil_div;
using gpu::narrow;
using gpu::sum_of;
using gpu::widen;

void run_blocks(unsigned x, unsigned y, unsigned block_threads, bool descending,
        const std::function<void()> &kernel) {
    emulated::grid_size = {x, y, 1};
    for (unsigned i = 0; i < x * y; ++i)
        emulated::block::run(i, block_threads, descending, kernel);
}

/// Whether it was cut by columns.
template <typename Type>
bool run_sample(random_source &random) {
    bias_problem p;
    auto &dims = p.diff_dst.dims;
    dims = {random.integer(1, random.integer(1, 40)),
            random.integer(1, random.integer(1, 70)), 1, 1, 1};
    for (auto axis = static_cast<size_t>(random.integer(2, 4)); axis < 5;
            ++axis)
        dims[axis] = random.integer(1, random.integer(1, 12));
    p.diff_dst.type = sizeof(Type) == 8 ? detail::data_type::f64
            : sizeof(Type) == 4         ? detail::data_type::f32
                                        : detail::data_type::bf16;
    // Now and then with a gap behind one of the axes.
    std::array<int64_t, 5> gaps {};
    if (const int64_t axis = random.integer(0, 12); axis < 5)
        gaps[static_cast<size_t>(axis)] = 3;
    const int64_t elements
            = lay_out(p.diff_dst, random.integer(0, 1) == 1, gaps);
    SCOPED_TRACE(detail::text(detail::text_of(dims), " strides ",
            detail::text_of(p.diff_dst.strides)));

    // Whole numbers, whose sums f32 holds; where nothing is read, no number.
    constexpr int vector = gpu::elements_of_16_bytes<Type>;
    const bool whole = random.integer(0, 1) == 1;
    std::vector<gpu::pack<Type, vector>> memory(
            static_cast<size_t>(elements / vector + 2));
    Type *const diff_dst
            = reinterpret_cast<Type *>(memory.data()) + (whole ? 0 : 1);
    std::fill_n(diff_dst, elements, narrow<Type>(sum_of<Type>(NAN)));
    std::vector<double> expected(static_cast<size_t>(dims[1]));
    const auto &strides = p.diff_dst.strides;
    for (int64_t i = 0; i < dims[0] * dims[1] * dims[2] * dims[3] * dims[4];
            ++i) {
        int64_t rest = i;
        int64_t place = 0;
        int64_t channel = 0;
        for (size_t axis = 5; axis-- > 0; rest /= dims[axis]) {
            place += rest % dims[axis] * strides[axis];
            if (axis == 1) channel = rest % dims[axis];
        }
        const int64_t value = random.integer(-99, 99);
        diff_dst[place] = narrow<Type>(static_cast<sum_of<Type>>(value));
        expected[static_cast<size_t>(channel)] += static_cast<double>(value);
    }

    const int64_t wave = random.integer(1, 40);
    const auto columns = cut_columns(p, wave);
    const rows_cut rows = cut_rows(p, wave * warps);
    const partial_shape sums = columns ? columns->sums : rows.sums;
    std::vector<gpu::pack<double, 2>> workspace(
            static_cast<size_t>(sums.total() / 2 + 1));
    auto *const partials = reinterpret_cast<sum_of<Type> *>(workspace.data());
    const bool descending = random.integer(0, 1) == 1;
    const auto blocks = [](int64_t all, int64_t each) {
        return static_cast<unsigned>(ceil_div(all, each));
    };
    if (columns) {
        const int64_t vectors = columns->row_elements / vector;
        run_blocks(static_cast<unsigned>(columns->parts),
                blocks(vectors, threads), threads, descending, [&] {
                    columns_kernel<Type>(diff_dst, partials, columns->elements,
                            columns->rows, vectors, columns->lanes, whole);
                });
    } else {
        run_blocks(blocks(sums.total(), warps), 1, threads, descending, [&] {
            rows_kernel<Type>(
                    diff_dst, partials, rows.shape, dims[1], rows.parts, whole);
        });
    }
    const int lanes = final_lanes(sums);
    std::vector<sum_of<Type>> found(static_cast<size_t>(2 * dims[1]));
    run_blocks(blocks(dims[1], final_threads / lanes), 1, final_threads,
            descending,
            [&] { final_kernel(partials, found.data(), 2, sums, lanes); });
    for (size_t c = 0; c < expected.size() && !testing::Test::HasFailure(); ++c)
        EXPECT_EQ(found[2 * c], expected[c]) << "channel " << c;
    return columns.has_value();
}

TEST(bias_emulated, adds_up_each_channel) {
    random_source random(test_seed(1));
    std::array<int, 2> kinds {};
    for (int left = thinned() ? 60 : 300; left > 0 && !HasFailure(); --left) {
        const bool columns = left % 3 == 0 ? run_sample<float>(random)
                : left % 3 == 1            ? run_sample<double>(random)
                                           : run_sample<__nv_bfloat16>(random);
        ++kinds[columns ? 0 : 1];
    }
    EXPECT_GE(kinds[0], 10);
    EXPECT_GE(kinds[1], 10);
}

// Numbers that the kernels hold in 32 bits.
TEST(bias_emulated, cuts_fit_in_huge_problems) {
    random_source random(test_seed(2));
    int columns = 0;
    for (int left = 3000; left > 0 && !HasFailure(); --left) {
        bias_problem p;
        p.diff_dst.type = random.pick(std::vector {detail::data_type::f32,
                detail::data_type::f64, detail::data_type::bf16});
        for (int64_t &dim : p.diff_dst.dims)
            dim = random.integer(1, random.integer(1, 40));
        p.diff_dst.dims[static_cast<size_t>(random.integer(0, 4))] = int64_t {1}
                << random.integer(8, 31);
        lay_out(p.diff_dst, left % 2 == 0, {});
        const int64_t vector = 16 / detail::size_of(p.diff_dst.type);
        if (const auto cut = cut_columns(p, 132 * 3)) {
            ++columns;
            EXPECT_LE(ceil_div(cut->row_elements / vector, threads), 65535);
            EXPECT_LT(cut->parts, INT32_MAX);
            EXPECT_LT(cut->sums.total(), int64_t {1} << 31);
            EXPECT_LT(cut->lanes * cut->row_elements, INT32_MAX);
        }
        const rows_cut rows = cut_rows(p, 132 * 3 * warps);
        EXPECT_LT(ceil_div(rows.sums.total(), int64_t {warps}), INT32_MAX);
        EXPECT_GE(rows.parts, 1);
    }
    EXPECT_GE(columns, 100);
}

} // namespace
} // namespace gradnn::test
