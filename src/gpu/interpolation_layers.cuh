// InterpolateBackward by whole layers: NCX and NXC, any ratio, 2-D and 3-D.
//
// A layer is what the outermost resampled axis counts: a row of an image, a
// plane of a volume. A block keeps a tile of a layer, `rows` ranges of
// neighbouring elements each, and walks along that axis. Every layer of diff_dst
// feeds at most two neighbouring ones of diff_src,
//
//     sums_i = sum over p of wl[p] * diff_dst[p],
//
// element by element whatever the other axes are: a thread keeps its elements'
// sums of two layers of diff_src in registers, and an element of diff_dst costs a
// conversion and two products. When a layer of sums is complete it goes to
// shared memory, and the block resamples what is left of it: in a volume the
// rows first, then the columns.
//
// A tile's rows are those of a band of a plane where the layer is a plane, and
// the same row of neighbouring images where it is a row.
//
// Every sum runs over ascending layers, then rows, then columns, in one thread:
// the same bits on every run and for every tile. A tap of weight 0 is never
// taken.
#pragma once

#include "gpu/interpolation_walk.cuh"

namespace gradnn::gpu {

/// Pitches in elements.
struct layers_shape {
    int64_t dst_group_pitch = 0;
    int64_t src_group_pitch = 0;
    int64_t dst_layer_pitch = 0;
    int64_t src_layer_pitch = 0;
    int64_t dst_row_pitch = 0; ///< between rows of a tile
    int64_t src_row_pitch = 0;
    int32_t rows = 1; ///< of diff_src, or images; tiles cut these
    int32_t columns = 1; ///< of diff_src
    int32_t channels = 1; ///< neighbouring elements of a column
    int32_t dst_elements = 1; ///< of a row of diff_dst
    int32_t layers = 1; ///< of diff_src
    int32_t tile_rows = 1;
    int32_t tile_columns = 1;
    int32_t run_layers = 1;
    int32_t row_tiles = 1;
    int32_t column_tiles = 1;
    int32_t runs = 1;
    int32_t column_taps = 1; ///< room for a column's weights
    int32_t row_taps = 1; ///< and for a row's
    int32_t line_elements = 0; ///< of each of the two buffers
    int32_t second_elements = 0;
    int32_t lets_start = 0; ///< let_later_work_start
};

template <typename Sum>
struct layers_tables {
    const line_row<Sum> *layers = nullptr;
    const line_reach *reach = nullptr;
    const line_column *columns = nullptr;
    const Sum *column_weights = nullptr;
    const line_reach *column_spans = nullptr; ///< of diff_dst, by column tile
    const line_column *rows = nullptr;
    const Sum *row_weights = nullptr;
    const line_reach *row_spans = nullptr; ///< of diff_dst, by row tile
};

/// Sums that go through shared memory at once.
template <typename Sum>
constexpr int quad = 16 / static_cast<int>(sizeof(Sum));

/// The place in a line of what is beyond it.
constexpr int nowhere = 0xffff;

/// Weights are read four at a time.
constexpr int taps_at_once = 4;

/// One output of a row: where its taps start in the line, how many there are,
/// and where their weights are.
struct layer_output {
    uint16_t start;
    uint16_t count;
    uint32_t weights;
};

/// sum over taps of weights[k] * line[k * pitch + i], for i < width.
template <int width, typename Sum>
__device__ __forceinline__ void add_taps(Sum (&sums)[width], const Sum *weights,
        const Sum *line, int count, int pitch) {
    const auto add = [&](Sum weight) {
        Sum values[width];
        pack<Sum, width>::load(line).unpack(values);
#pragma unroll
        for (int i = 0; i < width; ++i)
            sums[i] = add_product(sums[i], weight, values[i]);
        line += pitch;
    };
    int k = 0;
#pragma unroll 1
    for (; k + taps_at_once <= count; k += taps_at_once) {
        Sum by[taps_at_once];
#pragma unroll
        for (int i = 0; i < taps_at_once; i += quad<Sum>) {
            Sum some[quad<Sum>];
            pack<Sum, quad<Sum>>::load(weights + k + i).unpack(some);
#pragma unroll
            for (int e = 0; e < quad<Sum>; ++e)
                by[i + e] = some[e];
        }
#pragma unroll
        for (int i = 0; i < taps_at_once; ++i)
            add(by[i]);
    }
#pragma unroll 1
    for (; k < count; ++k)
        add(weights[k]);
}

/// Items of a rectangle shared out among the threads of a block, neighbours to
/// neighbours along its rows; a thread stays in a few columns.
struct shared_out {
    int x, x_step, y, y_step;

