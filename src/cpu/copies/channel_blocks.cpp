// blocked[n, c / 16, p, c % 16] = plain[n, c, p], and back.
//
// Where plain is contiguous along the points, squares of 8 channels by 8
// points are transposed in registers; where it is contiguous along the
// channels, rows of up to 16 are copied. Types are widened or narrowed on a
// stage that stays in the first-level cache. The blocked side is written
// through the caches, because a convolution reads it next.
// Threads own ranges of points of one block of channels. Deterministic: every
// element is copied by itself.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/copies/channel_blocks.cpp"
#include "cpu/simd/simd_target.hpp"

#include <hwy/foreach_target.h>

#include <algorithm>

#include "cpu/copies/channel_blocks.hpp"
#include "cpu/simd/simd.hpp"
#include "parallel.hpp"

#ifndef GRADNN_CPU_CHANNEL_BLOCKS_ONCE
#define GRADNN_CPU_CHANNEL_BLOCKS_ONCE
namespace gradnn::cpu {

/// A range of points of one block of channels.
struct block_of_channels {
    static constexpr int64_t width = channel_blocking::block;
    int64_t channels; ///< that exist; the others are zeros
    int64_t points;
    int64_t channel_stride;
    int64_t point_stride;
};

} // namespace gradnn::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace gradnn::cpu::HWY_NAMESPACE {

/// Rows and columns that are transposed at once, in each 128-bit part of the
/// registers.
constexpr int64_t square = 8;

#if HWY_TARGET != HWY_SCALAR

/// Transposes 8 rows of 8 elements in each part of the registers. (Its loops,
/// and those around it, are unrolled by pragma so that the rows stay in
/// registers at every level of optimisation.)
template <class D>
HWY_INLINE void transpose_squares(D d, hn::VFromD<D> *row) {
    const hn::Repartition<uint32_t, D> d2;
    const hn::Repartition<uint64_t, D> d4;
    // Elements of rows r and r + 1 side by side: columns 0 to 3 in pair[r],
    // 4 to 7 in pair[r + 1].
    hn::VFromD<decltype(d2)> pair[square];
#pragma GCC unroll 8
    for (int64_t r = 0; r < square; r += 2) {
        pair[r] = hn::BitCast(d2, hn::InterleaveLower(d, row[r], row[r + 1]));
        pair[r + 1]
                = hn::BitCast(d2, hn::InterleaveUpper(d, row[r], row[r + 1]));
    }
#pragma GCC unroll 8
    for (int64_t half = 0; half < 2; ++half) {
        const auto *p = pair + half;
        const auto a = hn::BitCast(d4, hn::InterleaveLower(d2, p[0], p[2]));
        const auto b = hn::BitCast(d4, hn::InterleaveLower(d2, p[4], p[6]));
        const auto e = hn::BitCast(d4, hn::InterleaveUpper(d2, p[0], p[2]));
        const auto f = hn::BitCast(d4, hn::InterleaveUpper(d2, p[4], p[6]));
        auto *to = row + half * 4;
        to[0] = hn::BitCast(d, hn::InterleaveLower(d4, a, b));
        to[1] = hn::BitCast(d, hn::InterleaveUpper(d4, a, b));
        to[2] = hn::BitCast(d, hn::InterleaveLower(d4, e, f));
        to[3] = hn::BitCast(d, hn::InterleaveUpper(d4, e, f));
    }
}

#endif

/// Channels whose squares fill the registers.
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
constexpr int64_t group = 16;
#else
constexpr int64_t group = 8;
#endif

/// blocked[p][c] = plain[c][p] for a group of channels and 8 points.
HWY_INLINE void gather_square(
        const uint16_t *plain, int64_t stride, uint16_t *blocked) {
    constexpr int64_t width = block_of_channels::width;
#if HWY_TARGET == HWY_SCALAR
    for (int64_t p = 0; p < square; ++p)
        for (int64_t c = 0; c < group; ++c)
            blocked[p * width + c] = plain[c * stride + p];
#else
    const hn::FixedTag<uint16_t, group> d;
    const hn::FixedTag<uint16_t, 8> part;
    hn::VFromD<decltype(d)> row[square];
#pragma GCC unroll 8
    for (int64_t r = 0; r < square; ++r) {
        const auto low = hn::LoadU(part, plain + r * stride);
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
        row[r] = hn::Combine(
                d, hn::LoadU(part, plain + (r + square) * stride), low);
#else
        row[r] = low;
#endif
    }
    transpose_squares(d, row);
#pragma GCC unroll 8
    for (int64_t p = 0; p < square; ++p)
        hn::StoreU(row[p], d, blocked + p * width);
#endif
}

