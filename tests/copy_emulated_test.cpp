// The kernels of runtime/copy.cu, executed on the CPU (emulated/simt.hpp): random
// tensors and layouts, with channels that are filled up and rows with gaps, against
// plain loops. Needs no GPU.
#include "emulated/simt.hpp"

#include <set>

#include <gtest/gtest.h>

namespace gradnn::gpu::copies {
/// The kernels' dynamic shared memory.
alignas(16) uint4 copy_shared[3072];
} // namespace gradnn::gpu::copies

#include "gpu/runtime/copy_kernels.cuh"
#include "gpu/runtime/copy_tiles.cuh"
#include "support/random.hpp"

namespace gradnn::test {
namespace {

using namespace gpu::copies;
using gpu::strided_copy;

/// Sizes of axes: many short ones, few long ones.
std::array<int64_t, 4> random_dims(random_source &random) {
    if (random.integer(0, 2) == 0) // two long ones
        return {1, random.integer(1, 2), 2 * random.integer(28, 70),
                2 * random.integer(28, 70)};
    std::array<int64_t, 4> dims {};
    int64_t left = 30000;
    for (int64_t &dim : dims) {
        dim = random.integer(1, random.integer(0, 2) == 0 ? 200 : 12);
        dim = std::min(dim, left);
        left /= dim;
    }
    return dims;
}

/// Distances of a tensor whose axes lie in this order, the innermost first, with
/// `gap` elements after each row of the innermost axis.
std::array<int64_t, 4> strides_of(const std::array<int64_t, 4> &dims,
        const std::array<size_t, 4> &order, int64_t gap, int64_t &elements) {
    std::array<int64_t, 4> strides {};
    int64_t next = 1;
    for (const size_t axis : order) {
        strides[axis] = next;
        next *= dims[axis];
        if (axis == order[0]) next += gap;
    }
    elements = next;
    return strides;
}

std::array<size_t, 4> random_order(random_source &random) {
    std::array<size_t, 4> order {0, 1, 2, 3};
    for (size_t i = 3; i > 0; --i)
        std::swap(order[i],
                order[static_cast<size_t>(
                        random.integer(0, static_cast<int64_t>(i)))]);
    return order;
}

template <typename Kernel>
void run_blocks(int64_t blocks, size_t shared_bytes, bool descending,
        const Kernel &kernel) {
    ASSERT_LE(shared_bytes, sizeof copy_shared);
    emulated::grid_size.x = static_cast<unsigned>(blocks);
    emulated::shared_memory = reinterpret_cast<char *>(copy_shared);
    emulated::shared_bytes = shared_bytes;
    for (int64_t index = 0; index < blocks; ++index) {
        std::memset(static_cast<void *>(copy_shared), 0xff, sizeof copy_shared);
        emulated::block::run(
                static_cast<unsigned>(index), threads, descending, kernel);
    }
}

/// Copies as copy.cu does; what ran. `far`: distances are taken to be 2^31 and more.
template <typename Mover>
std::string run_copy(const shape &given, const void *src, void *dst, bool far,
        random_source &random) {
    using value = typename Mover::value;
    const copy_cut cut = cut_of(given, sizeof(value),
            Mover::moves_bits ? alignments_of(src, dst) : alignments {});
    const shape &of = cut.of;
    const bool descending = random.integer(0, 1) == 1;
    const std::string filled = of.written == of.dims[0] ? "" : " filled";
    if (!cut.by_tiles) {
        const auto run
                = [&]<int width, bool wide_loads, typename Index = uint32_t>() {
            axis_dividers<Index> dividers;
            for (int axis = 0; axis < of.rank; ++axis)
                dividers.by[axis] = gpu::divisor<Index>(
                        of.extent(axis) / (axis == 0 ? width : 1));
            run_blocks(gpu::ceil_div(of.count,
                               int64_t {threads * elements_of_thread(width)}),
                    0, descending, [&] {
                        elements_kernel<Mover, Index, width, wide_loads>(
                                src, dst, of, dividers);
                    });
            return "elements" + filled
                    + (width > 1 ? " " + std::to_string(width) : "")
                    + (wide_loads ? " wide" : "");
        };
        if (far) return "many " + run.template operator()<1, false, int64_t>();
        const auto run_words = [&]<int width>() {
            return cut.widths.load == width
                    ? run.template operator()<width, true>()
                    : run.template operator()<width, false>();
        };
        if constexpr (sizeof(value) < 8)
            if (cut.widths.store == 4)
                return run_words.template operator()<4>();
        if (cut.widths.store == 2) return run_words.template operator()<2>();
        return run.template operator()<1, false>();
    }
    const int64_t blocks = std::min<int64_t>(cut.tiles.count, 3);
    const auto run_tiles = [&]<int load, int store>() {
        run_blocks(
                blocks, cut.tiles.shared_bytes(sizeof(value)), descending, [&] {
                    if (far)
                        tiles_kernel<Mover, int64_t, load, store>(
                                src, dst, of, cut.tiles);
                    else
                        tiles_kernel<Mover, int32_t, load, store>(
                                src, dst, of, cut.tiles);
                });
        return "tiles" + filled + " " + std::to_string(load) + " "
                + std::to_string(store);
    };
    if constexpr (std::is_same_v<value, uint16_t>) {
        if (cut.widths == unit_widths {2, 2})
            return run_tiles.template operator()<2, 2>();
        if (cut.widths.load == 2) return run_tiles.template operator()<2, 1>();
        if (cut.widths.store == 2) return run_tiles.template operator()<1, 2>();
    }
    return run_tiles.template operator()<1, 1>();
}

/// A problem of four axes, and what its tensors take.
struct random_copy {
    strided_copy problem;
    int64_t src_elements = 0;
    int64_t dst_elements = 0;

