// Depthwise windows along W alone, in NCX of f32 and f64: what the two kernels
// share.
#pragma once

#include "gpu/convolution/depthwise/launch.hpp"
#include "gpu/convolution/depthwise/rows_ncx/cut.hpp"
#include "gpu/convolution/depthwise/taps.cuh"
#include "gpu/device/async_copy.cuh"
#include "gpu/device/constants.hpp"
#include "gpu/device/early_start.cuh"
#include "gpu/device/warp.cuh"

namespace gradnn::gpu::depthwise::rows_ncx {

/// What a block has at a time.
struct held_tile {
    int first_row; ///< of the channel
    int rows;
    int first_column; ///< of written or dst

    __device__ held_tile(
            const work_cut &cut, int columns, int row_tile, int piece)
        : first_row(row_tile * cut.rows),
          rows(min(cut.rows, cut.channel_rows - first_row)),
          first_column(piece * columns) {}
};
static_assert(sizeof(held_tile) == tile_note_bytes);

/// Where a row of a channel begins; for the gradient of the weights `Written` is
/// const.
template <typename Type, typename Written>
struct row_place {
    const Type *read;
    Written *written;

    __device__ row_place(const Type *from, Written *to,
            const problem_shape &shape, int64_t channel, int row)
        : read(from), written(to) {
        static_assert(sizeof(row_place) == row_note_bytes);
        const int depth = row / shape.axes[1].read;
        const int64_t h = row - depth * shape.axes[1].read;
        const int image = depth / shape.axes[0].read;
        const int64_t d = depth - image * shape.axes[0].read;
        const auto offset = [&](const int64_t(&strides)[5]) {
            return image * strides[0] + channel * strides[1] + d * strides[2]
                    + h * strides[3];
        };
        read += offset(shape.read_strides);
        written += offset(shape.written_strides);
    }
};

/// Submits copies of rows' columns from `first` on, zeros in place of those
/// outside; row(i) is the address of a tensor's row of so many columns.
template <int each, typename Type, typename Row>
__device__ __forceinline__ void fetch_rows(Type *to, int pitch, int rows,
        int first, int columns, const row_copies &copies, const Row &row) {
    constexpr int bytes = each * static_cast<int>(sizeof(Type));
    const int count = rows * copies.count;
#pragma unroll 1
    for (auto i = static_cast<int>(threadIdx.x); i < count;
            i += static_cast<int>(blockDim.x)) {
        const int number = divide(static_cast<uint32_t>(i), copies.by);
        const int place = (i - number * copies.count) * each;
        const int column = first + place;
        const bool inside = is_inside(column, columns);
        copy_async_or_zero<bytes>(
                inside, to + number * pitch + place, row(number) + column);
    }
}

template <typename Type, typename Row>
__device__ __forceinline__ void fetch_rows(Type *to, int pitch, int rows,
        int first, int columns, const row_copies &copies, const Row &row) {
    if (copies.each == 1)
        fetch_rows<1>(to, pitch, rows, first, columns, copies, row);
    else
        fetch_rows<elements_of_16_bytes<Type>>(
                to, pitch, rows, first, columns, copies, row);
}

/// How rows of read and of written are copied, by where the tensors begin.
template <typename Type>
row_copies copies_of_read(const tensor_pointers &at, const work_cut &cut) {
    return row_copies_of(cut.columns_met(run_of(sizeof(Type))), sizeof(Type),
            cut.wide_read && is_aligned(at.read_data, 16));
}
template <typename Type>
row_copies copies_of_written(const tensor_pointers &at, const work_cut &cut) {
    return row_copies_of(cut.columns(run_of(sizeof(Type))), sizeof(Type),
            cut.wide_written && is_aligned(at.written_data, 16));
}

/// What body.template operator()<Type>() returns for f32 or f64.
template <typename Body>
auto with_type(detail::data_type type, const Body &body) {
    return type == detail::data_type::f64 ? body.template operator()<double>()
                                          : body.template operator()<float>();
}

} // namespace gradnn::gpu::depthwise::rows_ncx
