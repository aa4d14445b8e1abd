// Depthwise windows along W alone, in NXC: what the two kernels share.
#pragma once

#include "gpu/convolution_depthwise_rows_nxc.hpp"
#include "gpu/convolution_depthwise_walk.cuh"
#include "gpu/early_start.cuh"

namespace gradnn::gpu {

/// The columns of a row one after the other, of `vector` channels each, `ahead`
/// of them on their way; zeros where columns are outside.
template <typename Type, int vector, int ahead>
class column_stream {
public:
    /// Column `first` of `columns` lies at `from`.
    __device__ __forceinline__ column_stream(
            const Type *from, int stride, int first, int columns)
        : from_(from), stride_(stride), column_(first), columns_(columns) {}

    /// The next column, at once.
    __device__ __forceinline__ void take(sum_of<Type> (&values)[vector]) {
        next().unpack(values);
    }
    __device__ __forceinline__ void start() {
#pragma unroll
        for (int i = 0; i < ahead; ++i)
            loaded_[i] = next();
    }
    /// Column `number` since start(), which the compiler knows modulo `ahead`.
    __device__ __forceinline__ void take(
            int number, sum_of<Type> (&values)[vector]) {
        loaded_[number % ahead].unpack(values);
        loaded_[number % ahead] = next();
    }

private:
    __device__ __forceinline__ pack<Type, vector> next() {
        pack<Type, vector> column {};
        if (static_cast<unsigned>(column_) < static_cast<unsigned>(columns_))
            column = pack<Type, vector>::load(from_);
        from_ = after(from_, stride_);
        ++column_;
        return column;
    }

    const Type *from_;
    int stride_;
    int column_;
    int columns_;
    pack<Type, vector> loaded_[ahead];
};

/// Columns on their way that registers leave room for.
template <typename Type, int taps, int vector>
constexpr int rows_nxc_ahead
        = sizeof(Type) * vector == 8 && taps * vector >= 32 ? 4 : 8;

/// Words of a column in the type of the sums.
template <typename Type, int vector>
constexpr int rows_nxc_words
        = vector * static_cast<int>(sizeof(sum_of<Type>)) / 4;

/// Where a thread's piece of a row lies.
struct rows_nxc_piece {
    int64_t image;
    int d;
    int h;
    int column; ///< of written or dst
    int columns;

    __device__ __forceinline__ rows_nxc_piece(const depthwise_shape &shape,
            const depthwise_rows_nxc &cut, int unit) {
        column = unit % cut.pieces * cut.piece_columns;
        columns = min(cut.piece_columns, shape.axes[2].written - column);
        int rest = unit / cut.pieces;
        h = rest % shape.axes[1].written;
        rest /= shape.axes[1].written;
        d = rest % shape.axes[0].written;
        image = rest / shape.axes[0].written;
    }
    /// A column of the row in a tensor of such strides.
    __device__ __forceinline__ int64_t place(
            const int64_t *strides, int64_t at) const {
        return image * strides[0] + d * strides[2] + h * strides[3]
                + at * strides[4];
    }
};

/// Calls step(s) for so many columns, s being known to the compiler, the column's
/// number modulo `taps`, and group_end() after every rows_nxc_group of them.
template <int taps, typename Step, typename End>
__device__ __forceinline__ void for_each_column(
        int columns, const Step &step, const End &group_end) {
#pragma unroll 1
    while (columns > 0) {
#pragma unroll
        for (int first = 0; first < taps; first += rows_nxc_group) {
#pragma unroll
            for (int s = 0; s < rows_nxc_group; ++s)
                step(first + s);
            group_end();
            columns -= rows_nxc_group;
            if (columns <= 0) break;
        }
    }
}

/// Calls body.template operator()<taps, vector>() for a cut.
template <typename Type, typename Body>
void with_rows_nxc(const depthwise_rows_nxc &cut, const Body &body) {
    const auto of_taps = [&]<int taps>() {
        if constexpr (sizeof(Type) < 8 && taps < 64)
            if (cut.vector == 2) return body.template operator()<taps, 2>();
        body.template operator()<taps, 1>();
    };
    switch (cut.taps) {
        case 8: return of_taps.template operator()<8>();
        case 16: return of_taps.template operator()<16>();
        case 32: return of_taps.template operator()<32>();
        default:
            if constexpr (sizeof(Type) < 8) of_taps.template operator()<64>();
    }
}

} // namespace gradnn::gpu
