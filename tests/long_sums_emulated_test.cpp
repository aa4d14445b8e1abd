// interpolation.gpu_strided, executed on the CPU (emulated/simt.hpp): random problems and
// ways to share the taps, against sums in f64 over the axis maps.
// Needs no GPU.
#include "emulated/simt.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/text.hpp"
#include "gpu_cuts/long_sums.hpp"
#include "kernel/axis_map.hpp"
#include "kernel/problem_text.hpp"

namespace gradnn::test {
namespace {

using gpu::narrow;
using gpu::sum_of;
using gpu::widen;

struct sample {
    interpolation_problem problem;
    bool nxc = false;
    std::array<int64_t, 2> elements {}; ///< of diff_dst and of diff_src
};

sample random_sample(random_source &random, detail::data_type type) {
    using detail::coordinate_mode;
    sample made;
    interpolation_problem &p = made.problem;
    const auto one_in
            = [&](int64_t count) { return random.integer(1, count) == 1; };
    p.mode = one_in(4) ? detail::interpolation_mode::nearest
                       : detail::interpolation_mode::linear;
    p.coordinates = random.pick(std::vector {coordinate_mode::half_pixel,
            coordinate_mode::asymmetric, coordinate_mode::align_corners});
    if (p.mode == detail::interpolation_mode::nearest)
        p.coordinates = coordinate_mode::half_pixel;
    made.nxc = one_in(3);
    int64_t channels = random.integer(1, random.integer(1, 20));
    if (made.nxc && one_in(2)) channels = (channels + 7) / 8 * 8;
    p.diff_src.type = p.diff_dst.type = type;
    p.diff_src.dims = {random.integer(1, 4), channels, 1, 1, 1};
    p.diff_dst.dims = p.diff_src.dims;
    for (size_t axis = one_in(2) ? 3 : 2; axis < 5; ++axis) {
        int64_t &src = p.diff_src.dims[axis];
        int64_t &dst = p.diff_dst.dims[axis];
        src = random.integer(1, random.integer(2, 14));
        dst = random.integer(1, random.integer(2, 24));
        if (one_in(3)) dst = src * random.integer(1, 4);
        if (one_in(6)) src = dst * random.integer(1, 4);
        if (one_in(4)) dst = (dst + 3) / 4 * 4;
        if (axis == 4 && one_in(3)) dst = src * random.integer(16, 24);
    }
    const bool forward = one_in(4);
    for (size_t axis = 0; axis < 3; ++axis) {
        p.axes[axis].src = p.diff_src.dims[axis + 2];
        p.axes[axis].dst = p.diff_dst.dims[axis + 2];
        p.axes[axis].forward = forward;
    }
    const int64_t gap = one_in(5) ? random.integer(1, 4) : 0;
    made.elements = {lay_out(p.diff_dst, made.nxc, gap),
            lay_out(p.diff_src, made.nxc, gap)};
    return made;
}

/// Now and then with a few that are not finite.
template <typename Type>
std::vector<Type> random_elements(int64_t count, random_source &random) {
    using sum = sum_of<Type>;
    std::vector<Type> elements(static_cast<size_t>(count));
    for (Type &each : elements)
        each = narrow<Type>(static_cast<sum>(random.value()));
    if (random.integer(0, 3) == 0)
        for (int left = 3; left > 0; --left)
            elements[static_cast<size_t>(random.integer(0, count - 1))]
                    = narrow<Type>(static_cast<sum>(
                            random.integer(0, 1) == 0 ? HUGE_VAL : NAN));
    return elements;
}

using axis_maps = std::array<detail::axis_map, 3>; // of D, H, W

axis_maps make_axis_maps(const interpolation_problem &problem) {
    axis_maps maps;
    for (size_t axis = 0; axis < 3; ++axis)
        maps[axis] = make_axis_map(
                problem.mode, problem.coordinates, problem.axes[axis]);
    return maps;
}

/// Calls body(position, weight) for each tap.
template <typename Body>
void each_tap(const detail::axis_map &map, int64_t input, const Body &body) {
    const auto at = static_cast<size_t>(input);
    for (int64_t k = 0; k < map.count(at); ++k)
        body(map.first(at) + k, map.weight(map.offset(at) + k));
}

/// Of one element of diff_src: the sum and that of the terms' magnitudes.
template <typename Type>
std::array<double, 2> expected(const interpolation_problem &p,
        const axis_maps &maps, const std::vector<Type> &diff_dst,
        const std::array<int64_t, 5> &at) {
    const auto &strides = p.diff_dst.strides;
    std::array<double, 2> sums {};
    each_tap(maps[0], at[2], [&](int64_t d, double by_depth) {
        each_tap(maps[1], at[3], [&](int64_t h, double by_row) {
            each_tap(maps[2], at[4], [&](int64_t w, double by_column) {
                const int64_t place = at[0] * strides[0] + at[1] * strides[1]
                        + d * strides[2] + h * strides[3] + w * strides[4];
                const double term = by_depth * by_row * by_column
                        * static_cast<double>(
                                widen(diff_dst[static_cast<size_t>(place)]));
                sums[0] += term;
                sums[1] += std::abs(term);
            });
        });
    });
    return sums;
}

template <typename Type>
void expect_right(const sample &of, const axis_maps &maps,
        const std::vector<Type> &diff_dst, const std::vector<Type> &diff_src) {
    const double digits = sizeof(Type) == 8             ? 1e-12
            : sizeof(Type) == 4                         ? 4e-7
            : type_of<Type>() == detail::data_type::f16 ? 2e-3
                                                        : 1e-2;
    const auto &dims = of.problem.diff_src.dims;
    const auto &strides = of.problem.diff_src.strides;
    std::array<int64_t, 5> at {};
    int64_t place = 0;
    const auto next = [&] {
        for (size_t axis = 5; axis-- > 0;) {
            place += strides[axis];
            if (++at[axis] < dims[axis]) return true;
            place -= dims[axis] * strides[axis];
            at[axis] = 0;
        }
        return false;
    };
    do {
        const auto [sum, magnitude] = expected(of.problem, maps, diff_dst, at);
        const auto found = static_cast<double>(
                widen(diff_src[static_cast<size_t>(place)]));
        const double most = digits * magnitude
                + (type_of<Type>() == detail::data_type::f16 ? 1e-6 : 0);
        if (std::isfinite(sum))
            ASSERT_LE(std::abs(found - sum), most) << "element " << place;
        else
            ASSERT_FALSE(std::isfinite(found)) << "element " << place;
    } while (next());
}

/// Runs sample(random), which returns what kind it was, or nothing, until one fails.
/// Returns the kinds.
template <typename Sample>
std::set<std::string> kinds_of_samples(
        uint64_t seed, int count, const Sample &sample) {
    random_source random(test_seed(seed));
    std::set<std::string> seen;
    for (; count > 0 && !testing::Test::HasFailure(); --count)
        seen.insert(sample(random));
    seen.erase("");
    return seen;
}

/// What was run: "vector, together, chunk, lanes, parts".
template <typename Type>
std::string run_sample(random_source &random) {
    using sum = sum_of<Type>;
    const sample of = random_sample(random, type_of<Type>());
    SCOPED_TRACE(detail::given(of.problem));
    std::string refusal;
    const auto mapped = specification_of({of.problem}, 16, refusal, true);
    if (!mapped) {
        ADD_FAILURE() << refusal;
        return {};
    }
    sharing h = sharing_of(
            mapped->specification, true, is_of_ones(mapped->maps[2]), 1);
    h.lanes = 1 << random.integer(0, 8);
    while (h.lanes * h.side > generic_threads)
        h.lanes /= 2;
    h.parts = 1 << random.integer(0, 3);
    // A block has hundreds of fibers.
    if (h.groups * h.lanes * h.side > 100 * generic_threads) return {};
    const auto elements = random_elements<Type>(of.elements[0], random);
    // At any multiple of their elements.
    const auto apart = [&] {
        return static_cast<size_t>(random.integer(0, 1) * random.integer(1, 7));
    };
    const auto bytes_of_all = [](size_t count) {
        return std::vector<uint4>((count * sizeof(Type) + 15) / 16);
    };
    const size_t read_at = apart(), written_at = apart();
    auto read = bytes_of_all(elements.size() + read_at);
    std::vector<Type> diff_src(static_cast<size_t>(of.elements[1]),
            narrow<Type>(static_cast<sum>(NAN)));
    auto written = bytes_of_all(diff_src.size() + written_at);
    auto *const from = reinterpret_cast<Type *>(read.data()) + read_at;
    auto *const to = reinterpret_cast<Type *>(written.data()) + written_at;
    std::ranges::copy(elements, from);
    std::ranges::copy(diff_src, to);
    using run = strided_run<Type>;
    run made {random, *mapped, h,
            reinterpret_cast<const typename run::stored *>(from),
            reinterpret_cast<typename run::stored *>(to)};
    made.run_any();
    std::copy_n(to, diff_src.size(), diff_src.begin());
    expect_right(of, make_axis_maps(of.problem), elements, diff_src);
    return detail::text(h.vector, ' ', h.together, ' ', h.chunk, ": ", h.lanes,
            ' ', h.parts);
}

template <typename Type>
void run_samples(uint64_t seed) {
    const auto seen
            = kinds_of_samples(seed, thinned() ? 20 : 50, run_sample<Type>);
    if (testing::Test::HasFailure()) return;
    EXPECT_GE(seen.size(), thinned() ? 6U : 12U);
    std::set<std::string> kernels;
    for (const std::string &each : seen)
        kernels.insert(each.substr(0, each.find(':')));
    EXPECT_GE(kernels.size(), thinned() ? 3U : 4U);
}

TEST(long_sums_emulated, f32) {
    run_samples<float>(1);
}
TEST(long_sums_emulated, bf16) {
    run_samples<__nv_bfloat16>(2);
}
TEST(long_sums_emulated, f16) {
    run_samples<__half>(4);
}
TEST(long_sums_emulated, f64) {
    run_samples<double>(3);
}

/// The elements of diff_src of the first image of an f32 problem, of `images` with these elements
/// each and in memory that begins so many elements behind a multiple of 16 bytes.
std::vector<float> first_image(interpolation_problem p, int64_t images,
        size_t apart, const std::vector<float> &image) {
    random_source random(5);
    p.diff_src.dims[0] = p.diff_dst.dims[0] = images;
    if (images == 1) p.diff_src.strides[0] = p.diff_dst.strides[0] = 0;
    std::string refusal;
    const auto mapped = specification_of({p}, 16, refusal, true);
    const sharing h = sharing_of(
            mapped->specification, true, is_of_ones(mapped->maps[2]), 1);
    const auto count = static_cast<size_t>(images);
    const auto written_elements = static_cast<size_t>(p.diff_src.dims[1]
            * p.diff_src.dims[2] * p.diff_src.dims[3] * p.diff_src.dims[4]);
    std::vector<float4> memory((image.size() * count + apart + 3) / 4),
            output((written_elements * count + apart + 3) / 4);
    float *const read = &memory[0].x + apart;
    float *const written = &output[0].x + apart;
    for (size_t i = 0; i < count; ++i)
        std::ranges::copy(image, read + i * image.size());
    strided_run<float> made {random, *mapped, h, read, written};
    made.run_any();
    return {written, written + written_elements};
}

// Sums that cancel, so that another order has other bits. Rows have some chunks more than a sum
// ends with.
TEST(long_sums_emulated, same_bits_at_any_place_and_of_any_number_of_images) {
    struct shape {
        std::array<int64_t, 5> src, dst;
        bool nxc;
    };
    random_source random(test_seed(6));
    for (const shape &each :
            {shape {{1, 1, 1, 1, 1}, {1, 1, 1, 1, 15003}, false},
                    {{1, 3, 1, 1, 2}, {1, 3, 1, 1, 4213}, false},
                    {{1, 2, 1, 2, 1}, {1, 2, 1, 41, 333}, false},
                    {{1, 8, 1, 1, 1}, {1, 8, 1, 31, 67}, true},
                    {{1, 5, 1, 1, 3}, {1, 5, 1, 1, 2999}, true}}) {
        interpolation_problem p = dense_problem(
                detail::data_type::f32, each.src, each.dst, each.nxc);
        SCOPED_TRACE(detail::given(p));
        std::vector<float> image(static_cast<size_t>(
                each.dst[1] * each.dst[2] * each.dst[3] * each.dst[4]));
        const auto channels = static_cast<size_t>(each.dst[1]);
        const size_t points = image.size() / channels;
        for (size_t c = 0; c < channels; ++c)
            for (size_t i = 0; i < points / 2; ++i) {
                const auto at = [&](size_t point) -> float & {
                    return image[each.nxc ? point * channels + c
                                          : c * points + point];
                };
                at(i) = static_cast<float>(random.value());
                at(points - 1 - i) = -at(i);
            }
        const auto wanted = first_image(p, 1, 0, image);
        for (const int64_t images : {1, 2, 5})
            for (const size_t apart : {0U, 1U, 3U})
                EXPECT_EQ(first_image(p, images, apart, image), wanted)
                        << images << " images, " << apart << " apart";
    }
}

/// How threads share the sums of a problem in bf16.
sharing sharing_in_bf16(const std::array<int64_t, 5> &src,
        const std::array<int64_t, 5> &dst, bool nxc) {
    std::string refusal;
    const auto mapped = specification_of(
            {dense_problem(detail::data_type::bf16, src, dst, nxc)}, 16,
            refusal, true);
    EXPECT_TRUE(mapped.has_value()) << refusal;
    return sharing_of(
            mapped->specification, true, is_of_ones(mapped->maps[2]), 1);
}

// Threads and blocks follow from the taps of a sum, not from the number of sums.
TEST(long_sums_emulated, cut) {
    // A volume that one point has is one row, of which threads take 16 bytes at a time.
    for (const int64_t images : {1, 100}) {
        const sharing ncx = sharing_in_bf16(
                {images, 320, 1, 1, 1}, {images, 320, 63, 64, 65}, false);
        EXPECT_EQ(ncx.chunk, 8);
        EXPECT_TRUE(ncx.ones);
        EXPECT_EQ(ncx.lanes, generic_threads);
        EXPECT_EQ(ncx.parts, 2);
        const sharing nxc = sharing_in_bf16(
                {images, 320, 1, 1, 1}, {images, 320, 63, 64, 65}, true);
        EXPECT_EQ(nxc.vector, 8);
        EXPECT_EQ(nxc.side, 4);
        EXPECT_EQ(nxc.lanes, generic_threads / 4);
        EXPECT_EQ(nxc.parts, 64);
    }
    // Channels that share weights.
    const sharing rows
            = sharing_in_bf16({4, 64, 1, 1, 172}, {4, 64, 1, 1, 88064}, false);
    EXPECT_EQ(rows.together, 4);
    EXPECT_FALSE(rows.ones);
    EXPECT_EQ(rows.lanes, 32);
    // Few taps: a thread has them alone.
    EXPECT_EQ(
            sharing_in_bf16({1, 3, 1, 9, 9}, {1, 3, 1, 5, 5}, false).lanes, 1);
}

} // namespace
} // namespace gradnn::test
