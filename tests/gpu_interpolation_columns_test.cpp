// How interpolation's columns kernels cut random problems: by the tables of words, outputs
// and weights each output is written, with the taps of the axis map, from places of the line
// that hold the right columns. Host arithmetic; needs no GPU.
#include "emulated/interpolation.hpp"

#include <map>
#include <set>
#include <tuple>

#include "gpu/interpolation/columns/tables.hpp"
#include "gpu_cuts/interpolation.hpp"

namespace gradnn::test {
namespace {

using namespace gpu::interpolation::columns;
using detail::axis_map;

/// A plane, a column and a channel.
using element = std::tuple<int64_t, int64_t, int64_t>;

/// A problem, and how a kernel cuts it.
struct drawn {
    kind_limits limits;
    axis_map map;
    channel_block channels;
    walk_description before, walk;
    work_cut shape;
    host_tables<double> tables;

    element element_of(uint32_t offset, int64_t group_pitch) const {
        const int64_t in_plane = offset % group_pitch;
        return {static_cast<int64_t>(offset) / group_pitch,
                in_plane / channels.count, in_plane % channels.count};
    }
};

/// What a tile's line holds, by place, once its words are there.
std::map<int64_t, element> line_of(const drawn &of, int64_t tile) {
    std::map<int64_t, element> line;
    const kind_limits &limits = of.limits;
    const int64_t aside = of.shape.line_sums - 32 * limits.vector;
    for (int64_t i = 0; i < limits.words * 32; ++i) {
        const lane_place &word = of.tables.words.at(
                static_cast<size_t>(tile * limits.words * 32 + i));
        for (int64_t e = 0; e < limits.vector; ++e) {
            int64_t place = word.line;
            if (limits.split && limits.vector == 2)
                place = e == 0 ? word.line & 0xffff
                               : static_cast<uint32_t>(word.line) >> 16;
            else
                place += e;
            EXPECT_TRUE(place >= 0 && place < of.shape.line_sums);
            // A word without work is put aside.
            if (place >= aside) continue;
            const element held
                    = of.element_of(word.offset + static_cast<uint32_t>(e),
                            of.before.shape.dst_group_pitch);
            const auto [at, is_new] = line.emplace(place, held);
            EXPECT_TRUE(is_new || at->second == held)
                    << "place " << place << " has two elements";
        }
    }
    return line;
}

/// Checks an output of a lane, and returns which it is.
element check_output(const drawn &of, const std::map<int64_t, element> &line,
        int64_t row, int64_t lane) {
    const kind_limits &limits = of.limits;
    const bool fours = limits.taps == 0 || limits.taps == 8;
    const int64_t quads = of.shape.quads;
    const lane_place &output
            = of.tables.outputs.at(static_cast<size_t>(row * 32 + lane));
    const element made
            = of.element_of(output.offset, of.before.shape.src_group_pitch);
    const auto [plane, j, channel] = made;
    std::map<int64_t, double> taps;
    for (int64_t k = 0; k < (fours ? 4 * quads : limits.taps); ++k) {
        const int64_t place = output.line + k;
        EXPECT_TRUE(place >= 0 && place < of.shape.line_sums);
        const double weight = of.tables.weights.at(static_cast<size_t>(fours
                        ? ((row * quads + k / 4) * 32 + lane) * 4 + k % 4
                        : (row * limits.taps + k) * 32 + lane));
        if (weight == 0) continue;
        const auto held = line.find(place);
        if (held == line.end()) {
            ADD_FAILURE() << "nothing at place " << place;
            continue;
        }
        EXPECT_EQ(std::get<0>(held->second), plane);
        EXPECT_EQ(std::get<2>(held->second), channel);
        taps[std::get<1>(held->second)] += weight;
    }
    std::map<int64_t, double> wanted;
    each_tap(of.map, j, [&](int64_t o, double weight) { wanted[o] = weight; });
    EXPECT_EQ(taps, wanted) << "column " << j;
    if (fours) EXPECT_EQ(output.line % 4, 0);
    return made;
}

/// False where the kernel does not take it.
bool check(drawn &of) {
    const kind_limits &limits = of.limits;
    if (!holds_taps(limits, of.map)) return false;
    if (limits.dense && of.channels.block != of.channels.count) return false;
    if (limits.vector * limits.side > 1
            && (of.map.dst * of.channels.count % 2 != 0
                    || of.map.src * of.channels.count % 2 != 0
                    || (of.channels.block != of.channels.count
                            && of.channels.count % 2 != 0)))
        return false;
    of.walk = of.before;
    of.tables = arrange_columns<double>(
            limits, of.map, of.walk, of.shape, of.channels);
    if (of.shape.tiles == 0) return false;
    std::set<element> outputs;
    for (int64_t tile = 0; tile < of.shape.tiles; ++tile) {
        const auto line = line_of(of, tile);
        for (int64_t output = 0; output < limits.outputs; ++output)
            for (int64_t lane = 0; lane < 32; ++lane)
                outputs.insert(check_output(
                        of, line, tile * limits.outputs + output, lane));
    }
    // The planes side by side, which walk on over the others.
    const int64_t walked = of.walk.shape.row_total / of.before.shape.src_rows;
    const int64_t step
            = of.walk.shape.src_group_pitch / of.before.shape.src_group_pitch;
    std::set<element> all;
    for (const auto &[plane, j, channel] : outputs)
        for (int64_t i = 0; i < walked; ++i) {
            EXPECT_LT(plane + i * step, of.before.groups);
            all.insert({plane + i * step, j, channel});
        }
    EXPECT_EQ(static_cast<int64_t>(all.size()),
            of.before.groups * of.map.src * of.channels.count);
    return true;
}

/// Kinds of gpu_ncx, and (`split`) of gpu_nxc.
template <bool split>
std::vector<kind_limits> kinds() {
    using f = float;
    using h = __half;
    if constexpr (split)
        return {limits_of<kernel_kind<f, 1, 0, 8, 4, 1, false, 0, true>,
                        false>(),
                limits_of<kernel_kind<h, 2, 8, 4, 4, 1, false, 0, true>,
                        false>(),
                limits_of<kernel_kind<h, 2, 8, 6, 4, 1, true, 0, true>,
                        false>(),
                limits_of<kernel_kind<h, 2, 0, 4, 4, 1, false, 0, true>,
                        false>(),
                limits_of<kernel_kind<h, 1, 8, 8, 4, 1, false, 0, true>,
                        false>(),
                limits_of<kernel_kind<h, 1, 0, 8, 4, 1, false, 0, true>,
                        false>()};
    else
        return {limits_of<kernel_kind<f, 1, 1, 4, 8>, false>(),
                limits_of<kernel_kind<f, 1, 2, 4, 8>, false>(),
                limits_of<kernel_kind<f, 1, 2, 8, 6, 1, false, 1>, false>(),
                limits_of<kernel_kind<f, 1, 3, 12, 10, 1, true>, false>(),
                limits_of<kernel_kind<f, 1, 4, 8, 6>, false>(),
                limits_of<kernel_kind<f, 1, 4, 10, 6, 1, true>, false>(),
                limits_of<kernel_kind<f, 1, 8, 8, 4>, false>(),
                limits_of<kernel_kind<f, 1, 0, 8, 4>, true>(),
                limits_of<kernel_kind<h, 2, 2, 8, 10, 1, true, 1>, false>(),
                limits_of<kernel_kind<h, 2, 4, 4, 6>, true>(),
                limits_of<kernel_kind<h, 2, 8, 6, 5, 1, true>, false>(),
                limits_of<kernel_kind<h, 2, 0, 4, 4>, false>(),
                limits_of<kernel_kind<h, 1, 1, 4, 8, 2>, false>()};
}

template <bool split>
void expect_tables(uint64_t seed, int count) {
    random_source random(test_seed(seed));
    const auto all = kinds<split>();
    std::vector<int> taken(all.size());
    std::vector<int> refused(all.size());
    for (; count > 0 && !testing::Test::HasFailure(); --count) {
        drawn of;
        // Dense kinds take rows that nearly fill them.
        of.map = draw_map(random, one_in(random, 3) ? 1500 : 600);
        if (split) {
            of.channels.count = random.integer(1, random.integer(1, 40));
            of.channels.block = of.channels.count;
            if (of.channels.count > 8 && one_in(random, 3))
                of.channels.block = 8;
        }
        of.before.groups = random.integer(1, random.integer(1, 40));
        walk_shape &shape = of.before.shape;
        shape.src_rows = static_cast<int32_t>(random.integer(1, 3));
        shape.dst_rows = 2;
        shape.row_total = of.before.groups * shape.src_rows;
        shape.dst_group_pitch = of.map.dst * of.channels.count;
        shape.src_group_pitch = of.map.src * of.channels.count;
        for (size_t kind = 0; kind < all.size(); ++kind) {
            of.limits = all[kind];
            SCOPED_TRACE(detail::text("kind ", kind, ": ", of.before.groups,
                    " planes of ", of.map.dst, " columns to ", of.map.src, ", ",
                    of.channels.block, " of ", of.channels.count, " channels"));
            ++(check(of) ? taken : refused)[kind];
            if (testing::Test::HasFailure()) return;
        }
    }
    for (size_t kind = 0; kind < all.size(); ++kind) {
        EXPECT_GE(taken[kind], 5) << "kind " << kind;
        if (all[kind].taps != 0) EXPECT_GE(refused[kind], 5) << "kind " << kind;
    }
}

TEST(interpolation_columns, in_ncx) {
    expect_tables<false>(1, 800);
}

TEST(interpolation_columns, in_nxc) {
    expect_tables<true>(2, 80);
}

} // namespace
} // namespace gradnn::test
