// Groups of few channels: what the kernels share on the device.
#pragma once

#include <cstdint>

#include "gpu/convolution/narrow_groups/shape.hpp"
#include "gpu/device/dtype.cuh"
#include "gpu/device/positions.cuh"

namespace gradnn::gpu::narrow_groups {

/// Where a run lies: positions of written on the first two axes, the first one
/// on the last.
struct run_place {
    int deep;
    int down;
    int along;
    int64_t image;
};

/// Neighbouring items differ on the second axis.
__device__ __forceinline__ run_place place_of(
        const problem_shape &shape, uint32_t item) {
    run_place place;
    place.down = take(item, shape.by_down);
    const int group = take(item, shape.by_groups);
    const int phase = take(item, shape.by_phases);
    place.along = group * run_positions * shape.run_step + phase;
    place.deep = take(item, shape.by_deep);
    place.image = item;
    return place;
}

/// Taps first, first + tap_step, ... of a written position, `count` of them;
/// they read `from`, from + move, ...
struct axis_taps {
    int first = 0;
    int count = 0;
    int from = 0;
};

__device__ __forceinline__ axis_taps taps_of(
        const window_axis &axis, bool to_src, int position) {
    axis_taps taps;
    taps.count = axis.kernel;
    if (!to_src || axis.stride == 1) {
        taps.from = position * axis.stride + axis.base;
        return taps;
    }
    int at = position + axis.base;
    const int most = min(axis.kernel, axis.tap_step);
    while (taps.first < most && at % axis.stride != 0) {
        ++taps.first;
        at += axis.dilation;
    }
    taps.count = taps.first < most
            ? (axis.kernel - 1 - taps.first) / axis.tap_step + 1
            : 0;
    taps.from = at / axis.stride;
    return taps;
}

/// The same without the taps that read outside.
__device__ __forceinline__ axis_taps taps_inside(
        const window_axis &axis, bool to_src, int position) {
    axis_taps taps = taps_of(axis, to_src, position);
    if (taps.from < 0) {
        const int skipped = (axis.move - 1 - taps.from) / axis.move;
        taps.first += skipped * axis.tap_step;
        taps.from += skipped * axis.move;
        taps.count -= skipped;
    }
    const int inside = axis.read - taps.from;
    taps.count
            = inside <= 0 ? 0 : min(taps.count, (inside - 1) / axis.move + 1);
    return taps;
}

/// The address `count` times `bytes` further on: one instruction.
template <typename Type>
__device__ __forceinline__ const Type *moved(
        const Type *from, int bytes, int count) {
    return reinterpret_cast<const Type *>(
            reinterpret_cast<const char *>(from) + int64_t {bytes} * count);
}

/// Four neighbouring channels of one position: of NXC at one address (of f64 by
/// two accesses), of planes `apart` from each other. They are converted only when
/// they are used, so that a load need not wait for the one before.
template <typename Type, bool planes>
struct channel_column {
    static constexpr int together = planes ? 1
            : sizeof(Type) == 8            ? chunk_channels / 2
                                           : chunk_channels;
    static constexpr int parts = chunk_channels / together;
    static constexpr int addresses = planes ? parts : 1;
    using part = pack<Type, together>;
    part loaded[parts];

    /// Of the first position, whose channels lie `apart`.
    struct address {
        const Type *of[addresses];

        __device__ __forceinline__ address(const Type *from, int64_t apart) {
#pragma unroll
            for (int i = 0; i < addresses; ++i)
                of[i] = from + i * apart;
        }
    };

    /// Of position `number`, `pitch` bytes apart; zeros where it is not
    /// `wanted`.
    __device__ __forceinline__ void load(
            bool wanted, const address &from, int pitch, int number) {
#pragma unroll
        for (int i = 0; i < parts; ++i) {
            loaded[i] = {};
            if (wanted)
                loaded[i] = part::load(
                        moved(from.of[planes ? i : 0], pitch, number)
                        + (planes ? 0 : i * together));
        }
    }
    __device__ __forceinline__ void unpack(
            sum_of<Type> (&values)[chunk_channels]) const {
        if constexpr (parts == 1) {
            loaded[0].unpack(values);
        } else {
#pragma unroll
            for (int i = 0; i < parts; ++i) {
                sum_of<Type> some[together];
                loaded[i].unpack(some);
#pragma unroll
                for (int j = 0; j < together; ++j)
                    values[i * together + j] = some[j];
            }
        }
    }
    /// Of planes the first `count`.
    __device__ static __forceinline__ void stream(Type *to, int64_t apart,
            const sum_of<Type> (&values)[chunk_channels], int count) {
        if constexpr (parts == 1) {
            part::of(values).stream(to);
        } else {
#pragma unroll
            for (int i = 0; i < parts; ++i) {
                sum_of<Type> some[together];
#pragma unroll
                for (int j = 0; j < together; ++j)
                    some[j] = values[i * together + j];
                if (!planes || i < count)
                    part::of(some).stream(to + i * (planes ? apart : together));
            }
        }
    }
};

} // namespace gradnn::gpu::narrow_groups
