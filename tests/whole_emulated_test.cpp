// The kernel of interpolation.gpu_whole, executed on the CPU (emulated/simt.hpp):
// random problems against sums in f64 over the axis maps. Needs no GPU.
#include "emulated/simt.hpp"

#include <array>
#include <cstring>
#include <string>

#include <gtest/gtest.h>

#include "gpu/interpolation/whole/cut.hpp"

namespace gradnn::gpu::interpolation::whole {
/// The kernel's dynamic shared memory.
alignas(16) uint4 whole_shared[16384];
} // namespace gradnn::gpu::interpolation::whole

#include "emulated/interpolation.hpp"
#include "gpu/interpolation/whole/described.hpp"
#include "gpu/interpolation/whole/kernel.cuh"
#include "kernel/problem_text.hpp"
#include "support/random.hpp"

namespace gradnn::test {
namespace {

/// Runs the kernel on tensors that begin `ahead` elements beyond 16 bytes.
template <typename Type>
std::vector<Type> run_kernel(const whole::work_cut &cut, int64_t blocks,
        std::vector<Type> diff_dst, int64_t src_elements, int64_t ahead,
        random_source &random) {
    using sum = sum_of<Type>;
    diff_dst.insert(diff_dst.begin(), static_cast<size_t>(ahead), Type {});
    std::vector<Type> diff_src(static_cast<size_t>(src_elements + ahead),
            narrow<Type>(static_cast<sum>(NAN)));
    const std::vector<sum> weights(cut.weights.begin(), cut.weights.end());
    const whole::kernel_tables<sum> tables {
            cut.positions.data(), weights.data()};
    auto *const shared = reinterpret_cast<char *>(whole::whole_shared);
    EXPECT_LE(
            static_cast<size_t>(cut.shared_bytes), sizeof whole::whole_shared);
    emulated::shared_memory = shared;
    emulated::shared_bytes = static_cast<size_t>(cut.shared_bytes);
    emulated::tensors
            = {{diff_dst.data() + ahead, diff_dst.data() + diff_dst.size()}};
    emulated::grid_size.x = static_cast<unsigned>(blocks);
    for (int64_t index = 0; index < blocks; ++index) {
        std::memset(shared, 0xff, sizeof whole::whole_shared);
        emulated::block::run(static_cast<unsigned>(index),
                static_cast<unsigned>(cut.threads), random.integer(0, 1) == 1,
                [&] {
                    whole::whole_kernel<Type>(diff_dst.data() + ahead,
                            diff_src.data() + ahead, cut.shape, tables,
                            ahead == 0 ? 1 : 0);
                });
    }
    emulated::tensors.clear();
    diff_src.erase(diff_src.begin(), diff_src.begin() + ahead);
    return diff_src;
}

/// What was run: "2 passes again".
template <typename Type>
std::string run_sample(random_source &random) {
    const sample of = random_sample(random, type_of<Type>());
    const interpolation_problem &p = of.problem;
    const axis_maps maps = make_axis_maps(p);
    if (is_copy(maps)) return {};
    auto facts = whole::describe(p);
    if (!facts) return {};
    const auto diff_dst = random_elements<Type>(of.elements[0], random);
    std::string name;
    std::vector<Type> first;
    // By several cuts and at several alignments: the same bits.
    for (const int64_t ahead : {0, 1}) {
        facts->shared_bytes = random.integer(0, 2) == 0
                ? int64_t {sizeof whole::whole_shared}
                : random.integer(1000, random.integer(2000, 60000));
        facts->multiprocessors = random.integer(1, 10);
        const whole::work_cut cut = whole::cut_problem(*facts, maps);
        if (cut.threads == 0) continue;
        // Now and then fewer blocks, which take more chunks each.
        const int64_t blocks = random.integer(0, 1) == 0
                ? cut.blocks
                : random.integer(1, cut.blocks);
        name = std::to_string(cut.shape.passes) + " passes"
                + (cut.shape.chunks > blocks ? " again" : "");
        SCOPED_TRACE(name + ", " + detail::given(p));
        const auto diff_src = run_kernel<Type>(
                cut, blocks, diff_dst, of.elements[1], ahead, random);
        expect_right(of, maps, diff_dst, diff_src);
        if (first.empty()) first = diff_src;
        EXPECT_EQ(std::memcmp(first.data(), diff_src.data(),
                          first.size() * sizeof(Type)),
                0);
    }
    return name;
}

template <typename Type>
void run_samples(uint64_t seed) {
    const auto seen
            = kinds_of_samples(seed, thinned() ? 60 : 250, run_sample<Type>);
    if (testing::Test::HasFailure()) return;
    // One to three passes, by blocks that take several chunks and not.
    EXPECT_GE(seen.size(), thinned() ? 4U : 6U);
}

TEST(whole_emulated, f32) {
    run_samples<float>(1);
}
TEST(whole_emulated, bf16) {
    run_samples<__nv_bfloat16>(2);
}
TEST(whole_emulated, f16) {
    run_samples<__half>(3);
}
TEST(whole_emulated, f64) {
    run_samples<double>(4);
}

// Refused before the tables are made.
TEST(whole_emulated, refuses_axes_whose_tables_do_not_fit) {
    interpolation_problem problem;
    problem.axes[2].src = int64_t {1} << 20;
    problem.axes[2].dst = 4;
    whole::search_facts facts;
    facts.shared_bytes = int64_t {227} << 10;
    const whole::work_cut cut
            = whole::cut_problem(facts, make_axis_maps(problem));
    EXPECT_EQ(cut.threads, 0);
    EXPECT_TRUE(cut.positions.empty());
}

} // namespace
} // namespace gradnn::test
