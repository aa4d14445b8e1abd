// Blocks of channels (channel_blocks.cpp): squares that are transposed in
// registers, and rows.
//
// Included once for each of Highway's targets, like simd.hpp.
#include <algorithm>
#include <type_traits>

#include "cpu/simd/simd.hpp"
#include "cpu/simd/transpose.hpp"

#ifndef GRADNN_CPU_CHANNEL_SQUARES_ONCE
#define GRADNN_CPU_CHANNEL_SQUARES_ONCE
namespace gradnn::cpu {

/// A range of points of some channels: of at most 16, in one block or two, where
/// the plain side is contiguous along the points.
struct channel_group {
    static constexpr int64_t width = 16;
    int64_t channels; ///< that exist
    int64_t padded; ///< that the blocks have; the others are zeros
    int64_t points;
    int64_t channel_stride; ///< of the plain side
    int64_t point_stride;
    int64_t block_pitch; ///< of the blocked side, from a block to the next
};

} // namespace gradnn::cpu
#endif

#if defined(GRADNN_CPU_CHANNEL_SQUARES_TOGGLE) == defined(HWY_TARGET_TOGGLE)
#ifdef GRADNN_CPU_CHANNEL_SQUARES_TOGGLE
#undef GRADNN_CPU_CHANNEL_SQUARES_TOGGLE
#else
#define GRADNN_CPU_CHANNEL_SQUARES_TOGGLE
#endif

