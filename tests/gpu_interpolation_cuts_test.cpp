// How interpolation's kernels cut random problems: what is launched fits the device, what
// a block or a thread has of the outputs covers each of them, and tables have each tap
// once. For bands and the runs of a walk; gpu_interpolation_columns_test
// has the others. Host arithmetic; needs no GPU.
#include "emulated/interpolation.hpp"

#include "gpu/interpolation/bands/tiles.hpp"
#include "gpu/interpolation/walk_plan.hpp"
#include "gpu_cuts/interpolation.hpp"
#include "gpu_cuts/tally.hpp"

namespace gradnn::test {
namespace {

using detail::axis_map;
using gpu::ceil_div;
using gpu::round_up;

// bands.

TEST(interpolation_cuts, of_bands) {
    random_source random(test_seed(4));
    for (int left = 3000; left > 0 && !HasFailure(); --left) {
        const int64_t bytes = draw_bytes(random);
        const int64_t own = bytes == 2 ? 8 : 4;
        const int64_t columns
                = own * random.integer(1, random.integer(1, 3000));
        const int64_t groups = random.integer(1, random.integer(1, 3000));
        walk_shape shape;
        shape.dst_rows = shape.src_rows
                = static_cast<int32_t>(random.integer(1, 50));
        shape.dst_group_pitch = columns
                * (one_in(random, 5) ? int64_t {1} << 20 : shape.dst_rows);
        shape.src_group_pitch = shape.dst_group_pitch / 2;
        const walk_shape before = shape;
        shape.row_total = groups * shape.src_rows;
        SCOPED_TRACE(detail::text(groups, " planes of ", columns, " columns"));
        const bands::work_cut cut
                = bands::cut_bands(shape, groups, columns, bytes);
        EXPECT_EQ(groups % cut.slots, 0);
        EXPECT_EQ(shape.row_total, groups / cut.slots * shape.src_rows);
        EXPECT_EQ(shape.dst_group_pitch, before.dst_group_pitch * cut.slots);
        if (cut.slots > 1) EXPECT_LT(shape.dst_group_pitch, 1 << 30);
        // The last tile's first lane has a neighbour for its margin.
        if (cut.tiles > 1) EXPECT_NE(columns / own % cut.slot_lanes, 1);
        tally lanes({1, 1, 1, cut.slots, columns / own});
        for (int64_t tile = 0; tile < cut.tiles; ++tile)
            for (int64_t lane = 0; lane < 32; ++lane) {
                const int64_t slot = std::min<int64_t>(
                        lane / cut.slot_lanes, cut.slots - 1);
                const int64_t member = lane - slot * cut.slot_lanes;
                const int64_t at = tile * cut.slot_lanes + member;
                if (member < cut.slot_lanes && at * own < columns)
                    lanes.add({0, 0, 0, slot, at});
            }
        EXPECT_TRUE(lanes.all_once());
    }
}

// The runs of a walk.

TEST(interpolation_cuts, of_runs) {
    random_source random(test_seed(5));
    for (int left = 1500; left > 0 && !HasFailure(); --left) {
        walk_shape shape;
        shape.src_rows = static_cast<int32_t>(
                random.integer(1, random.integer(1, 3000)));
        shape.dst_rows = static_cast<int32_t>(
                random.integer(1, random.integer(1, 3000)));
        const int64_t columns = random.integer(1, random.integer(1, 4000));
        shape.dst_row_pitch = shape.src_row_pitch = columns;
        shape.dst_group_pitch = columns * shape.dst_rows;
        shape.src_group_pitch = columns * shape.src_rows;
        if (std::max(shape.dst_group_pitch, shape.src_group_pitch) >= 1 << 30)
            continue;
        const int64_t planes = random.integer(1, random.integer(1, 100000));
        shape.row_total = planes * shape.src_rows;
        const bool volume = one_in(random, 3);
        if (volume) shape.plane_runs = 1;
        const int64_t tiles = random.integer(1, random.integer(1, 40));
        const int64_t runs
                = cut_runs(shape, tiles, 132 * random.integer(1, 16));
        const int64_t rows = shape.rows_per_run;
        ASSERT_GE(rows, 1);
        if (volume) {
            EXPECT_EQ(runs, planes * shape.plane_runs);
            EXPECT_GE(shape.plane_runs * rows, shape.src_rows);
            EXPECT_LT((shape.plane_runs - 1) * rows, shape.src_rows);
        } else {
            EXPECT_GE(runs * rows, shape.row_total);
            EXPECT_LT((runs - 1) * rows, shape.row_total);
            // Offsets of a run, whichever row of its first plane it begins with.
            const int64_t met
                    = (rows + shape.src_rows - 2) / shape.src_rows + 1;
            EXPECT_LE(met
                            * std::max(shape.dst_group_pitch,
                                    shape.src_group_pitch),
                    int64_t {1} << 31);
        }
    }
}

} // namespace
} // namespace gradnn::test
