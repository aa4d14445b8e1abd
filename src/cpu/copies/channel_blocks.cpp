// blocked[n, c / b, p, c % b] = plain[n, c, p], b being 8 or 16, and back.
//
// Where plain is contiguous along the points, squares of channels by points are
// transposed in registers; where it is contiguous along the channels, a few
// points of all channels are copied at a time, so that both sides are gone
// through line by line. Types are widened or narrowed on a stage that stays in
// the first-level cache. The blocked side is written through the caches, because
// a convolution reads it next.
// Threads own ranges of points, of 16 channels or of all. Deterministic: every
// element is copied by itself.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/copies/channel_blocks.cpp"
#include "cpu/simd/simd_target.hpp"

#include <hwy/foreach_target.h>

#include <algorithm>

#include "base/parallel.hpp"
#include "cpu/copies/channel_blocks.hpp"
#include "cpu/copies/channel_squares.hpp"
#include "cpu/simd/simd.hpp"

HWY_BEFORE_NAMESPACE();
namespace gradnn::cpu::HWY_NAMESPACE {

/// Bit patterns are moved where no type changes.
template <typename T>
using moved = std::conditional_t<sizeof(T) == 2, uint16_t, float>;

/// Points whose elements fit the stage.
constexpr int64_t stage_points = 128;

/// Points that are copied at a time where plain is contiguous along the channels:
/// whole lines of every block.
constexpr int64_t few_points = 4;
/// Points by which they are fetched ahead.
constexpr int64_t ahead = 2 * few_points;

/// Calls body(point, channel, channels that exist) for rows of a block.
template <int64_t block, typename Body>
HWY_INLINE void for_each_row(const channel_group &work, const Body &body) {
    const int64_t whole = work.channels / block * block;
    for (int64_t first = 0; first < work.points; first += few_points) {
        const int64_t last = std::min(first + few_points, work.points);
        for (int64_t c = 0; c < whole; c += block)
            for (int64_t p = first; p < last; ++p)
                body(p, c, std::integral_constant<int64_t, block>());
        if (whole < work.channels)
            for (int64_t p = first; p < last; ++p)
                body(p, whole, work.channels - whole);
    }
}

/// out[i] = in[i] for i < count, and zeros up to the end of the block.
template <int64_t block, typename In, typename Out>
HWY_INLINE void copy_partial(const In *in, Out *out, int64_t count) {
#if HWY_TARGET == HWY_AVX3
    if constexpr (std::is_same_v<In, Out>) {
        const hn::CappedTag<moved<In>, static_cast<size_t>(block)> d;
        const auto row
                = hn::MaskedLoad(hn::FirstN(d, static_cast<size_t>(count)), d,
                        reinterpret_cast<const moved<In> *>(in));
        hn::StoreU(row, d, reinterpret_cast<moved<Out> *>(out));
        return;
    }
#endif
    convert_row(in, out, static_cast<size_t>(count));
    std::fill(out + count, out + block, Out {});
}

template <int64_t block, typename Plain, typename Blocked>
void block_range(const channel_group &work, const void *from, void *to) {
    const auto *plain = static_cast<const Plain *>(from);
    auto *blocked = static_cast<Blocked *>(to);
    if (work.point_stride != 1) {
        for_each_row<block>(
                work, [&](int64_t p, int64_t c, auto count) HWY_ATTR {
                    const Plain *in = plain + p * work.point_stride + c;
                    Blocked *out = blocked + blocked_at<block>(work, c, p);
                    hwy::Prefetch(in + ahead * work.point_stride);
                    if constexpr (std::is_same_v<decltype(count), int64_t>)
                        copy_partial<block>(in, out, count);
                    else
                        convert_row(in, out, static_cast<size_t>(block));
                });
        return;
    }
    if constexpr (std::is_same_v<Plain, Blocked>) {
        gather_planes<block>(work,
                reinterpret_cast<const moved<Plain> *>(plain),
                reinterpret_cast<moved<Plain> *>(blocked));
    } else {
        alignas(64) Plain stage[stage_points * channel_group::width];
        for (int64_t p = 0; p < work.points; p += stage_points) {
            auto part = work;
            part.points = std::min(stage_points, work.points - p);
            part.block_pitch = stage_points * block;
            gather_planes<block>(part,
                    reinterpret_cast<const uint16_t *>(plain) + p,
                    reinterpret_cast<uint16_t *>(stage));
            for (int64_t c = 0; c < work.padded; c += block)
                convert_row(stage + c * stage_points,
                        blocked + blocked_at<block>(work, c, p),
                        static_cast<size_t>(part.points * block));
        }
    }
}

template <int64_t block, typename Plain, typename Blocked>
void unblock_range(const channel_group &work, const void *from, void *to) {
    const auto *blocked = static_cast<const Blocked *>(from);
    auto *plain = static_cast<Plain *>(to);
    if (work.point_stride != 1) {
        for_each_row<block>(
                work, [&](int64_t p, int64_t c, auto count) HWY_ATTR {
                    Plain *out = plain + p * work.point_stride + c;
                    hwy::Prefetch(out + ahead * work.point_stride);
                    convert_row(blocked + blocked_at<block>(work, c, p), out,
                            static_cast<size_t>(count));
                });
        return;
    }
    if constexpr (std::is_same_v<Plain, Blocked>) {
        scatter_planes<block>(work,
                reinterpret_cast<const moved<Plain> *>(blocked),
                reinterpret_cast<moved<Plain> *>(plain));
    } else {
        alignas(64) Plain stage[stage_points * channel_group::width];
        for (int64_t p = 0; p < work.points; p += stage_points) {
            auto part = work;
            part.points = std::min(stage_points, work.points - p);
            part.block_pitch = stage_points * block;
            for (int64_t c = 0; c < work.padded; c += block)
                convert_row(blocked + blocked_at<block>(work, c, p),
                        stage + c * stage_points,
                        static_cast<size_t>(part.points * block));
            scatter_planes<block>(part,
                    reinterpret_cast<const uint16_t *>(stage),
                    reinterpret_cast<uint16_t *>(plain) + p);
        }
    }
}

using range_function = void (*)(const channel_group &, const void *, void *);

range_function range_function_of(
        const channel_blocking &problem, bool to_blocks) {
    using detail::data_type;
    const auto choose
            = [&](auto block, auto plain, auto blocked) -> range_function {
        using narrow = decltype(plain);
        using wide = decltype(blocked);
        constexpr int64_t size = block();
        return to_blocks ? block_range<size, narrow, wide>
                         : unblock_range<size, narrow, wide>;
    };
    const auto choose_block = [&](auto plain, auto blocked) -> range_function {
        if (problem.block == 8)
            return choose(std::integral_constant<int64_t, 8>(), plain, blocked);
        return choose(std::integral_constant<int64_t, 16>(), plain, blocked);
    };
    const bool wide = problem.blocked_type == data_type::f32;
    if (problem.plain_type == data_type::f32) return choose_block(0.F, 0.F);
    if (problem.plain_type == data_type::bf16)
        return wide ? choose_block(bf16 {}, 0.F)
                    : choose_block(bf16 {}, bf16 {});
    return wide ? choose_block(f16 {}, 0.F) : choose_block(f16 {}, f16 {});
}

} // namespace gradnn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gradnn::cpu {

