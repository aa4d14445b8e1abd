// Convolutions with windows of one point: tiles on their way between global and shared
// memory, and their elements as tensor cores take them.
#pragma once

#include <cstdint>

#include "gpu/convolution/pointwise/shape.hpp"
#include "gpu/device/async_copy.cuh"
#include "gpu/device/dtype.cuh"

namespace gradnn::gpu::pointwise {

/// Threads that copy together, and this one's number among them.
struct copier {
    int thread;
    int threads;
};

/// Calls body.template operator()<elements>() with a width of 1, 2, 4 or 8.
template <typename Body>
__device__ __forceinline__ void with_width(int vector, const Body &body) {
    switch (vector) {
        case 8: return body.template operator()<8>();
        case 4: return body.template operator()<4>();
        case 2: return body.template operator()<2>();
        default: return body.template operator()<1>();
    }
}

/// To shared memory; the caller waits for copies. Both at multiples of the width.
template <int width, typename Type>
__device__ __forceinline__ void bring_word(Type *to, const Type *from) {
    if constexpr (width == 1)
        *to = *from;
    else if constexpr (width == 8)
        copy_async_past_l1(to, from);
    else
        copy_async<width *static_cast<int>(sizeof(Type))>(to, from);
}

/// From shared memory.
template <int width, typename Type>
__device__ __forceinline__ void put_word(Type *to, const Type *from) {
    pack<Type, width>::load(from).stream(to);
}

/// Moves `channels` rows of `count` of a tile's `positions` by move<width>(shared,
/// global); the tensor is `global` on, its rows `apart`.
template <int positions, typename Type, typename Tensor, typename Move>
__device__ __forceinline__ void move_rows(Type *shared, Tensor *global,
        int channels, int64_t apart, int count, int vector, copier by,
        const Move &move) {
    with_width(vector, [&]<int width>() {
        constexpr int words = positions / width;
        for (int i = by.thread; i < channels * words; i += by.threads) {
            const int row = i / words;
            const int at = i % words * width;
            if (at < count)
                move.template operator()<width>(
                        shared + row * pitch_of(positions) + at,
                        global + row * apart + at);
        }
    });
}

/// Moves `count` neighbouring elements.
template <typename Type, typename Tensor, typename Move>
__device__ __forceinline__ void move_flat(Type *shared, Tensor *global,
        int count, int vector, copier by, const Move &move) {
    with_width(vector, [&]<int width>() {
        const int whole = count / width * width;
        for (int i = by.thread * width; i < whole; i += by.threads * width)
            move.template operator()<width>(shared + i, global + i);
        for (int i = whole + by.thread; i < count; i += by.threads)
            move.template operator()<1>(shared + i, global + i);
    });
}

/// Where a tile begins, and how many positions it has.
struct tile_place {
    int64_t image;
    int64_t first;
    int count;
};

__device__ __forceinline__ tile_place place_of(
        const problem_shape &shape, int64_t tile, int positions) {
    const auto number = static_cast<uint32_t>(tile);
    const auto of_image = static_cast<uint32_t>(shape.tiles_of_image);
    const uint32_t image = number / of_image;
    const int64_t first = int64_t {number - image * of_image} * positions;
    return {image, first,
            static_cast<int>(
                    min(shape.positions - first, int64_t {positions}))};
}

/// A tile of a tensor to shared memory.
template <bool planes, int positions, typename Type>
__device__ __forceinline__ void bring(Type *to, const Type *tensor,
        const operand &of, const tile_place &place, copier by) {
    const auto move = [&]<int width>(Type *shared, const Type *global) {
        bring_word<width>(shared, global);
    };
    if constexpr (planes)
        move_rows<positions>(to, tensor + place.image * of.image + place.first,
                of.channels, of.channel, place.count, of.vector, by, move);
    else
        move_flat(to, tensor + place.first * of.channels,
                place.count * of.channels, of.vector, by, move);
}

/// The bits of an element of a tile.
template <bool planes, int positions, typename Type>
__device__ __forceinline__ uint32_t element(
        const Type *tile, int channels, int channel, int position) {
    const auto *const bits = reinterpret_cast<const unsigned short *>(tile);
    return planes ? bits[channel * pitch_of(positions) + position]
                  : bits[position * channels + channel];
}

/// Of one channel at two neighbouring positions, the first one even.
template <bool planes, int positions, typename Type>
__device__ __forceinline__ uint32_t two_positions(
        const Type *tile, int channels, int channel, int position) {
    if constexpr (planes)
        return *reinterpret_cast<const uint32_t *>(
                tile + channel * pitch_of(positions) + position);
    return element<planes, positions>(tile, channels, channel, position)
            | element<planes, positions>(tile, channels, channel, position + 1)
            << 16;
}

/// Of two neighbouring channels at one position; zeros beyond the last channel, which
/// meet weights of zero.
template <bool planes, int positions, typename Type>
__device__ __forceinline__ uint32_t two_channels(
        const Type *tile, int channels, int channel, int position) {
    uint32_t word = 0;
    if (channel < channels)
        word = element<planes, positions>(tile, channels, channel, position);
    if (channel + 1 < channels)
        word |= element<planes, positions>(
                        tile, channels, channel + 1, position)
                << 16;
    return word;
}

} // namespace gradnn::gpu::pointwise
