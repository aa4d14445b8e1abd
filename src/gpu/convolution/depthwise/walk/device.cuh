// Depthwise, along H: what the two kernels share.
#pragma once

#include "gpu/convolution/depthwise/taps.cuh"
#include "gpu/convolution/depthwise/walk/cut.hpp"
#include "gpu/device/constants.hpp"
#include "gpu/device/early_start.cuh"
#include "gpu/device/warp.cuh"

namespace gradnn::gpu::depthwise::walk {

/// A bit for each of `count` columns from `first` on that is one of `columns`.
template <int count>
__device__ __forceinline__ uint32_t columns_inside(int first, int columns) {
    uint32_t inside = 0;
#pragma unroll
    for (int c = 0; c < count; ++c)
        if (is_inside(first + c, columns)) inside |= 1U << c;
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

/// Whether a row is loaded before the one whose place it takes is multiplied, which
/// then has to be moved away. Of several slices vectors that need no unpacking: the
/// compiler would move parts of the new one otherwise, and wait for it to do so.
template <typename Type, int deep, int dense>
constexpr bool loads_row_first = deep == 1 || (sizeof(Type) >= 4 && dense > 1);

/// What body.template operator()<deep, size, stride, vector, run, dense>() returns for a cut:
/// taps along D and along the other axes; `dense` are the columns of 16 bytes, or all
/// of a thread where they are fewer, and of 3x3x3 those that the cut says.
template <typename Type, bool of_weights, typename Body>
auto with_constants(
        const problem_shape &shape, const work_cut &walk, const Body &body) {
    constexpr int64_t bytes = sizeof(Type);
    constexpr int most = 16 / static_cast<int>(bytes);
    const auto of_vector = [&]<int deep, int size, int vector>() {
        constexpr int run = of_weights ? weights_run(deep, size, bytes)
                                       : data_run(deep, size, vector, bytes);
        constexpr int dense = run < most ? run : most;
        if constexpr (vector == 1 && (deep > 1 || bytes < 8)) {
            if constexpr (deep > 1 && dense > 2)
                if (walk.together == 2)
                    return body.template operator()<deep, size, 1, 1, run, 2>();
            if (walk.together > 1)
                return body.template operator()<deep, size, 1, 1, run, dense>();
        }
        if constexpr (!of_weights && deep == 1)
            if (shape.axes[1].stride == 2)
                return body
                        .template operator()<deep, size, 2, vector, run, 0>();
        return body.template operator()<deep, size, 1, vector, run, 0>();
    };
    const auto of_size = [&]<int deep, int size>() {
        if constexpr (widest_vector(deep, size, bytes) == 2)
            if (walk.vector == 2)
                return of_vector.template operator()<deep, size, 2>();
        return of_vector.template operator()<deep, size, 1>();
    };
    if (shape.axes[0].kernel > 1) return of_size.template operator()<3, 3>();
    return with_chosen(
            [&]<int size>() { return of_size.template operator()<1, size>(); },
            one_of<3, 5, 7> {shape.axes[1].kernel});
}

} // namespace gradnn::gpu::depthwise::walk