    __device__ shared_out(int width, int threads, int thread) {
        const int lanes = min(width, threads);
        y_step = threads / lanes;
        y = thread / lanes;
        x = y < y_step ? thread - y * lanes : width;
        x_step = lanes;
    }
};

constexpr int most_layers_threads = 384;

/// Where words start that hold an element of a row and those after it.
__host__ __device__ constexpr int first_element(
        int element, int row_elements, int per, bool split) {
    const int word = element / per * per;
    // A word that lies anywhere must still lie within the row.
    return split && word > row_elements - per ? row_elements - per : word;
}

/// Layers that are on their way to a thread, and the one that it adds.
constexpr int layers_ahead = 4;

/// The words of a thread in shared memory, which it alone writes and reads:
/// `count` of each layer, in a slot. Words of two elements of 16 bits that lie
/// anywhere (`split`) are the two aligned words around them.
template <typename Type, int per, int count, bool split>
class layer_slots {
    using words = pack<Type, per>;
    static constexpr int bytes = static_cast<int>(sizeof(words));
    static constexpr int parts = split ? 2 : 1;
    static_assert(!split || bytes == 4);

public:
    /// Of all slots, for a thread.
    static constexpr int bytes_of_thread = layers_ahead * count * parts * bytes;

    __device__ layer_slots(void *shared, int thread, int threads)
        : own_(static_cast<char *>(shared) + thread * bytes)
        , pitch_(threads * bytes) {}

    __device__ void copy(int slot, int i, const Type *from) const {
        char *const to = place(slot, i);
        if constexpr (split) {
            const auto address = reinterpret_cast<uintptr_t>(from);
            const auto *const first
                    = reinterpret_cast<const char *>(address & ~uintptr_t {3});
            copy_async<4>(to, first);
            copy_half_async_if((address & 2) != 0, to + pitch_, first + 4);
        } else if constexpr (bytes == 16) {
            copy_async_past_l1(to, from);
        } else {
            copy_async<bytes>(to, from);
        }
    }

    /// `from` is what was given to copy, or an address as far from a multiple of
    /// 4.
    __device__ words get(int slot, int i, uintptr_t from) const {
        const char *const at = place(slot, i);
        if constexpr (split) {
            const auto low = *reinterpret_cast<const uint32_t *>(at);
            const auto high = *reinterpret_cast<const uint32_t *>(at + pitch_);
            return {__funnelshift_r(low, high, (from & 2) * 8)};
        } else {
            return words::load(reinterpret_cast<const Type *>(at));
        }
    }

private:
    __device__ char *place(int slot, int i) const {
        return own_ + (slot * count + i) * parts * pitch_;
    }

