// multiply:  written[x][c] = sum over t of weights[t][c] * read[x + t][c]
// correlate: totals[t][c] += sum over x of dst[x][c] * read[x + t][c]
//
// Lanes are neighbouring channels. A few pixels (or taps) by a few vectors of
// channels are summed at a time, in a fixed order on one thread. Taps outside
// the tensor are not read.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/convolution/depthwise/kernels.cpp"
#include "cpu/simd/simd_target.hpp"

#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include "cpu/convolution/depthwise/kernels.hpp"
#include "cpu/copies/copy_rectangle.hpp"
#include "cpu/simd/compensated_sum.hpp"
#include "cpu/simd/simd.hpp"

HWY_BEFORE_NAMESPACE();
namespace gradnn::cpu::HWY_NAMESPACE {

/// 32 vector registers, not 16.
constexpr bool wide_file = HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON;

/// Neighbouring positions that are summed at once, and those that go through all
/// channels together.
constexpr int pixels_at_once = wide_file ? 4 : 3;
constexpr int64_t segment = 2 * pixels_at_once;

/// Sums of `pixels` neighbouring positions from x on, for channels from c on;
/// all taps are inside.
template <typename T, int pixels, int vectors>
HWY_INLINE void multiply_pixels(const line_tap *HWY_RESTRICT taps,
        int64_t tap_count, const T *HWY_RESTRICT read, int64_t read_step,
        const accumulator_of<T> *HWY_RESTRICT weights, T *HWY_RESTRICT written,
        int64_t written_step, int64_t x, int64_t c, int64_t channels) {
    using wide = accumulator_of<T>;
    const hn::ScalableTag<wide> d;
    using vector = hn::Vec<decltype(d)>;
    constexpr auto lanes = static_cast<int64_t>(lanes_of<wide>);
    vector sums[pixels][vectors];
#pragma GCC unroll 8
    for (int p = 0; p < pixels; ++p)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v)
            sums[p][v] = hn::Zero(d);
    for (int64_t t = 0; t < tap_count; ++t) {
        const T *from = read + taps[t].read + x * read_step + c;
        const wide *w = weights + taps[t].index * channels + c;
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) {
            const vector weight = hn::LoadU(d, w + v * lanes);
#pragma GCC unroll 8
            for (int p = 0; p < pixels; ++p)
                sums[p][v]
                        = hn::MulAdd(load(d, from + p * read_step + v * lanes),
                                weight, sums[p][v]);
        }
    }
#pragma GCC unroll 8
    for (int p = 0; p < pixels; ++p)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v)
            store(d, sums[p][v],
                    written + (x + p) * written_step + c + v * lanes);
}

/// A position at the border: only taps that are inside.
template <typename T, int vectors>
HWY_INLINE void multiply_border(const line_tap *HWY_RESTRICT taps,
        int64_t tap_count, const T *HWY_RESTRICT read, int64_t read_step,
        const accumulator_of<T> *HWY_RESTRICT weights, T *HWY_RESTRICT written,
        int64_t written_step, int64_t x, int64_t c, int64_t channels) {
    using wide = accumulator_of<T>;
    const hn::ScalableTag<wide> d;
    using vector = hn::Vec<decltype(d)>;
    constexpr auto lanes = static_cast<int64_t>(lanes_of<wide>);
    vector sums[vectors];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v)
        sums[v] = hn::Zero(d);
    for (int64_t t = 0; t < tap_count; ++t) {
        if (x < taps[t].begin || x >= taps[t].end) continue;
        const T *from = read + taps[t].read + x * read_step + c;
        const wide *w = weights + taps[t].index * channels + c;
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v)
            sums[v] = hn::MulAdd(load(d, from + v * lanes),
                    hn::LoadU(d, w + v * lanes), sums[v]);
    }
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v)
        store(d, sums[v], written + x * written_step + c + v * lanes);
}

/// Positions [first, last) of a line, at which all taps are inside.
template <typename T, int vectors>
HWY_INLINE void multiply_inside(const line_tap *taps, int64_t tap_count,
        const T *read, int64_t read_step, const accumulator_of<T> *weights,
        T *written, int64_t written_step, int64_t first, int64_t last,
        int64_t c, int64_t channels) {
    int64_t x = first;
    for (; x + pixels_at_once <= last; x += pixels_at_once)
        multiply_pixels<T, pixels_at_once, vectors>(taps, tap_count, read,
                read_step, weights, written, written_step, x, c, channels);
    for (; x < last; ++x)
        multiply_pixels<T, 1, vectors>(taps, tap_count, read, read_step,
                weights, written, written_step, x, c, channels);
}

