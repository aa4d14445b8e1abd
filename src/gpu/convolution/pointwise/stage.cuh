// Convolutions with windows of one point: tiles on their way between global and shared
// memory (README.md says where their rows begin), and their elements as tensor cores take
// them.
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

/// How far an address lies behind 16 bytes, in elements.
template <typename Type>
__device__ __forceinline__ int elements_behind_word(const Type *address) {
    return static_cast<int>(reinterpret_cast<uintptr_t>(address) / sizeof(Type)
            % word_elements);
}

/// A tile in shared memory: where its elements lie.
template <bool planes, int positions>
struct tile_view {
    int channels;
    int first_shift; ///< of planes: of the first row behind 16 bytes
    int apart; ///< from a row's shift to the next one's

    __device__ int row(int channel) const {
        if constexpr (!planes) return channel;
        return channel * pitch_of(positions)
                + (first_shift + channel * apart) % word_elements;
    }
    /// Of a channel, whose row() is known, at a position.
    __device__ int at(int row, int position) const {
        return planes ? row + position : row + position * channels;
    }
};

template <bool planes, int positions, typename Type>
__device__ __forceinline__ tile_view<planes, positions> view_of(
        const Type *tensor, const operand &of, const tile_place &place) {
    if constexpr (!planes) return {of.channels, 0, 0};
    return {of.channels,
            elements_behind_word(tensor + place.image * of.image + place.first),
            static_cast<int>(of.channel % word_elements)};
}

/// Calls move<width>(at) for widths of 4, 2 and 1 that make up [first, end) of a word of
/// 8 elements, each at a multiple of its width.
template <typename Move>
__device__ __forceinline__ void for_parts_of_word(
        int first, int end, const Move &move) {
    const auto take = [&]<int width>(bool begins_here) {
        if (!begins_here || first + width > end) return;
        move.template operator()<width>(first);
        first += width;
    };
    take.template operator()<1>(first % 2 != 0);
    take.template operator()<2>(first % 4 != 0);
    take.template operator()<4>(true);
    take.template operator()<2>(true);
    take.template operator()<1>(true);
}

/// Goes over the words of 16 bytes that `channels` rows of `count` positions meet, the
/// first one `from` on, by move<width>(shared, global): whole ones, as is_whole(at,
/// global) says of one that begins `at` of its row, and what others have of the row.
template <int positions, typename Type, typename Tensor, typename IsWhole,
        typename Move>
__device__ __forceinline__ void move_rows(Type *shared, Tensor *from,
        int64_t apart, int channels, int count, copier by,
        const IsWhole &is_whole, const Move &move) {
    constexpr int words = positions / word_elements + 1;
    for (int i = by.thread; i < channels * words; i += by.threads) {
        const int row = i / words;
        Tensor *const run = from + row * apart;
        const int shift = elements_behind_word(run);
        const int at = i % words * word_elements - shift;
        if (at >= count) continue;
        Type *const in_shared = shared + row * pitch_of(positions) + shift + at;
        Tensor *const in_global = run + at;
        if (is_whole(at, in_global))
            move.template operator()<word_elements>(in_shared, in_global);
        else
            for_parts_of_word(max(0, -at), min(word_elements, count - at),
                    [&]<int width>(int e) {
                        move.template operator()<width>(
                                in_shared + e, in_global + e);
                    });
    }
}

/// Moves `count` neighbouring elements by move<width>(shared, global), in accesses of
/// `vector` of them.
template <typename Type, typename Tensor, typename Move>
__device__ __forceinline__ void move_flat(Type *shared, Tensor *global,
        int count, int vector, copier by, const Move &move) {
    const auto in = [&]<int width>() {
        const int whole = count / width * width;
        for (int i = by.thread * width; i < whole; i += by.threads * width)
            move.template operator()<width>(shared + i, global + i);
        for (int i = whole + by.thread; i < count; i += by.threads)
            move.template operator()<1>(shared + i, global + i);
    };
    switch (vector) {
        case 8: return in.template operator()<8>();
        case 4: return in.template operator()<4>();
        case 2: return in.template operator()<2>();
        default: return in.template operator()<1>();
    }
}

/// A tile of a tensor to shared memory; the caller waits for copies.
template <bool planes, int positions, typename Type>
__device__ __forceinline__ void bring(Type *to, const Type *tensor,
        const operand &of, const tile_place &place, copier by) {
    const auto move = [&]<int width>(Type *shared, const Type *global) {
        constexpr int bytes = width * int {sizeof(Type)};
        if constexpr (width == 1)
            *shared = *global;
        else if constexpr (bytes == 16)
            copy_async_past_l1(shared, global);
        else
            copy_async<bytes>(shared, global);
    };
    if constexpr (planes)
        move_rows<positions>(
                to, tensor + place.image * of.image + place.first, of.channel,
                of.channels, place.count, by,
                [&](int, const Type *global) {
                    return global >= tensor
                            && global + word_elements <= tensor + of.elements;
                },
                move);
    else
        move_flat(to, tensor + place.first * of.channels,
                place.count * of.channels, of.vector, by, move);
}

/// Two elements in one word.
template <typename Type>
__device__ __forceinline__ uint32_t pair_of(
        const Type *tile, int first, int second) {
    const auto *const bits = reinterpret_cast<const unsigned short *>(tile);
    return bits[first] | static_cast<uint32_t>(bits[second]) << 16;
}

} // namespace gradnn::gpu::pointwise
