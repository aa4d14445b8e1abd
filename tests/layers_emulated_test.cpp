// The kernel of interpolation.gpu_layers, executed on the CPU (emulated/simt.hpp):
// random problems, cut for a small GPU, against sums in f64 over the axis maps.
// Needs no GPU.
#include "emulated/simt.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <sstream>

#include <gtest/gtest.h>

#include "gpu/interpolation/layers/cut.hpp"

namespace gradnn::gpu::interpolation::layers {
/// The kernel's dynamic shared memory.
alignas(16) uint4 layers_shared[16384];
} // namespace gradnn::gpu::interpolation::layers

#include "emulated/interpolation.hpp"
#include "gpu/interpolation/layers/kernel.cuh"
#include "gpu/interpolation/layers/layered.hpp"
#include "support/random.hpp"

namespace gradnn::test {
namespace {

template <typename Type, int vector, bool volume>
void run_kernel(const layers::work_cut &cut,
        const layers::kernel_tables<sum_of<Type>> &tables,
        const std::vector<Type> &diff_dst, std::vector<Type> &diff_src,
        random_source &random) {
    char *const shared = reinterpret_cast<char *>(layers::layers_shared);
    ASSERT_LE(static_cast<size_t>(cut.shared_bytes),
            sizeof layers::layers_shared);
    emulated::shared_memory = shared;
    emulated::shared_bytes = static_cast<size_t>(cut.shared_bytes);
    for (int64_t index = 0; index < cut.blocks; ++index) {
        std::memset(shared, 0xff, sizeof layers::layers_shared);
        emulated::block::run(static_cast<unsigned>(index),
                static_cast<unsigned>(cut.threads), random.integer(0, 1) == 1,
                [&] {
                    layers::layers_kernel<Type, vector, volume>(diff_dst.data(),
                            diff_src.data(), cut.shape, tables);
                });
    }
}

/// Vectors that divide all distances of words, and what the plan says of outputs.
template <typename Type>
layers::search_facts random_facts(const interpolation_problem &problem,
        const layers::layered_problem &layered, random_source &random) {
    const layers::word_widths widths = layers::widths_of(problem, layered);
    const auto one_or
            = [&](int width) { return random.integer(0, 3) == 0 ? 1 : width; };
    layers::search_facts facts;
    facts.volume = layered.volume;
    facts.as_they_lie = widths.as_they_lie > 0 && random.integer(0, 1) == 1;
    facts.vector = one_or(facts.as_they_lie ? widths.as_they_lie : widths.read);
    facts.elements = layers::elements_of_thread(sizeof(Type), facts.vector);
    facts.most_threads = layers::most_threads(sizeof(Type), facts.vector);
    facts.sum_bytes = sizeof(sum_of<Type>);
    facts.element_bytes = sizeof(Type);
    facts.registers = sizeof(Type) > 2 ? 64 : 80;
    facts.shared_bytes = random.integer(0, 2) == 0
            ? int64_t {sizeof layers::layers_shared}
            : random.integer(3000, 60000);
    facts.multiprocessors = random.integer(1, 60);
    facts.written_vector = one_or(widths.written);
    facts.written_row_vector = one_or(widths.written_rows);
    return facts;
}

/// What was run: "volume ncx 2 written 1", with the elements of words.
template <typename Type>
std::string run_sample(random_source &random) {
    using sum = sum_of<Type>;
    const sample of = random_sample(random, type_of<Type>());
    const interpolation_problem &p = of.problem;
    const axis_maps maps = make_axis_maps(p);
    if (is_copy(maps)) return {};
    std::string why;
    const auto walk = describe_walk(p, maps, of.nxc, why);
    const auto layered
            = walk ? layers::describe(p, *walk, of.nxc, why) : std::nullopt;
    if (!layered) return {};
    const layers::search_facts facts = random_facts<Type>(p, *layered, random);
    const layers::work_cut cut = layers::cut_search(
            layered->shape, facts, maps[layered->layer_axis], maps[1], maps[2])
                                         .best();
    if (cut.threads == 0) return {};
    const auto diff_dst = random_elements<Type>(of.elements[0], random);
    std::vector<Type> diff_src(static_cast<size_t>(of.elements[1]),
            narrow<Type>(static_cast<sum>(NAN)));
    const auto layer_table
            = layers::make_layers<sum>(maps[layered->layer_axis]);
    const auto reach = make_reach(maps[layered->layer_axis]);
    const auto columns = make_columns(maps[2]);
    const auto column_weights = layers::weights_of<sum>(maps[2]);
    const auto rows = make_columns(maps[1]);
    const auto row_weights = layers::weights_of<sum>(maps[1]);
    const layers::kernel_tables<sum> tables {layer_table.data(), reach.data(),
            columns.data(), column_weights.data(), cut.column_spans.data(),
            rows.data(), row_weights.data(), cut.row_spans.data()};
    const auto run = [&]<int vector>() {
        if (facts.volume)
            run_kernel<Type, vector, true>(
                    cut, tables, diff_dst, diff_src, random);
        else
            run_kernel<Type, vector, false>(
                    cut, tables, diff_dst, diff_src, random);
    };
    if (facts.vector == 1) run.template operator()<1>();
    if (facts.vector == 2) run.template operator()<2>();
    if constexpr (sizeof(Type) < 8)
        if (facts.vector == 4) run.template operator()<4>();
    std::ostringstream name;
    name << (facts.volume ? "volume " : "image ") << (of.nxc ? "nxc " : "ncx ")
         << facts.vector << " written " << cut.shape.width
         << (facts.as_they_lie ? " as they lie" : "")
         << (cut.shape.columns_first != 0 ? " columns first" : "");
    SCOPED_TRACE(name.str() + ", " + detail::given(p));
    expect_right(of, maps, diff_dst, diff_src);
    return name.str();
}

template <typename Type>
void run_samples(uint64_t seed) {
    const auto seen
            = kinds_of_samples(seed, thinned() ? 60 : 300, run_sample<Type>);
    if (testing::Test::HasFailure()) return;
    // Every kernel was run, with every width of outputs, or nearly.
    const size_t fewest = sizeof(Type) == 8 ? 10 : 20;
    EXPECT_GE(seen.size(), thinned() ? fewest / 2 : fewest);
    const auto any = [&](const char *part) {
        return std::any_of(
                seen.begin(), seen.end(), [&](const std::string &name) {
                    return name.find(part) != std::string::npos;
                });
    };
    EXPECT_TRUE(any("as they lie columns first"));
}

TEST(layers_emulated, f32) {
    run_samples<float>(1);
}
TEST(layers_emulated, bf16) {
    run_samples<__nv_bfloat16>(2);
}
TEST(layers_emulated, f16) {
    run_samples<__half>(3);
}
TEST(layers_emulated, f64) {
    run_samples<double>(4);
}

} // namespace
} // namespace gradnn::test