/// Calls body(c, vectors) for blocks of at most `most` vectors of channels,
/// the last shifted down to end with the last channel.
template <typename T, int most, typename Body>
HWY_INLINE void for_channel_blocks(int64_t channels, const Body &body) {
    constexpr auto lanes = static_cast<int64_t>(lanes_of<T>);
    int64_t c = 0;
    for (; c + most * lanes <= channels; c += most * lanes)
        body(c, std::integral_constant<int, most>());
    for (; c < channels; c += lanes)
        body(c + lanes <= channels ? c : channels - lanes,
                std::integral_constant<int, 1>());
}

/// A few positions at a time go through all channels: what they read of each line
/// stays in the first-level cache, whatever the distance of neighbouring pixels
/// is (powers of two meet in few of its lines).
template <typename T>
void multiply_line(const line_tap *taps, int64_t tap_count, const void *read,
        int64_t read_step, const void *weights, void *written,
        int64_t written_step, int64_t first, int64_t last, int64_t channels) {
    using wide = accumulator_of<T>;
    int64_t begin = first;
    int64_t end = last;
    for (int64_t t = 0; t < tap_count; ++t) {
        begin = taps[t].begin > begin ? taps[t].begin : begin;
        end = taps[t].end < end ? taps[t].end : end;
    }
    if (begin > last) begin = last;
    if (end < begin) end = begin;
    for (int64_t x = first; x < last;) {
        const bool inside = x >= begin && x < end;
        const int64_t left = (inside ? end : x < begin ? begin : last) - x;
        const int64_t next = x + (left < segment ? left : segment);
        for_channel_blocks<wide, 2>(
                channels, [&](int64_t c, auto vectors) HWY_ATTR {
                    const auto *from = static_cast<const T *>(read);
                    const auto *w = static_cast<const wide *>(weights);
                    auto *to = static_cast<T *>(written);
                    if (inside)
                        multiply_inside<T, vectors()>(taps, tap_count, from,
                                read_step, w, to, written_step, x, next, c,
                                channels);
                    else
                        for (int64_t at = x; at < next; ++at)
                            multiply_border<T, vectors()>(taps, tap_count, from,
                                    read_step, w, to, written_step, at, c,
                                    channels);
                });
        x = next;
    }
}

/// Adds positions [begin, end), at all of which all taps are inside.
template <typename T, int tap_count, int vectors>
HWY_INLINE void correlate_pixels(const line_tap *HWY_RESTRICT taps,
        const T *HWY_RESTRICT read, int64_t read_step,
        const T *HWY_RESTRICT dst, int64_t dst_step, int64_t begin, int64_t end,
        accumulator_of<T> *HWY_RESTRICT totals, int64_t pitch) {
    using wide = accumulator_of<T>;
    const hn::ScalableTag<wide> d;
    using vector = hn::Vec<decltype(d)>;
    constexpr auto lanes = static_cast<int64_t>(lanes_of<wide>);
    if (begin >= end) return;
    vector sums[tap_count][vectors];
    const T *from[tap_count];
#pragma GCC unroll 4
    for (int t = 0; t < tap_count; ++t) {
        from[t] = read + taps[t].read;
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v)
            sums[t][v] = hn::Zero(d);
    }
    for (int64_t x = begin; x < end; ++x) {
        vector y[vectors];
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v)
            y[v] = load(d, dst + x * dst_step + v * lanes);
#pragma GCC unroll 4
        for (int t = 0; t < tap_count; ++t)
#pragma GCC unroll 4
            for (int v = 0; v < vectors; ++v)
                sums[t][v] = hn::MulAdd(
                        load(d, from[t] + x * read_step + v * lanes), y[v],
                        sums[t][v]);
    }
#pragma GCC unroll 4
    for (int t = 0; t < tap_count; ++t)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) {
            wide *total = totals + taps[t].index * pitch + v * lanes;
            hn::StoreU(hn::Add(hn::LoadU(d, total), sums[t][v]), d, total);
        }
}

template <typename T, int tap_count, int vectors>
void correlate_taps(const line_tap *taps, const T *read, int64_t read_step,
        const T *dst, int64_t dst_step, int64_t first, int64_t last,
        accumulator_of<T> *totals, int64_t pitch) {
    int64_t begin = first;
    int64_t end = last;
    for (int t = 0; t < tap_count; ++t) {
        begin = taps[t].begin > begin ? taps[t].begin : begin;
        end = taps[t].end < end ? taps[t].end : end;
    }
    if (end < begin) begin = end = last;
    // What some taps have before and after the positions that all have.
    for (int t = 0; t < tap_count; ++t) {
        const int64_t tap_begin = taps[t].begin > first ? taps[t].begin : first;
        const int64_t tap_end = taps[t].end < last ? taps[t].end : last;
        correlate_pixels<T, 1, vectors>(taps + t, read, read_step, dst,
                dst_step, tap_begin, tap_end < begin ? tap_end : begin, totals,
                pitch);
        correlate_pixels<T, 1, vectors>(taps + t, read, read_step, dst,
                dst_step, tap_begin > end ? tap_begin : end, tap_end, totals,
                pitch);
    }
    correlate_pixels<T, tap_count, vectors>(
            taps, read, read_step, dst, dst_step, begin, end, totals, pitch);
}

