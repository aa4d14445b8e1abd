// InterpolateBackward, columns first: the kernel of dense layouts.
//
// diff_src[i,j] = sum over q of ww[q] * line_i[q],
// line_i[q] = sum over p of wh[p] * diff_dst[p,q].
//
// Memory is taken as a stream of rows of diff_dst, plane after plane, which
// becomes a stream of rows of diff_src. A block has a run of rows of diff_src
// (equal runs for all blocks, across planes) and a tile of its columns; it
// walks down the rows of diff_dst that feed them. A thread owns 16 bytes of
// every row, in vectors as wide as the alignment allows, reads each element
// once, several rows ahead, and adds it to the two source rows that a row of
// the linear family feeds, in registers. When a source row is complete, its
// column sums go to a line in shared memory (two lines take turns, so one
// barrier a line), from which the taps along the row are taken and the row is
// written.
//
// NCX: a plane is one channel; blocks take several planes side by side where
// rows are short. NXC: a plane is one image; the elements of a row are (column,
// channel) and the taps of a channel lie the channels apart.
//
// Every sum runs over ascending rows, then over ascending columns (a fixed
// tree where lanes share an output): the same bits on every run, whatever the
// device. A tap of weight 0 is never taken.
#pragma once

#include <cstdint>

#include "gpu/dtype.cuh"

