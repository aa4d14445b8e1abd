// Device code of interpolation.gpu_layers that makes a layer of diff_src of the sums
// of a complete layer: its rows (of volumes), its columns, its elements.
#pragma once

#include "gpu/interpolation/layers/tables.cuh"
#include "gpu/interpolation/layers/taps.cuh"

namespace gradnn::gpu::interpolation::layers {

/// Where a tile lies in a layer of diff_src, and what feeds it.
struct tile_place {
    int first_column, columns;
    int first_row, rows;
    int first_channel;
    int from_element; ///< the first of a row of diff_dst that it reads
    int first_dst_row;
};

template <typename Type, bool volume>
class layer_outputs {
    using sum = sum_of<Type>;
    static constexpr int wide = sums_at_once<sum>;

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
          row_cells_(shape.pitch / wide),
          output_cells_(outputs_ / shape.width) {
        const auto thread = static_cast<int>(threadIdx.x);
        const auto threads = static_cast<int>(blockDim.x);
        for (int j = thread; j < tile.columns; j += threads) {
            const line_column column = tables.columns[tile.first_column + j];
            for (int k = 0; k < column.count; ++k)
                column_weights_[j * shape.column_taps + k]
                        = tables.column_weights[column.offset + k];
        }
        for (int x = thread; x < outputs_; x += threads) {
            const int j = x / shape.tile_channels;
            const int channel = x - j * shape.tile_channels;
            const line_column column = tables.columns[tile.first_column + j];
            output_taps_[x] = {column.first * shape.tile_channels
                            - tile.from_element + channel,
                    column.count, j * shape.column_taps,
                    (tile.first_column + j) * shape.channels
                            + tile.first_channel + channel};
        }
        for (int y = thread; y < lines_; y += threads) {
            const int group = y / tile.rows;
            const int i = y - group * tile.rows;
            row_offsets_[y] = static_cast<uint32_t>(sizeof(Type)
                    * (group * shape.src_group_pitch
                            + (tile.first_row + i) * shape.src_row_pitch));
            if constexpr (volume) {
                const line_column row = tables.rows[tile.first_row + i];
                row_taps_[y]
                        = {(group * shape.band + row.first - tile.first_dst_row)
                                        * shape.pitch,
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
        __syncthreads();
        const sum *source = line;
        if constexpr (volume) {
            resample_rows(line);
            __syncthreads();
            source = second_line_;
        }
        const bool columns = shape_.tile_channels == 1;
        if (shape_.width == wide && !columns)
            write_cells<wide, false>(source, to, shape_.tile_channels);
        else if (shape_.width == 1 && !columns)
            write_cells<1, false>(source, to, shape_.tile_channels);
        else if (shape_.width == 1)
            write_cells<1, false>(source, to, 1);
        else if constexpr (wide == 4) {
            if (columns)
                write_cells<2, true>(source, to, 1);
            else
                write_cells<2, false>(source, to, shape_.tile_channels);
        }
    }

    /// Writes a layer that nothing feeds.
    __device__ __forceinline__ void write_zeros(Type *to) const {
        if (shape_.zeros_width == wide) return write_zero_cells<wide>(to);
        if constexpr (wide == 4)
            if (shape_.zeros_width == 2) return write_zero_cells<2>(to);
        write_zero_cells<1>(to);
    }

private:
    /// Resamples the rows of the sums in `line`, `wide` of them at a time.
    __device__ __forceinline__ void resample_rows(const sum *line) const {
        with_taps(shape_.most_row_taps, [&]<int taps>() {
            constexpr auto size = static_cast<uint32_t>(sizeof(sum));
            const int pitch = shape_.pitch;
            const uint32_t places = shared_address(line);
            const uint32_t to = shared_address(second_line_);
            for (int x = row_cells_.x; x < pitch / wide; x += row_cells_.x_step)
                for (int y = row_cells_.y; y < lines_; y += row_cells_.y_step) {
                    const tap_place row = row_taps_[y];
                    const uint32_t place
                            = places + (row.start + x * wide) * size;
                    const sum *const weights = row_weights_ + row.weights;
                    sum sums[wide] = {};
                    if constexpr (taps != 0) {
                        sum by[taps];
                        load_weights(by, weights);
                        add_taps(sums, by, place, row.count, pitch);
                    } else {
                        add_all_taps(sums, weights, place, row.count, pitch);
                    }
                    store_shared(to + (y * pitch + x * wide) * size, sums);
                }
        });
    }

    /// Resamples the columns of lines and writes `width` neighbouring outputs at a
    /// time: columns, or channels of a column. `step`: elements between the taps of
    /// an output.
    template <int width, bool columns>
    __device__ __forceinline__ void write_cells(
            const sum *source, Type *to, int step) const {
        constexpr int sets = columns ? width : 1; // of taps
        with_taps(shape_.most_column_taps, [&]<int taps>() {
            const uint32_t places = shared_address(source);
            const uint32_t rows = shared_address(row_offsets_);
            const uint32_t first = output_cells_.y * shape_.pitch;
            const uint32_t place_step
                    = output_cells_.y_step * shape_.pitch * sizeof(sum);
            const uint32_t row_step = output_cells_.y_step * sizeof(uint32_t);
            for (int x = output_cells_.x; x < outputs_ / width;
                    x += output_cells_.x_step) {
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
                char *out = reinterpret_cast<char *>(
                        to + output_taps_[x * width].out);
                keep(out);
                uint32_t row = rows
                        + output_cells_.y
                                * static_cast<uint32_t>(sizeof(uint32_t));
#pragma unroll 1
                for (int y = output_cells_.y; y < lines_;
                        y += output_cells_.y_step) {
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
                    pack<Type, width>::of(cell).stream(
                            reinterpret_cast<Type *>(out + load_shared(row)));
                    row += row_step;
                }
            }
        });
    }

    template <int width>
    __device__ __forceinline__ void write_zero_cells(Type *to) const {
        const sum none[width] = {};
        const auto zeros = pack<Type, width>::of(none);
        const shared_out cells(outputs_ / width);
        for (int x = cells.x; x < outputs_ / width; x += cells.x_step) {
            char *out = reinterpret_cast<char *>(
                    to + output_taps_[x * width].out);
            keep(out);
            for (int y = cells.y; y < lines_; y += cells.y_step)
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
    shared_out row_cells_;
    shared_out output_cells_;
    bool other_ = false;
};

} // namespace gradnn::gpu::interpolation::layers