HWY_BEFORE_NAMESPACE();
namespace gradnn::cpu::HWY_NAMESPACE {

/// Points of 16-bit elements that are transposed at once.
constexpr int64_t square = 8;

/// The place of a channel and point on the blocked side.
template <int64_t block>
HWY_INLINE int64_t blocked_at(const channel_group &work, int64_t c, int64_t p) {
    return c / block * work.block_pitch + p * block + c % block;
}

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

/// 16-bit channels whose squares fill the registers.
constexpr bool paired_squares
        = HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3;
constexpr int64_t group = paired_squares ? 16 : 8;

#if HWY_TARGET != HWY_SCALAR

using group_tag = hn::FixedTag<uint16_t, group>;

/// A register of a group: 8 elements and, where squares are paired, 8 more that
/// lie `second` elements after the first.
HWY_INLINE hn::VFromD<group_tag> load_parts(
        const uint16_t *from, [[maybe_unused]] int64_t second) {
    const hn::FixedTag<uint16_t, 8> part;
    const auto low = hn::LoadU(part, from);
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
    return hn::Combine(group_tag(), hn::LoadU(part, from + second), low);
#else
    return low;
#endif
}

/// The reverse.
HWY_INLINE void store_parts(hn::VFromD<group_tag> row, uint16_t *to,
        [[maybe_unused]] int64_t second) {
    const hn::FixedTag<uint16_t, 8> part;
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
    hn::StoreU(hn::LowerHalf(part, row), part, to);
    hn::StoreU(hn::UpperHalf(part, row), part, to + second);
#else
    hn::StoreU(row, part, to);
#endif
}

#endif

/// blocked[p][c + i] = plain[i][p] for a group of channels i and 8 points.
template <int64_t block>
HWY_INLINE void gather_square(const channel_group &work, const uint16_t *plain,
        int64_t c, int64_t p, uint16_t *blocked) {
    const int64_t stride = work.channel_stride;
#if HWY_TARGET == HWY_SCALAR
    for (int64_t i = c; i < c + group; ++i)
        for (int64_t k = p; k < p + square; ++k)
            blocked[blocked_at<block>(work, i, k)] = plain[i * stride + k];
#else
    const group_tag d;
    hn::VFromD<group_tag> row[square];
#pragma GCC unroll 8
    for (int64_t r = 0; r < square; ++r)
        row[r] = load_parts(plain + (c + r) * stride + p, square * stride);
    transpose_squares(d, row);
    uint16_t *to = blocked + blocked_at<block>(work, c, p);
#pragma GCC unroll 8
    for (int64_t k = 0; k < square; ++k) {
        if constexpr (group <= block)
            hn::StoreU(row[k], d, to + k * block);
        else
            store_parts(row[k], to + k * block, work.block_pitch);
    }
#endif
}

/// plain[i][p] = blocked[p][c + i] for a group of channels i and 8 points.
template <int64_t block>
HWY_INLINE void scatter_square(const channel_group &work,
        const uint16_t *blocked, int64_t c, int64_t p, uint16_t *plain) {
    const int64_t stride = work.channel_stride;
#if HWY_TARGET == HWY_SCALAR
    for (int64_t i = c; i < c + group; ++i)
        for (int64_t k = p; k < p + square; ++k)
            plain[i * stride + k] = blocked[blocked_at<block>(work, i, k)];
#else
    const group_tag d;
    hn::VFromD<group_tag> row[square];
    const uint16_t *from = blocked + blocked_at<block>(work, c, p);
#pragma GCC unroll 8
    for (int64_t k = 0; k < square; ++k) {
        if constexpr (group <= block)
            row[k] = hn::LoadU(d, from + k * block);
        else
            row[k] = load_parts(from + k * block, work.block_pitch);
    }
    transpose_squares(d, row);
#pragma GCC unroll 8
    for (int64_t r = 0; r < square; ++r)
        store_parts(row[r], plain + (c + r) * stride + p, square * stride);
#endif
}

/// blocked[p][c] = plain[c][p], both of one type of 16 bits.
template <int64_t block>
void gather_planes(
        const channel_group &work, const uint16_t *plain, uint16_t *blocked) {
    const int64_t stride = work.channel_stride;
    int64_t c = 0;
    for (; c + group <= work.channels; c += group) {
        int64_t p = 0;
        for (; p + square <= work.points; p += square)
            gather_square<block>(work, plain, c, p, blocked);
        for (; p < work.points; ++p)
            for (int64_t i = c; i < c + group; ++i)
                blocked[blocked_at<block>(work, i, p)] = plain[i * stride + p];
    }
    for (; c < work.padded; ++c)
        for (int64_t p = 0; p < work.points; ++p)
            blocked[blocked_at<block>(work, c, p)]
                    = c < work.channels ? plain[c * stride + p] : uint16_t {0};
}

/// plain[c][p] = blocked[p][c], both of one type of 16 bits.
template <int64_t block>
void scatter_planes(
        const channel_group &work, const uint16_t *blocked, uint16_t *plain) {
    const int64_t stride = work.channel_stride;
    int64_t c = 0;
    for (; c + group <= work.channels; c += group) {
        int64_t p = 0;
        for (; p + square <= work.points; p += square)
            scatter_square<block>(work, blocked, c, p, plain);
        for (; p < work.points; ++p)
            for (int64_t i = c; i < c + group; ++i)
                plain[i * stride + p] = blocked[blocked_at<block>(work, i, p)];
    }
    for (; c < work.channels; ++c)
        for (int64_t p = 0; p < work.points; ++p)
            plain[c * stride + p] = blocked[blocked_at<block>(work, c, p)];
}

/// blocked[p][c] = plain[c][p] in f32, as many channels and points at a time as
/// a vector has lanes.
template <int64_t block>
void gather_planes(
        const channel_group &work, const float *plain, float *blocked) {
    const hn::ScalableTag<float> d;
    constexpr auto lanes = static_cast<int64_t>(lanes_of<float>);
    for (int64_t c = 0; c < work.padded; c += lanes)
        for (int64_t p = 0; p < work.points; p += lanes) {
            const int64_t rows = std::min(lanes, work.channels - c);
            const int64_t points = std::min(lanes, work.points - p);
            const float *from = plain + c * work.channel_stride + p;
            hn::Vec<decltype(d)> rect[static_cast<size_t>(lanes)];
            if (rows == lanes && points == lanes) {
#pragma GCC unroll 16
                for (int64_t r = 0; r < lanes; ++r)
                    rect[r] = hn::LoadU(d, from + r * work.channel_stride);
            } else {
                for (int64_t r = 0; r < lanes; ++r)
                    rect[r] = r < rows
                            ? load_first(d, from + r * work.channel_stride,
                                    static_cast<size_t>(points))
                            : hn::Zero(d);
            }
            transpose<float>(rect);
            float *to = blocked + blocked_at<block>(work, c, p);
            const auto put = [&](int64_t k) HWY_ATTR {
                if constexpr (lanes <= block) {
                    hn::StoreU(rect[k], d, to + k * block);
                }
#if HWY_TARGET == HWY_AVX3
                else {
                    const hn::Half<decltype(d)> half;
                    hn::StoreU(
                            hn::LowerHalf(half, rect[k]), half, to + k * block);
                    if (c + block < work.padded)
                        hn::StoreU(hn::UpperHalf(half, rect[k]), half,
                                to + work.block_pitch + k * block);
                }
#endif
            };
            if (points == lanes) {
#pragma GCC unroll 16
                for (int64_t k = 0; k < lanes; ++k)
                    put(k);
            } else {
#pragma GCC unroll 16
                for (int64_t k = 0; k < lanes; ++k)
                    if (k < points) put(k);
            }
        }
}

/// plain[c][p] = blocked[p][c] in f32.
template <int64_t block>
void scatter_planes(
        const channel_group &work, const float *blocked, float *plain) {
    const hn::ScalableTag<float> d;
    constexpr auto lanes = static_cast<int64_t>(lanes_of<float>);
    for (int64_t c = 0; c < work.channels; c += lanes)
        for (int64_t p = 0; p < work.points; p += lanes) {
            const int64_t rows = std::min(lanes, work.channels - c);
            const int64_t points = std::min(lanes, work.points - p);
            const float *from = blocked + blocked_at<block>(work, c, p);
            hn::Vec<decltype(d)> rect[static_cast<size_t>(lanes)];
            const auto take = [&](int64_t k) HWY_ATTR {
                if constexpr (lanes <= block) {
                    return hn::LoadU(d, from + k * block);
                }
#if HWY_TARGET == HWY_AVX3
                else {
                    const hn::Half<decltype(d)> half;
                    const auto low = hn::LoadU(half, from + k * block);
                    return hn::Combine(d,
                            c + block < work.padded ? hn::LoadU(
                                    half, from + work.block_pitch + k * block)
                                                    : hn::Zero(half),
                            low);
                }
#endif
            };
#pragma GCC unroll 16
            for (int64_t k = 0; k < lanes; ++k)
                rect[k] = take(k < points ? k : points - 1);
            transpose<float>(rect);
            float *to = plain + c * work.channel_stride + p;
            if (rows == lanes && points == lanes) {
#pragma GCC unroll 16
                for (int64_t r = 0; r < lanes; ++r)
                    hn::StoreU(rect[r], d, to + r * work.channel_stride);
                continue;
            }
#pragma GCC unroll 16
            for (int64_t r = 0; r < lanes; ++r)
                if (r < rows)
                    store_first(d, rect[r], to + r * work.channel_stride,
                            static_cast<size_t>(points));
        }
}

} // namespace gradnn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
