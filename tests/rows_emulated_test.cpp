// The kernel of interpolation.gpu_rows, executed on the CPU (emulated/simt.hpp):
// random problems, at random distances from multiples of 16 bytes, against sums in
// f64 over the axis maps. Needs no GPU.
#include "emulated/simt.hpp"

#include <sstream>

#include <gtest/gtest.h>

#include "gpu/interpolation/rows/cut.hpp"

namespace gradnn::gpu::interpolation::rows {
/// The kernel's dynamic shared memory.
alignas(16) uint4 rows_shared[16384];
} // namespace gradnn::gpu::interpolation::rows

#include "emulated/interpolation.hpp"
#include "gpu/interpolation/rows/described.hpp"
#include "gpu/interpolation/rows/kernel.cuh"
#include "kernel/problem_text.hpp"

namespace gradnn::test {
namespace {

template <typename Type, int taps, bool single>
void run_kernel(const rows::work_cut &cut, int threads, int64_t blocks,
        const detail::padded_taps<sum_of<Type>> &table, const Type *diff_dst,
        Type *diff_src, random_source &random) {
    char *const shared = reinterpret_cast<char *>(rows::rows_shared);
    emulated::shared_memory = shared;
    emulated::shared_bytes = static_cast<size_t>(rows::stages)
            * static_cast<size_t>(cut.stage_bytes);
    ASSERT_LE(emulated::shared_bytes, sizeof rows::rows_shared);
    for (int64_t index = 0; index < blocks; ++index) {
        std::memset(shared, 0xff, sizeof rows::rows_shared);
        emulated::block::run(static_cast<unsigned>(index),
                static_cast<unsigned>(threads), random.integer(0, 1) == 1, [&] {
                    rows::rows_kernel<Type, taps, single>(diff_dst, diff_src,
                            cut, table.first.data(), table.weights.data());
                });
    }
}

/// What was run: "several rows, single, 4 taps".
template <typename Type>
std::string run_sample(random_source &random) {
    using sum = sum_of<Type>;
    const sample of = random_sample(random, type_of<Type>(), true);
    const axis_maps maps = make_axis_maps(of.problem);
    if (is_copy(maps)) return {};
    std::string why;
    const auto described = rows::describe(of.problem, why);
    if (!described) return {};
    const auto table
            = detail::pad_taps<sum>(of.problem.mode, of.problem.coordinates,
                    of.problem.axes[described->axis], described->taps);
    const int64_t most_bytes = random.integer(0, 2) == 0
            ? int64_t {sizeof rows::rows_shared} / rows::stages
            : random.integer(100, 2000);
    auto [cut, threads] = rows::choose_tiles(described->cut, table.first,
            described->taps, sizeof(sum), sizeof(Type), most_bytes);
    if (threads == 0) return {};
    const int64_t blocks = rows::cut_runs(cut, random.integer(1, 40));
    const auto elements = random_elements<Type>(of.elements[0], random);
    // The tensor begins and ends where no other may be read.
    const auto offset = static_cast<size_t>(random.integer(0, 7));
    std::vector<Type> around(elements.size() + offset);
    emulated::tensors
            = {{around.data() + offset, around.data() + around.size()}};
    std::copy(elements.begin(), elements.end(),
            around.begin() + static_cast<std::ptrdiff_t>(offset));
    std::vector<Type> diff_src(static_cast<size_t>(of.elements[1]),
            narrow<Type>(static_cast<sum>(NAN)));
    const auto run = [&]<int taps>() {
        const auto with = [&]<bool single>() {
            run_kernel<Type, taps, single>(cut, threads, blocks, table,
                    around.data() + offset, diff_src.data(), random);
        };
        cut.inner == 1 ? with.template operator()<true>()
                       : with.template operator()<false>();
    };
    switch (table.taps) {
        case 1: run.template operator()<1>(); break;
        case 2: run.template operator()<2>(); break;
        case 3: run.template operator()<3>(); break;
        case 4: run.template operator()<4>(); break;
        case 6: run.template operator()<6>(); break;
        case 8: run.template operator()<8>(); break;
        case 12: run.template operator()<12>(); break;
        default: run.template operator()<rows::most_taps>();
    }
    std::ostringstream name;
    name << (cut.line_rows > 1 ? "several rows, " : "") << cut.tiles
         << " tiles, " << (cut.inner == 1 ? "single, " : "") << table.taps
         << " taps";
    SCOPED_TRACE(name.str() + ", " + detail::given(of.problem));
    expect_right(of, maps, elements, diff_src);
    name.str({});
    name << (cut.line_rows > 1) << (cut.tiles > 1) << (cut.inner == 1)
         << table.taps;
    return name.str();
}

template <typename Type>
void run_samples(uint64_t seed) {
    const auto seen
            = kinds_of_samples(seed, thinned() ? 60 : 250, run_sample<Type>);
    if (testing::Test::HasFailure()) return;
    EXPECT_GE(seen.size(), thinned() ? 8U : 15U);
}

TEST(rows_emulated, f32) {
    run_samples<float>(1);
}
TEST(rows_emulated, bf16) {
    run_samples<__nv_bfloat16>(2);
}
TEST(rows_emulated, f16) {
    run_samples<__half>(3);
}
TEST(rows_emulated, f64) {
    run_samples<double>(4);
}

} // namespace
} // namespace gradnn::test
