// Depthwise, NCX: how a block stages the rows that its tile reads.
#pragma once

#include "gpu/convolution/depthwise/any/cut.hpp"
#include "gpu/convolution/depthwise/taps.cuh"

namespace gradnn::gpu::depthwise::any {

/// Rows of read to shared memory, as sums' type. Row r of the tile begins at
/// column `origin` of read; table[r] is the address of column 0, of any row for
/// one that is outside, which nobody will look at. Columns outside are left
/// alone; vectors may reach into a row's slack. `vector` divides the columns of
/// read, which are contiguous unless it is 1. Nothing is conditional: threads
/// without a vector copy the last one once more.
template <typename Type, int vector>
__device__ __forceinline__ void stage_vectors(const Type *const *table,
        sum_of<Type> *rows, const tile_shape &tile, int origin,
        int read_columns, int64_t column_stride) {
    constexpr int batch = sizeof(Type) == 8 ? 2 : 4;
    static_assert(vector <= row_slack);
    const int begin = max(0, origin) / vector * vector;
    const int end = min(read_columns, origin + tile.columns);
    if (begin >= end) return;
    const int last = begin + (end - begin - 1) / vector * vector;
    const int count = tile.staged_rows() * tile.vectors;
    const auto stride = static_cast<int>(blockDim.x);
    for (int first = static_cast<int>(threadIdx.x); first < count;
            first += batch * stride) {
        pack<Type, vector> loaded[batch];
        int to[batch];
#pragma unroll
        for (int i = 0; i < batch; ++i) {
            const int item = min(first + i * stride, count - 1);
            const int row
                    = divide(static_cast<uint32_t>(item), tile.by_vectors);
            const int column
                    = min(begin + (item - row * tile.vectors) * vector, last);
            to[i] = row * tile.pitch + column - origin;
            loaded[i] = pack<Type, vector>::load_constant(table[row]
                    + (vector == 1 ? column * column_stride : column));
        }
#pragma unroll
        for (int i = 0; i < batch; ++i) {
            sum_of<Type> values[vector];
            loaded[i].unpack(values);
#pragma unroll
            for (int j = 0; j < vector; ++j)
                rows[to[i] + j] = values[j];
        }
    }
}

template <typename Type>
__device__ __forceinline__ void stage_rows(const Type *const *table,
        sum_of<Type> *rows, const tile_shape &tile, int origin,
        int read_columns, int64_t column_stride) {
    const auto stage = [&]<int vector>() {
        stage_vectors<Type, vector>(
                table, rows, tile, origin, read_columns, column_stride);
    };
    constexpr int widest = sizeof(Type) == 8 ? 2 : 4;
    if (tile.dense_load == widest)
        stage.template operator()<widest>();
    else if (widest == 4 && tile.dense_load == 2)
        stage.template operator()<2>();
    else
        stage.template operator()<1>();
}

/// First written position of an item of a tile: neighbouring threads have two rows
/// (where a tile has them), a quarter of a warp four neighbouring groups of columns in each, which an
/// odd pitch spreads over all banks.
struct tile_position {
    int plane;
    int depth;
    int row;
    int group;
};

__device__ __forceinline__ tile_position position_of(
        int item, const tile_shape &tile) {
    tile_position at;
    const int pair = tile.rows > 1 ? 1 : 0;
    int rest = item >> pair;
    const int above = divide(static_cast<uint32_t>(rest), tile.by_groups);
    at.group = rest - above * tile.groups;
    rest = divide(static_cast<uint32_t>(above), tile.by_row_blocks);
    at.row = ((above - rest * tile.row_blocks()) * tile.repeats << pair)
            + (item & pair);
    at.plane = divide(static_cast<uint32_t>(rest), tile.by_depths);
    at.depth = rest - at.plane * tile.depths;
    return at;
}

} // namespace gradnn::gpu::depthwise::any
