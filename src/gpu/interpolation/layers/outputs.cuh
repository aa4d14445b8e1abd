// Device code of interpolation.gpu_layers that makes a layer of diff_src of the sums
// of a complete layer. Of volumes the rows are resampled first, then the columns, or
// the other way round: cut.hpp says which.
#pragma once

#include "gpu/interpolation/layers/tables.cuh"
#include "gpu/interpolation/layers/taps.cuh"

namespace gradnn::gpu::interpolation::layers {

/// Where a tile lies in a layer of diff_src, and what feeds it.
struct tile_place {
    int first_column, columns;
    int first_row, rows;
    int first_channel;
    /// The element of the first row that the line begins with; negative before it.
    int from_element;
    int first_dst_row;
};

template <typename Type, bool volume>
class layer_outputs {
    using sum = sum_of<Type>;
    static constexpr int wide = sums_at_once<sum>;
    /// Weights of 8 bytes in registers: with more of them the kernel of images would
    /// put registers aside.
    static constexpr bool four_at_most = sizeof(sum) == 8 && !volume;

public:
    /// Writes its tables to `shared`. The block waits before their first use.
    __device__ layer_outputs(const work_shape &shape,
            const kernel_tables<sum> &tables, const tile_place &tile,
            sum *shared)
        : shape_(shape),
          outputs_(tile.columns * shape.tile_channels),
          lines_(shape.tile_groups * tile.rows),
          first_line_(shared),
          second_line_(shared + shape.line_elements),
          column_weights_(second_line_ + shape.second_elements),
          row_weights_(
                  column_weights_ + shape.tile_columns * shape.column_taps),
          row_taps_(reinterpret_cast<tap_place *>(row_weights_
                  + (volume ? shape.tile_rows * shape.row_taps : 0))),
          output_taps_(row_taps_ + shape.tile_groups * shape.tile_rows),
          row_offsets_(reinterpret_cast<uint32_t *>(
                  output_taps_ + shape.tile_columns * shape.tile_channels)),
          row_cells_(shape.row_cells, threadIdx.x),
          column_cells_(shape.column_cells, threadIdx.x) {
        const auto thread = static_cast<int>(threadIdx.x);
        const auto threads = static_cast<int>(blockDim.x);
        for (int j = thread; j < tile.columns; j += threads) {
            const line_column column = tables.columns[tile.first_column + j];
            for (int k = 0; k < column.count; ++k)
                column_weights_[j * shape.column_taps + k]
                        = tables.column_weights[column.offset + k];
        }
        for (int x = thread; x < outputs_; x += threads) {
            const auto j = static_cast<int>(shape.columns_of_channels.quotient(
                    static_cast<uint32_t>(x)));
            const int channel = x - j * shape.tile_channels;
            const line_column column = tables.columns[tile.first_column + j];
            output_taps_[x] = {column.first * shape.tile_channels
                            - tile.from_element + channel,
                    column.count, j * shape.column_taps,
                    (tile.first_column + j) * shape.channels
                            + tile.first_channel + channel};
        }
        for (int y = thread; y < lines_; y += threads) {
            // Several groups have whole layers, of tile_rows rows.
            const auto group = static_cast<int>(
                    shape.rows_of_tile.quotient(static_cast<uint32_t>(y)));
            const int i = y - group * tile.rows;
            row_offsets_[y] = static_cast<uint32_t>(sizeof(Type)
                    * (group * shape.src_group_pitch
                            + (tile.first_row + i) * shape.src_row_pitch));
            if constexpr (volume) {
                const line_column row = tables.rows[tile.first_row + i];
                row_taps_[y] = {
                        (group * shape.band + row.first - tile.first_dst_row)
                                * (shape.columns_first != 0 ? shape.second_pitch
                                                            : shape.pitch),
                        row.count, i * shape.row_taps, 0};
                if (group == 0)
                    for (int k = 0; k < row.count; ++k)
                        row_weights_[i * shape.row_taps + k]
                                = tables.row_weights[row.offset + k];
            }
        }
    }