    random_copy(
            detail::data_type src, detail::data_type dst, random_source &random)
        : problem {src, dst, 4} {
        const std::array<int64_t, 4> dims = random_dims(random);
        const auto src_order = random_order(random);
        const auto dst_order
                = random.integer(0, 2) == 0 ? src_order : random_order(random);
        const auto src_strides = strides_of(dims, src_order,
                random.integer(0, 3) == 0 ? random.integer(1, 9) : 0,
                src_elements);
        const auto dst_strides = strides_of(dims, dst_order,
                random.integer(0, 1) == 0 ? random.integer(1, 9) : 0,
                dst_elements);
        std::copy(dims.begin(), dims.end(), problem.dims.begin());
        std::copy(src_strides.begin(), src_strides.end(),
                problem.src_strides.begin());
        std::copy(dst_strides.begin(), dst_strides.end(),
                problem.dst_strides.begin());
    }

    /// Calls body with the place of each element in src and in dst.
    template <typename Body>
    void each(const Body &body) const {
        const auto &dims = problem.dims;
        for (int64_t a = 0; a < dims[0]; ++a)
            for (int64_t b = 0; b < dims[1]; ++b)
                for (int64_t c = 0; c < dims[2]; ++c)
                    for (int64_t d = 0; d < dims[3]; ++d) {
                        const auto at = [&](const auto &strides) {
                            return a * strides[0] + b * strides[1]
                                    + c * strides[2] + d * strides[3];
                        };
                        body(at(problem.src_strides), at(problem.dst_strides));
                    }
    }
};

template <typename Word>
std::string run_sample(detail::data_type type, random_source &random) {
    const random_copy made(type, type, random);
    const int64_t dst_elements = made.dst_elements;
    // At any element, with something ahead and behind that stays as it is.
    const auto src_start = static_cast<size_t>(random.integer(0, 3));
    const auto dst_start = static_cast<size_t>(random.integer(0, 3));
    std::vector<Word> src(src_start + static_cast<size_t>(made.src_elements));
    for (Word &each : src)
        each = static_cast<Word>(random.integer(1, 60000));
    constexpr Word untouched = 61234;
    constexpr size_t behind = 4;
    std::vector<Word> dst(
            dst_start + static_cast<size_t>(dst_elements) + behind, untouched);
    shape of = arrange(made.problem);
    const bool zeros = random.integer(0, 7) == 0;
    if (zeros) of = zeros_in_place_of(of);
    const bool filled
            = random.integer(0, 1) == 0 && fill_gaps(of, dst_elements);
    std::vector<Word> expected(dst.size(), untouched);
    if (filled)
        std::fill_n(expected.begin() + static_cast<ptrdiff_t>(dst_start),
                dst_elements, Word {0});
    made.each([&](int64_t from, int64_t to) {
        expected[dst_start + static_cast<size_t>(to)]
                = zeros ? Word {0} : src[src_start + static_cast<size_t>(from)];
    });
    const std::string ran = (zeros ? "zeros " : "")
            + run_copy<same_type<Word>>(of,
                    zeros ? nullptr : src.data() + src_start,
                    dst.data() + dst_start, random.integer(0, 3) == 0, random);
    EXPECT_EQ(dst, expected) << ran;
    return ran;
}

TEST(copy_emulated, agrees_with_plain_loops) {
    const uint64_t seed = test_seed(20261125);
    SCOPED_TRACE("GRADNN_TEST_SEED=" + std::to_string(seed));
    random_source random(seed);
    std::set<std::string> ran;
    for (int sample = 0; sample < 1200; ++sample) {
        switch (random.integer(0, 3)) {
            case 0:
                ran.insert(
                        run_sample<uint32_t>(detail::data_type::f32, random));
                break;
            case 1:
                ran.insert(
                        run_sample<uint64_t>(detail::data_type::f64, random));
                break;
            default:
                ran.insert(
                        run_sample<uint16_t>(detail::data_type::bf16, random));
        }
        if (testing::Test::HasFailure()) return;
    }
    for (const char *kernel : {"elements", "elements filled", "elements 2",
                 "elements 4 wide", "elements filled 4", "many elements",
                 "zeros elements filled", "zeros elements filled 4 wide",
                 "tiles 1 1", "tiles filled 1 1", "tiles filled 1 2",
                 "tiles filled 2 2", "tiles 1 2", "tiles 2 1", "tiles 2 2"})
        EXPECT_TRUE(ran.contains(kernel)) << kernel << " did not run";
}

/// Whole numbers, which every type holds, from one type to another.
std::string run_conversion(random_source &random) {
    const auto type = [&] {
        return random.pick(
                std::vector {detail::data_type::f64, detail::data_type::f32,
                        detail::data_type::bf16, detail::data_type::f16});
    };
    const random_copy made(type(), type(), random);
    const strided_copy &problem = made.problem;
    const auto bytes = [](int64_t elements, detail::data_type each) {
        return std::vector<double>(static_cast<size_t>(
                (elements * detail::size_of(each) + 7) / 8));
    };
    auto src = bytes(made.src_elements, problem.src_type);
    auto dst = bytes(made.dst_elements, problem.dst_type);
    shape of = arrange(problem);
    shape written = of; // as dst's type
    written.dst_type = problem.src_type;
    for (int64_t i = 0; i < made.src_elements; ++i)
        conversion::store(written, src.data(), i,
                static_cast<double>(random.integer(1, 200)));
    auto expected = dst;
    made.each([&](int64_t from, int64_t to) {
        conversion::store(of, expected.data(), to,
                conversion::load(of, src.data(), from));
    });
    const std::string ran = run_copy<conversion>(
            of, src.data(), dst.data(), random.integer(0, 3) == 0, random);
    EXPECT_EQ(std::memcmp(
                      dst.data(), expected.data(), dst.size() * sizeof(double)),
            0)
            << ran;
    return ran;
}

TEST(copy_emulated, converts) {
    const uint64_t seed = test_seed(20261126);
    SCOPED_TRACE("GRADNN_TEST_SEED=" + std::to_string(seed));
    random_source random(seed);
    std::set<std::string> ran;
    for (int sample = 0; sample < 200; ++sample) {
        ran.insert(run_conversion(random));
        if (testing::Test::HasFailure()) return;
    }
    for (const char *kernel : {"elements", "many elements", "tiles 1 1"})
        EXPECT_TRUE(ran.contains(kernel)) << kernel << " did not run";
}

TEST(copy_emulated, dividers_are_exact) {
    random_source random(1);
    for (int round = 0; round < 100000; ++round) {
        const int64_t by
                = random.integer(1, int64_t {1} << random.integer(1, 31))
                & 0x7fffffff;
        const auto n = static_cast<uint32_t>(random.integer(0, 0x7fffffff));
        if (by == 0) continue;
        ASSERT_EQ(gpu::exact_divider(by).quotient(n), n / by)
                << n << " / " << by;
    }
}

} // namespace
} // namespace gradnn::test