    char *own_;
    int pitch_;
};

/// `elements` of a thread, `per` in a word of memory.
template <typename Type, int per, int elements, bool split, bool planes>
__global__ void __launch_bounds__(most_layers_threads, 2) layers_kernel(const Type *diff_dst,
        Type *diff_src, const __grid_constant__ layers_shape shape,
        const __grid_constant__ layers_tables<sum_of<Type>> tables) {
    using sum = sum_of<Type>;
    using words = pack<Type, per>;
    constexpr int count = elements / per;
    constexpr int wide = quad<sum>;
    const auto thread = static_cast<int>(threadIdx.x);
    const auto threads = static_cast<int>(blockDim.x);

    unsigned block = blockIdx.x;
    const auto next_part = [&](int parts) {
        const unsigned part = block % static_cast<unsigned>(parts);
        block /= static_cast<unsigned>(parts);
        return static_cast<int>(part);
    };
    const int column_tile = next_part(shape.column_tiles);
    const int row_tile = next_part(shape.row_tiles);
    const int run = next_part(shape.runs);
    const int64_t group = block;

    const int first_column = column_tile * shape.tile_columns;
    const int tile_columns
            = min(shape.tile_columns, shape.columns - first_column);
    const int first_row = row_tile * shape.tile_rows;
    const int tile_rows = min(shape.tile_rows, shape.rows - first_row);
    const int outputs = tile_columns * shape.channels;

    // The ranges of diff_dst that the tile wants, in whole words.
    const line_reach span = tables.column_spans[column_tile];
    const int from_element = first_element(
            span.first * shape.channels, shape.dst_elements, per, split);
    const int row_elements = span.end * shape.channels - from_element;
    const int row_words = max(1, (row_elements + per - 1) / per);
    const line_reach band = planes
            ? tables.row_spans[row_tile]
            : line_reach {first_row, first_row + tile_rows};
    const int rows = band.end - band.first;
    const int pitch = (row_words * per + wide - 1) / wide * wide;

    extern __shared__ uint4 layers_shared[];
    using slots_of = layer_slots<Type, per, count, split>;
    const slots_of slots(layers_shared, thread, threads);
    sum *const line = reinterpret_cast<sum *>(
            reinterpret_cast<char *>(layers_shared)
            + threads * slots_of::bytes_of_thread);
    sum *const second = line + shape.line_elements;
    sum *const column_weights = second + shape.second_elements;
    sum *const row_weights
            = column_weights + shape.tile_columns * shape.column_taps;
    auto *const row_outputs = reinterpret_cast<layer_output *>(row_weights
            + (planes ? shape.tile_rows * shape.row_taps : 0));
    layer_output *const column_outputs
            = row_outputs + (planes ? shape.tile_rows : 0);
    for (int j = thread; j < tile_columns; j += threads) {
        const line_column column = tables.columns[first_column + j];
        const int start = column.first * shape.channels - from_element;
        for (int k = 0; k < column.count; ++k)
            column_weights[j * shape.column_taps + k]
                    = tables.column_weights[column.offset + k];
        for (int c = 0; c < shape.channels; ++c)
            column_outputs[j * shape.channels + c]
                    = {static_cast<uint16_t>(start + c),
                            static_cast<uint16_t>(column.count),
                            static_cast<uint32_t>(j * shape.column_taps)};
    }
    if constexpr (planes)
        for (int i = thread; i < tile_rows; i += threads) {
            const line_column row = tables.rows[first_row + i];
            for (int k = 0; k < row.count; ++k)
                row_weights[i * shape.row_taps + k]
                        = tables.row_weights[row.offset + k];
            row_outputs[i] = {static_cast<uint16_t>(row.first - band.first),
                    static_cast<uint16_t>(row.count),
                    static_cast<uint32_t>(i * shape.row_taps)};
        }

    // The words of this thread; those beyond the tile are read again and kept
    // nowhere.
    int offsets[count];
    unsigned places[(count + 1) / 2] = {}; // two in each
    const auto row_pitch = static_cast<int>(shape.dst_row_pitch);
#pragma unroll
    for (int i = 0; i < count; ++i) {
        const int at = thread + i * threads;
        const int row = at / row_words;
        int column = (at - row * row_words) * per;
        // What lies anywhere stays within the row: an element comes twice.
        if (split) column = max(min(column, row_elements - per), 0);
        const bool inside = row < rows;
        offsets[i] = inside ? row * row_pitch + column : 0;
        places[i / 2] |= static_cast<unsigned>(
                                 inside ? row * pitch + column : nowhere)
                << i % 2 * 16;
    }

    const int first_layer = run * shape.run_layers;
    const int end_layer = min(first_layer + shape.run_layers, shape.layers);
    int at = tables.reach[first_layer].first;
    const int end = tables.reach[end_layer - 1].end;
    const Type *from = diff_dst + group * shape.dst_group_pitch
            + at * shape.dst_layer_pitch + band.first * shape.dst_row_pitch
            + from_element;
    Type *to = diff_src + group * shape.src_group_pitch
            + first_layer * shape.src_layer_pitch
            + first_row * shape.src_row_pitch
            + int64_t {first_column} * shape.channels;

    sum low[elements] = {};
    sum high[elements] = {};
    const shared_out over_outputs(outputs, threads, thread);
    const int quads = pitch / wide;
    const shared_out over_quads(quads, threads, thread);
    bool other = false;

    // Writes the layer `low` of sums.
    const auto emit = [&] {
        sum *const full = other ? second : line;
        if constexpr (!planes) other = !other;
#pragma unroll
        for (int i = 0; i < count; ++i) {
            const unsigned place = places[i / 2] >> i % 2 * 16 & 0xffffU;
            if (place == nowhere) continue;
            constexpr int each = split ? 1 : per < wide ? per : wide;
#pragma unroll
            for (int e = 0; e < per; e += each) {
                sum some[each];
#pragma unroll
                for (int k = 0; k < each; ++k)
                    some[k] = low[i * per + e + k];
                pack<sum, each>::of(some).store(full + place + e);
            }
        }
        __syncthreads();
        const sum *source = full;
        if constexpr (planes) {
            for (int x = over_quads.x; x < quads; x += over_quads.x_step)
                for (int i = over_quads.y; i < tile_rows;
                        i += over_quads.y_step) {
                    const layer_output row = row_outputs[i];
                    sum sums[wide] = {};
                    add_taps(sums, row_weights + row.weights,
                            full + row.start * pitch + x * wide, row.count,
                            pitch);
                    pack<sum, wide>::of(sums).store(
                            second + i * pitch + x * wide);
                }
            __syncthreads();
            source = second;
        }
        const auto write = [&](int x, int step) {
            const layer_output output = column_outputs[x];
            for (int i = over_outputs.y; i < tile_rows;
                    i += over_outputs.y_step) {
                sum sums[1] = {};
                add_taps(sums, column_weights + output.weights,
                        source + i * pitch + output.start, output.count, step);
                stream_one(to + i * shape.src_row_pitch + x, sums[0]);
            }
        };
        if (shape.channels == 1)
            for (int x = over_outputs.x; x < outputs; x += over_outputs.x_step)
                write(x, 1);
        else
            for (int x = over_outputs.x; x < outputs; x += over_outputs.x_step)
                write(x, shape.channels);
    };

    wait_for_earlier_work();
    if (shape.lets_start != 0) let_later_work_start();
    __syncthreads();
    int layer = first_layer; // whose sums are in `low`
    const bool fed = at < end;
    line_row<sum> by, next;
    int to_copy = end - at;
    const Type *copied = from;
    const auto copy_next = [&](int slot) {
        if (to_copy > 0)
#pragma unroll
            for (int i = 0; i < count; ++i)
                slots.copy(slot, i, copied + offsets[i]);
        commit_copies();
        --to_copy;
        copied += shape.dst_layer_pitch;
    };
    if (fed) {
        by = tables.layers[at];
        next = tables.layers[min(at + 1, end - 1)];
        layer = by.low;
#pragma unroll
        for (int slot = 0; slot + 1 < layers_ahead; ++slot)
            copy_next(slot);
    }
    int slot = 0;
    while (true) {
        bool last = true;
        if (fed) {
            wait_for_copies<layers_ahead - 2>();
            sum values[elements];
#pragma unroll
            for (int i = 0; i < count; ++i) {
                sum some[per];
                slots.get(slot, i,
                             reinterpret_cast<uintptr_t>(from)
                                     + sizeof(Type) * offsets[i])
                        .unpack(some);
#pragma unroll
                for (int e = 0; e < per; ++e)
                    values[i * per + e] = some[e];
            }
            last = at + 1 == end;
            from += shape.dst_layer_pitch;
            copy_next(slot == 0 ? layers_ahead - 1 : slot - 1);
            slot = slot + 1 == layers_ahead ? 0 : slot + 1;
#pragma unroll
            for (int i = 0; i < elements; ++i)
                low[i] = add_product(low[i], by.low_weight, values[i]);
            if (by.high_weight != 0) {
#pragma unroll
                for (int i = 0; i < elements; ++i)
                    high[i] = add_product(high[i], by.high_weight, values[i]);
            }
        }
        int finished = last ? end_layer - layer : next.finished;
#pragma unroll 1
        for (; finished > 0; --finished) {
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
        }
        if (last) break;
        ++at;
        by = next;
        next = tables.layers[min(at + 1, end - 1)];
    }
}

} // namespace gradnn::gpu
