// What the blocks and threads of the depthwise families any and walk have, of small
// random problems, counted one by one: each element of data is written once, each position
// of dst is added to one partial sum of a weight, and each partial sum is written once. The
// loops are those of the kernels (the family's data and weights files) without their
// arithmetic. Host arithmetic, on the stand-in for the CUDA runtime. The other families:
// gpu_depthwise_shared_maps_test.cpp.
#include "gpu_cuts/depthwise_tallies.hpp"

#include "gpu/convolution/depthwise/any/cut.hpp"
#include "gpu/convolution/depthwise/walk/cut.hpp"

namespace gradnn::test {
namespace {

constexpr int64_t run_columns = 8; // of a thread of any/

// any: tiles.

struct tile_item {
    int64_t plane, depth, row, group;
};
tile_item item_of(int64_t item, const any::tile_shape &tile) {
    const int64_t pair = tile.rows > 1 ? 1 : 0;
    const int64_t above = divide(item >> pair, tile.by_groups);
    tile_item at {};
    at.group = (item >> pair) - above * tile.groups;
    const int64_t rest = divide(above, tile.by_row_blocks);
    at.row = ((above - rest * tile.row_blocks()) * tile.repeats << pair)
            + (item & pair);
    at.plane = divide(rest, tile.by_depths);
    at.depth = rest - at.plane * tile.depths;
    return at;
}

/// Calls body(item, h, w) for those of a tile that are inside.
template <typename Body>
void each_row(const any::tile_shape &tile, const problem_shape &shape,
        int64_t first_row, int64_t first_column, const Body &body) {
    for (int64_t number = 0; number < tile.items(); ++number) {
        const tile_item at = item_of(number, tile);
        const int64_t w = first_column + at.group * run_columns;
        if (w >= shape.axes[2].written) continue;
        for (int64_t repeat = 0; repeat < tile.repeats; ++repeat) {
            const int64_t row = at.row + repeat * tile.paired();
            const int64_t h = first_row + row;
            if (row >= tile.rows || h >= shape.axes[1].written) break;
            body(at, h, w);
        }
    }
}

void go_through_tiles(const any::tiles_cut &cut, tallies &all) {
    const problem_shape &shape = all.facts.shape;
    const any::tile_shape &tile = cut.tile;
    const auto &[deep, down, along] = shape.axes;
    if (!all.facts.of_weights()) {
        const int64_t planes = shape.images * shape.channels;
        const int64_t blocks = ceil_div(planes, int64_t {tile.planes})
                * tile.depth_tiles * tile.row_tiles * tile.column_tiles;
        const auto begin = [&](const window_axis &a, int64_t first) {
            return shape.to_src ? gpu::floor_div(
                           first + a.pad - int64_t {a.kernel - 1} * a.dilation,
                           a.stride)
                                : first * a.stride - a.pad;
        };
        for (int64_t block = 0; block < blocks; ++block) {
            int64_t rest = block;
            const int64_t w
                    = take(rest, tile.column_tiles) * tile.groups * run_columns;
            const int64_t h = take(rest, tile.row_tiles) * tile.rows;
            const int64_t d = take(rest, tile.depth_tiles) * tile.depths;
            const int64_t plane = rest * tile.planes;
            expect_held(deep, shape.to_src, d, tile.depths, deep.kernel,
                    begin(deep, d), tile.read_depths);
            expect_held(down, shape.to_src, h, tile.rows, down.kernel,
                    begin(down, h), tile.read_rows);
            each_row(tile, shape, h, w,
                    [&](const tile_item &at, int64_t row, int64_t column) {
                        const int64_t number = plane + at.plane;
                        if (number >= planes || d + at.depth >= deep.written)
                            return;
                        all.add_run(number / shape.channels,
                                number % shape.channels, d + at.depth, row,
                                column, run_columns);
                    });
        }
        return;
    }
    const any::weights_parts &parts = cut.weights;
    const int64_t job_rows = ceil_div(down.kernel, parts.window_rows);
    for (int64_t block = 0; block < parts.parts * parts.jobs * shape.channels;
            ++block) {
        int64_t rest = block;
        const int64_t channel = take(rest, shape.channels);
        const int64_t job = take(rest, parts.jobs);
        const int64_t part = rest;
        const int64_t chunk = job % shape.chunks;
        const int64_t first_kh
                = job / shape.chunks % job_rows * parts.window_rows;
        const int64_t kd = job / shape.chunks / job_rows;
        for (int64_t thread = 0; thread < parts.window_rows * shape.taps;
                ++thread) {
            const int64_t kh = first_kh + thread / shape.taps;
            const int64_t kw
                    = tap_at(shape, chunk * shape.taps + thread % shape.taps);
            if (kh < down.kernel && kw >= 0)
                all.sums.add({channel, kd, kh, kw, part});
        }
        if (job != 0) continue;
        for (int64_t unit = part * parts.units / parts.parts;
                unit < (part + 1) * parts.units / parts.parts; ++unit) {
            int64_t number = unit;
            const int64_t w = take(number, tile.column_tiles) * tile.groups
                    * run_columns;
            const int64_t h = take(number, tile.row_tiles) * tile.rows;
            expect_held(down, false, h, tile.rows,
                    std::min(parts.window_rows, down.kernel),
                    h * down.stride - down.pad, tile.read_rows);
            each_row(tile, shape, h, w,
                    [&](const tile_item &at, int64_t row, int64_t column) {
                        const int64_t plane = number * tile.planes + at.plane;
                        if (plane < shape.images * deep.written)
                            all.add_run(plane / deep.written, channel,
                                    plane % deep.written, row, column,
                                    run_columns);
                    });
        }
    }
}

// any: blocks.

void go_through_blocks(const any::blocks_cut &cut, tallies &all) {
    const problem_shape &shape = all.facts.shape;
    const any::block_shape &block = cut.block;
    const any::weights_parts &parts = cut.weights;
    const auto &[deep, down, along] = shape.axes;
    if (!all.facts.of_weights()) {
        const int64_t blocks = shape.images * block.depth_tiles
                * block.row_tiles * block.column_tiles * block.channel_tiles;
        const int64_t threads = int64_t {block.lanes} * block.groups
                * block.rows * block.depths;
        for (int64_t number = 0; number < blocks * threads; ++number) {
            int64_t rest = number % threads;
            const int64_t lane = take(rest, block.lanes);
            const int64_t group = take(rest, block.groups);
            const int64_t row = take(rest, block.rows);
            const int64_t depth = rest;
            rest = number / threads;
            const int64_t channel
                    = (take(rest, block.channel_tiles) * block.lanes + lane)
                    * block.vector;
            const int64_t w
                    = (take(rest, block.column_tiles) * block.groups + group)
                    * run_columns;
            const int64_t first_row
                    = take(rest, block.row_tiles) * (block.rows * block.repeats)
                    + row;
            const int64_t d
                    = take(rest, block.depth_tiles) * block.depths + depth;
            if (channel >= shape.channels || w >= along.written
                    || d >= deep.written || depth >= block.depths)
                continue;
            for (int64_t repeat = 0; repeat < block.repeats; ++repeat) {
                const int64_t h = first_row + repeat * block.rows;
                if (h >= down.written) break;
                for (int64_t v = 0; v < block.vector; ++v)
                    all.add_run(rest, channel + v, d, h, w, run_columns);
            }
        }
        return;
    }
    const int64_t threads
            = int64_t {block.lanes} * parts.block_jobs * parts.lanes;
    const int64_t job_blocks = ceil_div(parts.jobs, parts.block_jobs);
    const int64_t blocks = parts.parts * block.channel_tiles * job_blocks;
    for (int64_t number = 0; number < blocks * threads; ++number) {
        int64_t rest = number % threads;
        const int64_t lane = take(rest, block.lanes);
        const int64_t job_lane = take(rest, parts.block_jobs);
        const int64_t row_lane = rest;
        rest = number / threads;
        const int64_t channel
                = (take(rest, block.channel_tiles) * block.lanes + lane)
                * block.vector;
        const int64_t job
                = take(rest, job_blocks) * parts.block_jobs + job_lane;
        const int64_t part = rest;
        if (channel >= shape.channels || job >= parts.jobs
                || row_lane >= parts.lanes)
            continue;
        const int64_t chunk = job % shape.chunks;
        const int64_t kh = job / shape.chunks % down.kernel;
        const int64_t kd = job / shape.chunks / down.kernel;
        for (int64_t v = 0; v < block.vector; ++v) {
            for (int64_t e = 0; e < shape.taps && row_lane == 0; ++e)
                if (const int64_t kw = tap_at(shape, chunk * shape.taps + e);
                        kw >= 0)
                    all.sums.add({channel + v, kd, kh, kw, part});
            if (job != 0) continue;
            for (int64_t unit = part * parts.units / parts.parts + row_lane;
                    unit < (part + 1) * parts.units / parts.parts;
                    unit += parts.lanes) {
                int64_t left = unit;
                const int64_t first
                        = take(left, parts.segments) * parts.segment_columns;
                const int64_t h = take(left, down.written);
                const int64_t d = take(left, deep.written);
                all.add_run(
                        left, channel + v, d, h, first, parts.segment_columns);
            }
        }
    }
}

// walk.

/// Calls body(h) for the rows of written that a step of the data kernels completes.
template <typename Body>
void each_completed(const problem_shape &shape, const data_steps &steps,
        int64_t step, const Body &body) {
    const window_axis &down = shape.axes[1];
    for (int64_t j = 0; j < down.stride; ++j) {
        const int64_t h = (steps.top - step) * down.stride + down.kernel
                - down.stride + j - steps.pad;
        if (h < 0 || h >= down.written) continue;
        body(shape.to_src ? h : down.written - 1 - h);
    }
}

void go_through_walk(const walk::work_cut &cut, tallies &all) {
    const problem_shape &shape = all.facts.shape;
    const auto &[deep, down, along] = shape.axes;
    const bool is_deep = deep.kernel > 1;
    const int64_t depths = walk::depths_of(deep.kernel);
    const int64_t bytes = all.facts.element_bytes();
    const int64_t run = all.facts.of_weights()
            ? walk::weights_run(deep.kernel, down.kernel, bytes)
            : walk::data_run(deep.kernel, down.kernel, cut.vector, bytes);
    const int64_t depth_groups = ceil_div(deep.written, depths);
    const auto add = [&](int64_t n, int64_t c, int64_t first_d, int64_t h,
                             int64_t w) {
        for (int64_t v = 0; v < cut.vector; ++v)
            for (int64_t d = first_d;
                    d < std::min<int64_t>(first_d + depths, deep.written); ++d)
                all.add_run(n, c + v, d, h, w, run);
    };
    if (!all.facts.of_weights()) {
        for (int64_t item = 0; item < cut.items; ++item) {
            int64_t rest = item;
            int64_t channel = is_deep ? take(rest, cut.lanes) : 0;
            int64_t d = 0;
            int64_t w = 0;
            for (const bool columns : {!cut.channels_last, cut.channels_last})
                if (columns)
                    w = take(rest, cut.groups) * run;
                else if (is_deep)
                    d = take(rest, depth_groups) * depths;
                else
                    channel = take(rest, shape.channels / cut.vector)
                            * cut.vector;
            const int64_t first = take(rest, cut.strips) * cut.strip_rows;
            if (is_deep)
                channel = (take(rest, cut.channel_tiles) * cut.lanes + channel)
                        * cut.vector;
            else
                d = take(rest, deep.written);
            if (channel >= shape.channels) continue;
            const int64_t end = std::min<int64_t>(
                    first + cut.strip_rows, cut.steps.count);
            for (int64_t step = first; step < end; ++step)
                each_completed(shape, cut.steps, step,
                        [&](int64_t h) { add(rest, channel, d, h, w); });
        }
        return;
    }
    for (int64_t block = 0; block < int64_t {cut.parts} * cut.channel_tiles;
            ++block)
        for (int64_t thread = 0; thread < walking_threads; ++thread) {
            const int64_t slot = thread / cut.lanes;
            const int64_t channel = (block % cut.channel_tiles * cut.lanes
                                            + thread % cut.lanes)
                    * cut.vector;
            const int64_t part = block / cut.channel_tiles;
            if (channel >= shape.channels || slot >= cut.slots) continue;
            const int64_t taps
                    = int64_t {deep.kernel} * down.kernel * along.kernel;
            for (int64_t i = 0; slot == 0 && i < taps * cut.vector; ++i) {
                int64_t tap = i;
                const int64_t v = take(tap, cut.vector);
                const int64_t kw = take(tap, along.kernel);
                const int64_t kh = take(tap, down.kernel);
                all.sums.add({channel + v, tap, kh, kw, part});
            }
            for (int64_t unit = part * cut.slots + slot; unit < cut.units;
                    unit += int64_t {cut.parts} * cut.slots) {
                int64_t rest = unit;
                int64_t d = 0;
                if (is_deep && cut.channels_last)
                    d = take(rest, depth_groups) * depths;
                const int64_t w = take(rest, cut.groups) * run;
                if (is_deep && !cut.channels_last)
                    d = take(rest, depth_groups) * depths;
                const int64_t first = take(rest, cut.strips) * cut.strip_rows;
                if (!is_deep) d = take(rest, depth_groups) * depths;
                const int64_t end = std::min<int64_t>(
                        first + cut.strip_rows, down.written);
                for (int64_t h = first; h < end; ++h)
                    add(rest, channel, d, h, w);
            }
        }
}

TEST(DepthwiseMaps, OfTiles) {
    expect_all_once<any::tiles_cut>(11, 400, go_through_tiles);
}

TEST(DepthwiseMaps, OfBlocks) {
    expect_all_once<any::blocks_cut>(12, 60, go_through_blocks);
}

TEST(DepthwiseMaps, OfWalk) {
    expect_all_once<walk::work_cut>(13, 300, go_through_walk);
}

} // namespace
} // namespace gradnn::test
