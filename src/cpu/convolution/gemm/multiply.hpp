// The micro-kernels of the matrix product (gemm.cpp): a tile of the result in
// registers, over the steps of a chunk.
//
// Included once for each of Highway's targets, like simd.hpp.
#include <algorithm>

#include "cpu/simd/compensated_sum.hpp"
#include "cpu/simd/simd.hpp"

#if defined(GRADNN_CPU_GEMM_MULTIPLY_TOGGLE) == defined(HWY_TARGET_TOGGLE)
#ifdef GRADNN_CPU_GEMM_MULTIPLY_TOGGLE
#undef GRADNN_CPU_GEMM_MULTIPLY_TOGGLE
#else
#define GRADNN_CPU_GEMM_MULTIPLY_TOGGLE
#endif

HWY_BEFORE_NAMESPACE();
namespace gradnn::cpu::HWY_NAMESPACE {

// Registers: 3 x 8 accumulators, 3 vectors and a broadcast of 32 on AVX-512
// and NEON, 3 x 4 of 16 elsewhere.
constexpr int p_vectors = 3;
constexpr int q_panel
        = HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON ? 8 : 4;

/// The last panel of the q axis is as narrow as a micro-kernel can be.
constexpr int64_t q_width(int64_t left) {
    int64_t width = 1;
    while (width < left && width < q_panel)
        width *= 2;
    return width;
}

template <typename T>
constexpr int64_t p_panel = p_vectors *static_cast<int64_t>(lanes_of<T>);

template <typename T>
constexpr int64_t p_width(int64_t left) {
    constexpr auto lanes = static_cast<int64_t>(lanes_of<T>);
    return left >= p_panel<T> ? p_panel<T> : (left + lanes - 1) / lanes * lanes;
}

/// tile[j][i] (+)= sum over k of p[k][i] * q[k][j].
template <typename T, int vectors, int columns>
void multiply(int64_t steps, const T *HWY_RESTRICT p, const T *HWY_RESTRICT q,
        T *HWY_RESTRICT tile, bool add) {
    const hn::ScalableTag<T> d;
    using vector = hn::Vec<decltype(d)>;
    constexpr auto lanes = static_cast<int64_t>(lanes_of<T>);
    vector sums[columns][vectors];
#pragma GCC unroll 8
    for (int j = 0; j < columns; ++j)
#pragma GCC unroll 4
        for (int i = 0; i < vectors; ++i)
            sums[j][i] = hn::Zero(d);
    for (; steps > 0; --steps, p += vectors * lanes, q += columns) {
        vector a[vectors];
#pragma GCC unroll 4
        for (int i = 0; i < vectors; ++i)
            a[i] = hn::Load(d, p + i * lanes);
#pragma GCC unroll 8
        for (int j = 0; j < columns; ++j) {
            const vector b = hn::Set(d, q[j]);
#pragma GCC unroll 4
            for (int i = 0; i < vectors; ++i)
                sums[j][i] = hn::MulAdd(a[i], b, sums[j][i]);
        }
    }
#pragma GCC unroll 8
    for (int j = 0; j < columns; ++j)
#pragma GCC unroll 4
        for (int i = 0; i < vectors; ++i) {
            T *to = tile + (j * vectors + i) * lanes;
            if (add) sums[j][i] = hn::Add(hn::Load(d, to), sums[j][i]);
            hn::Store(sums[j][i], d, to);
        }
}

/// The same without the terms whose mask is 0. A mask may be null; it is
/// packed like its side. The sums are those of multiply(), bit by bit, where
/// all masked terms are +0.
template <typename T>
void multiply_masked(int64_t steps, int64_t vectors, int64_t columns,
        const T *p, const T *q, const T *p_mask, const T *q_mask, T *tile,
        bool add) {
    const hn::ScalableTag<T> d;
    constexpr auto lanes = static_cast<int64_t>(lanes_of<T>);
    for (int64_t j = 0; j < columns; ++j)
        for (int64_t i = 0; i < vectors; ++i) {
            auto sum = hn::Zero(d);
            for (int64_t k = 0; k < steps; ++k) {
                if (q_mask != nullptr && q_mask[k * columns + j] == 0) continue;
                const int64_t at = (k * vectors + i) * lanes;
                const auto b = hn::Set(d, q[k * columns + j]);
                const auto next = hn::MulAdd(hn::Load(d, p + at), b, sum);
                sum = p_mask == nullptr
                        ? next
                        : hn::IfThenElse(
                                hn::Eq(hn::Load(d, p_mask + at), hn::Zero(d)),
                                sum, next);
            }
            T *to = tile + (j * vectors + i) * lanes;
            if (add) sum = hn::Add(hn::Load(d, to), sum);
            hn::Store(sum, d, to);
        }
}

template <typename T>
using multiply_function = void (*)(int64_t, const T *, const T *, T *, bool);

/// By vectors - 1 and the logarithm of the columns.
template <typename T>
constexpr multiply_function<T> multiply_functions[p_vectors][4] = {
        {multiply<T, 1, 1>, multiply<T, 1, 2>, multiply<T, 1, 4>,
                multiply<T, 1, q_panel>},
        {multiply<T, 2, 1>, multiply<T, 2, 2>, multiply<T, 2, 4>,
                multiply<T, 2, q_panel>},
        {multiply<T, 3, 1>, multiply<T, 3, 2>, multiply<T, 3, 4>,
                multiply<T, 3, q_panel>},
};

template <typename T>
multiply_function<T> multiply_of(int64_t vectors, int64_t columns) {
    const int logarithm = columns == q_panel ? 3
            : columns == 4                   ? 2
                                             : static_cast<int>(columns - 1);
    return multiply_functions<T>[vectors - 1][logarithm];
}

/// sum (+)= addend.
template <typename T>
void accumulate(const T *addend, T *sum, int64_t count, bool add) {
    const hn::ScalableTag<T> d;
    constexpr auto lanes = static_cast<int64_t>(lanes_of<T>);
    for (int64_t i = 0; i < count; i += lanes) {
        auto value = hn::Load(d, addend + i);
        if (add) value = hn::Add(hn::Load(d, sum + i), value);
        hn::Store(value, d, sum + i);
    }
}

/// total (+)= a round's sum, with what that rounds off in `low`.
template <typename T>
void add_round(
        const T *sum, T *total, T *low, int64_t count, bool first, bool last) {
    if (first) {
        std::copy(sum, sum + count, total);
        std::fill(low, low + count, T {0});
    } else {
        add_compensated(sum, count, total, low);
    }
    if (last) accumulate(low, total, count, true);
}

} // namespace gradnn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
