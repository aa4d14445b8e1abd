// The kernel of interpolation.gpu_layers, executed on the CPU (emulated/simt.hpp):
// random problems, cut for a small GPU, against sums in f64 over the axis maps.
// Needs no GPU.
#include "emulated/simt.hpp"

#include <array>
#include <optional>
#include <set>
#include <sstream>

#include <gtest/gtest.h>

#include "gpu/interpolation/layers/cut.hpp"

namespace gradnn::gpu::interpolation::layers {
/// The kernel's dynamic shared memory.
alignas(16) uint4 layers_shared[16384];
} // namespace gradnn::gpu::interpolation::layers

#include "gpu/interpolation/layers/kernel.cuh"
#include "gpu/interpolation/layers/layered.hpp"
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
layers::search_facts random_facts(const layers::layered_problem &layered,
        const tensor_view &dst, random_source &random) {
    using sum = sum_of<Type>;
    const layers::work_shape &shape = layered.shape;
    layers::search_facts facts;
    facts.volume = layered.volume;
    const int widest = gpu::widest_vector(sizeof(Type),
            dst.dims[4] * shape.channels, shape.dst_group_pitch,
            shape.dst_layer_pitch, shape.dst_row_pitch);
    facts.vector = random.integer(0, 3) == 0
            ? 1
            : std::min(sizeof(Type) == 8 ? 2 : 4, widest);
    facts.elements = layers::elements_of_thread(sizeof(Type), facts.vector);
    facts.most_threads = layers::most_threads(sizeof(Type), facts.vector);
    facts.sum_bytes = sizeof(sum);
    facts.element_bytes = sizeof(Type);
    facts.registers = sizeof(Type) > 2 ? 64 : 80;
    facts.shared_bytes = random.integer(0, 2) == 0
            ? int64_t {sizeof layers::layers_shared}
            : random.integer(3000, 60000);
    facts.multiprocessors = random.integer(1, 60);
    facts.wide_outputs = facts.vector > 1;
    for (const int64_t distance :
            {int64_t {shape.channels}, shape.src_group_pitch,
                    shape.src_layer_pitch, shape.src_row_pitch})
        facts.wide_outputs = facts.wide_outputs
                && distance % layers::sums_at_once<sum> == 0;
    return facts;
}

/// Calls body(position, weight) for each tap.
template <typename Body>
void each_tap(const detail::axis_map &map, int64_t input, const Body &body) {
    const auto at = static_cast<size_t>(input);
    for (int64_t k = 0; k < map.count[at]; ++k)
        body(map.first[at] + k,
                map.weights[static_cast<size_t>(map.offset[at] + k)]);
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
            : sizeof(Type) == 4                         ? 1e-5
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

/// What was run: "volume ncx 2", with the elements of a word.
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
    const layers::search_facts facts
            = random_facts<Type>(*layered, p.diff_dst, random);
    const layers::work_cut cut = layers::cut_search(
            layered->shape, facts, maps[layered->layer_axis], maps[1], maps[2])
                                         .best();
    if (cut.threads == 0) return {};
    std::vector<Type> diff_dst(static_cast<size_t>(of.elements[0]));
    for (Type &each : diff_dst)
        each = narrow<Type>(static_cast<sum>(random.value()));
    if (random.integer(0, 3) == 0)
        for (int count = 0; count < 3; ++count)
            diff_dst[static_cast<size_t>(random.integer(0, of.elements[0] - 1))]
                    = narrow<Type>(static_cast<sum>(
                            random.integer(0, 1) == 0 ? HUGE_VAL : NAN));
    std::vector<Type> diff_src(static_cast<size_t>(of.elements[1]),
            narrow<Type>(static_cast<sum>(NAN)));
    const auto layer_table = make_rows<sum>(maps[layered->layer_axis]);
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
         << facts.vector;
    SCOPED_TRACE(name.str() + ", " + detail::given(p));
    expect_right(of, maps, diff_dst, diff_src);
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
    // Every kernel was run, or nearly.
    EXPECT_GE(seen.size(), sizeof(Type) == 8 ? 7U : 10U);
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
