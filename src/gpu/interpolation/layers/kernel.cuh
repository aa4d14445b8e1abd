// InterpolateBackward layer by layer: README.md has the formula and a picture.
//
// A block has a tile of a layer and walks along the axis of layers. Its threads load
// the elements of a layer, each its own, `layers_ahead` layers ahead, and add them to
// the sums of two layers of diff_src in registers. Sums of a complete layer go to
// shared memory, where the block resamples the rows (of volumes), then the columns.
//
// Every sum runs over ascending layers, then rows, then columns, one fma for
// each product, in one thread: the same bits for every tile, word and alignment.
// A tap of weight 0 is never taken.
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
    const auto next_part = [&](int parts) {
        const unsigned part = block % static_cast<unsigned>(parts);
        block /= static_cast<unsigned>(parts);
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
    tile.from_element = first_element(span.first, shape.tile_channels, vector);
    tile.first_dst_row = band.first;
    const int pitch = shape.pitch;

    extern __shared__ uint4 layers_shared[];
    // Layers on their way: [layer][word of a thread][thread]; then lines and tables.
    auto *const queue = reinterpret_cast<words *>(layers_shared);
    layer_outputs<Type, volume> outputs(shape, tables, tile,
            reinterpret_cast<sum *>(
                    queue + (queued ? ahead * count * threads : 0)));

    // The words of this thread. Those beyond the tensor or the tile are other
    // elements again, whose sums no tap names.
    const int words_of_row = pitch / vector;
    const int last_word = shape.tile_groups * shape.band * words_of_row - 1;
    uint32_t offsets[count]; // bytes
#pragma unroll
    for (int i = 0; i < count; ++i) {
        const int at = min(thread + i * threads, last_word);
        const int slab_row = at / words_of_row;
        const int place = (at - slab_row * words_of_row) * vector;
        const int group = slab_row / shape.band;
        const int row
                = min(band.first + slab_row % shape.band, shape.dst_rows - 1);
        int element = 0;
        if (whole_pixels) {
            element = min(tile.from_element + place,
                    shape.dst_columns * shape.channels - vector);
        } else {
            const int column = place / shape.tile_channels;
            element = min(span.first + column, shape.dst_columns - 1)
                            * shape.channels
                    + tile.first_channel + place - column * shape.tile_channels;
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
    sum high[elements] = {};
    // Whether a term was added.
    bool low_any = false;
    bool high_any = false;
    // Writes a layer of diff_src, the sums `low`.
    const auto emit = [&] {
        if (!low_any) return outputs.write_zeros(to);
        sum *const line = outputs.next_line();
        const uint32_t places = shared_address(line);
#pragma unroll
        for (int i = 0; i < count; ++i) {
            sum some[vector];
#pragma unroll
            for (int e = 0; e < vector; ++e)
                some[e] = low[i * vector + e];
            store_shared(places
                            + min(thread + i * threads, last_word)
                                    * static_cast<uint32_t>(sizeof some),
                    some);
        }
        outputs.write(line, to);
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
#pragma unroll
                  for (int i = 0; i < elements; ++i)
                      low[i] = add_product(low[i], by.low_weight, values[i]);
                  low_any = true;
                  if (by.high_weight == 0) return;
                  high_any = true;
#pragma unroll
                  for (int i = 0; i < elements; ++i)
                      high[i] = add_product(high[i], by.high_weight, values[i]);
              };

    // The layers ahead in registers, or the place in the queue that is read next
    // and filled again.
    words loaded[queued ? 1 : ahead][count];
    words *next_words = queue + thread;
    int slot = 0;
    const auto load_next = [&](words(&to_registers)[count]) {
        if constexpr (queued) {
            each_next([&](int i, const char *word) {
                copy_async<sizeof(words)>(next_words + i * threads, word);
            });
            commit_copies();
        } else {
            each_next([&](int i, const char *word) {
                to_registers[i]
                        = words::load(reinterpret_cast<const Type *>(word));
            });
        }
    };
    const auto go_on = [&] {
        next_words += count * threads;
        if (++slot < ahead) return;
        slot = 0;
        next_words = queue + thread;
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
            go_on();
        }
    }
#pragma unroll 1
    while (true) {
        const bool last = at >= end;
        const line_row<sum> next
                = last ? by : tables.layers[min(at + 1, end - 1)];
#pragma unroll 1
        for (int finished = last ? end_layer - layer : by.finished;
                finished > 0; --finished) {
            if (layer >= first_layer) {
                emit();
                to += shape.src_layer_pitch;
            }
            ++layer;
#pragma unroll
            for (int i = 0; i < elements; ++i) {
                low[i] = high[i];
                high[i] = 0;
            }
            low_any = high_any;
            high_any = false;
        }
        if (last) break;
        if constexpr (queued) {
            wait_for_copies<ahead - 1>();
#pragma unroll
            for (int i = 0; i < count; ++i)
                loaded[0][i] = next_words[i * threads];
            add_layer(loaded[0], by);
            load_next(loaded[0]);
        } else {
            // Not by an index: words on their way stay in their registers.
#pragma unroll
            for (int i = 0; i < ahead; ++i)
                if (slot == i) {
                    add_layer(loaded[i], by);
                    load_next(loaded[i]);
                }
        }
        go_on();
        by = next;
        ++at;
    }
}

} // namespace gradnn::gpu::interpolation::layers