HWY_EXPORT(range_function_of);

namespace {

/// Points of an item of work where plain is contiguous along them: a page or two
/// of each channel.
constexpr int64_t item_points = 2048;
/// Elements that are worth waking a thread for, and those of an item of all
/// channels.
constexpr int64_t share_elements = 16384;
/// Calls body(work, first plain element, first blocked element) for all items:
/// ranges of points of 16 channels, or of all where these are contiguous.
template <typename Body>
void for_each_item(const channel_blocking &problem, const Body &body) {
    const int64_t padded = (problem.channels + problem.block - 1)
            / problem.block * problem.block;
    const bool in_planes = problem.point_stride == 1;
    const int64_t width = in_planes ? channel_group::width : padded;
    const int64_t groups = (padded + width - 1) / width;
    const int64_t most = in_planes
            ? item_points
            : std::max<int64_t>(16, share_elements / padded);
    const int64_t ranges = (problem.points + most - 1) / most;
    const int64_t items = problem.images * groups * ranges;
    const int64_t size = width * std::min(problem.points, most);
    detail::parallel_for(items, std::max<int64_t>(1, share_elements / size),
            [&](int64_t begin, int64_t end) {
                for (int64_t item = begin; item < end; ++item) {
                    const int64_t point = item % ranges * most;
                    const int64_t channel = item / ranges % groups * width;
                    const int64_t image = item / ranges / groups;
                    const channel_group work {
                            std::min(width, problem.channels - channel),
                            std::min(width, padded - channel),
                            std::min(most, problem.points - point),
                            problem.channel_stride, problem.point_stride,
                            problem.points * problem.block};
                    body(work,
                            image * problem.image_stride
                                    + channel * problem.channel_stride
                                    + point * problem.point_stride,
                            (image * padded + channel) * problem.points
                                    + point * problem.block);
                }
            });
}

} // namespace

void block_channels(
        const channel_blocking &problem, const void *plain, void *blocked) {
    const auto run = HWY_DYNAMIC_DISPATCH(range_function_of)(problem, true);
    const int64_t plain_bytes = detail::size_of(problem.plain_type);
    const int64_t blocked_bytes = detail::size_of(problem.blocked_type);
    for_each_item(
            problem, [&](const channel_group &work, int64_t from, int64_t to) {
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
    for_each_item(
            problem, [&](const channel_group &work, int64_t to, int64_t from) {
                run(work,
                        static_cast<const std::byte *>(blocked)
                                + from * blocked_bytes,
                        static_cast<std::byte *>(plain) + to * plain_bytes);
            });
}

} // namespace gradnn::cpu
#endif
