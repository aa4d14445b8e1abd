// The kernel of interpolation.gpu_axes, executed on the CPU (emulated/simt.hpp):
// random problems, cut for a small GPU, at random distances from multiples of 16
// bytes, against sums in f64 over the axis maps. Needs no GPU.
#include "emulated/simt.hpp"

#include <set>
#include <sstream>

#include <gtest/gtest.h>

#include "gpu/interpolation/axes/cut.hpp"

namespace gradnn::gpu::interpolation::axes {
/// The kernel's dynamic shared memory.
alignas(16) uint4 axes_shared[16384];
} // namespace gradnn::gpu::interpolation::axes

#include "emulated/interpolation.hpp"
#include "gpu/interpolation/axes/kernel.cuh"
#include "gpu/interpolation/layered.hpp"
#include "problem_text.hpp"

namespace gradnn::test {
namespace {

template <typename Type, int taps, bool single, bool volume>
void run_kernel(const axes::work_cut &cut,
        const axes::kernel_tables<sum_of<Type>> &tables, const Type *diff_dst,
        Type *diff_src, random_source &random) {
    char *const shared = reinterpret_cast<char *>(axes::axes_shared);
    ASSERT_LE(static_cast<size_t>(cut.shared_bytes), sizeof axes::axes_shared);
    emulated::shared_memory = shared;
    emulated::shared_bytes = static_cast<size_t>(cut.shared_bytes);
    for (int64_t index = 0; index < cut.blocks; ++index) {
        std::memset(shared, 0xff, sizeof axes::axes_shared);
        emulated::block::run(static_cast<unsigned>(index),
                static_cast<unsigned>(cut.threads), random.integer(0, 1) == 1,
                [&] {
                    axes::axes_kernel<Type, taps, single, volume>(
                            diff_dst, diff_src, cut.shape, tables);
                });
    }
}

/// What was run: "volume, single, 4 taps, several passes".
template <typename Type>
std::string run_sample(random_source &random) {
    using sum = sum_of<Type>;
    const sample of = random_sample(random, type_of<Type>());
    const axis_maps maps = make_axis_maps(of.problem);
    if (is_copy(maps) || maps[2].max_count > most_padded_taps) return {};
    std::string why;
    const auto layered = describe_layers(of.problem, maps, why);
    if (!layered) return {};
    const auto columns = make_taps<sum>(maps[2]);
    axes::search_facts facts;
    facts.volume = layered->volume;
    facts.taps = columns.taps;
    facts.element_bytes = sizeof(Type);
    facts.sum_bytes = sizeof(sum);
    facts.shared_bytes = random.integer(0, 2) == 0
            ? int64_t {sizeof axes::axes_shared}
            : random.integer(3000, 60000);
    facts.multiprocessors = random.integer(1, 60);
    const axes::work_cut cut = axes::cut_search(layered->shape, facts,
            columns.first, maps[layered->layer_axis], maps[1])
                                       .best();
    if (cut.threads == 0) return {};
    const auto elements = random_elements<Type>(of.elements[0], random);
    // The tensor begins and ends where no other may be read.
    const auto offset = static_cast<size_t>(random.integer(0, 7));
    std::vector<Type> around(elements.size() + offset);
    emulated::tensor_begin = around.data() + offset;
    emulated::tensor_end = around.data() + around.size();
    std::copy(elements.begin(), elements.end(),
            around.begin() + static_cast<std::ptrdiff_t>(offset));
    std::vector<Type> diff_src(static_cast<size_t>(of.elements[1]),
            narrow<Type>(static_cast<sum>(NAN)));
    const auto layers = make_rows<sum>(maps[layered->layer_axis]);
    const auto reach = make_reach(maps[layered->layer_axis]);
    const auto rows = make_columns(maps[1]);
    const auto row_weights = weights_of<sum>(maps[1]);
    const axes::kernel_tables<sum> tables {layers.data(), reach.data(),
            columns.first.data(), columns.weights.data(), rows.data(),
            row_weights.data(), cut.row_spans.data()};
    std::ostringstream name;
    name << (facts.volume ? "volume, " : "image, ")
         << (cut.shape.channels == 1 ? "single, " : "") << columns.taps
         << " taps, " << (cut.shape.passes > 1 ? "several passes, " : "")
         << (cut.shape.stage.layers > 1 ? "several layers" : "");
    SCOPED_TRACE(name.str() + ", " + detail::given(of.problem));
    with_padded_taps(columns.taps, [&]<int taps>() {
        const auto run = [&]<bool single, bool volume>() {
            run_kernel<Type, taps, single, volume>(cut, tables,
                    around.data() + offset, diff_src.data(), random);
        };
        const bool single = cut.shape.channels == 1;
        if (facts.volume)
            single ? run.template operator()<true, true>()
                   : run.template operator()<false, true>();
        else
            single ? run.template operator()<true, false>()
                   : run.template operator()<false, false>();
    });
    expect_right(of, maps, elements, diff_src);
    return name.str();
}

template <typename Type>
void run_samples(uint64_t seed) {
    random_source random(test_seed(seed));
    std::set<std::string> seen;
    for (int count = 0; count < (thinned() ? 60 : 300); ++count) {
        seen.insert(run_sample<Type>(random));
        if (testing::Test::HasFailure()) return;
    }
    seen.erase("");
    EXPECT_GE(seen.size(), 15U);
}

TEST(axes_emulated, f32) {
    run_samples<float>(1);
}
TEST(axes_emulated, bf16) {
    run_samples<__nv_bfloat16>(2);
}
TEST(axes_emulated, f16) {
    run_samples<__half>(3);
}
TEST(axes_emulated, f64) {
    run_samples<double>(4);
}

} // namespace
} // namespace gradnn::test
