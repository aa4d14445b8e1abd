// Depthwise windows along W alone, in NXC: what the two kernels share.
#pragma once

#include "gpu/convolution/depthwise/rows_nxc/cut.hpp"
#include "gpu/convolution/depthwise/taps.cuh"
#include "gpu/device/constants.hpp"
#include "gpu/device/early_start.cuh"

namespace gradnn::gpu::depthwise::rows_nxc {

/// `count` neighbouring columns of a row, of `vector` channels each, some columns
/// ahead of what is computed; zeros where columns are outside.
template <typename Type, int vector, int count>
class column_stream {
    static constexpr int ahead = count < 8 ? count : 8;

public:
    /// Column `first` of `columns` lies at `from`.
    __device__ __forceinline__ column_stream(
            const Type *from, int stride, int first, int columns)
        : from_(from), stride_(stride) {
        const int begin = max(0, -first);
        const int end = min(count, columns - first);
        if (begin < end)
            inside_ = (uint64_t {1} << end) - (uint64_t {1} << begin);
#pragma unroll
        for (int c = 0; c < ahead; ++c)
            load(c);
    }
    /// Calls body(c, values) for column after column, c known to the compiler.
    template <typename Body>
    __device__ __forceinline__ void for_each(const Body &body) {
#pragma unroll
        for (int c = 0; c < count; ++c) {
            sum_of<Type> values[vector];
            loaded_[c % ahead].unpack(values);
            if (c + ahead < count) load(c + ahead);
            body(c, values);
        }
    }

private:
    __device__ __forceinline__ void load(int c) {
        loaded_[c % ahead] = {};
        if ((inside_ >> c & 1U) != 0)
            loaded_[c % ahead] = pack<Type, vector>::load(from_);
        from_ = after(from_, stride_);
    }

    static_assert(count < 64);
    const Type *from_;
    int stride_;
    uint64_t inside_ = 0; // a bit for each column
    pack<Type, vector> loaded_[ahead];
};

/// Where a thread's piece of a row lies.
struct row_piece {
    int64_t image;
    int d;
    int h;
    int column; ///< of written or dst

    __device__ __forceinline__ row_piece(
            const problem_shape &shape, const work_cut &cut, int unit) {
        column = take(unit, cut.pieces) * cut.piece_runs * run_length;
        h = take(unit, shape.axes[1].written);
        d = take(unit, shape.axes[0].written);
        image = unit;
    }
    /// The row's first element in a tensor of such strides.
    __device__ __forceinline__ int64_t row(const int64_t *strides) const {
        return image * strides[0] + d * strides[2] + h * strides[3];
    }
    /// Runs of it.
    __device__ __forceinline__ int runs(
            const problem_shape &shape, const work_cut &cut) const {
        const int left = shape.axes[2].written - column;
        return min(cut.piece_runs, (left + run_length - 1) / run_length);
    }
};

/// What body.template operator()<taps, vector>() returns for a cut.
template <typename Type, typename Body>
auto with_constants(const work_cut &cut, const Body &body) {
    const one_of<16, 32> taps {cut.taps};
    if constexpr (sizeof(Type) < 8)
        return with_chosen(body, taps, one_of<2, 1> {cut.vector});
    else
        return with_chosen(body, taps, one_of<1> {1});
}

} // namespace gradnn::gpu::depthwise::rows_nxc