/// plain[c][p] = blocked[p][c] for a group of channels and 8 points.
HWY_INLINE void scatter_square(
        const uint16_t *blocked, uint16_t *plain, int64_t stride) {
    constexpr int64_t width = block_of_channels::width;
#if HWY_TARGET == HWY_SCALAR
    for (int64_t c = 0; c < group; ++c)
        for (int64_t p = 0; p < square; ++p)
            plain[c * stride + p] = blocked[p * width + c];
#else
    const hn::FixedTag<uint16_t, group> d;
    const hn::FixedTag<uint16_t, 8> part;
    hn::VFromD<decltype(d)> row[square];
#pragma GCC unroll 8
    for (int64_t p = 0; p < square; ++p)
        row[p] = hn::LoadU(d, blocked + p * width);
    transpose_squares(d, row);
#pragma GCC unroll 8
    for (int64_t r = 0; r < square; ++r) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
        hn::StoreU(hn::UpperHalf(part, row[r]), part,
                plain + (r + square) * stride);
        hn::StoreU(hn::LowerHalf(part, row[r]), part, plain + r * stride);
#else
        hn::StoreU(row[r], part, plain + r * stride);
#endif
    }
#endif
}

/// blocked[p][c] = plain[c][p], both of one type.
inline void gather_rows(const block_of_channels &work, const uint16_t *plain,
        uint16_t *blocked) {
    constexpr int64_t width = block_of_channels::width;
    const int64_t stride = work.channel_stride;
    int64_t c = 0;
    for (; c + group <= work.channels; c += group) {
        int64_t p = 0;
        for (; p + square <= work.points; p += square)
            gather_square(
                    plain + c * stride + p, stride, blocked + p * width + c);
        for (; p < work.points; ++p)
            for (int64_t i = c; i < c + group; ++i)
                blocked[p * width + i] = plain[i * stride + p];
    }
    for (; c < width; ++c)
        for (int64_t p = 0; p < work.points; ++p)
            blocked[p * width + c]
                    = c < work.channels ? plain[c * stride + p] : uint16_t {0};
}

/// plain[c][p] = blocked[p][c], both of one type.
inline void scatter_rows(const block_of_channels &work, const uint16_t *blocked,
        uint16_t *plain) {
    constexpr int64_t width = block_of_channels::width;
    const int64_t stride = work.channel_stride;
    int64_t c = 0;
    for (; c + group <= work.channels; c += group) {
        int64_t p = 0;
        for (; p + square <= work.points; p += square)
            scatter_square(
                    blocked + p * width + c, plain + c * stride + p, stride);
        for (; p < work.points; ++p)
            for (int64_t i = c; i < c + group; ++i)
                plain[i * stride + p] = blocked[p * width + i];
    }
    for (; c < work.channels; ++c)
        for (int64_t p = 0; p < work.points; ++p)
            plain[c * stride + p] = blocked[p * width + c];
}

/// out[p][c] = in[p][c] over the channels that exist, on both sides
/// contiguous.
template <typename In, typename Out>
void copy_channels(const block_of_channels &work, const In *in,
        int64_t in_stride, Out *out, int64_t out_stride) {
    constexpr int64_t width = block_of_channels::width;
    if (work.channels == width) {
        // A count known to the compiler.
        for (int64_t p = 0; p < work.points; ++p)
            convert_row(in + p * in_stride, out + p * out_stride,
                    static_cast<size_t>(width));
        return;
    }
    const auto count = static_cast<size_t>(work.channels);
    for (int64_t p = 0; p < work.points; ++p)
        convert_row(in + p * in_stride, out + p * out_stride, count);
}

/// Points whose elements fit the stage.
constexpr int64_t stage_points = 128;

template <typename Plain, typename Blocked>
void block_range(const block_of_channels &work, const void *from, void *to) {
    constexpr int64_t width = block_of_channels::width;
    const auto *plain = static_cast<const Plain *>(from);
    auto *blocked = static_cast<Blocked *>(to);
    if (work.point_stride != 1) {
        copy_channels(work, plain, work.point_stride, blocked, width);
        if (work.channels == width) return;
        for (int64_t p = 0; p < work.points; ++p)
            std::fill(blocked + p * width + work.channels,
                    blocked + (p + 1) * width, Blocked {});
        return;
    }
    const auto *bits = reinterpret_cast<const uint16_t *>(plain);
    if constexpr (std::is_same_v<Plain, Blocked>) {
        gather_rows(work, bits, reinterpret_cast<uint16_t *>(blocked));
    } else {
        alignas(64) Plain stage[stage_points * width];
        for (int64_t p = 0; p < work.points; p += stage_points) {
            auto part = work;
            part.points = std::min(stage_points, work.points - p);
            gather_rows(part, bits + p, reinterpret_cast<uint16_t *>(stage));
            convert_row(stage, blocked + p * width,
                    static_cast<size_t>(part.points * width));
        }
    }
}

