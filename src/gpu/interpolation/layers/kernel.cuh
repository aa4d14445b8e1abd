// InterpolateBackward layer by layer: README.md has the formula and a picture.
//
// A block has a tile of a layer and walks along the axis of layers. Its threads load
// the elements of a layer, each its own, `layers_ahead` layers ahead, and add them to
// the sums of two layers of diff_src in registers. Sums of a complete layer go to
// shared memory, where the block resamples columns, and of volumes rows (order.hpp).
//
// Every sum runs over ascending layers, then rows and columns, one fma for each
// product, in one thread: the same bits for every tile, word and alignment. A tap of
// weight 0 is never taken.
#pragma once

#include "gpu/interpolation/layers/outputs.cuh"

namespace gradnn::gpu::interpolation::layers {

/// `vector` elements in a word of memory; `volume`: a layer is a plane.
template <typename Type, int vector, bool volume>
__global__ void __launch_bounds__(most_threads(sizeof(Type), vector),
        resident_threads(sizeof(Type)) / most_threads(sizeof(Type), vector))
        layers_kernel(const Type *diff_dst, Type *diff_src,
                const __grid_constant__ work_shape shape,
                const __grid_constant__ kernel_tables<sum_of<Type>> tables) {
    using sum = sum_of<Type>;
    using words = pack<Type, vector>;
    constexpr int elements = elements_of_thread(sizeof(Type), vector);
    constexpr int count = elements / vector;
    constexpr bool queued = is_queued(sizeof(Type));
    constexpr int ahead = layers_ahead(sizeof(Type));
    const auto thread = static_cast<int>(threadIdx.x);
    const auto threads = static_cast<int>(blockDim.x);

    unsigned block = blockIdx.x;
    const auto next_part = [&](const exact_divider &parts) {
        const unsigned whole = parts.quotient(block);
        const unsigned part = block - whole * parts.by;
        block = whole;
        return static_cast<int>(part);
    };
    const int channel_tile = next_part(shape.channel_tiles);
    const int column_tile = next_part(shape.column_tiles);
    const int row_tile = next_part(shape.row_tiles);
    const int run = next_part(shape.runs);
    // The last tile of groups, or of channels, overlaps that before it; both write
    // the same.
    const int64_t first_group = min(int64_t {block} * shape.tile_groups,
            shape.groups - shape.tile_groups);

    const bool whole_pixels = shape.tile_channels == shape.channels;
    const dst_range span = tables.column_spans[column_tile];
    const dst_range band
            = volume ? tables.row_spans[row_tile] : dst_range {0, 1};
    tile_place tile;
    tile.first_column = column_tile * shape.tile_columns;
    tile.columns
            = min(shape.tile_columns, shape.src_columns - tile.first_column);
    tile.first_row = row_tile * shape.tile_rows;
    tile.rows = min(shape.tile_rows, shape.src_rows - tile.first_row);
    tile.first_channel = min(channel_tile * shape.tile_channels,
            shape.channels - shape.tile_channels);
    tile.first_dst_row = band.first;
    // Of diff_dst: the first element of a row, or of the rows as they lie.
    const bool as_they_lie = shape.as_they_lie != 0;
    const int before = as_they_lie ? band.first * shape.pitch : 0;
    const int from_element = as_they_lie
            ? before / vector * vector
            : first_element(span.first, shape.tile_channels, vector);
    tile.from_element = from_element - before;

    extern __shared__ uint4 layers_shared[];
    // Layers on their way: [layer][word of a thread][thread]; then lines and tables.
    auto *const queue = reinterpret_cast<words *>(layers_shared);
    layer_outputs<Type, volume> outputs(shape, tables, tile,
            reinterpret_cast<sum *>(
                    queue + (queued ? ahead * count * threads : 0)));

    // The words of this thread; those of a warp are neighbours. Those beyond the
    // tensor or the tile are other elements again, whose sums no tap names.
    const int first_word = thread / 32 * (32 * count) + thread % 32;
    const int last_word = shape.tile_words - 1;
    uint32_t offsets[count]; // bytes
#pragma unroll
    for (int i = 0; i < count; ++i) {
        const auto at
                = static_cast<uint32_t>(min(first_word + i * 32, last_word));
        // A stretch of words: a row, or a group where rows are taken as they lie.
        const uint32_t stretch = shape.stretch_words.quotient(at);
        const auto place = static_cast<int>(
                (at - stretch * shape.stretch_words.by) * vector);
        int group = static_cast<int>(stretch);
        int row = 0;
        int element = 0;
        if (as_they_lie) {
            element = min(from_element + place, shape.layer_elements - vector);
        } else {
            group = static_cast<int>(shape.bands.quotient(stretch));
            row = min(
                    band.first + static_cast<int>(stretch) - group * shape.band,
                    shape.dst_rows - 1);
            if (whole_pixels) {
                element = min(from_element + place,
                        shape.dst_columns * shape.channels - vector);
            } else {
                const auto column
                        = static_cast<int>(shape.columns_of_channels.quotient(
                                static_cast<uint32_t>(place)));
                element = min(span.first + column, shape.dst_columns - 1)
                                * shape.channels
                        + tile.first_channel + place
                        - column * shape.tile_channels;
            }
        }
        offsets[i] = static_cast<uint32_t>(sizeof(Type)
                * (group * shape.dst_group_pitch + row * shape.dst_row_pitch
                        + element));
    }

    const int first_layer = run * shape.run_layers;
    const int end_layer = min(first_layer + shape.run_layers, shape.src_layers);
    int at = tables.reach[first_layer].first;
    const int end = tables.reach[end_layer - 1].end;
    const Type *from = diff_dst + first_group * shape.dst_group_pitch
            + at * shape.dst_layer_pitch; // what is asked for next
    Type *to = diff_src + first_group * shape.src_group_pitch
            + first_layer * shape.src_layer_pitch;

    sum low[elements] = {};
    // Sums of 4 bytes are read only after a term was added, so that they take no
    // registers before. With 8 bytes the compiler does worse that way.
    sum high[elements] = {};
    // Whether a term was added.
    bool low_any = false;
    bool high_any = false;
    // Puts the sums of a complete layer into shared memory.
    const auto low_to_shared = [&] {
        sum *const line = outputs.next_line();
        constexpr auto size = static_cast<uint32_t>(sizeof(sum)) * vector;
        const uint32_t places = shared_address(line) + first_word * size;
#pragma unroll
        for (int i = 0; i < count; ++i) {
            sum some[vector];
#pragma unroll
            for (int e = 0; e < vector; ++e)
                some[e] = low[i * vector + e];
            store_shared(places + i * 32 * size, some);
        }
        return line;
    };

    // Layers of diff_dst that are not asked for yet; negative beyond the last.
    int to_load = end - at;
    // Calls body(number, address) for each word of the next layer.
    const auto each_next = [&](const auto &body) {
        if (to_load > 0) {
#pragma unroll
            for (int i = 0; i < count; ++i)
                body(i, reinterpret_cast<const char *>(from) + offsets[i]);
            from += shape.dst_layer_pitch;
        }
        --to_load;
    };

    const auto add_layer
            = [&](const words(&slot)[count], const line_row<sum> &by) {
                  sum values[elements];
#pragma unroll
                  for (int i = 0; i < count; ++i) {
                      sum some[vector];
                      slot[i].unpack(some);
#pragma unroll
                      for (int e = 0; e < vector; ++e)
                          values[i * vector + e] = some[e];
                  }
                  add_products(low, low, by.low_weight, values);
                  low_any = true;
                  if (by.high_weight == 0) return;
                  if (sizeof(sum) == 8 || high_any)
                      add_products(high, high, by.high_weight, values);
                  else
                      begin_sums(high, by.high_weight, values);
                  high_any = true;
              };

    // The layers ahead in registers, or the place in the queue that is read next
    // and filled again.
    words loaded[queued ? 1 : ahead][count];
    int slot = 0;
    const auto next_words
            = [&] { return queue + slot * (count * threads) + first_word; };
    const auto load_next = [&](words(&to_registers)[count]) {
        if constexpr (queued) {
            words *const place = next_words();
            each_next([&](int i, const char *word) {
                copy_async<sizeof(words)>(place + i * 32, word);
            });
            commit_copies();
        } else {
            each_next([&](int i, const char *word) {
                to_registers[i]
                        = words::load(reinterpret_cast<const Type *>(word));
            });
        }
        slot = (slot + 1) % ahead;
    };

    wait_for_earlier_work();
    if (shape.lets_start != 0) let_later_work_start();
    __syncthreads(); // the tables
    int layer = first_layer; // whose sums are in `low`
    line_row<sum> by;
    if (at < end) {
        by = tables.layers[at];
        // Layers before its own, which nothing feeds, are finished first.
        layer = min(first_layer, by.low);
        by.finished = by.low - layer;
#pragma unroll
        for (int i = 0; i < ahead; ++i) {
            load_next(loaded[queued ? 0 : i]);
        }
    }
#pragma unroll 1
    while (true) {
        const bool last = at >= end;
        // One beyond the last, too. With an `if` in place of this, values of 8 bytes
        // leave the uniform registers, and volumes take 1.2 times as long.
        const line_row<sum> next = last ? by : tables.layers[at + 1];
#pragma unroll 1
        for (int finished = last ? end_layer - layer : by.finished;
                finished > 0; --finished) {
            const bool mine = layer >= first_layer;
            const bool any = low_any;
            sum *line = nullptr;
            if (mine && any) line = low_to_shared();
            if (sizeof(sum) == 8)
                shift_sums(low, high);
            else if (high_any)
                copy_sums(low, high);
            else
                clear_sums(low);
            low_any = high_any;
            high_any = false;
            ++layer;
            if (!mine) continue;
            if (any)
                outputs.write(line, to);
            else
                outputs.write_zeros(to);
            to += shape.src_layer_pitch;
        }
        if (last) break;
        if constexpr (queued) {
            wait_for_copies<ahead - 1>();
#pragma unroll
            for (int i = 0; i < count; ++i)
                loaded[0][i] = next_words()[i * 32];
            add_layer(loaded[0], by);
            load_next(loaded[0]);
        } else {
            // Not by an index: words on their way stay in their registers.
            const int now = slot;
#pragma unroll
            for (int i = 0; i < ahead; ++i)
                if (now == i) {
                    add_layer(loaded[i], by);
                    load_next(loaded[i]);
                }
        }
        by = next;
        ++at;
    }
}

} // namespace gradnn::gpu::interpolation::layers