template <typename T>
void correlate_line(const line_tap *taps, int64_t tap_count, const void *read,
        int64_t read_step, const void *dst, int64_t dst_step, int64_t first,
        int64_t last, int64_t channels, void *totals) {
    using wide = accumulator_of<T>;
    constexpr auto lanes = static_cast<int64_t>(lanes_of<wide>);
    const int64_t pitch = (channels + lanes - 1) / lanes * lanes;
    int64_t slot = 0;
    for_channel_blocks<wide, wide_file ? 4 : 2>(
            channels, [&](int64_t c, auto vectors) HWY_ATTR {
                int64_t begin = 0;
                const int64_t calls = (tap_count + 3) / 4;
                for (int64_t call = 1; call <= calls; ++call) {
                    const int64_t end = tap_count * call / calls;
                    const auto run = [&](auto count) HWY_ATTR {
                        correlate_taps<T, count(), vectors()>(taps + begin,
                                static_cast<const T *>(read) + c, read_step,
                                static_cast<const T *>(dst) + c, dst_step,
                                first, last, static_cast<wide *>(totals) + slot,
                                pitch);
                    };
                    switch (end - begin) {
                        case 1: run(std::integral_constant<int, 1>()); break;
                        case 2: run(std::integral_constant<int, 2>()); break;
                        case 3: run(std::integral_constant<int, 3>()); break;
                        default: run(std::integral_constant<int, 4>()); break;
                    }
                    begin = end;
                }
                slot += vectors() * lanes;
            });
}

template <typename T>
void widen(const void *from, int64_t from_step, void *to, int64_t count) {
    copy_rectangle(static_cast<const T *>(from), from_step, 0,
            static_cast<accumulator_of<T> *>(to), 1, 0, count, 1);
}

template <typename T, typename Result>
void narrow(const void *from, void *to, int64_t to_step, int64_t count) {
    copy_rectangle(static_cast<const accumulator_of<T> *>(from), 1, 0,
            static_cast<Result *>(to), to_step, 0, count, 1);
}

template <typename T>
void add_up(const void *addends, int64_t count, void *sums) {
    for (int64_t i = 0; i < count; ++i)
        static_cast<T *>(sums)[i] += static_cast<const T *>(addends)[i];
}

template <typename T>
void add_up_compensated(
        const void *addends, int64_t count, void *sums, void *lows) {
    add_compensated(static_cast<const T *>(addends), count,
            static_cast<T *>(sums), static_cast<T *>(lows));
}

template <typename T, typename Result>
depthwise_kernels depthwise_kernels_of() {
    using wide = accumulator_of<T>;
    depthwise_kernels kernels;
    kernels.target = hwy::TargetName(HWY_TARGET);
    kernels.lanes = static_cast<int64_t>(lanes_of<wide>);
    kernels.wide_bytes = sizeof(wide);
    kernels.multiply = multiply_line<T>;
    kernels.correlate = correlate_line<T>;
    kernels.widen = widen<T>;
    kernels.narrow = narrow<T, Result>;
    kernels.accumulate = add_up<wide>;
    kernels.accumulate_compensated = add_up_compensated<wide>;
    return kernels;
}

depthwise_kernels depthwise_kernels_target(
        detail::data_type type, detail::data_type result_type) {
    using detail::data_type;
    switch (type) {
        case data_type::f64: return depthwise_kernels_of<double, double>();
        case data_type::bf16:
            return result_type == data_type::f32
                    ? depthwise_kernels_of<bf16, float>()
                    : depthwise_kernels_of<bf16, bf16>();
        case data_type::f16:
            return result_type == data_type::f32
                    ? depthwise_kernels_of<f16, float>()
                    : depthwise_kernels_of<f16, f16>();
        default: return depthwise_kernels_of<float, float>();
    }
}

} // namespace gradnn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gradnn::cpu {

HWY_EXPORT(depthwise_kernels_target);

depthwise_kernels depthwise_kernels_for(
        detail::data_type type, detail::data_type result_type) {
    return HWY_DYNAMIC_DISPATCH(depthwise_kernels_target)(type, result_type);
}

} // namespace gradnn::cpu
#endif
