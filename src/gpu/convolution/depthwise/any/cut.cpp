// Depthwise, D and H tap by tap: how the work is cut into tiles (NCX) and blocks
// (NXC). Plain host arithmetic.
#include <algorithm>
#include <cstdint>

#include "gpu/convolution/depthwise/any/cut.hpp"
#include "gpu/convolution/depthwise/plan.hpp"

namespace gradnn::gpu::depthwise::any {

namespace {

constexpr int run = 8; // columns of a thread
constexpr int most_threads = 256;
/// Rows of read in shared memory, and vectors of all of them, are fewer: dividers are exact.
constexpr int64_t most_staged = 1 << 16;
/// Shared memory of a tile, below what a block has without asking: the weights' kernel
/// has its warps' sums beside it. Four blocks fit a multiprocessor of 228 KiB.
constexpr size_t tile_bytes = 44 * 1024;

/// Blocks that fill the device.
int64_t blocks_for(const problem_facts &facts) {
    return facts.multiprocessors * 8;
}

/// `whole` in equal pieces of at most `most`: the size of a piece.
int even_piece(int whole, int most) {
    return ceil_div(whole, ceil_div(whole, most));
}

/// Positions of read that `count` neighbouring written ones meet through
/// `kernel` taps.
int reach_of(const window_axis &axis, bool to_src, int count, int kernel) {
    const int window = (kernel - 1) * axis.dilation;
    if (!to_src) return (count - 1) * axis.stride + window + 1;
    if (axis.stride == 1) return count + window;
    return (count - 1 + window) / axis.stride + 2;
}

/// The tile's sizes once its written positions are chosen. False where a plane would have
/// more rows of read than are counted.
bool size_tile(tile_shape &tile, const problem_shape &shape, bool of_weights,
        size_t sum_bytes) {
    const window_axis &down = shape.axes[1];
    const int kernel_rows = of_weights
            ? std::min(window_rows_of(shape.taps), down.kernel)
            : down.kernel;
    tile.read_rows = reach_of(down, shape.to_src, tile.rows, kernel_rows);
    tile.read_depths = of_weights ? 1
                                  : reach_of(shape.axes[0], shape.to_src,
                                          tile.depths, shape.axes[0].kernel);
    const int each = 16 / static_cast<int>(sum_bytes);
    const int span = ((run - 1) * shape.step + shape.taps - 1) / shape.up + 1;
    const int chunks = of_weights ? 1 : shape.chunks;
    tile.columns = (tile.groups - 1) * run * shape.step / shape.up
            + (chunks - 1) * shape.taps / shape.up
            + ceil_div(span, each) * each;
    tile.pitch = ceil_div(tile.columns + 2 * row_slack, each) | 1;
    tile.pitch *= each;
    tile.kernel_elements = of_weights ? 0
                                      : tile.planes * shape.axes[0].kernel
                    * down.kernel * shape.chunks * ceil_div(shape.taps, 4) * 4;
    return int64_t {tile.read_depths} * tile.read_rows < most_staged;
}

bool make_tile(tile_shape &tile, const problem_shape &shape, bool of_weights,
        size_t sum_bytes) {
    const auto &[deep, down, along] = shape.axes;
    const int64_t planes = shape.images
            * (of_weights ? int64_t {deep.written} : shape.channels);
    const int all_groups = ceil_div(along.written, run);
    const auto fits_memory = [&] {
        return size_tile(tile, shape, of_weights, sum_bytes)
                && shared_bytes_of(tile, sum_bytes) <= tile_bytes;
    };
    // As large as fits, and rather long rows than many.
    tile.groups = even_piece(all_groups, 32);
    tile.rows = down.written;
    while (tile.rows > 1 && !fits_memory())
        tile.rows = even_piece(down.written, tile.rows - 1);
    while (tile.groups > 1 && !fits_memory())
        tile.groups = even_piece(all_groups, tile.groups - 1);
    if (!fits_memory()) return false;
    // Two rows a thread, unless that leaves many threads with one.
    tile.repeats = tile.rows > 12
                    || (tile.rows > 2 && tile.rows % 4 != 1
                            && tile.rows % 4 != 2)
            ? 2
            : 1;
    const int depths = of_weights ? 1 : deep.written;
    const auto grow = [&](int &size, int64_t most) {
        while (size < most && tile.items() < 4 * most_threads) {
            ++size;
            if (fits_memory()) continue;
            --size;
            break;
        }
    };
    if (tile.rows == down.written) grow(tile.depths, depths);
    if (tile.rows == down.written && tile.depths == depths)
        grow(tile.planes, std::min<int64_t>(planes, 64));
    tile.depths = even_piece(depths, tile.depths);
    size_tile(tile, shape, of_weights, sum_bytes);

    tile.vectors = std::min(ceil_div(along.read, tile.dense_load),
            ceil_div(tile.columns + tile.dense_load - 1, tile.dense_load));
    tile.plane_tiles
            = static_cast<int>(ceil_div(planes, int64_t {tile.planes}));
    tile.depth_tiles = ceil_div(depths, tile.depths);
    tile.row_tiles = ceil_div(down.written, tile.rows);
    tile.column_tiles = ceil_div(all_groups, tile.groups);
    const int rounds = ceil_div(tile.items(), most_threads);
    tile.threads = ceil_div(ceil_div(tile.items(), rounds), 32) * 32;
    // A small tile is staged by more than need compute.
    tile.threads = std::max(tile.threads, 64);
    tile.by_vectors = small_divider(tile.vectors);
    tile.by_groups = small_divider(tile.groups);
    tile.by_row_blocks = small_divider(tile.row_blocks());
    tile.by_depths = small_divider(tile.depths);
    tile.by_read_rows = small_divider(tile.read_rows);
    tile.by_read_depths = small_divider(tile.read_depths);
    return fits(planes)
            && fits(int64_t {tile.plane_tiles} * tile.depth_tiles
                    * tile.row_tiles * tile.column_tiles)
            && int64_t {tile.staged_rows()} * tile.vectors < most_staged
            && tile.items() < 1 << 16;
}

/// Groups of channels that a block has, of `vector` a thread.
int channel_tiles_of(
        const block_shape &block, const problem_shape &shape, int vector) {
    return ceil_div(static_cast<int>(shape.channels), vector * block.lanes);
}

int64_t blocks_of(const block_shape &block, const problem_shape &shape) {
    return shape.images * block.depth_tiles * block.row_tiles
            * block.column_tiles * block.channel_tiles;
}

void make_block(block_shape &block, const problem_facts &facts, int widest) {
    const problem_shape &shape = facts.shape;
    // 128 bytes of channels where there are so many.
    const int vectors = ceil_div(static_cast<int>(shape.channels), widest);
    const int most = std::clamp(
            static_cast<int>(128 / facts.element_bytes()) / widest, 8, 32);
    block.lanes = even_piece(vectors, most);
    block.channel_tiles = channel_tiles_of(block, shape, widest);
    const int slots = most_threads / block.lanes;
    const int groups = ceil_div(shape.axes[2].written, run);
    const int rows = shape.axes[1].written;
    const int depths = shape.axes[0].written;
    block.groups = std::min(groups, 2);
    block.rows = even_piece(rows, slots / block.groups);
    block.groups = even_piece(groups, slots / block.rows);
    block.depths = even_piece(
            depths, std::max(1, slots / (block.rows * block.groups)));
    block.column_tiles = ceil_div(groups, block.groups);
    block.depth_tiles = ceil_div(depths, block.depths);
    block.row_tiles = ceil_div(rows, block.rows);
    block.repeats = static_cast<int>(
            std::clamp<int64_t>(blocks_of(block, shape) / blocks_for(facts), 1,
                    std::min(block.row_tiles, 4)));
    block.row_tiles = ceil_div(block.row_tiles, block.repeats);
    block.channel_tiles = channel_tiles_of(block, shape, block.vector);
}

bool cut_weights(tiles_cut &tiles, const problem_facts &facts) {
    const problem_shape &shape = facts.shape;
    const tile_shape &tile = tiles.tile;
    weights_parts &parts = tiles.weights;
    parts.window_rows = window_rows_of(shape.taps);
    const int64_t jobs = int64_t {shape.axes[0].kernel}
            * ceil_div(shape.axes[1].kernel, parts.window_rows) * shape.chunks;
    if (!fits(jobs)) return false;
    parts.jobs = static_cast<int>(jobs);
    parts.units
            = int64_t {tile.plane_tiles} * tile.row_tiles * tile.column_tiles;
    const int64_t blocks = shape.channels * parts.jobs;
    const int64_t terms = parts.units * ceil_div(tile.items(), tile.threads)
            * run * tile.repeats;
    parts.parts
            = std::clamp<int64_t>(std::max(ceil_div(blocks_for(facts), blocks),
                                          ceil_div(terms, longest_f32_chain)),
                    1, parts.units);
    return fits(blocks) && fits(parts.parts * blocks);
}

bool cut_weights(blocks_cut &cut, const problem_facts &facts, int widest) {
    const problem_shape &shape = facts.shape;
    const block_shape &block = cut.block;
    weights_parts &parts = cut.weights;
    const int slots = most_threads / block.lanes;
    // Taps are counted in 32 bits, more of them than jobs.
    const int64_t rows = int64_t {shape.axes[0].kernel} * shape.axes[1].kernel;
    if (!fits(rows * std::max(shape.axes[2].kernel, shape.chunks)))
        return false;
    parts.jobs = static_cast<int>(rows) * shape.chunks;
    parts.block_jobs = even_piece(parts.jobs, slots);
    parts.segments = ceil_div(shape.axes[2].written, 256);
    parts.segment_columns
            = ceil_div(ceil_div(shape.axes[2].written, parts.segments), run)
            * run;
    parts.units = shape.images * shape.axes[0].written * shape.axes[1].written
            * parts.segments;
    parts.lanes = static_cast<int>(
            std::clamp<int64_t>(slots / parts.block_jobs, 1, parts.units));
    const int64_t job_tiles = ceil_div(parts.jobs, parts.block_jobs);
    const int64_t blocks = channel_tiles_of(block, shape, widest) * job_tiles;
    const int64_t terms = ceil_div(parts.units, int64_t {parts.lanes})
            * parts.segment_columns;
    // Half as many blocks as elsewhere: about as many as run at a time.
    parts.parts = std::clamp<int64_t>(
            std::max(ceil_div(blocks_for(facts) / 2, blocks),
                    ceil_div(terms, longest_f32_chain)),
            1, ceil_div(parts.units, int64_t {parts.lanes}));
    const int64_t all = block.channel_tiles * job_tiles;
    return fits(parts.units) && fits(all) && fits(parts.parts * all);
}

} // namespace

bool cut(tiles_cut &tiles, const problem_facts &facts, bool vectors) {
    if (facts.channels_last) return false;
    tile_shape &tile = tiles.tile;
    const detail::convolution_problem &problem = facts.problem;
    const bool to_src = facts.shape.to_src;
    const detail::tensor_view &read = to_src ? problem.dst : problem.src;
    const detail::tensor_view &written = to_src ? problem.src : problem.dst;
    const int64_t element_bytes = facts.element_bytes();
    if (vectors && read.strides[4] == 1)
        for (const int64_t count : {2, 4})
            if (vectors_divide(count, read, 4) && count * element_bytes <= 16)
                tile.dense_load = static_cast<int>(count);
    if (vectors && written.strides[4] == 1)
        for (const int64_t count : {int64_t {2}, 16 / element_bytes})
            if (vectors_divide(count, written, 4))
                tile.dense_store = static_cast<int>(count);
    return make_tile(tile, facts.shape, facts.of_weights(),
                   static_cast<size_t>(facts.sum_bytes()))
            && (!facts.of_weights() || cut_weights(tiles, facts));
}

bool cut(blocks_cut &cut, const problem_facts &facts, bool vectors) {
    if (!facts.channels_last) return false;
    const problem_shape &shape = facts.shape;
    const int most = facts.sum_bytes() == 8 ? 2 : 4;
    const int widest = facts.both_divide(most, 1) ? most : 1;
    cut.block.vector = vectors ? widest : 1;
    make_block(cut.block, facts, widest);
    if (facts.of_weights()) return cut_weights(cut, facts, widest);
    cut.data_sums = int64_t {shape.axes[0].kernel} * shape.axes[1].kernel
            * shape.chunks * shape.taps;
    return fits(blocks_of(cut.block, shape));
}

} // namespace gradnn::gpu::depthwise::any
