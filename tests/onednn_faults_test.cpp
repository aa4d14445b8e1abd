// What the rules of src/cpu/convolution/onednn/faults.cpp refuse, on any CPU: they
// are asked about implementations by name. That the same shapes are right whatever
// computes them is for convolution_test (window_beyond_depth and others).
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

#include "cpu/convolution/onednn/faults.hpp"
#include "support/op_builders.hpp"

namespace gradnn::test {
namespace {

namespace onednn = cpu::onednn;
using detail::convolution_direction;
using detail::convolution_problem;

/// The gradient of the weights, dense and in NXC.
onednn::geometry weights_gradient(const convolution_case &c) {
    convolution_problem p;
    p.direction = convolution_direction::backward_weights;
    p.src.type = p.weights.type = p.dst.type = detail::data_type::f32;
    p.src.dims = {c.n, c.large_channels, 1, 1, 1};
    p.dst.dims = {c.n, c.small_channels, 1, 1, 1};
    p.weights.dims = {c.groups, c.small_channels / c.groups,
            c.large_channels / c.groups, 1, 1, 1};
    const sizes small = c.small();
    const size_t skipped = 3 - c.kernel.size();
    for (size_t axis = 0; axis < c.kernel.size(); ++axis) {
        const size_t at = axis + skipped;
        p.src.dims[at + 2] = c.large[axis];
        p.dst.dims[at + 2] = small[axis];
        p.weights.dims[at + 3] = c.kernel[axis];
        p.strides[at] = c.strides[axis];
        p.dilations[at] = c.dilations[axis];
        p.pads_begin[at] = c.pads_begin[axis];
    }
    std::string refusal;
    const auto geometry = onednn::make_geometry(p, refusal);
    if (!geometry) throw std::invalid_argument(refusal);
    return *geometry;
}

bool refuses(const std::string &implementation, const convolution_case &c,
        convolution_direction direction
        = convolution_direction::backward_weights) {
    auto problem = weights_gradient(c);
    problem.direction = direction;
    onednn::implementation found;
    found.name = implementation;
    const auto nxc = [](const onednn::operand &tensor) {
        return dnnl::memory::desc(tensor.sizes, dnnl::memory::data_type::f32,
                onednn::channels_last_strides(tensor.sizes));
    };
    found.src = nxc(problem.src);
    found.dst = nxc(problem.dst);
    return onednn::is_faulty(problem, found);
}

convolution_case cube(
        int64_t depth, int64_t window, int64_t stride, int64_t pad) {
    return {"cube", 1, 1, 16, 16, {depth, 12, 12}, {window, 3, 3},
            {stride, 1, 1}, {1, 1, 1}, {pad, 1, 1}, {pad, 1, 1}};
}

convolution_case square(int64_t groups, int64_t channels, int64_t dilation) {
    return {"square", 2, groups, channels, channels, {22, 30}, {3, 3}, {1, 1},
            {dilation, dilation}, {dilation, dilation}, {dilation, dilation}};
}

TEST(onednn_faults, windows_that_leave_a_depth_at_both_ends) {
    const std::string f32 = "jit:avx512_core";
    const std::string bf16 = "jit_bf16:avx512_core_bf16";
    for (const auto &name : {f32, bf16}) {
        EXPECT_TRUE(refuses(name, cube(5, 7, 2, 3))) << name;
        EXPECT_TRUE(refuses(name, cube(3, 5, 2, 3))) << name;
        // The window fits, but not from the second of the two positions.
        EXPECT_TRUE(refuses(name, cube(5, 5, 2, 3))) << name;
        EXPECT_FALSE(refuses(name, cube(6, 5, 2, 3))) << name;
        EXPECT_FALSE(refuses(name, cube(5, 5, 1, 2))) << name;
        EXPECT_FALSE(refuses(name, cube(16, 7, 2, 3))) << name;
    }
    EXPECT_FALSE(refuses(f32, cube(5, 5, 2, 0)));
    EXPECT_FALSE(refuses("jit:avx2", cube(5, 7, 2, 3)));
    EXPECT_FALSE(refuses("x64:gemm:jit", cube(5, 7, 2, 3)));
}

TEST(onednn_faults, tall_windows_that_leave_both_ends) {
    const auto plane = [](int64_t rows) {
        return convolution_case {"plane", 1, 1, 16, 16, {rows, 40}, {13, 3},
                {1, 1}, {1, 1}, {6, 1}, {6, 1}};
    };
    EXPECT_TRUE(refuses("jit:avx512_core", plane(10)));
    // All rows in one step.
    EXPECT_FALSE(refuses("jit:avx512_core", plane(9)));
    EXPECT_FALSE(refuses("jit:avx512_core", plane(13)));
}

TEST(onednn_faults, rows_that_are_padded_far) {
    // 30 points of dst, in two blocks.
    const auto row = [](int64_t columns, int64_t stride, int64_t pad) {
        return convolution_case {"row", 1, 1, 16, 16, {columns}, {7}, {stride},
                {3}, {pad}, {pad}};
    };
    const std::string name = "jit:avx512_core";
    EXPECT_TRUE(refuses(name, row(46, 2, 16)));
    EXPECT_FALSE(refuses(name, row(46, 2, 12)));
    EXPECT_FALSE(refuses(name, row(36, 2, 16)));
    EXPECT_FALSE(refuses(name, row(46, 1, 16)));
    EXPECT_FALSE(refuses("jit:avx2", row(46, 2, 16)));
}

TEST(onednn_faults, rows_that_are_padded_and_cropped) {
    const auto forward = convolution_direction::forward;
    // Two positions of a window of 3, from -pad and 4 further on.
    const auto row = [](int64_t columns, int64_t pad) {
        return convolution_case {"row", 1, 1, 16, 16, {11, columns}, {1, 3},
                {1, 4}, {1, 1}, {0, pad}, {0, 7 - pad - columns}};
    };
    const std::string name = "brgconv:avx512_core_bf16";
    EXPECT_TRUE(refuses(name, row(7, 3), forward));
    EXPECT_TRUE(refuses(name, row(5, 3), forward));
    EXPECT_FALSE(refuses(name, row(4, 3), forward));
    EXPECT_FALSE(refuses(name, row(7, 0), forward));
    EXPECT_FALSE(refuses("jit:avx512_core", row(7, 3), forward));
}

TEST(onednn_faults, dilated_windows_of_partial_vectors) {
    for (const std::string name :
            {"jit_bf16:avx512_core_bf16", "jit:avx512_core_amx_bf16"}) {
        EXPECT_TRUE(refuses(name, square(8, 32, 2))) << name;
        EXPECT_TRUE(refuses(name, square(32, 128, 2))) << name;
        EXPECT_TRUE(refuses(name, square(1, 20, 2))) << name;
        EXPECT_FALSE(refuses(name, square(1, 32, 2))) << name;
        EXPECT_FALSE(refuses(name, square(8, 32, 1))) << name;
    }
    EXPECT_FALSE(refuses("jit:avx512_core", square(8, 32, 2)));
    const convolution_case one_row {"one_row", 2, 1, 20, 20, {22, 30}, {1, 3},
            {1, 1}, {2, 1}, {0, 1}, {0, 1}};
    EXPECT_TRUE(refuses("jit_bf16:avx512_core_bf16", one_row));
}

// In blocks of channels too, whose last one is filled up.
TEST(onednn_faults, points_of_partial_blocks) {
    const auto refuses_blocks = [](int64_t in, int64_t out) {
        auto problem = weights_gradient({"point", 1, 1, in, out, {2, 5}, {1, 1},
                {1, 1}, {1, 1}, {0, 0}, {0, 0}});
        problem.direction = convolution_direction::forward;
        onednn::implementation found;
        found.name = "jit_bf16_1x1:avx512_core";
        const auto blocks = [](const onednn::operand &tensor) {
            return dnnl::memory::desc(tensor.sizes,
                    dnnl::memory::data_type::bf16,
                    dnnl::memory::format_tag::nChw16c);
        };
        found.src = blocks(problem.src);
        found.dst = blocks(problem.dst);
        return onednn::is_faulty(problem, found);
    };
    EXPECT_TRUE(refuses_blocks(16, 65));
    EXPECT_TRUE(refuses_blocks(17, 64));
    EXPECT_FALSE(refuses_blocks(16, 64));
}

TEST(onednn_faults, strides_over_channels_that_fill_no_tile_of_amx) {
    const auto strided = [](int64_t channels, int64_t stride) {
        return convolution_case {"strided", 3, 1, channels, 48, {6, 16}, {3, 2},
                {1, stride}, {1, 1}, {0, 0}, {0, 0}};
    };
    const auto forward = convolution_direction::forward;
    const std::string amx = "brgconv:avx512_core_amx";
    EXPECT_TRUE(refuses(amx, strided(48, 2), forward));
    EXPECT_FALSE(refuses(amx, strided(64, 2), forward));
    EXPECT_FALSE(refuses(amx, strided(48, 1), forward));
    EXPECT_FALSE(refuses("brgconv:avx512_core", strided(48, 2), forward));
}

} // namespace
} // namespace gradnn::test
