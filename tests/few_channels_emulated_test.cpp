// convolution.gpu_few_channels on the CPU: its kernels executed (emulated/simt.hpp) in random
// problems, against the formula, and what huge ones are launched with. Needs no GPU.
#include "emulated/simt.hpp"

#include <gtest/gtest.h>

#include "base/text.hpp"
#include "gpu/convolution/few_channels/shape.hpp"
#include "support/plain_convolution.hpp"

namespace gradnn::gpu::few_channels {
namespace {
alignas(16) float4 shared[most_shared_bytes / sizeof(float4)];
}
} // namespace gradnn::gpu::few_channels

#include "gpu/convolution/few_channels/data.cu"

namespace gradnn::test {
namespace {

using namespace gpu::few_channels;
using gpu::ceil_div;

/// The strides along the last axis that there are kernels for, and their longest windows.
constexpr std::array<std::array<int, 2>, 5> strides {
        {{1, 7}, {2, 8}, {4, 12}, {5, 10}, {8, 16}}};

convolution_problem draw(random_source &random, bool huge) {
    convolution_problem p;
    p.direction = convolution_direction::backward_data;
    const auto [stride, longest]
            = strides[static_cast<size_t>(random.integer(0, 4))];
    const int64_t channels = stride == 8 ? 1
            : stride == 5                ? random.integer(1, 3)
                                         : random.integer(1, 4);
    p.src.dims = {random.integer(1, 3), channels, 1, 1, 1};
    p.dst.dims = {p.src.dims[0], random.integer(1, huge ? 70 : 24), 1, 1, 1};
    p.weights.dims = {1, p.dst.dims[1], channels, 1, 1, 1};
    const int64_t most = huge ? int64_t {1} << random.integer(1, 24) : 150;
    const int64_t window = random.integer(1, longest);
    p.src.dims[4] = random.integer(1, most);
    p.strides[2] = stride;
    p.weights.dims[5] = window;
    p.pads_begin[2] = random.integer(-1, window);
    p.dst.dims[4] = std::max<int64_t>(
            1, (p.src.dims[4] + 2 * p.pads_begin[2] - window) / stride);
    return p;
}

std::string given(const convolution_problem &p) {
    return detail::text("src ", detail::text_of(p.src.dims), " window ",
            detail::text_of(p.weights.dims), " strides ",
            detail::text_of(p.strides), " pads ",
            detail::text_of(p.pads_begin));
}

/// `data` are src, weights and dst.
void carry_out(const convolution_problem &p, bool descending,
        std::array<memory, 3> &data) {
    problem_shape shape = shape_of(p);
    const launch_grid grid = cut(shape, p.src.dims[0], 132, most_shared_bytes);
    ASSERT_GT(grid.blocks, 0);
    std::vector<float> src(data[0].begin(), data[0].end());
    const std::vector<float> weights(data[1].begin(), data[1].end());
    const std::vector<float> dst(data[2].begin(), data[2].end());
    const int64_t count = int64_t {shape.outputs}
            * tap_floats(shape.steps, shape.stride, shape.held_channels);
    std::vector<float4> gathered(static_cast<size_t>(count / 4));
    auto *const floats = reinterpret_cast<float *>(gathered.data());
    emulated::tensors
            = {{dst.data(), dst.data() + dst.size()}, {floats, floats + count}};
    emulated::shared_memory
            = reinterpret_cast<char *>(gpu::few_channels::shared);
    emulated::shared_bytes = grid.shared_bytes;
    for (unsigned i = 0; i < ceil_div(count, int64_t {most_threads}); ++i)
        emulated::block::run(i, most_threads, descending, [&] {
            few_weights_kernel(weights.data(), floats, shape, count);
        });
    data_kernel *const kernel = data_kernel_of(shape);
    for (unsigned i = 0; i < grid.blocks; ++i) {
        std::memset(gpu::few_channels::shared, 0xff,
                sizeof gpu::few_channels::shared);
        emulated::block::run(i, static_cast<unsigned>(grid.threads), descending,
                [&] { kernel(dst.data(), floats, src.data(), shape); });
    }
    data[0].assign(src.begin(), src.end());
}

TEST(few_channels_emulated, computes_the_problem) {
    random_source random(test_seed(1));
    for (int left = thinned() ? 40 : 150; left > 0 && !HasFailure(); --left) {
        auto p = draw(random, false);
        lay_out(p, random);
        SCOPED_TRACE(given(p));
        // Whole numbers, whose sums f32 holds.
        std::array<memory, 3> found = random_data(p, 0, random);
        for (size_t input = 1; input < 3; ++input)
            for (double &value : found[input])
                value = std::round(8 * value);
        std::array<memory, 3> expected = found;
        by_formula(p, 0, expected);
        carry_out(p, left % 2 == 0, found);
        EXPECT_TRUE(same(found[0], expected[0]));
    }
}

TEST(few_channels_emulated, cuts_fit_the_device_in_huge_problems) {
    random_source random(test_seed(2));
    std::array<int, 2> kinds {};
    for (int left = 3000; left > 0 && !HasFailure(); --left) {
        const auto p = draw(random, true);
        const int64_t images = int64_t {1} << random.integer(0, 40);
        SCOPED_TRACE(detail::text(given(p), " images ", images));
        problem_shape shape = shape_of(p);
        const launch_grid grid = cut(shape, images, 132, most_shared_bytes);
        ++kinds[grid.blocks > 0 ? 0 : 1];
        if (grid.blocks == 0) continue;
        EXPECT_LE(static_cast<int64_t>(grid.shared_bytes), most_shared_bytes);
        EXPECT_EQ(grid.threads % 32, 0);
        EXPECT_GE(grid.threads, 32);
        EXPECT_LE(grid.threads, most_threads);
        EXPECT_LT(grid.blocks, INT32_MAX);
    }
    EXPECT_GE(kinds[0], 100);
    EXPECT_GE(kinds[1], 100);
}

// A device whose blocks may have less than a warp of lines takes.
TEST(few_channels_emulated, has_no_cut_where_shared_memory_is_too_small) {
    convolution_problem p;
    p.src.dims = {1, 4, 1, 1, 100};
    p.dst.dims = {1, 8, 1, 1, 100};
    p.weights.dims = {1, 8, 4, 1, 1, 7};
    problem_shape shape = shape_of(p);
    EXPECT_EQ(cut(shape, 1, 132, 1024).blocks, 0);
}

} // namespace
} // namespace gradnn::test
