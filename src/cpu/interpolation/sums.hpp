// The sums of the separable interpolation kernel: of rows into a line, and of
// taps that lie a fixed distance apart in it.
//
// Included once for each of Highway's targets, like simd.hpp.
#include <algorithm>

#include "cpu/interpolation/fetch.hpp"
#include "cpu/interpolation/separable.hpp"
#include "cpu/simd/compensated_sum.hpp"
#include "cpu/simd/simd.hpp"

#if defined(GRADNN_CPU_INTERPOLATION_SUMS_TOGGLE) == defined(HWY_TARGET_TOGGLE)
#ifdef GRADNN_CPU_INTERPOLATION_SUMS_TOGGLE
#undef GRADNN_CPU_INTERPOLATION_SUMS_TOGGLE
#else
#define GRADNN_CPU_INTERPOLATION_SUMS_TOGGLE
#endif

HWY_BEFORE_NAMESPACE();
namespace gradnn::cpu::HWY_NAMESPACE {

/// Terms that are added one after the other; of more, these are the blocks.
constexpr int64_t chain_terms = 8;

/// Whether a sum of that many terms is one of blocks.
constexpr bool is_long(int64_t terms) {
    return terms > chain_terms;
}

/// sum[k] = sum over t in [begin, end) of weights[t] * term(t, k), term by term.
template <size_t width, class D, class Term>
HWY_INLINE void sum_chain(D d, const hn::TFromD<D> *weights, int64_t begin,
        int64_t end, const Term &term, hn::VFromD<D> (&sum)[width]) {
    auto weight = hn::Set(d, weights[begin]);
    for (size_t k = 0; k < width; ++k)
        sum[k] = hn::Mul(weight, term(begin, k));
    for (int64_t t = begin + 1; t < end; ++t) {
        weight = hn::Set(d, weights[t]);
        for (size_t k = 0; k < width; ++k)
            sum[k] = hn::MulAdd(weight, term(t, k), sum[k]);
    }
}

/// The sums of the inner blocks of a block of `block` terms, one added to the
/// other; the innermost blocks are chains.
template <int64_t block, size_t width, class D, class Term>
HWY_INLINE void sum_blocks(D d, const hn::TFromD<D> *weights, int64_t begin,
        int64_t end, const Term &term, hn::VFromD<D> (&sum)[width]) {
    constexpr int64_t inner = block / chain_terms;
    for (size_t k = 0; k < width; ++k)
        sum[k] = hn::Zero(d); // GCC does not see that begin < end
    for (int64_t t = begin; t < end; t += inner) {
        const int64_t inner_end = std::min(end, t + inner);
        hn::VFromD<D> part[width];
        if constexpr (inner == chain_terms)
            sum_chain(d, weights, t, inner_end, term, part);
        else
            sum_blocks<inner>(d, weights, t, inner_end, term, part);
        for (size_t k = 0; k < width; ++k)
            sum[k] = t == begin ? part[k] : hn::Add(sum[k], part[k]);
    }
}

/// The same sum of any number of terms, in blocks of 8, 64 and 512 of them, the
/// largest with what their sum rounds off, so that the error does not grow with
/// their number. `more` is is_long(end - begin).
template <bool more, size_t width, class D, class Term>
HWY_INLINE void weighted_sum(D d, const hn::TFromD<D> *weights, int64_t begin,
        int64_t end, const Term &term, hn::VFromD<D> (&sum)[width]) {
    if constexpr (!more) {
        sum_chain(d, weights, begin, end, term, sum);
        return;
    }
    constexpr int64_t largest = chain_terms * chain_terms * chain_terms;
    hn::VFromD<D> low[width];
    for (size_t k = 0; k < width; ++k)
        sum[k] = low[k] = hn::Zero(d);
    for (int64_t t = begin; t < end; t += largest) {
        hn::VFromD<D> part[width];
        sum_blocks<largest>(
                d, weights, t, std::min(end, t + largest), term, part);
        for (size_t k = 0; k < width; ++k)
            if (t == begin)
                sum[k] = part[k];
            else
                add_compensated(d, sum[k], low[k], part[k]);
    }
    if (end - begin > largest)
        for (size_t k = 0; k < width; ++k)
            sum[k] = hn::Add(sum[k], low[k]);
}

/// Of two vectors, the elements of even and those of odd places.
template <class D>
HWY_INLINE void split_pairs([[maybe_unused]] D d,
        [[maybe_unused]] hn::VFromD<D> &a, [[maybe_unused]] hn::VFromD<D> &b) {
#if HWY_TARGET != HWY_SCALAR
    const auto even = hn::ConcatEven(d, b, a);
    b = hn::ConcatOdd(d, b, a);
    a = even;
#endif
}

/// Stores four vectors that follow one another, element x at
/// out[x % phases * pitch + x / phases]. With `split` the vectors of a pair
/// hold its elements of even and of odd places.
template <int64_t phases, bool split, class D>
HWY_INLINE void store_phases(
        D d, hn::VFromD<D> (&v)[4], int64_t pitch, hn::TFromD<D> *out) {
    constexpr auto lanes = static_cast<int64_t>(lanes_of<hn::TFromD<D>>);
    if constexpr (!split) {
        split_pairs(d, v[0], v[1]);
        split_pairs(d, v[2], v[3]);
    }
    if constexpr (phases == 2) {
        hn::StoreU(v[0], d, out);
        hn::StoreU(v[2], d, out + lanes);
        hn::StoreU(v[1], d, out + pitch);
        hn::StoreU(v[3], d, out + pitch + lanes);
    } else {
        split_pairs(d, v[0], v[2]);
        split_pairs(d, v[1], v[3]);
        for (int64_t p = 0; p < 4; ++p)
            hn::StoreU(v[p], d, out + p * pitch);
    }
}

/// out[x] = sum over t of weights[t] * rows[t][x] from x on, up to a few vectors;
/// count > 0.
template <bool more, typename In, typename Acc>
HWY_INLINE void sum_rest(const In *const *rows, const Acc *weights,
        int64_t count, int64_t x, int64_t length, row_surroundings around,
        Acc *out) {
    const hn::ScalableTag<Acc> d;
    constexpr auto lanes = static_cast<int64_t>(lanes_of<Acc>);
    const auto term
            = [&](int64_t t, size_t) HWY_ATTR { return load(d, rows[t] + x); };
    fetch(rows + count, around, x, length - x);
    hn::VFromD<decltype(d)> sum[1];
    for (; x + lanes <= length; x += lanes) {
        weighted_sum<more>(d, weights, 0, count, term, sum);
        hn::StoreU(sum[0], d, out + x);
    }
    if (x == length) return;
    // Lines are padded, rows are not: where nothing may be read after them, the
    // last vector does again what it has in common with the one before. (Loads
    // under a mask are slow.)
    if (length - x + around.slack >= lanes || length >= lanes) {
        if (length - x + around.slack < lanes) x = length - lanes;
        weighted_sum<more>(d, weights, 0, count, term, sum);
        hn::StoreU(sum[0], d, out + x);
        return;
    }
    const auto rest = static_cast<size_t>(length - x);
    const auto partial = [&](int64_t t, size_t) HWY_ATTR {
        return load_first(d, rows[t] + x, rest);
    };
    weighted_sum<more>(d, weights, 0, count, partial, sum);
    hn::StoreU(sum[0], d, out + x);
}

/// sum[k] = sum over t of weights[t] * vector k of rows[t] from x on; where In has
/// load_half, of a pair of vectors k the elements of even and of odd places.
template <bool more, size_t width, typename In, typename Acc>
HWY_INLINE void sum_halves(const In *const *rows, const Acc *weights,
        int64_t count, int64_t x,
        hn::VFromD<hn::ScalableTag<Acc>> (&sum)[width]) {
    const hn::ScalableTag<Acc> d;
    constexpr auto lanes = static_cast<int64_t>(lanes_of<Acc>);
    const auto term = [&](int64_t t, size_t k) HWY_ATTR {
        const auto at = static_cast<int64_t>(k);
        if constexpr (has_load_half<In>)
            return load_half(d, rows[t] + x + at / 2 * 2 * lanes, k % 2 == 0);
        else
            return load(d, rows[t] + x + at * lanes);
    };
    weighted_sum<more>(d, weights, 0, count, term, sum);
}

/// What sum_halves of In gives, in the order of memory.
template <typename In, class D, size_t width>
HWY_INLINE void in_order(
        [[maybe_unused]] D d, [[maybe_unused]] hn::VFromD<D> (&sum)[width]) {
    if constexpr (has_load_half<In>)
        for (size_t k = 0; k < width; k += 2)
            interleave(d, sum[k], sum[k + 1]);
}

/// The same for all of [0, length). With more than one phase, element x goes to
/// out[x % phases * pitch + x / phases].
template <bool more, int64_t phases = 1, typename In, typename Acc>
void sum_rows(const In *const *rows, const Acc *weights, int64_t count,
        int64_t length, row_surroundings around, Acc *out, int64_t pitch = 0) {
    const hn::ScalableTag<Acc> d;
    using vector = hn::VFromD<decltype(d)>;
    constexpr auto lanes = static_cast<int64_t>(lanes_of<Acc>);
    constexpr size_t width = 4;
    int64_t x = 0;
    constexpr int64_t block = static_cast<int64_t>(width) * lanes;
    const auto sum_block = [&]() HWY_ATTR {
        vector sum[width];
        sum_halves<more>(rows, weights, count, x, sum);
        if constexpr (phases > 1) {
            store_phases<phases, has_load_half<In>>(
                    d, sum, pitch, out + x / phases);
            return;
        }
        in_order<In>(d, sum);
        for (size_t k = 0; k < width; ++k)
            hn::StoreU(sum[k], d, out + x + static_cast<int64_t>(k) * lanes);
    };
    for (; x + block <= length; x += block) {
        fetch(rows + count, around, x, block);
        sum_block();
    }
    if constexpr (phases > 1) {
        if (x == length) return;
        if (length >= block && length % phases == 0) {
            fetch(rows + count, around, x, length - x);
            x = length - block;
            sum_block();
            return;
        }
        // What is left, with room for the elements before and after it that
        // its last vector may cover.
        Acc rest[block + 2 * lanes];
        sum_rest<more>(
                rows, weights, count, x, length, around, rest + lanes - x);
        for (const Acc *from = rest + lanes; x < length; ++x, ++from)
            out[x % phases * pitch + x / phases] = *from;
    } else {
        sum_rest<more>(rows, weights, count, x, length, around, out);
    }
}

template <typename In, typename Acc>
void sum_rows(const In *const *rows, const Acc *weights, int64_t count,
        int64_t length, row_surroundings around, Acc *out) {
    if (count == 0)
        std::fill(out, out + length, Acc {0});
    else if (is_long(count))
        sum_rows<true>(rows, weights, count, length, around, out);
    else
        sum_rows<false>(rows, weights, count, length, around, out);
}

/// out[x] = sum over t < taps of weights[t] * in[t * pitch + x]; length is whole
/// vectors.
template <int64_t taps, typename Acc>
HWY_INLINE void sum_spaced_rows(const Acc *in, int64_t pitch,
        const Acc *weights, int64_t length, Acc *out) {
    const hn::ScalableTag<Acc> d;
    constexpr auto lanes = static_cast<int64_t>(lanes_of<Acc>);
    hn::VFromD<decltype(d)> weight[static_cast<size_t>(taps)];
#pragma GCC unroll 8
    for (int64_t t = 0; t < taps; ++t)
        weight[t] = hn::Set(d, weights[t]);
#pragma GCC unroll 2
    for (int64_t x = 0; x < length; x += lanes) {
        auto sum = hn::Mul(weight[0], hn::LoadU(d, in + x));
#pragma GCC unroll 8
        for (int64_t t = 1; t < taps; ++t)
            sum = hn::MulAdd(weight[t], hn::LoadU(d, in + t * pitch + x), sum);
        hn::StoreU(sum, d, out + x);
    }
}

/// The same for any number of rows, none included; `rows` has room for as many
/// pointers.
template <typename Acc>
HWY_NOINLINE void sum_spaced_rows(const Acc *in, int64_t pitch,
        const Acc *weights, int64_t count, int64_t length, const Acc **rows,
        Acc *out) {
    const auto sum = [&](auto taps) HWY_ATTR {
        sum_spaced_rows<decltype(taps)::value>(in, pitch, weights, length, out);
    };
    switch (count) {
        case 1: return sum(std::integral_constant<int64_t, 1>());
        case 2: return sum(std::integral_constant<int64_t, 2>());
        case 3: return sum(std::integral_constant<int64_t, 3>());
        case 4: return sum(std::integral_constant<int64_t, 4>());
        case 5: return sum(std::integral_constant<int64_t, 5>());
        case 6: return sum(std::integral_constant<int64_t, 6>());
        case 7: return sum(std::integral_constant<int64_t, 7>());
        case 8: return sum(std::integral_constant<int64_t, 8>());
        default:
            for (int64_t t = 0; t < count; ++t)
                rows[t] = in + t * pitch;
            sum_rows(static_cast<const Acc *const *>(rows), weights, count,
                    length, {}, out);
    }
}

/// One tap sum of `width` vectors that lie `step` apart; count may be 0.
template <bool more, size_t width, class D, typename In>
HWY_INLINE void sum_taps(D d, const hn::TFromD<D> *weights, int64_t count,
        const In *in, int64_t tap_stride, int64_t step,
        hn::VFromD<D> (&sum)[width]) {
    const auto term = [&](int64_t t, size_t k) HWY_ATTR {
        return load(d, in + t * tap_stride + static_cast<int64_t>(k) * step);
    };
    if (count == 0)
        for (size_t k = 0; k < width; ++k)
            sum[k] = hn::Zero(d);
    else
        weighted_sum<more>(d, weights, 0, count, term, sum);
}

} // namespace gradnn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
