// What interpolation.gpu_resample makes of a problem ahead of its cuts, on the host: how rows
// lie that are walked first, and which problems are.
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/text.hpp"
#include "gpu/interpolation/cuts.hpp"

namespace gradnn::test {
namespace {

using namespace gpu::resample;
using detail::data_type;
using detail::interpolation_problem;
using detail::tensor_view;
using detail::text;

// What is left of a walk that comes first begins at rows of diff_src, whose distance may be
// odd: no vector of them is stored then.
TEST(resample_lines, rows_at_odd_distances_are_stored_by_elements) {
    specification_of_kernel s {};
    s.of.type = element::f64;
    s.of.inner = s.of.outer[0] = s.of.outer[1] = s.of.outer[2] = 1;
    s.of.outer[3] = 1;
    s.of.alignment = 16;
    s.of.walk_first = true;
    s.of.middle = {1, 1, 1, 1, false, 0, 0};
    s.of.column = {4, 8, 3, 4, true, 1, 1};
    s.cut_by.vector = s.cut_by.read_vector = 1;
    s.cut_by.columns = 4;
    s.cut_by.threads = 32;
    s.cut_by.parts = s.cut_by.planes = s.cut_by.middle_part = 1;
    for (const long long pitch : {8LL, 9LL, 10LL}) {
        s.of.walk = {2, 4, 3, 3, true, pitch, 8};
        EXPECT_EQ(geometry_of({rest_of_walk(s.of), rest_of_walk(s.cut_by)})
                          .write_vector,
                pitch % 2 == 0 ? 2 : 1)
                << pitch;
    }
}

/// Dense planes or volumes of bf16 in NCX.
interpolation_problem dense_problem(int64_t images, int64_t channels,
        std::array<int64_t, 3> src, std::array<int64_t, 3> dst) {
    interpolation_problem p;
    p.mode = detail::interpolation_mode::linear;
    p.coordinates = detail::coordinate_mode::half_pixel;
    p.diff_src.type = p.diff_dst.type = data_type::bf16;
    const auto lay_out = [&](tensor_view &of, const auto &space) {
        of.dims = {images, channels, space[0], space[1], space[2]};
        of.strides[4] = 1;
        for (size_t i = 4; i > 0; --i)
            of.strides[i - 1] = of.strides[i] * of.dims[i];
    };
    lay_out(p.diff_src, src);
    lay_out(p.diff_dst, dst);
    for (size_t a = 0; a < 3; ++a) {
        p.axes[a].src = src[a];
        p.axes[a].dst = dst[a];
    }
    return p;
}

// The order of sums is that of one image, at any address and on any GPU; ops around it change
// nothing, but that one ahead is refused where rows are summed first. Another order of these
// problems is other bits: a change of the estimates that brings it says so.
TEST(resample_maps, the_order_of_sums_follows_from_one_image) {
    using space = std::array<int64_t, 3>;
    struct shape {
        space src, dst;
        bool walk_first;
    };
    for (const auto &[src, dst, expected] :
            {shape {{40, 50, 60}, {77, 91, 133}, true},
                    {{1, 33, 33}, {1, 513, 513}, true},
                    {{1, 64, 64}, {1, 128, 128}, false},
                    {{1, 30, 34}, {1, 104, 53}, true},
                    {{7, 7, 7}, {14, 14, 14}, false},
                    {{1, 98, 98}, {1, 103, 103}, false}}) {
        std::string refusal;
        const auto order_of = [&](int64_t images, int alignment) {
            return specification_of(
                    {dense_problem(images, 3, src, dst)}, alignment, refusal)
                    ->specification.walk_first;
        };
        const bool first = order_of(1, 16);
        SCOPED_TRACE(text(src[0], 'x', src[1], 'x', src[2]));
        EXPECT_EQ(first, expected);
        for (const int64_t images : {1, 2, 37, 4000})
            for (const int alignment : {16, 2})
                EXPECT_EQ(order_of(images, alignment), first);
        detail::fused_interpolation ahead {dense_problem(2, 3, src, dst)};
        ahead.prologue = {detail::elementwise_kind::add};
        EXPECT_NE(specification_of(ahead, 16, refusal).has_value(), first);
        EXPECT_EQ(refusal.empty(), !first) << refusal;
    }
}

// A row of the walk ends one position at most, and adds to two: of wider filters, and where rows
// pass a position, the walk comes last.
TEST(resample_maps, the_walk_comes_first_where_no_position_is_passed) {
    const auto comes_first = [](const auto &change) {
        interpolation_problem p
                = dense_problem(1, 3, {40, 50, 60}, {77, 91, 133});
        change(p);
        std::string refusal;
        const auto form = specification_of({p}, 16, refusal);
        EXPECT_TRUE(form.has_value()) << refusal;
        return form && form->specification.walk_first;
    };
    EXPECT_TRUE(comes_first([](auto &) {}));
    EXPECT_FALSE(comes_first(
            [](auto &p) { p.mode = detail::interpolation_mode::cubic; }));
    EXPECT_FALSE(comes_first([](auto &p) {
        p.axes[0].ratio_given = true;
        p.axes[0].ratio = 2;
    }));
}

// 16 terms along each axis are many for a thread, unless an image has enough sums; the number of
// images says nothing.
TEST(resample_maps, long_sums_are_taken_where_an_image_has_many) {
    for (const int64_t images : {1, 1000})
        for (const int64_t channels : {128, 127}) {
            std::string refusal;
            const auto form = specification_of(
                    {dense_problem(images, channels, {4, 4, 4}, {32, 32, 32}),
                            {}, {}},
                    16, refusal);
            EXPECT_EQ(form.has_value(), channels == 128);
            EXPECT_EQ(refusal.find("given 8128 sums of 4096, 16 along")
                            != refusal.npos,
                    channels < 128)
                    << refusal;
        }
}

} // namespace
} // namespace gradnn::test
