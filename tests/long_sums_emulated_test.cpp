// interpolation.gpu_strided, executed on the CPU (emulated/simt.hpp): random problems and
// ways to share the taps, against sums in f64 over the axis maps.
// Needs no GPU.
#include "emulated/simt.hpp"

#include <array>
#include <cmath>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

namespace gradnn::gpu::interpolation {
/// The kernel's dynamic shared memory.
alignas(16) uint4 strided_shared[256];
} // namespace gradnn::gpu::interpolation

#include "gpu/device/dtype.cuh"
#include "gpu/interpolation/strided.cuh"
#include "kernel/axis_map.hpp"
#include "kernel/problem_text.hpp"
#include "support/random.hpp"

namespace gradnn::test {
namespace {

using namespace gpu::interpolation;
using detail::interpolation_problem;
using detail::tensor_view;
using gpu::narrow;
using gpu::sum_of;
using gpu::widen;

template <typename Type>
constexpr detail::data_type type_of() {
    if (std::is_same_v<Type, float>) return detail::data_type::f32;
    if (std::is_same_v<Type, double>) return detail::data_type::f64;
    return std::is_same_v<Type, __half> ? detail::data_type::f16
                                        : detail::data_type::bf16;
}

/// Dense, or with gaps between rows. Returns its elements.
int64_t lay_out(tensor_view &view, bool nxc, int64_t gap) {
    const std::array<size_t, 5> order = nxc
            ? std::array<size_t, 5> {1, 4, 3, 2, 0}
            : std::array<size_t, 5> {4, 3, 2, 1, 0};
    int64_t stride = 1;
    for (const size_t axis : order) {
        view.strides[axis] = stride;
        stride *= view.dims[axis];
        if (axis == 4) stride += gap;
    }
    return stride;
}

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
    if (made.nxc && one_in(2)) channels = (channels + 3) / 4 * 4;
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
    }
    for (size_t axis = 0; axis < 3; ++axis) {
        p.axes[axis].src = p.diff_src.dims[axis + 2];
        p.axes[axis].dst = p.diff_dst.dims[axis + 2];
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

using axis_maps = std::array<detail::axis_map, 3>;

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
            : sizeof(Type) == 4                         ? 2e-7
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

/// The tables of the axes, on the host, for a problem's work.
struct host_axes {
    host_axes(const axis_maps &maps, strided_work &work) {
        for (size_t axis = 0; axis < 3; ++axis) {
            const detail::axis_map &map = maps[axis];
            for (int64_t i = 0; i < map.src; ++i)
                ranges[axis].push_back(
                        {map.first(i), map.count(i), map.offset(i)});
            weights[axis] = map.all_weights<double>();
            work.ranges[axis] = ranges[axis].data();
            work.weights[axis] = weights[axis].data();
        }
    }

    std::array<std::vector<tap_range>, 3> ranges;
    std::array<std::vector<double>, 3> weights;
};

template <typename Kernel>
void run_blocks(int64_t blocks, random_source &random, const Kernel &kernel) {
    emulated::shared_memory
            = reinterpret_cast<char *>(static_cast<uint4 *>(strided_shared));
    emulated::shared_bytes = sizeof strided_shared;
    emulated::grid_size = {static_cast<unsigned>(blocks), 1, 1};
    for (int64_t i = 0; i < blocks; ++i)
        emulated::block::run(static_cast<unsigned>(i), strided_threads,
                random.integer(0, 1) == 1, kernel);
}

/// What was run: "side by side", elements, parts.
template <typename Type>
std::string run_sample(random_source &random) {
    using sum = sum_of<Type>;
    const sample of = random_sample(random, type_of<Type>());
    const axis_maps maps = make_axis_maps(of.problem);
    strided_work work = strided_work_of(of.problem, 1);
    work.side_by_side = random.integer(0, 1) == 1;
    work.elements = 1 << random.integer(0, 8);
    work.parts = 1 << random.integer(0, 3);
    // A block has hundreds of fibers.
    if (work.count / work.elements > 100) return {};
    const host_axes axes(maps, work);
    const auto elements = random_elements<Type>(of.elements[0], random);
    std::vector<Type> diff_src(static_cast<size_t>(of.elements[1]),
            narrow<Type>(static_cast<sum>(NAN)));
    using total = gpu::long_sum<sum>;
    std::vector<total> partial(static_cast<size_t>(work.count * work.parts));
    const auto run = [&](int64_t blocks, const total *from, total *to) {
        run_blocks(blocks, random, [&] {
            strided_kernel<Type>(
                    elements.data(), diff_src.data(), from, to, work);
        });
    };
    // Fewer blocks than elements need: they go on.
    run(random.integer(1, 9) * work.parts, nullptr,
            work.parts > 1 ? partial.data() : nullptr);
    if (work.parts > 1) run(random.integer(1, 3), partial.data(), nullptr);
    SCOPED_TRACE(detail::given(of.problem));
    expect_right(of, maps, elements, diff_src);
    return std::to_string(work.side_by_side) + std::to_string(work.elements)
            + " " + std::to_string(work.parts);
}

template <typename Type>
void run_samples(uint64_t seed) {
    const auto seen
            = kinds_of_samples(seed, thinned() ? 40 : 100, run_sample<Type>);
    if (testing::Test::HasFailure()) return;
    EXPECT_GE(seen.size(), thinned() ? 8U : 15U);
}

TEST(long_sums_emulated, f32) {
    run_samples<float>(1);
}
TEST(long_sums_emulated, bf16) {
    run_samples<__nv_bfloat16>(2);
}
TEST(long_sums_emulated, f64) {
    run_samples<double>(3);
}

// Parts and threads follow from the number of taps and elements.
TEST(long_sums_emulated, cut) {
    // As compiling writes it: axes of one element have strides of 0.
    interpolation_problem problem;
    problem.diff_src.dims = {1, 320, 1, 1, 1};
    problem.diff_dst.dims = {1, 320, 64, 64, 64};
    problem.diff_src.strides = {0, 1, 0, 0, 0};
    problem.diff_dst.strides = {0, 1 << 18, 1 << 12, 64, 1};
    const strided_work ncx = strided_work_of(problem, 1 << 18);
    EXPECT_FALSE(ncx.side_by_side);
    EXPECT_EQ(ncx.elements, 1);
    EXPECT_EQ(ncx.parts, 4);
    // Eight elements of 1,024 taps.
    EXPECT_EQ(strided_work_of(problem, 1024).elements, 8);
    EXPECT_EQ(strided_work_of(problem, 1024).parts, 1);
    // Few taps: a thread has them alone.
    EXPECT_EQ(strided_work_of(problem, 16).elements, strided_threads);
    problem.diff_dst.strides = {0, 1, 64 * 64 * 320, 64 * 320, 320};
    const strided_work nxc = strided_work_of(problem, 1 << 18);
    EXPECT_TRUE(nxc.side_by_side);
    EXPECT_EQ(nxc.elements, 32);
    EXPECT_EQ(nxc.parts, 64);
}

// One axis, whose others have one element and strides of 0.
TEST(long_sums_emulated, cut_of_one_axis) {
    interpolation_problem problem;
    problem.diff_src.dims = {4, 128, 1, 1, 172};
    problem.diff_dst.dims = {4, 128, 1, 1, 88064};
    problem.diff_src.strides = {172 * 128, 1, 0, 0, 128};
    problem.diff_dst.strides = {88064 * 128, 1, 0, 0, 128};
    const strided_work nxc = strided_work_of(problem, 1024);
    EXPECT_TRUE(nxc.side_by_side);
    EXPECT_EQ(nxc.elements, 32);
}

} // namespace
} // namespace gradnn::test
