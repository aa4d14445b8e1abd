// Depthwise, along H: what the two kernels share.
#pragma once

#include "gpu/convolution/depthwise/taps.cuh"
#include "gpu/convolution/depthwise/walk/cut.hpp"
#include "gpu/device/early_start.cuh"

namespace gradnn::gpu::depthwise::walk {

/// pointer + stride in one instruction. An address made of another one, which
/// the compiler cannot keep for every column in registers.
template <typename Type>
__device__ __forceinline__ Type *after(Type *pointer, int stride) {
    Type *next = nullptr;
    asm("mad.wide.s32 %0, %1, %2, %3;"
            : "=l"(next)
            : "r"(stride), "n"(sizeof(Type)), "l"(pointer));
    __builtin_assume(__isGlobal(next));
    return next;
}

/// A bit for each of `count` columns from `first` on that is one of `columns`.
template <int count>
__device__ __forceinline__ uint32_t columns_inside(int first, int columns) {
    uint32_t inside = 0;
#pragma unroll
    for (int c = 0; c < count; ++c)
        if (static_cast<unsigned>(first + c) < static_cast<unsigned>(columns))
            inside |= 1U << c;
    return inside;
}

/// `span` neighbouring columns of a row, of `vector` channels each. With `dense`
/// not 0 the columns of one channel lie side by side, `run` of them, in the middle,
/// from a multiple of `dense` on, which are loaded together: the rows are whole
/// vectors.
template <typename Type, int run, int span, int vector, int dense>
struct row_columns {
    using sum = sum_of<Type>;
    static constexpr int beside = dense == 0 ? 0 : span - run;
    static constexpr int lead = beside / 2; ///< columns before the dense ones
    static constexpr int together = dense == 0 ? 1 : dense;
    static constexpr int parts = dense == 0 ? 1 : run / together;
    static_assert(run % together == 0 && (dense == 0 || vector == 1));

    pack<Type, vector> columns[dense == 0 ? span : beside + 1];
    pack<Type, together> body[parts];

    /// Zeros where `inside` has no bit for a column.
    __device__ __forceinline__ void load(
            const Type *from, int stride, uint32_t inside) {
        if constexpr (dense == 0) {
#pragma unroll
            for (int c = 0; c < span; ++c) {
                columns[c] = {};
                if ((inside >> c & 1U) != 0)
                    columns[c] = pack<Type, vector>::load(from);
                from = after(from, stride);
            }
        } else {
#pragma unroll
            for (int part = 0; part < parts; ++part) {
                body[part] = {};
                if ((inside >> (lead + part * dense) & 1U) != 0)
                    body[part] = pack<Type, dense>::load(
                            from + lead + part * dense);
            }
#pragma unroll
            for (int i = 0; i < beside; ++i) {
                const int c = i < lead ? i : i + run;
                columns[i] = {};
                if ((inside >> c & 1U) != 0)
                    columns[i] = pack<Type, 1>::load(from + c);
            }
        }
    }

    __device__ __forceinline__ void unpack(sum (&values)[span][vector]) const {
        if constexpr (dense == 0) {
#pragma unroll
            for (int c = 0; c < span; ++c)
                columns[c].unpack(values[c]);
        } else {
#pragma unroll
            for (int part = 0; part < parts; ++part) {
                sum some[dense];
                body[part].unpack(some);
#pragma unroll
                for (int i = 0; i < dense; ++i)
                    values[lead + part * dense + i][0] = some[i];
            }
#pragma unroll
            for (int i = 0; i < beside; ++i)
                columns[i].unpack(values[i < lead ? i : i + run]);
        }
    }
};

/// Calls body.template operator()<size, stride, vector, run, dense>() for a cut;
/// `dense` are the columns of 16 bytes, or all of a thread where they are fewer.
template <typename Type, bool of_weights, typename Body>
void with_constants(
        const problem_shape &shape, const work_cut &walk, const Body &body) {
    const auto of_size = [&]<int size>() {
        constexpr int64_t sum_bytes = sizeof(sum_of<Type>);
        const auto of_vector = [&]<int vector>() {
            constexpr int run = of_weights ? weights_run(size, sum_bytes)
                                           : data_run(size, vector, sum_bytes);
            constexpr int most = 16 / static_cast<int>(sizeof(Type));
            constexpr int dense = run < most ? run : most;
            if constexpr (vector == 1 && sum_bytes == 4)
                if (walk.dense)
                    return body.template operator()<size, 1, 1, run, dense>();
            if constexpr (!of_weights)
                if (shape.axes[1].stride == 2)
                    return body.template operator()<size, 2, vector, run, 0>();
            body.template operator()<size, 1, vector, run, 0>();
        };
        if constexpr (widest_vector(size, sum_bytes) == 2)
            if (walk.vector == 2) return of_vector.template operator()<2>();
        of_vector.template operator()<1>();
    };
    if (shape.axes[1].kernel == 3)
        of_size.template operator()<3>();
    else if (shape.axes[1].kernel == 5)
        of_size.template operator()<5>();
    else
        of_size.template operator()<7>();
}

} // namespace gradnn::gpu::depthwise::walk
