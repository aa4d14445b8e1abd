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

/// A tensor that need not begin at a multiple of 16 bytes; all elements have a value.
template <typename Type>
struct buffer {
    static constexpr int vector = gpu::elements_of_16_bytes<Type>;
    std::vector<gpu::pack<Type, vector>> memory;
    bool whole;
    Type *data;

    buffer(int64_t elements, bool begins_whole, double value)
        : memory(static_cast<size_t>(elements / vector + 2)),
          whole(begins_whole),
          data(reinterpret_cast<Type *>(memory.data()) + (whole ? 0 : 1)) {
        std::fill_n(reinterpret_cast<Type *>(memory.data()),
                std::ssize(memory) * vector, value_of(value));
    }
    static Type value_of(double value) {
        return narrow<Type>(static_cast<sum_of<Type>>(value));
    }
    bool has_bits_of(const buffer &other) const {
        const auto count = std::ssize(memory) * vector - 1;
        return std::memcmp(data, other.data,
                       static_cast<size_t>(count) * sizeof(Type))
                == 0;
    }
};

/// How a sample is cut and run.
struct running {
    int64_t wave;
    bool descending;
    bool columns = false; ///< whether it was cut by these
};

/// By the kernels; every other one is a channel's.
template <bool masks, typename Type>
std::vector<sum_of<Type>> sums_of(const bias_problem &p, const summed<Type> &of,
        bool whole, running &how) {
    constexpr int vector = gpu::elements_of_16_bytes<Type>;
    const int64_t channels = p.diff_dst.dims[1];
    const auto columns = cut_columns(p, how.wave);
    const rows_cut rows = cut_rows(p, how.wave * warps);
    const partial_shape sums = columns ? columns->sums : rows.sums;
    how.columns = columns.has_value();
    std::vector<gpu::pack<double, 2>> workspace(
            static_cast<size_t>(sums.total() / 2 + 1));
    auto *const partials = reinterpret_cast<sum_of<Type> *>(workspace.data());
    const auto blocks = [](int64_t all, int64_t each) {
        return static_cast<unsigned>(ceil_div(all, each));
    };
    if (columns) {
        const int64_t vectors = columns->row_elements / vector;
        run_blocks(static_cast<unsigned>(columns->parts),
                blocks(vectors, threads), threads, how.descending, [&] {
                    columns_kernel<Type, masks>(of, partials, columns->elements,
                            columns->rows, vectors, columns->lanes, whole);
                });
    } else {
        run_blocks(
                blocks(sums.total(), warps), 1, threads, how.descending, [&] {
                    rows_kernel<Type, masks>(of, partials, rows.shape, channels,
                            rows.sums.run.by, whole);
                });
    }
    const int lanes = final_lanes(sums);
    std::vector<sum_of<Type>> found(static_cast<size_t>(2 * channels));
    run_blocks(blocks(channels, final_threads / lanes), 1, final_threads,
            how.descending,
            [&] { final_kernel(partials, found.data(), 2, sums, lanes); });
    return found;
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
    p.diff_dst.type = std::is_same_v<Type, double> ? detail::data_type::f64
            : std::is_same_v<Type, float>          ? detail::data_type::f32
            : std::is_same_v<Type, __half>         ? detail::data_type::f16
                                                   : detail::data_type::bf16;
    // Now and then with a gap behind one of the axes.
    std::array<int64_t, 5> gaps {};
    if (const int64_t axis = random.integer(0, 12); axis < 5)
        gaps[static_cast<size_t>(axis)] = 3;
    const int64_t elements
            = lay_out(p.diff_dst, random.integer(0, 1) == 1, gaps);
    SCOPED_TRACE(detail::text(detail::text_of(dims), " strides ",
            detail::text_of(p.diff_dst.strides)));

    // Whole numbers, whose sums f32 holds; where nothing is read, no number. Where src
    // is not above 0, anything; what is between written elements stays as it is.
    const auto coin = [&] { return random.integer(0, 2) > 0; };
    buffer<Type> diff_dst(elements, coin(), NAN), src(elements, coin(), 1),
            written(elements, coin(), 55), masked(elements, true, 55);
    const auto value_of = buffer<Type>::value_of;
    std::vector<double> expected(static_cast<size_t>(dims[1])),
            of_positive = expected;
    const auto &strides = p.diff_dst.strides;
    for (int64_t i = 0; i < dims[0] * dims[1] * dims[2] * dims[3] * dims[4];
            ++i) {
        int64_t rest = i;
        int64_t place = 0;
        size_t channel = 0;
        for (size_t axis = 5; axis-- > 0; rest /= dims[axis]) {
            place += rest % dims[axis] * strides[axis];
            if (axis == 1) channel = static_cast<size_t>(rest % dims[axis]);
        }
        const auto value = static_cast<double>(random.integer(-99, 99));
        const double gate = random.pick(std::vector<double> {
                -1, -0.0, 0, NAN, -INFINITY, 1, 1e-3, INFINITY});
        diff_dst.data[place] = value_of(value == 0 ? -0.0 : value);
        src.data[place] = value_of(gate);
        masked.data[place] = gate > 0 ? diff_dst.data[place] : value_of(0);
        expected[channel] += value;
        of_positive[channel] += gate > 0 ? value : 0;
    }
    running how {random.integer(1, 40), random.integer(0, 1) == 1};
    const auto expect = [&](const auto &found, const auto &wanted) {
        for (size_t c = 0; c < wanted.size() && !testing::Test::HasFailure();
                ++c)
            EXPECT_EQ(found[2 * c], wanted[c]) << "channel " << c;
    };
    expect(sums_of<false, Type>(p, {diff_dst.data}, diff_dst.whole, how),
            expected);

    // With ReLU's gradient: the same of what that writes.
    const auto bytes_to = [&](const buffer<Type> &other) {
        return reinterpret_cast<char *>(other.data)
                - reinterpret_cast<char *>(diff_dst.data);
    };
    const summed<Type> with_src {
            diff_dst.data, bytes_to(src), bytes_to(written)};
    const bool whole = diff_dst.whole && src.whole && written.whole;
    expect(sums_of<true>(p, with_src, whole, how), of_positive);
    EXPECT_TRUE(written.has_bits_of(masked));

    // In the same order: of sums that are rounded, and no numbers.
    for (int64_t i = 0; i < elements; ++i)
        diff_dst.data[i] = value_of(i % 997 == 500
                        ? (i % 2 == 0 ? NAN : -INFINITY)
                        : static_cast<double>(random.integer(-9999, 9999)) / 7);
    const auto together = sums_of<true>(p, with_src, whole, how);
    const auto after
            = sums_of<false, Type>(p, {written.data}, written.whole, how);
    for (size_t c = 0; c < expected.size(); ++c)
        EXPECT_TRUE(together[2 * c] == after[2 * c]
                || (std::isnan(together[2 * c]) && std::isnan(after[2 * c])))
                << "channel " << c;
    return how.columns;
}

TEST(bias_emulated, adds_up_each_channel) {
    random_source random(test_seed(1));
    std::array<int, 2> kinds {};
    for (int left = thinned() ? 40 : 200; left > 0 && !HasFailure(); --left) {
        const bool columns = left % 4 == 0 ? run_sample<float>(random)
                : left % 4 == 1            ? run_sample<double>(random)
                : left % 4 == 2            ? run_sample<__half>(random)
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
        EXPECT_GE(rows.sums.run.by, 1);
    }
    EXPECT_GE(columns, 100);
}

} // namespace
} // namespace gradnn::test