namespace gradnn::gpu {

/// One row of diff_dst: the source row `low` and, where high_weight is not 0,
/// the next one.
template <typename Sum>
struct alignas(4 * sizeof(Sum)) line_row {
    Sum low_weight = 0;
    Sum high_weight = 0;
    int32_t low = 0;
};

/// Source row i is fed by rows first <= h < end that no row of lower or higher
/// number shares but its neighbours: the walk down to it starts at `first` and
/// that to the rows up to it ends before `end`.
struct line_reach {
    int32_t first = 0;
    int32_t end = 0;
};

/// Taps of one source column.
struct line_column {
    int32_t first = 0;
    int32_t count = 0;
    int64_t offset = 0; ///< in the weights
};

/// Source columns [first_column, first_column + columns) and the elements of a
/// row of diff_dst that feed them.
struct line_tile {
    int64_t begin = 0; ///< of the row, in elements
    int64_t line_origin = 0; ///< what is taken off a tap's place in the line
    int32_t first_column = 0;
    int32_t columns = 0;
    int32_t elements = 0; ///< in the line
};

struct lines_shape {
    int64_t planes = 0;
    int64_t dst_plane_pitch = 0;
    int64_t src_plane_pitch = 0;
    int64_t dst_row_pitch = 0;
    int64_t src_row_pitch = 0;
    int32_t dst_rows = 0; ///< of a plane
    int32_t src_rows = 0;
    int64_t rows_per_block = 0; ///< of diff_src
    int64_t row_total = 0; ///< over all plane groups
    int32_t slots = 1; ///< planes side by side
    int32_t slot_threads = 0;
    int32_t most_taps = 0; ///< along the row
    int32_t most_columns = 0; ///< of a tile
    // NXC: `inner` channels of a column, all in one run of memory where
    // channel_block is 0, else in blocks of channel_block.
    int32_t inner = 1;
    int32_t channel_block = 0;
    int32_t tap_stride = 1;
    int32_t units = 1; ///< channels of a tile over items_wide
    int32_t lanes = 1; ///< that share an output, a power of two
};

template <typename Sum>
struct lines_tables {
    const line_row<Sum> *rows = nullptr;
    const line_reach *reach = nullptr;
    const line_column *columns = nullptr;
    const Sum *weights = nullptr;
    const line_tile *tiles = nullptr;
};

/// Shared memory: two lines, then the tile's columns and weights.
template <typename Sum>
constexpr size_t lines_shared_bytes(
        int threads, int thread_elements, int most_columns, int most_taps) {
    return (static_cast<size_t>(2 * threads * thread_elements)
                   + static_cast<size_t>(most_columns) * most_taps)
            * sizeof(Sum)
            + static_cast<size_t>(most_columns) * sizeof(int2);
}

/// `count` neighbouring sums in shared memory, 16 bytes at a time.
template <typename Sum, int count>
__device__ inline void load_sums(const Sum *from, Sum (&values)[count]) {
    constexpr int bytes = static_cast<int>(sizeof(Sum)) * count;
    constexpr int step = bytes < 16 ? bytes : 16;
    using part = typename word<step>::type;
#pragma unroll
    for (int at = 0; at < bytes / step; ++at) {
        const part loaded = reinterpret_cast<const part *>(from)[at];
        memcpy(reinterpret_cast<char *>(values) + at * step, &loaded, step);
    }
}

template <typename Sum, int count>
__device__ inline void store_sums(Sum *to, const Sum (&values)[count]) {
    constexpr int bytes = static_cast<int>(sizeof(Sum)) * count;
    constexpr int step = bytes < 16 ? bytes : 16;
    using part = typename word<step>::type;
#pragma unroll
    for (int at = 0; at < bytes / step; ++at) {
        part stored;
        memcpy(&stored, reinterpret_cast<const char *>(values) + at * step,
                step);
        reinterpret_cast<part *>(to)[at] = stored;
    }
}

/// How a kernel takes the outputs of a row: one plane's columns by the threads
/// of its slot; by groups of lanes that share one output; channels of NXC one
/// or several at a time.
enum class line_items { columns, shared_columns, channels };

constexpr int line_threads = 512;

/// Rows ahead: 64 bytes a thread in flight, 32 where loads are narrow.
template <typename Type, int vector>
constexpr int line_depth = sizeof(Type) * vector >= 4 ? 4 : 2;

template <typename Type, int vector, line_items items, int wide>
__global__ void __launch_bounds__(line_threads) lines_kernel(
        const Type *__restrict__ diff_dst, Type *__restrict__ diff_src,
        const __grid_constant__ lines_shape shape,
        const __grid_constant__ lines_tables<sum_of<Type>> tables) {
    using sum = sum_of<Type>;
    using words = pack<Type, vector>;
    constexpr int thread_elements = 16 / sizeof(Type);
    constexpr int chunks = thread_elements / vector;
    constexpr int depth = line_depth<Type, vector>;

    extern __shared__ __align__(16) unsigned char shared[];
    const int line_elements = static_cast<int>(blockDim.x) * thread_elements;
    auto *lines = reinterpret_cast<sum *>(shared);
    auto *taps = reinterpret_cast<int2 *>(lines + 2 * line_elements);
    auto *weights = reinterpret_cast<sum *>(taps + shape.most_columns);

    // What this block computes.
    const int tile_number = static_cast<int>(blockIdx.y);
    const int channel_tile = static_cast<int>(blockIdx.z);
    const line_tile tile = tables.tiles[tile_number];
    const int64_t first_row = blockIdx.x * shape.rows_per_block;
    const auto rows = static_cast<int>(
            min(shape.rows_per_block, shape.row_total - first_row));
    if (rows <= 0) return;

    for (int j = static_cast<int>(threadIdx.x); j < tile.columns;
            j += static_cast<int>(blockDim.x)) {
        const line_column column = tables.columns[tile.first_column + j];
        taps[j] = {static_cast<int>(
                           int64_t(column.first) * shape.tap_stride
                           - tile.line_origin),
                column.count};
        for (int k = 0; k < column.count; ++k)
            weights[k * tile.columns + j] = tables.weights[column.offset + k];
    }

    // What this thread loads.
    const auto thread = static_cast<int>(threadIdx.x);
    const int slot = min(thread / shape.slot_threads, shape.slots - 1);
    const int slot_thread = thread % shape.slot_threads;
    const int channel_begin = channel_tile * shape.channel_block;
    int offsets[chunks];
#pragma unroll
    for (int m = 0; m < chunks; ++m) {
        const int chunk = min(slot_thread + m * shape.slot_threads,
                (tile.elements + vector - 1) / vector - 1);
        if (shape.channel_block == 0) {
            offsets[m] = chunk * vector;
        } else {
            const int column = chunk * vector / shape.channel_block;
            const int channel = chunk * vector % shape.channel_block;
            offsets[m] = column * shape.inner
                    + min(channel, shape.inner - channel_begin - vector);
        }
    }
    const int line_at = thread * vector
            + slot * shape.slot_threads * (thread_elements - vector);

    // What this thread writes.
    int unit = 0;
    int first_item = slot_thread;
    int item_step = shape.slot_threads;
    int line_offset = slot * shape.slot_threads * thread_elements;
    int64_t out_offset = tile.first_column;
    int out_step = 1;
    int part = 0;
    int out_slot = slot;
    const bool loads = thread < shape.slots * shape.slot_threads;
    bool writes = loads;
    if constexpr (items == line_items::shared_columns) {
        const int number = thread / shape.lanes;
        part = thread % shape.lanes;
        out_slot = number / tile.columns;
        first_item = number % tile.columns;
        item_step = tile.columns;
        writes = out_slot < shape.slots;
        out_slot = min(out_slot, shape.slots - 1);
        line_offset = out_slot * shape.slot_threads * thread_elements;
    } else if constexpr (items == line_items::channels) {
        unit = thread % shape.units * wide;
        first_item = thread / shape.units;
        item_step = shape.slot_threads / shape.units;
        writes = first_item < item_step
                && (shape.channel_block == 0
                        || channel_begin + unit < shape.inner);
        line_offset = unit;
        out_step = shape.inner;
        out_offset = int64_t(tile.first_column) * shape.inner + channel_begin
                + unit;
    }

    // The walk. Source rows are counted from this block's first one.
    int64_t group = first_row / shape.src_rows;
    const auto first_in_plane = static_cast<int>(first_row % shape.src_rows);
    const int64_t last_row = first_row + rows - 1;
    const int64_t last_group = last_row / shape.src_rows;
    int load_row = tables.reach[first_in_plane].first;
    int row_count = static_cast<int>((last_group - group) * shape.dst_rows)
            + tables.reach[last_row % shape.src_rows].end - load_row;
    int64_t load_group = group;
    const auto plane_of = [&](int64_t of_group, int of_slot) {
        return min(of_group * shape.slots + of_slot, shape.planes - 1);
    };
    const Type *from = nullptr;
    const auto seek = [&] {
        from = diff_dst + plane_of(load_group, slot) * shape.dst_plane_pitch
                + load_row * shape.dst_row_pitch + tile.begin + channel_begin;
    };
    if (load_row == shape.dst_rows) {
        load_row = 0;
        ++load_group;
    }
    int row = load_row;
    int plane_begin = static_cast<int>(
            load_group * shape.src_rows - first_row);

    words ahead[depth][chunks];
    const auto load = [&](words(&into)[chunks]) {
#pragma unroll
        for (int m = 0; m < chunks; ++m)
            into[m] = words::load(from + offsets[m]);
        from += shape.dst_row_pitch;
        if (++load_row == shape.dst_rows) {
            load_row = 0;
            ++load_group;
            seek();
        }
    };
    seek();
#pragma unroll
    for (int i = 0; i < depth; ++i)
        if (i < row_count) load(ahead[i]);

    sum low[chunks][vector] = {};
    sum high[chunks][vector] = {};
    int current = 0;
    if (row_count > 0 && plane_begin + tables.rows[row].low < 0) current = -1;

    int out_row = first_in_plane;
    Type *to = nullptr;
    const auto seek_out = [&] {
        const int64_t plane = group * shape.slots + out_slot;
        if constexpr (items != line_items::channels)
            writes = writes && plane < shape.planes;
        to = diff_src + plane * shape.src_plane_pitch
                + out_row * shape.src_row_pitch + out_offset;
    };
    seek_out();

    int line = 0;
    const auto emit = [&] {
        if (current >= 0) {
            sum *now = lines + line;
            line ^= line_elements;
            if (loads) {
#pragma unroll
                for (int m = 0; m < chunks; ++m)
                    store_sums(now + line_at + m * shape.slot_threads * vector,
                            low[m]);
            }
            __syncthreads();
            const sum *source = now + line_offset;
            for (int item = first_item; item < tile.columns;
                    item += item_step) {
                const int2 tap = taps[item];
                const sum *at = source + tap.x;
                const sum *weight = weights + item;
                sum total[wide] = {};
                if constexpr (items == line_items::shared_columns) {
                    for (int k = part; k < tap.y; k += shape.lanes)
                        total[0] += weight[k * tile.columns] * at[k];
                    for (int distance = shape.lanes / 2; distance > 0;
                            distance /= 2)
                        total[0] += __shfl_xor_sync(
                                0xffffffffU, total[0], distance);
                } else {
#pragma unroll 4
                    for (int k = 0; k < tap.y; ++k) {
                        const sum by = weight[k * tile.columns];
                        sum values[wide];
                        load_sums(at, values);
#pragma unroll
                        for (int e = 0; e < wide; ++e)
                            total[e] += by * values[e];
                        at += items == line_items::channels ? shape.tap_stride
                                                            : 1;
                    }
                }
                if (writes && (items != line_items::shared_columns || part == 0))
                    pack<Type, wide>::of(total).store(
                            to + int64_t(item) * out_step);
                if constexpr (items == line_items::shared_columns) break;
            }
            to += shape.src_row_pitch;
            if (++out_row == shape.src_rows) {
                out_row = 0;
                ++group;
                seek_out();
            }
        }
#pragma unroll
        for (int m = 0; m < chunks; ++m)
#pragma unroll
            for (int e = 0; e < vector; ++e) {
                low[m][e] = high[m][e];
                high[m][e] = 0;
            }
        ++current;
    };

    for (int done = 0; done < row_count; done += depth) {
#pragma unroll
        for (int i = 0; i < depth; ++i) {
            if (done + i >= row_count) break;
            const line_row<sum> by = tables.rows[row];
            while (current < plane_begin + by.low)
                emit();
#pragma unroll
            for (int m = 0; m < chunks; ++m) {
                sum values[vector];
                ahead[i][m].unpack(values);
#pragma unroll
                for (int e = 0; e < vector; ++e)
                    low[m][e] += by.low_weight * values[e];
                if (by.high_weight != 0) {
#pragma unroll
                    for (int e = 0; e < vector; ++e)
                        high[m][e] += by.high_weight * values[e];
                }
            }
            if (done + i + depth < row_count) load(ahead[i]);
            if (++row == shape.dst_rows) {
                row = 0;
                plane_begin += shape.src_rows;
            }
        }
    }
    while (current < rows)
        emit();
}

} // namespace gradnn::gpu
