// InterpolateBackward along two or three axes: README.md has the formula and a picture.
//
// A block has a tile of a layer and walks along the axis of layers, of one group after
// the other. Pieces of 16 bytes bring the tile to shared memory, as it lies in memory,
// some layers ahead. A thread adds up the columns, then (of volumes) the rows that
// feed its elements of diff_src, and adds them to the sums of two layers in registers.
//
// Every sum runs over ascending columns, then rows, then layers, from +0, one fma for
// each product: the same bits for every tile and alignment. Weights along the columns
// beyond an element's own taps are 0 and meet what lies there; sums that come out
// infinite or NaN are made again of their own taps alone.
#pragma once

#include "gpu/device/early_start.cuh"
#include "gpu/interpolation/axes/stage.cuh"
#include "gpu/interpolation/axes/sums.cuh"
#include "gpu/interpolation/walk.cuh"

namespace gradnn::gpu::interpolation::axes {

template <typename Sum>
struct kernel_tables {
    const line_row<Sum> *layers = nullptr;
    const line_reach *reach = nullptr;
    const int32_t *first_columns = nullptr; ///< padded_taps
    const Sum *column_weights = nullptr;
    const line_column *rows = nullptr;
    const Sum *row_weights = nullptr;
    const dst_range *row_spans = nullptr; ///< of diff_dst, by row tile
};

/// `single`: a column is one element; `volume`: a layer is a plane.
template <typename Type, int taps, bool single, bool volume>
__global__ void __launch_bounds__(most_threads, resident_threads / most_threads)
        axes_kernel(const Type *diff_dst, Type *diff_src,
                const __grid_constant__ work_shape shape,
                const __grid_constant__ kernel_tables<sum_of<Type>> tables) {
    using sum = sum_of<Type>;
    constexpr int outputs = outputs_of_thread(sizeof(sum));
    constexpr auto element = static_cast<int>(sizeof(Type));
    const auto thread = static_cast<int>(threadIdx.x);
    const auto threads = static_cast<int>(blockDim.x);
    const int step = single ? 1 : shape.channels;

    unsigned block = blockIdx.x;
    const auto next_part = [&](int parts) {
        const unsigned part = block % static_cast<unsigned>(parts);
        block /= static_cast<unsigned>(parts);
        return static_cast<int>(part);
    };
    const int width_tile = next_part(shape.width_tiles);
    const int row_tile = next_part(shape.row_tiles);
    const int run = next_part(shape.runs);
    const int64_t first_pass = int64_t {block} * shape.passes;
    const int64_t end_pass = min(first_pass + shape.passes, shape.group_tiles);

    const int src_row = shape.src_columns * shape.channels;
    const int first_x = width_tile * shape.tile_width;
    const int width = min(shape.tile_width, src_row - first_x);
    const int first_row = row_tile * shape.tile_rows;
    const int rows = min(shape.tile_rows, shape.src_rows - first_row);
    const dst_range band
            = volume ? tables.row_spans[row_tile] : dst_range {0, 1};
    const int band_rows = band.end - band.first;

    // A thread has element x of a row of diff_src, in every y_step-th row of the
    // tile from the y-th on.
    const int y_step = threads / shape.tile_width;
    const int y = thread / shape.tile_width;
    const int x = min(thread - y * shape.tile_width, width - 1);
    const bool idle = y >= y_step || thread - y * shape.tile_width >= width;
    const int lines = shape.tile_groups * rows;
    const int own = idle ? 0 : (lines - y + y_step - 1) / y_step;

    // [stages][bytes], then of volumes the sums over the columns and the tables of
    // the rows.
    extern __shared__ uint4 axes_shared[];
    auto *const stages = reinterpret_cast<unsigned char *>(axes_shared);
    const auto stage_bytes = static_cast<int>(shape.stage.bytes);
    // What nothing is copied to is finite, or sums would be made again for nothing.
    for (int i = thread; i < stage_count * stage_bytes / piece_bytes;
            i += threads)
        axes_shared[i] = uint4 {};
    auto *const sums
            = reinterpret_cast<sum *>(stages + stage_count * stage_bytes);
    const int layer_sums = shape.tile_groups * shape.band; // rows of a layer
    auto *const line_taps = reinterpret_cast<tap_place *>(
            sums + round_up(shape.sum_rows * shape.tile_width, 4));
    sum *const row_weights
            = reinterpret_cast<sum *>(line_taps + shape.outputs * y_step);
    auto *const row_places = reinterpret_cast<uint32_t *>(
            row_weights + shape.tile_rows * shape.row_taps);
    if constexpr (volume) {
        // What no thread's output needs is the last again.
        for (int s = thread; s < shape.outputs * y_step; s += threads) {
            const int group = min(s, lines - 1) / rows;
            const int i = min(s, lines - 1) - group * rows;
            const line_column row = tables.rows[first_row + i];
            line_taps[s] = {(group * shape.band + row.first - band.first)
                            * shape.tile_width,
                    row.count, i * shape.row_taps, 0};
            if (s < rows)
                for (int k = 0; k < row.count; ++k)
                    row_weights[i * shape.row_taps + k]
                            = tables.row_weights[row.offset + k];
        }
        for (int r = thread; r < shape.sum_rows; r += threads) {
            const int layer = min(r / layer_sums, shape.stage.layers - 1);
            const int group = min((r - layer * layer_sums) / shape.band,
                    shape.tile_groups - 1);
            const int row = min(r % shape.band, band_rows - 1);
            row_places[r] = group * shape.stage.group_bytes
                    + max(row, 0) * shape.stage.row_bytes
                    + static_cast<uint32_t>(
                            layer * shape.dst_layer_pitch * element);
        }
    }

    const int column = (first_x + x) / step;
    const int begin = tables.first_columns[first_x / step] * step;
    const uint32_t place = static_cast<uint32_t>(element)
            * (tables.first_columns[column] * step + first_x + x - column * step
                    - begin);
    column_taps<Type, taps> columns;
#pragma unroll
    for (int k = 0; k < taps; ++k)
        columns.weights[k] = tables.column_weights[int64_t {column} * taps + k];
    // Of its outputs in a layer of diff_src, bytes. In an image they are at even
    // distances.
    const auto line_offset
            = static_cast<uint32_t>(y_step * shape.src_group_pitch * element);
    uint32_t offsets[volume ? outputs : 1];
#pragma unroll
    for (int j = 0; j < (volume ? outputs : 1); ++j) {
        const int s = min(y + j * y_step, lines - 1);
        const int group = s / rows;
        offsets[j] = static_cast<uint32_t>(element
                * (group * shape.src_group_pitch
                        + (first_row + s - group * rows) * shape.src_row_pitch
                        + first_x + x));
    }

    const auto offset_of = [&](int j) {
        if constexpr (volume)
            return offsets[j];
        else
            return offsets[0] + j * line_offset;
    };

    const int first_layer = run * shape.run_layers;
    const int end_layer = min(first_layer + shape.run_layers, shape.src_layers);
    const int begin_dst = tables.reach[first_layer].first;
    const int end_dst = tables.reach[end_layer - 1].end;
    // The last tile of groups overlaps that before it; both write the same.
    const auto group_of = [&](int64_t pass) {
        return min(pass * shape.tile_groups, shape.groups - shape.tile_groups);
    };
    const Type *const tile_begin = diff_dst + begin_dst * shape.dst_layer_pitch
            + band.first * shape.dst_row_pitch + begin;
    const auto place_of = [&](int64_t pass) {
        return reinterpret_cast<const unsigned char *>(
                tile_begin + group_of(pass) * shape.dst_group_pitch);
    };
    const auto layer_bytes = shape.dst_layer_pitch * element;

    const layer_copies<Type, pieces_of_thread(volume)> copies(
            shape, diff_dst, band_rows);
    // What is asked for next, and where it goes.
    const int fills = max( // of a stage, for a pass
            (end_dst - begin_dst + shape.stage.layers - 1) / shape.stage.layers,
            0);
    const int64_t fill_bytes = layer_bytes * shape.stage.layers;
    int64_t load_pass = first_pass;
    int load_left = first_pass < end_pass ? fills : 0; // of the pass
    const unsigned char *load_from = place_of(first_pass);
    const auto within = [&] {
        return copies.lie_within(
                load_from, load_from + (fills - 1) * fill_bytes);
    };
    bool load_within = within();
    const auto load_next = [&](int slot) {
        if (load_left > 0) {
            copies.copy(load_from, stages + slot * stage_bytes, load_within);
            load_from += fill_bytes;
            if (--load_left == 0 && ++load_pass < end_pass) {
                load_left = fills;
                load_from = place_of(load_pass);
                load_within = within();
            }
        }
        commit_copies();
    };

    sum low[outputs];
    sum high[outputs];
    const uint32_t line_bytes = y_step * shape.stage.group_bytes;
    const int line = min(y, y_step - 1);
    const row_sums<sum> over_rows {line_taps + line, y_step, row_weights,
            shape.most_row_taps, shape.tile_width};

    wait_for_earlier_work();
    if (shape.lets_start != 0) let_later_work_start();
    __syncthreads(); // the stages are cleared, the tables are there
#pragma unroll
    for (int i = 0; i < stage_count - 1; ++i)
        load_next(i);

    int slot = 0;
#pragma unroll 1
    for (int64_t pass = first_pass; pass < end_pass; ++pass) {
        auto low_bits = static_cast<uint32_t>(
                reinterpret_cast<uintptr_t>(place_of(pass)));
        char *to = reinterpret_cast<char *>(diff_src
                + group_of(pass) * shape.src_group_pitch
                + first_layer * shape.src_layer_pitch);
#pragma unroll
        for (int j = 0; j < outputs; ++j)
            low[j] = high[j] = 0;
        int at = begin_dst;
        int in_stage = shape.stage.layers; // layers of it that were added
        const unsigned char *window = stages; // of its first output
        int layer = first_layer; // whose sums are in `low`
        line_row<sum> by;
        if (at < end_dst) {
            by = tables.layers[at];
            // Layers before its own, which nothing feeds, are finished first.
            layer = min(first_layer, by.low);
            by.finished = by.low - layer;
        }
#pragma unroll 1
        while (true) {
            const bool last = at >= end_dst;
            const line_row<sum> next
                    = last ? by : tables.layers[min(at + 1, end_dst - 1)];
#pragma unroll 1
            for (int finished = last ? end_layer - layer : by.finished;
                    finished > 0; --finished) {
                if (layer >= first_layer) {
#pragma unroll
                    for (int j = 0; j < outputs; ++j)
                        if (j < own)
                            stream_one(
                                    reinterpret_cast<Type *>(to + offset_of(j)),
                                    low[j]);
                    to += shape.src_layer_pitch * element;
                }
                ++layer;
#pragma unroll
                for (int j = 0; j < outputs; ++j) {
                    low[j] = high[j];
                    high[j] = 0;
                }
            }
            if (last) break;
            if (in_stage == shape.stage.layers) {
                in_stage = 0;
                wait_for_copies<stage_count - 2>();
                __syncthreads(); // all have read the stage that is filled next
                load_next(slot == 0 ? stage_count - 1 : slot - 1);
                const unsigned char *const stage
                        = stages + slot * stage_bytes + low_bits % piece_bytes;
                window = stage + place + line * shape.stage.group_bytes;
                low_bits += static_cast<uint32_t>(fill_bytes);
                if (++slot == stage_count) slot = 0;
                if constexpr (volume) {
                    const int count = min(shape.stage.layers, end_dst - at)
                            * layer_sums;
                    if (!idle)
                        add_columns_of_rows<rows_together<sum>>(columns,
                                stage + place, step, row_places + y, y_step,
                                sums + y * shape.tile_width + x,
                                y_step * shape.tile_width, count - y);
                    __syncthreads();
                }
            }
            if (shape.outputs == outputs) {
                sum values[outputs];
                if constexpr (volume)
                    add_over_rows(values, over_rows,
                            sums + in_stage * layer_sums * shape.tile_width
                                    + x);
                else
                    add_over_columns(values, columns, window, line_bytes, step);
                add_to_layers(low, high, by, values);
            } else {
                sum values[outputs / 2];
                if constexpr (volume)
                    add_over_rows(values, over_rows,
                            sums + in_stage * layer_sums * shape.tile_width
                                    + x);
                else
                    add_over_columns(values, columns, window, line_bytes, step);
                add_to_layers(low, high, by, values);
            }
            ++in_stage;
            window += layer_bytes;
            by = next;
            ++at;
        }
    }
    wait_for_copies<0>();
}

} // namespace gradnn::gpu::interpolation::axes
