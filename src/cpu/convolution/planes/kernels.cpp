// multiply:  out[o][f] (+)= sum over t of weights[t][o] * in[offsets[t] + f]
// correlate: totals[o][t] += sum over f of out[o][f] * in[offsets[t] + f]
//
// A register holds neighbouring positions f; a few registers by one to four
// outputs (multiply), or a few terms by one to four outputs (correlate), are
// summed at a time. Every lane is summed in a fixed order on one thread.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/convolution/planes/kernels.cpp"
#include "cpu/simd/simd_target.hpp"

#include <algorithm>

#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include "cpu/convolution/planes/kernels.hpp"
#include "cpu/copies/copy_rectangle.hpp"
#include "cpu/simd/compensated_sum.hpp"
#include "cpu/simd/simd.hpp"

HWY_BEFORE_NAMESPACE();
namespace gradnn::cpu::HWY_NAMESPACE {

constexpr bool many_registers
        = HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON;

/// A lane's sum may have so many terms before it is added to a total, so that
/// rounding errors of f32 grow no further.
constexpr int64_t longest_run = 128;

/// Vectors of positions that a call with so many outputs holds at most.
constexpr int most_vectors(int outputs) {
    if (outputs == 1) return 8;
    return (many_registers ? 16 : 8) / outputs;
}

template <typename T, int outputs, int vectors>
void multiply_positions(int64_t terms, const int64_t *HWY_RESTRICT offsets,
        const T *HWY_RESTRICT weights, const T *HWY_RESTRICT in,
        T *HWY_RESTRICT out, int64_t pitch, bool add) {
    const hn::ScalableTag<T> d;
    using vector = hn::Vec<decltype(d)>;
    constexpr auto lanes = static_cast<int64_t>(lanes_of<T>);
    vector sums[outputs][vectors];
#pragma GCC unroll 4
    for (int o = 0; o < outputs; ++o)
#pragma GCC unroll 8
        for (int i = 0; i < vectors; ++i)
            sums[o][i] = hn::Zero(d);
    for (int64_t t = 0; t < terms; ++t, weights += outputs) {
        const T *from = in + offsets[t];
        vector w[outputs];
#pragma GCC unroll 4
        for (int o = 0; o < outputs; ++o)
            w[o] = hn::Set(d, weights[o]);
#pragma GCC unroll 8
        for (int i = 0; i < vectors; ++i) {
            const vector x = hn::LoadU(d, from + i * lanes);
#pragma GCC unroll 4
            for (int o = 0; o < outputs; ++o)
                sums[o][i] = hn::MulAdd(x, w[o], sums[o][i]);
        }
    }
#pragma GCC unroll 4
    for (int o = 0; o < outputs; ++o)
#pragma GCC unroll 8
        for (int i = 0; i < vectors; ++i) {
            T *to = out + o * pitch + i * lanes;
            if (add) sums[o][i] = hn::Add(hn::Load(d, to), sums[o][i]);
            hn::Store(sums[o][i], d, to);
        }
}

template <typename T, int outputs, int vectors>
HWY_INLINE void multiply_range(int64_t terms, const int64_t *offsets,
        const T *weights, const T *in, T *out, int64_t pitch, int64_t left,
        bool add) {
    constexpr auto step = static_cast<int64_t>(lanes_of<T>) * vectors;
    for (; left >= vectors; left -= vectors, in += step, out += step)
        multiply_positions<T, outputs, vectors>(
                terms, offsets, weights, in, out, pitch, add);
    if constexpr (vectors > 1) {
        if (left > 0)
            multiply_range<T, outputs, vectors / 2>(
                    terms, offsets, weights, in, out, pitch, left, add);
    }
}

template <typename T>
void multiply(int64_t terms, const int64_t *offsets, const void *weights,
        int64_t outputs, const void *in, void *out, int64_t pitch,
        int64_t vectors, bool add) {
    const auto run = [&](auto count) HWY_ATTR {
        multiply_range<T, count(), most_vectors(count())>(terms, offsets,
                static_cast<const T *>(weights), static_cast<const T *>(in),
                static_cast<T *>(out), pitch, vectors, add);
    };
    switch (outputs) {
        case 1: run(std::integral_constant<int, 1>()); break;
        case 2: run(std::integral_constant<int, 2>()); break;
        case 3: run(std::integral_constant<int, 3>()); break;
        default: run(std::integral_constant<int, 4>()); break;
    }
}

template <typename T>
void multiply_masked(int64_t terms, const int64_t *offsets,
        const void *weights_data, int64_t outputs, const void *in_data,
        const void *mask_data, int64_t taps, void *out_data, int64_t pitch,
        int64_t vectors, bool add) {
    const hn::ScalableTag<T> d;
    constexpr auto lanes = static_cast<int64_t>(lanes_of<T>);
    const auto *weights = static_cast<const T *>(weights_data);
    const auto *in = static_cast<const T *>(in_data);
    const auto *mask = static_cast<const T *>(mask_data);
    auto *out = static_cast<T *>(out_data);
    for (int64_t o = 0; o < outputs; ++o)
        for (int64_t f = 0; f < vectors * lanes; f += lanes) {
            auto total = hn::Zero(d);
            for (int64_t begin = 0; begin < terms; begin += longest_run) {
                const int64_t end = terms - begin < longest_run
                        ? terms
                        : begin + longest_run;
                auto sum = hn::Zero(d);
                for (int64_t t = begin; t < end; ++t) {
                    const auto outside
                            = hn::Eq(hn::LoadU(d, mask + offsets[t % taps] + f),
                                    hn::Zero(d));
                    sum = hn::IfThenElse(outside, sum,
                            hn::MulAdd(hn::LoadU(d, in + offsets[t] + f),
                                    hn::Set(d, weights[t * outputs + o]), sum));
                }
                total = hn::Add(total, sum);
            }
            if (add) total = hn::Add(hn::Load(d, out + o * pitch + f), total);
            hn::Store(total, d, out + o * pitch + f);
        }
}

/// Terms that a call with so many outputs sums at most.
constexpr int most_terms(int outputs) {
    if (outputs == 1) return 9;
    return (many_registers ? 16 : 8) / outputs;
}

template <typename T, int outputs, int terms>
void correlate_terms(const int64_t *HWY_RESTRICT offsets,
        const T *HWY_RESTRICT in, const T *HWY_RESTRICT out, int64_t pitch,
        int64_t vectors, T *HWY_RESTRICT totals, int64_t totals_pitch) {
    const hn::ScalableTag<T> d;
    using vector = hn::Vec<decltype(d)>;
    constexpr auto lanes = static_cast<int64_t>(lanes_of<T>);
    const T *from[terms];
#pragma GCC unroll 16
    for (int t = 0; t < terms; ++t)
        from[t] = in + offsets[t];
    for (int64_t begin = 0; begin < vectors; begin += longest_run) {
        const int64_t left = vectors - begin;
        const int64_t end
                = (begin + (left < longest_run ? left : longest_run)) * lanes;
        vector sums[outputs][terms];
#pragma GCC unroll 4
        for (int o = 0; o < outputs; ++o)
#pragma GCC unroll 16
            for (int t = 0; t < terms; ++t)
                sums[o][t] = hn::Zero(d);
        for (int64_t f = begin * lanes; f < end; f += lanes) {
            vector y[outputs];
#pragma GCC unroll 4
            for (int o = 0; o < outputs; ++o)
                y[o] = hn::Load(d, out + o * pitch + f);
#pragma GCC unroll 16
            for (int t = 0; t < terms; ++t) {
                const vector x = hn::LoadU(d, from[t] + f);
#pragma GCC unroll 4
                for (int o = 0; o < outputs; ++o)
                    sums[o][t] = hn::MulAdd(x, y[o], sums[o][t]);
            }
        }
#pragma GCC unroll 4
        for (int o = 0; o < outputs; ++o)
#pragma GCC unroll 16
            for (int t = 0; t < terms; ++t) {
                T *total = totals + (o * totals_pitch + t) * lanes;
                hn::Store(hn::Add(hn::Load(d, total), sums[o][t]), d, total);
            }
    }
}

template <typename T, int outputs, int terms>
HWY_INLINE void correlate_some(int64_t count, const int64_t *offsets,
        const T *in, const T *out, int64_t pitch, int64_t vectors, T *totals,
        int64_t totals_pitch) {
    if (count == terms)
        correlate_terms<T, outputs, terms>(
                offsets, in, out, pitch, vectors, totals, totals_pitch);
    else if constexpr (terms > 1)
        correlate_some<T, outputs, terms - 1>(
                count, offsets, in, out, pitch, vectors, totals, totals_pitch);
}

template <typename T>
void correlate(int64_t terms, const int64_t *offsets, int64_t outputs,
        const void *in, const void *out, int64_t pitch, int64_t vectors,
        void *totals) {
    constexpr auto lanes = static_cast<int64_t>(lanes_of<T>);
    const auto run = [&](auto count) HWY_ATTR {
        constexpr int most = most_terms(count());
        const int64_t calls = (terms + most - 1) / most;
        for (int64_t call = 0; call < calls; ++call) {
            const int64_t begin = terms * call / calls;
            const int64_t end = terms * (call + 1) / calls;
            correlate_some<T, count(), most>(end - begin, offsets + begin,
                    static_cast<const T *>(in), static_cast<const T *>(out),
                    pitch, vectors, static_cast<T *>(totals) + begin * lanes,
                    terms);
        }
    };
    switch (outputs) {
        case 1: run(std::integral_constant<int, 1>()); break;
        case 2: run(std::integral_constant<int, 2>()); break;
        case 3: run(std::integral_constant<int, 3>()); break;
        default: run(std::integral_constant<int, 4>()); break;
    }
}

template <typename T>
void correlate_masked(int64_t terms, const int64_t *offsets, int64_t outputs,
        const void *in_data, const void *out_data, int64_t pitch,
        const void *in_mask_data, int64_t taps, const void *out_mask_data,
        int64_t vectors, void *totals) {
    const hn::ScalableTag<T> d;
    constexpr auto lanes = static_cast<int64_t>(lanes_of<T>);
    const auto *in = static_cast<const T *>(in_data);
    const auto *out = static_cast<const T *>(out_data);
    const auto *in_mask = static_cast<const T *>(in_mask_data);
    const auto *out_mask = static_cast<const T *>(out_mask_data);
    for (int64_t o = 0; o < outputs; ++o)
        for (int64_t t = 0; t < terms; ++t) {
            T *total = static_cast<T *>(totals) + (o * terms + t) * lanes;
            for (int64_t begin = 0; begin < vectors; begin += longest_run) {
                const int64_t end = vectors - begin < longest_run
                        ? vectors
                        : begin + longest_run;
                auto sum = hn::Zero(d);
                for (int64_t f = begin * lanes; f < end * lanes; f += lanes) {
                    const auto inside = hn::Mul(hn::Load(d, out_mask + f),
                            hn::LoadU(d, in_mask + offsets[t % taps] + f));
                    sum = hn::IfThenElse(hn::Eq(inside, hn::Zero(d)), sum,
                            hn::MulAdd(hn::LoadU(d, in + offsets[t] + f),
                                    hn::Load(d, out + o * pitch + f), sum));
                }
                hn::Store(hn::Add(hn::Load(d, total), sum), d, total);
            }
        }
}

/// The upper half is added to the lower one until one lane is left.
template <class D>
HWY_INLINE hn::TFromD<D> sum_of_lanes(
        [[maybe_unused]] D d, hn::VFromD<D> values) {
#if HWY_TARGET != HWY_SCALAR // which has no halves
    if constexpr (hn::MaxLanes(D()) > 1) {
        const hn::Half<D> half;
        return sum_of_lanes(half,
                hn::Add(hn::LowerHalf(half, values),
                        hn::UpperHalf(half, values)));
    }
#endif
    return hn::GetLane(values);
}

template <typename T>
void sum_lanes(const void *totals, int64_t count, void *sums, void *lows) {
    const hn::ScalableTag<T> d;
    constexpr auto lanes = static_cast<int64_t>(lanes_of<T>);
    const auto *from = static_cast<const T *>(totals);
    constexpr int64_t block = 64;
    T addends[block];
    for (int64_t first = 0; first < count; first += block) {
        const int64_t some = std::min(block, count - first);
        for (int64_t i = 0; i < some; ++i, from += lanes)
            addends[i] = sum_of_lanes(d, hn::LoadU(d, from));
        add_compensated(addends, some, static_cast<T *>(sums) + first,
                static_cast<T *>(lows) + first);
    }
}

template <typename T>
void accumulate(const void *addends, int64_t count, void *sums) {
    for (int64_t i = 0; i < count; ++i)
        static_cast<T *>(sums)[i] += static_cast<const T *>(addends)[i];
}

template <typename From, typename To>
void copy_elements(const void *from, int64_t from_row, int64_t from_column,
        void *to, int64_t to_row, int64_t to_column, int64_t rows,
        int64_t columns) {
    copy_rectangle(static_cast<const From *>(from), from_row, from_column,
            static_cast<To *>(to), to_row, to_column, rows, columns);
}

template <typename T>
bool any_non_finite(const void *values, int64_t count) {
    return has_non_finite(static_cast<const T *>(values), count);
}

template <typename T, typename Result>
plane_kernels plane_kernels_of() {
    using wide = accumulator_of<T>;
    plane_kernels kernels;
    kernels.target = hwy::TargetName(HWY_TARGET);
    kernels.lanes = static_cast<int64_t>(lanes_of<wide>);
    kernels.wide_bytes = sizeof(wide);
    kernels.widen = copy_elements<T, wide>;
    kernels.narrow = copy_elements<wide, Result>;
    kernels.has_non_finite = any_non_finite<wide>;
    kernels.multiply = multiply<wide>;
    kernels.multiply_masked = multiply_masked<wide>;
    kernels.correlate = correlate<wide>;
    kernels.correlate_masked = correlate_masked<wide>;
    kernels.sum_lanes = sum_lanes<wide>;
    kernels.accumulate = accumulate<wide>;
    return kernels;
}

plane_kernels plane_kernels_target(
        detail::data_type type, detail::data_type result_type) {
    using detail::data_type;
    switch (type) {
        case data_type::f64: return plane_kernels_of<double, double>();
        case data_type::bf16:
            return result_type == data_type::f32
                    ? plane_kernels_of<bf16, float>()
                    : plane_kernels_of<bf16, bf16>();
        case data_type::f16:
            return result_type == data_type::f32
                    ? plane_kernels_of<f16, float>()
                    : plane_kernels_of<f16, f16>();
        default: return plane_kernels_of<float, float>();
    }
}

} // namespace gradnn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gradnn::cpu {

HWY_EXPORT(plane_kernels_target);

plane_kernels plane_kernels_for(
        detail::data_type type, detail::data_type result_type) {
    return HWY_DYNAMIC_DISPATCH(plane_kernels_target)(type, result_type);
}

} // namespace gradnn::cpu
#endif