template <typename Plain, typename Blocked>
void unblock_range(const block_of_channels &work, const void *from, void *to) {
    constexpr int64_t width = block_of_channels::width;
    const auto *blocked = static_cast<const Blocked *>(from);
    auto *plain = static_cast<Plain *>(to);
    if (work.point_stride != 1) {
        copy_channels(work, blocked, width, plain, work.point_stride);
        return;
    }
    auto *bits = reinterpret_cast<uint16_t *>(plain);
    if constexpr (std::is_same_v<Plain, Blocked>) {
        scatter_rows(work, reinterpret_cast<const uint16_t *>(blocked), bits);
    } else {
        alignas(64) Plain stage[stage_points * width];
        for (int64_t p = 0; p < work.points; p += stage_points) {
            auto part = work;
            part.points = std::min(stage_points, work.points - p);
            convert_row(blocked + p * width, stage,
                    static_cast<size_t>(part.points * width));
            scatter_rows(
                    part, reinterpret_cast<const uint16_t *>(stage), bits + p);
        }
    }
}

using range_function
        = void (*)(const block_of_channels &, const void *, void *);

range_function range_function_of(
        const channel_blocking &problem, bool to_blocks) {
    using detail::data_type;
    const bool wide = problem.blocked_type == data_type::f32;
    const auto choose = [&](auto plain) -> range_function {
        using narrow = decltype(plain);
        if (to_blocks)
            return wide ? block_range<narrow, float>
                        : block_range<narrow, narrow>;
        return wide ? unblock_range<narrow, float>
                    : unblock_range<narrow, narrow>;
    };
    return problem.plain_type == data_type::bf16 ? choose(bf16 {})
                                                 : choose(f16 {});
}

} // namespace gradnn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gradnn::cpu {

HWY_EXPORT(range_function_of);

namespace {

/// Points of an item of work: a page or two of each channel.
constexpr int64_t item_points = 2048;
/// Elements that are worth waking a thread for.
constexpr int64_t share_elements = 16384;

/// Calls body(work, first plain element, first blocked element) for every
/// item.
template <typename Body>
void for_each_item(const channel_blocking &problem, const Body &body) {
    constexpr int64_t width = channel_blocking::block;
    const int64_t blocks = (problem.channels + width - 1) / width;
    const int64_t ranges = (problem.points + item_points - 1) / item_points;
    const int64_t items = problem.images * blocks * ranges;
    const int64_t size = width * std::min(problem.points, item_points);
    parallel_for(items, std::max<int64_t>(1, share_elements / size),
            [&](int64_t begin, int64_t end) {
                for (int64_t item = begin; item < end; ++item) {
                    const int64_t point = item % ranges * item_points;
                    const int64_t block = item / ranges % blocks;
                    const int64_t image = item / ranges / blocks;
                    const block_of_channels work {
                            std::min(width, problem.channels - block * width),
                            std::min(item_points, problem.points - point),
                            problem.channel_stride, problem.point_stride};
                    body(work,
                            image * problem.image_stride
                                    + block * width * problem.channel_stride
                                    + point * problem.point_stride,
                            ((image * blocks + block) * problem.points + point)
                                    * width);
                }
            });
}

} // namespace

void block_channels(
        const channel_blocking &problem, const void *plain, void *blocked) {
    const auto run = HWY_DYNAMIC_DISPATCH(range_function_of)(problem, true);
    const int64_t plain_bytes = detail::size_of(problem.plain_type);
    const int64_t blocked_bytes = detail::size_of(problem.blocked_type);
    for_each_item(problem,
            [&](const block_of_channels &work, int64_t from, int64_t to) {
                run(work,
                        static_cast<const std::byte *>(plain)
                                + from * plain_bytes,
                        static_cast<std::byte *>(blocked) + to * blocked_bytes);
            });
}

void unblock_channels(
        const channel_blocking &problem, const void *blocked, void *plain) {
    const auto run = HWY_DYNAMIC_DISPATCH(range_function_of)(problem, false);
    const int64_t plain_bytes = detail::size_of(problem.plain_type);
    const int64_t blocked_bytes = detail::size_of(problem.blocked_type);
    for_each_item(problem,
            [&](const block_of_channels &work, int64_t to, int64_t from) {
                run(work,
                        static_cast<const std::byte *>(blocked)
                                + from * blocked_bytes,
                        static_cast<std::byte *>(plain) + to * plain_bytes);
            });
}

} // namespace gradnn::cpu
#endif
