// Depthwise in NXC on tensor cores: which tensors and windows, and how the work
// is cut. Plain host arithmetic.
#include <algorithm>
#include <cstdint>
#include <limits>

#include "gpu/convolution/depthwise/diagonals/cut.hpp"
#include "gpu/convolution/depthwise/plan.hpp"
#include "gpu/device/rounding.hpp"
#include "gpu/runtime/device.hpp"

namespace gradnn::gpu::depthwise::diagonals {

namespace {

constexpr int vector_bytes = 16;
constexpr int most_strips = 32; ///< of an image
constexpr int schedulers = 4; ///< of a multiprocessor
/// Warps that copy: so many, or what multiplying ones leave.
constexpr int most_copy_warps = 4;

// Fitted to times of these kernels on an H200, in cycles: of a product, on one of a
// multiprocessor's schedulers; of what else a warp does for those of a step, or of a
// column; of a stage; before a block's first one. And the bytes of read that a
// multiprocessor has from memory in a cycle, as long as it writes as many.
constexpr double cycles_product = 9.3;
constexpr double cycles_step = 80;
constexpr double cycles_column = 40;
constexpr double cycles_stage = 60;
constexpr double cycles_start = 4000;
constexpr double bytes_a_cycle = 8;
/// Pieces of 16 bytes of a pixel take so much longer than those of more.
constexpr double half_sectors = 1.3;

/// How many parts strips are to be cut into, of at most `most` strips each and
/// for so many `tiles` of channels and columns, a block each; and the cycles
/// until all are done.
struct parts_estimate {
    int parts = 1;
    double cycles = std::numeric_limits<double>::infinity();
};
parts_estimate share_out(int64_t strips, int64_t most, int64_t tiles,
        int64_t multiprocessors, double strip_cycles) {
    parts_estimate best;
    most = std::min(most, strips);
    for (int64_t each = 1, step = 1; each <= most; each += step) {
        step = std::clamp<int64_t>(most - each, 1, 1 + each / 16);
        const int64_t parts = ceil_div(strips, each);
        if (parts * tiles >= INT32_MAX) continue;
        const double cycles
                = static_cast<double>(ceil_div(parts * tiles, multiprocessors))
                * (cycles_start + static_cast<double>(each) * strip_cycles);
        if (cycles <= best.cycles) best = {static_cast<int>(parts), cycles};
    }
    return best;
}

/// Of so many products of each warp, if the copies of `bytes` do not take
/// longer.
double cycles_of(int warps, double products, double others, double bytes) {
    return std::max({ceil_div(warps, schedulers) * products * cycles_product,
            products * cycles_product + others, bytes / bytes_a_cycle});
}

/// Pixels of a row, of which blocks hold some rows, and its elements, which
/// threads count in 32 bits.
bool rows_are_short(int pixels, int64_t pixel_stride) {
    constexpr int most_pixels = 1 << 14;
    return pixels <= most_pixels
            && pixel_stride < INT32_MAX / (2 * most_pixels);
}

bool takes(const problem_facts &facts) {
    const problem_shape &shape = facts.shape;
    const window_axis &along = shape.axes[2];
    return facts.channels_last && facts.tensor_cores_suit()
            && facts.both_divide(group_channels, 1) && window_slides(shape)
            && shape.images < INT32_MAX / (2 * most_strips)
            && rows_are_short(along.read, shape.read_strides[4])
            && rows_are_short(along.written, shape.written_strides[4]);
}

bool cut_work(data_cut &best, const problem_facts &facts) {
    const problem_shape &shape = facts.shape;
    const window_axis &down = shape.axes[1];
    const window_axis &along = shape.axes[2];
    const int size = down.kernel;
    const int64_t all_groups = shape.channels / group_channels;
    const int all_tiles = ceil_div(along.written, tile_columns);
    const int products = pairs_of(size) * quads_of(size);
    const int most_warps = data_warps(size);
    double least = std::numeric_limits<double>::infinity();
    const auto estimate = [&](data_cut cut) {
        cut.copy_warps = std::min(most_copy_warps, most_warps - cut.warps());
        const int columns = cut.tiles * tile_columns + size - 1;
        // Neighbouring lanes copy to pixels of neighbouring groups, in other
        // banks.
        cut.pitch = columns;
        while (cut.pitch % 8 != (cut.groups > 4 ? 1 : 8 / cut.groups % 8))
            ++cut.pitch;
        const int64_t bytes = barriers_bytes(data_stage_count)
                + int64_t {data_stage_count} * cut.stage_bytes();
        if (bytes > facts.block_shared_bytes) return;
        cut.shared_bytes = static_cast<size_t>(bytes);
        cut.column_bands = ceil_div(all_tiles, cut.tiles);
        cut.channel_tiles = ceil_div(all_groups, int64_t {cut.groups});
        const double step_cycles = cycles_of(cut.warps(), products, cycles_step,
                2. * columns * cut.groups * vector_bytes
                        * (cut.groups == 1 ? half_sectors : 1));
        for (int strips = 1; strips <= std::min(most_strips, down.written);
                ++strips) {
            cut.strip_rows = round_up(ceil_div(down.written, strips), 2);
            cut.strips = ceil_div(down.written, cut.strip_rows);
            const double steps
                    = (cut.strip_rows + (cut.strips > 1 ? size - 1 : 0) + 1)
                    / 2;
            const parts_estimate of = share_out(shape.images * cut.strips,
                    shape.images * cut.strips,
                    cut.channel_tiles * cut.column_bands, facts.multiprocessors,
                    steps * (step_cycles + cycles_stage / stage_steps));
            if (of.cycles >= least) continue;
            least = of.cycles;
            cut.parts = of.parts;
            best = cut;
        }
    };
    const int most_groups
            = static_cast<int>(std::min<int64_t>(most_warps - 1, all_groups));
    for (int groups = 1; groups <= most_groups; ++groups)
        for (int tiles = std::min(all_tiles, (most_warps - 1) / groups);
                tiles > 0; --tiles) {
            data_cut cut;
            cut.groups = groups;
            cut.tiles = tiles;
            estimate(cut);
        }
    return least < std::numeric_limits<double>::infinity();
}

bool cut_work(weights_cut &best, const problem_facts &facts) {
    const problem_shape &shape = facts.shape;
    const window_axis &down = shape.axes[1];
    const window_axis &along = shape.axes[2];
    const int size = down.kernel;
    const int64_t all_groups = shape.channels / group_channels;
    const int all_tiles = ceil_div(down.written, tile_dst_rows);
    const int products = pairs_of(size);
    const int most_warps = weights_warps - most_copy_warps;
    double least = std::numeric_limits<double>::infinity();
    const auto estimate = [&](weights_cut cut) {
        cut.part_columns
                = round_up(ceil_div(along.read, cut.column_parts), size);
        cut.column_parts = ceil_div(along.read, cut.part_columns);
        cut.copy_warps = most_copy_warps;
        // Rows lie in other banks than their neighbours.
        cut.src_pitch = along.read | 1;
        cut.dst_pitch
                = std::max(along.read + size, along.written + size - along.pad)
                | 1;
        cut.channel_tiles = ceil_div(all_groups, int64_t {cut.groups});
        const int64_t sums = int64_t {cut.warps()} * group_channels * size
                * size * static_cast<int64_t>(sizeof(float));
        const int all_stages = ceil_div(down.written, cut.rows());
        for (int strips = 1; strips <= std::min(most_strips, all_stages);
                ++strips) {
            cut.strip_stages = ceil_div(all_stages, strips);
            cut.strips = ceil_div(all_stages, cut.strip_stages);
            // A strip's first stage has more rows of src, as has the oldest
            // stage that is in use.
            const int shortest
                    = all_stages - (cut.strips - 1) * cut.strip_stages;
            cut.src_rows = weights_stage_count * cut.rows()
                    + (1 + ceil_div(weights_stage_count, shortest))
                            * (size - 1);
            const int64_t bytes = barriers_bytes(weights_stage_count)
                    + std::max<int64_t>(sums,
                            cut.src_bytes()
                                    + int64_t {weights_stage_count}
                                            * cut.dst_bytes());
            if (bytes > facts.block_shared_bytes) continue;
            cut.shared_bytes = static_cast<size_t>(bytes);
            // The columns of dst that a walk begins with cost a part of a
            // product.
            const double columns = cut.part_columns + size / 2.;
            const double stage_cycles = cycles_stage
                    + cycles_of(cut.warps(), columns * products,
                            columns * cycles_column,
                            0.5 * cut.rows() * (along.read + along.written)
                                    * cut.groups * vector_bytes
                                    * (cut.groups == 1 ? half_sectors : 1));
            const int64_t strip_products
                    = int64_t {cut.strip_stages} * cut.part_columns;
            const parts_estimate of = share_out(shape.images * cut.strips,
                    std::max<int64_t>(1, longest_warp_chain / strip_products),
                    cut.channel_tiles, facts.multiprocessors,
                    stage_cycles
                            * (cut.strip_stages
                                    + (size - 1) / (4. * cut.rows())));
            if (of.cycles >= least) continue;
            least = of.cycles;
            cut.parts = of.parts;
            best = cut;
        }
    };
    const int most_groups
            = static_cast<int>(std::min<int64_t>(most_warps, all_groups));
    for (int groups = 1; groups <= most_groups; ++groups)
        for (int tiles = 1; tiles <= std::min(all_tiles, most_warps / groups);
                ++tiles)
            for (int parts = 1; parts <= most_warps / (groups * tiles);
                    ++parts) {
                weights_cut cut;
                cut.groups = groups;
                cut.tiles = tiles;
                cut.column_parts = parts;
                estimate(cut);
            }
    return least < std::numeric_limits<double>::infinity();
}

} // namespace

bool cut(work_cut &work, const problem_facts &facts) {
    const bool of_weights = facts.of_weights();
    if (!takes(facts)
            || !(of_weights ? cut_work(work.weights, facts)
                            : cut_work(work.data, facts)))
        return false;
    const allocation_guard current(facts.device); // attributes load the kernel
    (of_weights ? prepare_weights : prepare_data)(facts.problem.src.type,
            facts.shape, static_cast<size_t>(facts.block_shared_bytes));
    return true;
}

} // namespace gradnn::gpu::depthwise::diagonals