    /// Where the sums of a complete layer go. Of an image two lines take turns:
    /// nothing else separates their uses.
    __device__ sum *next_line() {
        other_ = !other_;
        return volume || other_ ? first_line_ : second_line_;
    }

    /// Writes a layer of diff_src, which begins at `to`, from the sums in `line`.
    __device__ __forceinline__ void write(const sum *line, Type *to) const {
        const bool columns = shape_.tile_channels == 1;
        __syncthreads();
        if constexpr (volume)
            if (shape_.columns_first != 0) return write_rows_last(line, to);
        const sum *source = line;
        if constexpr (volume) {
            resample_rows<wide, false>(line, to);
            __syncthreads();
            source = second_line_;
        }
        if (shape_.width == wide && !columns)
            return resample_columns<wide, false, true>(source, to);
        if constexpr (wide == 4) {
            if (shape_.width == 2 && columns)
                return resample_columns<2, true, true>(source, to);
            if (shape_.width == 2)
                return resample_columns<2, false, true>(source, to);
        }
        if (columns) return resample_columns<1, true, true>(source, to);
        resample_columns<1, false, true>(source, to);
    }

    /// The same, columns first.
    __device__ __forceinline__ void write_rows_last(
            const sum *line, Type *to) const {
        if (shape_.columns_width == wide)
            resample_columns<wide, false, false>(line, to);
        else if (shape_.tile_channels == 1)
            resample_columns<1, true, false>(line, to);
        else
            resample_columns<1, false, false>(line, to);
        __syncthreads();
        if (shape_.width == wide) return resample_rows<wide, true>(line, to);
        if constexpr (wide == 4)
            if (shape_.width == 2) return resample_rows<2, true>(line, to);
        resample_rows<1, true>(line, to);
    }

    /// Writes a layer that nothing feeds.
    __device__ __forceinline__ void write_zeros(Type *to) const {
        if (shape_.zeros_width == wide) return write_zero_cells<wide>(to);
        if constexpr (wide == 4)
            if (shape_.zeros_width == 2) return write_zero_cells<2>(to);
        write_zero_cells<1>(to);
    }

private:
    /// Resamples rows, `width` elements at a time: those of `line` into the second
    /// line, or those of the second line `to_memory`.
    template <int width, bool to_memory>
    __device__ __forceinline__ void resample_rows(
            const sum *line, Type *to) const {
        with_taps<false, four_at_most>(shape_.most_row_taps, [&]<int taps>() {
            constexpr auto size = static_cast<uint32_t>(sizeof(sum));
            const int pitch = to_memory ? shape_.second_pitch : shape_.pitch;
            const uint32_t places
                    = shared_address(to_memory ? second_line_ : line);
            const uint32_t target = shared_address(second_line_);
            const int cells = (to_memory ? outputs_ : pitch) / width;
            for (int x = row_cells_.x; x < cells;
                    x += shape_.row_cells.x_step.by) {
                [[maybe_unused]] char *out = nullptr;
                if constexpr (to_memory) {
                    out = reinterpret_cast<char *>(
                            to + output_taps_[x * width].out);
                    keep(out);
                }
                for (int y = row_cells_.y; y < lines_;
                        y += shape_.row_cells.y_step) {
                    const tap_place row = row_taps_[y];
                    const uint32_t place
                            = places + (row.start + x * width) * size;
                    const sum *const weights = row_weights_ + row.weights;
                    sum sums[width] = {};
                    if constexpr (taps != 0) {
                        sum by[taps];
                        load_weights(by, weights);
                        add_taps(sums, by, place, row.count, pitch);
                    } else {
                        add_all_taps(sums, weights, place, row.count, pitch);
                    }
                    if constexpr (to_memory)
                        pack<Type, width>::of(sums).stream(
                                reinterpret_cast<Type *>(
                                        out + row_offsets_[y]));
                    else
                        store_shared(
                                target + (y * pitch + x * width) * size, sums);
                }
            }
        });
    }

