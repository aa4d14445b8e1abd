// Squares of vectors: elements of rows that are transposed into vectors of all
// rows, and results that are transposed back.
//
// Included once for each of Highway's targets, like simd.hpp.
#include <algorithm>
#include <cstring>

#include "cpu/simd/pairs.hpp"
#include "cpu/simd/simd.hpp"

#if defined(GRADNN_CPU_INTERPOLATION_SQUARES_TOGGLE) \
        == defined(HWY_TARGET_TOGGLE)
#ifdef GRADNN_CPU_INTERPOLATION_SQUARES_TOGGLE
#undef GRADNN_CPU_INTERPOLATION_SQUARES_TOGGLE
#else
#define GRADNN_CPU_INTERPOLATION_SQUARES_TOGGLE
#endif

HWY_BEFORE_NAMESPACE();
namespace gradnn::cpu::HWY_NAMESPACE {

/// Elements of a row of In that are transposed at once.
template <typename In>
constexpr int64_t square_of = static_cast<int64_t>(lanes_of<accumulator_of<In>>)
        * (has_pairs<In> ? 2 : 1);

/// Transposes one square: element e of rows[l] + at becomes lane l of vector e at
/// `out`.
template <typename In>
HWY_INLINE void transpose_square(
        const In *const *rows, int64_t at, accumulator_of<In> *out) {
    using Acc = accumulator_of<In>;
    const hn::ScalableTag<Acc> tag;
    constexpr auto lanes = static_cast<int64_t>(lanes_of<Acc>);
    hn::VFromD<hn::ScalableTag<Acc>> square[static_cast<size_t>(lanes)];
    if constexpr (has_pairs<In>) {
#pragma GCC unroll 16
        for (int64_t l = 0; l < lanes; ++l)
            square[l] = load_pairs_of(tag, rows[l] + at);
        transpose<Acc>(square);
#pragma GCC unroll 16
        for (int64_t l = 0; l < lanes; ++l, out += 2 * lanes) {
            hn::VFromD<hn::ScalableTag<Acc>> first, second;
            part_pairs<In>(tag, square[l], first, second);
            hn::StoreU(first, tag, out);
            hn::StoreU(second, tag, out + lanes);
        }
    } else {
#pragma GCC unroll 16
        for (int64_t l = 0; l < lanes; ++l)
            square[l] = load(tag, rows[l] + at);
        transpose<Acc>(square);
#pragma GCC unroll 16
        for (int64_t l = 0; l < lanes; ++l)
            hn::StoreU(square[l], tag, out + l * lanes);
    }
}

/// Transposes elements [begin, end) of the rows to `out`, and no more than a
/// square beyond them; nothing from `limit` on is read.
template <typename In>
HWY_NOINLINE void transpose_rows(const In *const *rows, int64_t begin,
        int64_t end, const In *limit, accumulator_of<In> *out) {
    using Acc = accumulator_of<In>;
    constexpr auto lanes = static_cast<int64_t>(lanes_of<Acc>);
    constexpr int64_t square = square_of<In>;
    int64_t at = begin;
    for (; at + square <= end; at += square, out += square * lanes)
        transpose_square(rows, at, out);
    if (at == end) return;
    In rest[static_cast<size_t>(square * lanes)];
    const In *last[static_cast<size_t>(lanes)];
    for (int64_t l = 0; l < lanes; ++l) {
        last[l] = rows[l] + at;
        if (limit - last[l] >= square) continue;
        std::memset(rest + l * square, 0, square * sizeof(In));
        std::memcpy(rest + l * square, last[l],
                static_cast<size_t>(end - at) * sizeof(In));
        last[l] = rest + l * square;
    }
    transpose_square(last, 0, out);
}

/// Puts elements of `rows` rows that are `pitch` apart at `out`: results[e]
/// holds element e of all of them, for e < count.
template <typename T>
HWY_NOINLINE void store_transposed(const accumulator_of<T> *results,
        int64_t count, int64_t rows, int64_t pitch, T *out) {
    using Acc = accumulator_of<T>;
    const hn::ScalableTag<Acc> tag;
    constexpr auto lanes = static_cast<int64_t>(lanes_of<Acc>);
    hn::VFromD<hn::ScalableTag<Acc>> square[static_cast<size_t>(lanes)];
    if constexpr (has_pairs<T>) {
        const hn::Repartition<uint16_t, decltype(tag)> halves;
        for (; count >= 2 * lanes; count -= 2 * lanes, out += 2 * lanes) {
#pragma GCC unroll 16
            for (int64_t l = 0; l < lanes; ++l, results += 2 * lanes)
                square[l] = join_pairs<T>(tag, hn::LoadU(tag, results),
                        hn::LoadU(tag, results + lanes));
            transpose<Acc>(square);
            T *to = out;
#pragma GCC unroll 16
            for (int64_t l = 0; l < lanes; ++l, to += pitch) {
                if (l == rows) break;
                hn::StoreU(hn::BitCast(halves, square[l]), halves,
                        reinterpret_cast<uint16_t *>(to));
            }
        }
    }
    for (; count > 0; count -= lanes, results += lanes * lanes, out += lanes) {
#pragma GCC unroll 16
        for (int64_t l = 0; l < lanes; ++l)
            square[l] = hn::LoadU(tag, results + l * lanes);
        transpose<Acc>(square);
        T *to = out;
#pragma GCC unroll 16
        for (int64_t l = 0; l < lanes; ++l, to += pitch) {
            if (l == rows) break;
            if (count >= lanes) {
                store(tag, square[l], to);
            } else if constexpr (sizeof(T) == 2) {
                // Masks of 16 rows take GCC minutes under AddressSanitizer.
                T row[static_cast<size_t>(lanes)];
                store(tag, square[l], row);
                std::memcpy(to, row, static_cast<size_t>(count) * sizeof(T));
            } else {
                store_first(tag, square[l], to, static_cast<size_t>(count));
            }
        }
    }
}

/// One square of results, to rows that are `pitch` apart: results[e] holds element e
/// of all of them. What is beyond a row's end is stored too.
template <typename T>
HWY_INLINE void store_square(
        const accumulator_of<T> *results, int64_t pitch, T *out) {
    using Acc = accumulator_of<T>;
    const hn::ScalableTag<Acc> tag;
    constexpr auto lanes = static_cast<int64_t>(lanes_of<Acc>);
    hn::VFromD<hn::ScalableTag<Acc>> square[static_cast<size_t>(lanes)];
    if constexpr (has_pairs<T>) {
#pragma GCC unroll 16
        for (int64_t l = 0; l < lanes; ++l)
            square[l] = join_pairs<T>(tag,
                    hn::LoadU(tag, results + 2 * l * lanes),
                    hn::LoadU(tag, results + (2 * l + 1) * lanes));
        transpose<Acc>(square);
#pragma GCC unroll 16
        for (int64_t l = 0; l < lanes; ++l, out += pitch)
            store_pairs<false>(tag, square[l], out);
    } else {
#pragma GCC unroll 16
        for (int64_t l = 0; l < lanes; ++l)
            square[l] = hn::LoadU(tag, results + l * lanes);
        transpose<Acc>(square);
#pragma GCC unroll 16
        for (int64_t l = 0; l < lanes; ++l, out += pitch)
            store(tag, square[l], out);
    }
}

/// Puts as many pieces as a vector has lanes, of `count` elements each, one after
/// another at `out`, which has room for a square beyond them. No vector is cut:
/// the last square repeats what it has in common with the one before, and what a
/// piece shorter than a square stores beyond its end, the next one replaces.
/// `traffic` goes a step with each square.
template <typename T, typename Traffic>
HWY_NOINLINE void store_pieces(const accumulator_of<T> *results, int64_t count,
        Traffic &traffic, T *out) {
    constexpr int64_t square = square_of<T>;
    constexpr auto lanes = static_cast<int64_t>(lanes_of<accumulator_of<T>>);
    int64_t at = 0;
    for (; at + square <= count; at += square) {
        traffic.step();
        store_square(results + at * lanes, count, out + at);
    }
    if (at == count) return;
    at = std::max<int64_t>(0, count - square);
    store_square(results + at * lanes, count, out + at);
}

} // namespace gradnn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
