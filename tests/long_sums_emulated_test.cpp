// The long sums of interpolation.gpu_strided, executed on the CPU (emulated/simt.hpp):
// random problems and ways to share the taps, against sums in f64 over the axis maps.
// Needs no GPU.
#include "emulated/simt.hpp"

#include <gtest/gtest.h>

namespace gradnn::gpu::interpolation {
/// The kernel's dynamic shared memory.
alignas(16) uint4 long_shared[256];
} // namespace gradnn::gpu::interpolation

#include "emulated/interpolation.hpp"
#include "gpu/interpolation/long.cuh"
#include "kernel/problem_text.hpp"

namespace gradnn::test {
namespace {

using gpu::interpolation::gathered_axis;
using gpu::interpolation::long_cut;
using gpu::interpolation::strided_shape;
using gpu::interpolation::strided_threads;
using gpu::interpolation::tap_range;

/// The table of an axis, on the host.
template <typename Sum>
struct host_axis {
    explicit host_axis(const detail::axis_map &map)
        : weights(map.all_weights<Sum>()) {
        for (int64_t i = 0; i < map.src; ++i)
            ranges.push_back({map.first(i), map.offset(i), map.count(i)});
    }
    gathered_axis<Sum> get() const { return {ranges.data(), weights.data()}; }

    std::vector<tap_range> ranges;
    std::vector<Sum> weights;
};

template <typename Kernel>
void run_blocks(int64_t blocks, random_source &random, const Kernel &kernel) {
    emulated::shared_memory = reinterpret_cast<char *>(
            static_cast<uint4 *>(gpu::interpolation::long_shared));
    emulated::shared_bytes = sizeof gpu::interpolation::long_shared;
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
    const strided_shape shape
            = gpu::interpolation::strided_shape_of(of.problem);
    const long_cut cut {random.integer(0, 1) == 1, 1 << random.integer(0, 5),
            1 << random.integer(0, 3)};
    // A block has hundreds of fibers.
    if (shape.count / cut.elements > 100) return {};
    const host_axis<sum> d(maps[0]), h(maps[1]), w(maps[2]);
    const auto elements = random_elements<Type>(of.elements[0], random);
    std::vector<Type> diff_src(static_cast<size_t>(of.elements[1]),
            narrow<Type>(static_cast<sum>(NAN)));
    using total = gpu::long_sum<sum>;
    std::vector<total> partial(static_cast<size_t>(shape.count * cut.parts));
    // Fewer blocks than elements need: they go on.
    run_blocks(random.integer(1, 9) * cut.parts, random, [&] {
        gpu::interpolation::long_kernel<Type, uint32_t>(elements.data(),
                diff_src.data(), partial.data(), shape, d.get(), h.get(),
                w.get(), cut);
    });
    if (cut.parts > 1)
        run_blocks((shape.count + strided_threads - 1) / strided_threads,
                random, [&] {
                    gpu::interpolation::long_parts_kernel<Type, uint32_t>(
                            partial.data(), diff_src.data(), shape, cut.parts);
                });
    SCOPED_TRACE(detail::given(of.problem));
    expect_right(of, maps, elements, diff_src);
    return std::to_string(cut.side_by_side) + std::to_string(cut.elements) + " "
            + std::to_string(cut.parts);
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
    detail::interpolation_problem problem;
    problem.diff_src.dims = {1, 320, 1, 1, 1};
    problem.diff_dst.dims = {1, 320, 64, 64, 64};
    problem.diff_src.strides = {0, 1, 0, 0, 0};
    problem.diff_dst.strides = {0, 1 << 18, 1 << 12, 64, 1};
    strided_shape shape = gpu::interpolation::strided_shape_of(problem);
    const long_cut ncx = long_cut_of(shape, 1 << 18);
    EXPECT_FALSE(ncx.side_by_side);
    EXPECT_EQ(ncx.elements, 1);
    EXPECT_EQ(ncx.parts, 4);
    // Eight elements of 1,024 taps.
    EXPECT_EQ(long_cut_of(shape, 1024).elements, 8);
    EXPECT_EQ(long_cut_of(shape, 1024).parts, 1);
    problem.diff_dst.strides = {0, 1, 64 * 64 * 320, 64 * 320, 320};
    shape = gpu::interpolation::strided_shape_of(problem);
    const long_cut nxc = long_cut_of(shape, 1 << 18);
    EXPECT_TRUE(nxc.side_by_side);
    EXPECT_EQ(nxc.elements, 32);
    EXPECT_EQ(nxc.parts, 64);
}

// One axis, whose others have one element and strides of 0.
TEST(long_sums_emulated, cut_of_one_axis) {
    detail::interpolation_problem problem;
    problem.diff_src.dims = {4, 128, 1, 1, 172};
    problem.diff_dst.dims = {4, 128, 1, 1, 88064};
    problem.diff_src.strides = {172 * 128, 1, 0, 0, 128};
    problem.diff_dst.strides = {88064 * 128, 1, 0, 0, 128};
    const long_cut nxc
            = long_cut_of(gpu::interpolation::strided_shape_of(problem), 1024);
    EXPECT_TRUE(nxc.side_by_side);
    EXPECT_EQ(nxc.elements, 32);
}

} // namespace
} // namespace gradnn::test