    /// Resamples columns of `line`, `width` neighbouring outputs at a time: columns
    /// (where a tile has one channel), or channels of a column. `to_memory`, or into
    /// the second line.
    template <int width, bool columns, bool to_memory>
    __device__ __forceinline__ void resample_columns(
            const sum *line, Type *to) const {
        constexpr int sets = columns ? width : 1; // of taps
        constexpr auto size = static_cast<uint32_t>(sizeof(sum));
        // Several columns at once have two taps each at most.
        with_taps<(columns && width > 1),
                four_at_most>(shape_.most_column_taps, [&]<int taps>() {
            const int step = columns ? 1 : shape_.tile_channels; // between taps
            const uint32_t places = shared_address(line);
            const uint32_t first = column_cells_.y * shape_.pitch;
            const uint32_t place_step
                    = shape_.column_cells.y_step * shape_.pitch * size;
            const int lines
                    = to_memory ? lines_ : shape_.tile_groups * shape_.band;
            // Of the row's offset in memory, or of the output in the second line.
            const uint32_t to_pitch
                    = to_memory ? sizeof(uint32_t) : shape_.second_pitch * size;
            const uint32_t to_step = shape_.column_cells.y_step * to_pitch;
            const uint32_t targets = (to_memory ? shared_address(row_offsets_)
                                                : shared_address(second_line_))
                    + column_cells_.y * to_pitch;
            for (int x = column_cells_.x; x < outputs_ / width;
                    x += shape_.column_cells.x_step.by) {
                uint32_t place[sets];
                int count[sets];
                const sum *weights[sets];
                sum by[sets][taps == 0 ? 1 : taps];
#pragma unroll
                for (int e = 0; e < sets; ++e) {
                    const tap_place output = output_taps_[x * width + e];
                    count[e] = output.count;
                    weights[e] = column_weights_ + output.weights;
                    if constexpr (taps != 0) load_weights(by[e], weights[e]);
                    place[e] = places
                            + (first + output.start)
                                    * static_cast<uint32_t>(sizeof(sum));
                }
                [[maybe_unused]] char *out = nullptr;
                if constexpr (to_memory) {
                    out = reinterpret_cast<char *>(
                            to + output_taps_[x * width].out);
                    keep(out);
                }
                uint32_t target = targets + (to_memory ? 0 : x * width * size);
#pragma unroll 1
                for (int y = column_cells_.y; y < lines;
                        y += shape_.column_cells.y_step) {
                    sum sums[sets][width / sets] = {};
#pragma unroll
                    for (int e = 0; e < sets; ++e) {
                        if constexpr (taps != 0)
                            add_taps(sums[e], by[e], place[e], count[e], step);
                        else
                            add_all_taps(sums[e], weights[e], place[e],
                                    count[e], step);
                        place[e] += place_step;
                    }
                    sum cell[width];
#pragma unroll
                    for (int e = 0; e < width; ++e)
                        cell[e] = sums[e * sets / width][e % (width / sets)];
                    if constexpr (to_memory)
                        pack<Type, width>::of(cell).stream(
                                reinterpret_cast<Type *>(
                                        out + load_shared(target)));
                    else
                        store_shared(target, cell);
                    target += to_step;
                }
            }
        });
    }

    template <int width>
    __device__ __forceinline__ void write_zero_cells(Type *to) const {
        const sum none[width] = {};
        const auto zeros = pack<Type, width>::of(none);
        const cells_of_thread cells(shape_.zero_cells, threadIdx.x);
        for (int x = cells.x; x < outputs_ / width;
                x += shape_.zero_cells.x_step.by) {
            char *out = reinterpret_cast<char *>(
                    to + output_taps_[x * width].out);
            keep(out);
            for (int y = cells.y; y < lines_; y += shape_.zero_cells.y_step)
                zeros.stream(reinterpret_cast<Type *>(out + row_offsets_[y]));
        }
    }

    const work_shape &shape_;
    int outputs_; ///< of a row
    int lines_; ///< of diff_src in a layer of the tile
    sum *first_line_;
    sum *second_line_;
    sum *column_weights_;
    sum *row_weights_;
    tap_place *row_taps_;
    tap_place *output_taps_;
    uint32_t *row_offsets_; ///< bytes
    cells_of_thread row_cells_;
    cells_of_thread column_cells_;
    bool other_ = false;
};

} // namespace gradnn::gpu::interpolation::layers
