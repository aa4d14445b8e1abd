// Rectangles of elements from one place, layout and type to another: how the
// convolution kernels pack their operands and write their results.
//
// Included once for each of Highway's targets, like simd.hpp.
#include "cpu/simd/simd.hpp"

#if defined(GRADNN_CPU_COPY_RECTANGLE_TOGGLE) == defined(HWY_TARGET_TOGGLE)
#ifdef GRADNN_CPU_COPY_RECTANGLE_TOGGLE
#undef GRADNN_CPU_COPY_RECTANGLE_TOGGLE
#else
#define GRADNN_CPU_COPY_RECTANGLE_TOGGLE
#endif

HWY_BEFORE_NAMESPACE();
namespace gradnn::cpu::HWY_NAMESPACE {

/// Whether Inf or NaN is among the elements.
template <typename T>
bool has_non_finite(const T *values, int64_t count) {
    const hn::ScalableTag<T> d;
    constexpr auto lanes = static_cast<int64_t>(lanes_of<T>);
    auto sum = hn::Zero(d); // becomes NaN once an Inf or NaN is met
    int64_t i = 0;
    for (; i + lanes <= count; i += lanes)
        sum = hn::MulAdd(hn::LoadU(d, values + i), hn::Zero(d), sum);
    bool found = !hn::AllTrue(d, hn::Eq(sum, sum));
    for (; i < count; ++i)
        found = found || values[i] * 0 != 0;
    return found;
}

/// to[l * to_line + i] = from[l * from_line + i] for i < count.
template <typename From, typename To>
HWY_INLINE void copy_lines(const From *from, int64_t from_line, To *to,
        int64_t to_line, int64_t lines, int64_t count) {
    using accumulator = accumulator_of<From>;
    const hn::ScalableTag<accumulator> d;
    constexpr auto lanes = static_cast<int64_t>(lanes_of<accumulator>);
    const int64_t whole = count / lanes * lanes;
    const auto rest = static_cast<size_t>(count - whole);
    for (int64_t l = 0; l < lines; ++l, from += from_line, to += to_line) {
        for (int64_t i = 0; i < whole; i += lanes)
            store(d, load(d, from + i), to + i);
        if (rest != 0)
            store_first(d, load_first(d, from + whole, rest), to + whole, rest);
    }
}

/// to[c * to_line + r] = from[r * from_line + c], r < rows and c < columns.
template <typename From, typename To>
HWY_INLINE void transpose_lines(const From *from, int64_t from_line, To *to,
        int64_t to_line, int64_t rows, int64_t columns) {
    using accumulator = accumulator_of<From>;
    const hn::ScalableTag<accumulator> d;
    constexpr auto lanes = static_cast<int64_t>(lanes_of<accumulator>);
    for (int64_t r = 0; r < rows; r += lanes) {
        const int64_t some_rows = rows - r < lanes ? rows - r : lanes;
        for (int64_t c = 0; c < columns; c += lanes) {
            const int64_t some_columns
                    = columns - c < lanes ? columns - c : lanes;
            const From *corner = from + r * from_line + c;
            hn::Vec<decltype(d)> square[lanes];
#pragma GCC unroll 16
            for (int64_t i = 0; i < lanes; ++i) {
                // Rows past the end repeat the last one and are not stored.
                const int64_t row = i < some_rows ? i : some_rows - 1;
                square[i] = some_columns == lanes
                        ? load(d, corner + row * from_line)
                        : load_first(d, corner + row * from_line,
                                static_cast<size_t>(some_columns));
            }
            transpose<accumulator>(square);
            To *out = to + c * to_line + r;
            if (some_rows == lanes && some_columns == lanes) {
#pragma GCC unroll 16
                for (int64_t i = 0; i < lanes; ++i)
                    store(d, square[i], out + i * to_line);
                continue;
            }
#pragma GCC unroll 16
            for (int64_t i = 0; i < lanes; ++i) {
                if (i == some_columns) break;
                if (some_rows == lanes)
                    store(d, square[i], out + i * to_line);
                else
                    store_first(d, square[i], out + i * to_line,
                            static_cast<size_t>(some_rows));
            }
        }
    }
}

#if HWY_TARGET != HWY_SCALAR
/// transpose_lines() of as many rows as a vector has lanes, the first half of
/// which goes to `to` and the second to `to_second`.
template <typename From, typename To>
HWY_INLINE void transpose_halves(const From *from, int64_t from_line, To *to,
        To *to_second, int64_t to_line, int64_t columns) {
    const hn::ScalableTag<To> d;
    const hn::Half<decltype(d)> half;
    constexpr auto lanes = static_cast<int64_t>(lanes_of<To>);
    for (int64_t c = 0; c < columns; c += lanes) {
        const int64_t some = columns - c < lanes ? columns - c : lanes;
        hn::Vec<decltype(d)> square[lanes];
#pragma GCC unroll 16
        for (int64_t i = 0; i < lanes; ++i)
            square[i] = some == lanes ? load(d, from + i * from_line + c)
                                      : load_first(d, from + i * from_line + c,
                                              static_cast<size_t>(some));
        transpose<To>(square);
#pragma GCC unroll 16
        for (int64_t i = 0; i < lanes; ++i) {
            if (i == some) break;
            const int64_t at = (c + i) * to_line;
            hn::StoreU(hn::LowerHalf(half, square[i]), half, to + at);
            hn::StoreU(hn::UpperHalf(half, square[i]), half, to_second + at);
        }
    }
}
#endif

/// convert_scalar() by the target's own instructions for f16, where it has them.
template <typename To, typename From>
HWY_INLINE To convert_one(From value) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
    if constexpr (std::is_same_v<From, f16> && std::is_same_v<To, float>)
        return _cvtsh_ss(value.bits);
    if constexpr (std::is_same_v<From, float> && std::is_same_v<To, f16>)
        return {_cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT)};
#endif
    return convert_scalar<To>(value);
}

/// to[i] = from[i * step], `count` elements.
template <typename From, typename To>
HWY_INLINE void gather_line(
        const From *from, int64_t step, To *to, int64_t count) {
    using accumulator = accumulator_of<From>;
    [[maybe_unused]] const hn::ScalableTag<accumulator> d;
    constexpr auto lanes = static_cast<int64_t>(lanes_of<accumulator>);
    int64_t i = 0;
    if constexpr (sizeof(From) == 2) {
        // So that conversions are done by vectors.
        for (; i + lanes <= count; i += lanes) {
            From some[lanes];
            for (int64_t lane = 0; lane < lanes; ++lane)
                some[lane] = from[(i + lane) * step];
            store(d, load(d, some), to + i);
        }
    }
#if HWY_TARGET != HWY_SCALAR
    if constexpr (std::is_same_v<From, To>) {
        // Strided convolutions. The second vector ends one past the last
        // element needed: there must be another.
        if (step == 2)
            for (; i + lanes < count; i += lanes)
                store(d,
                        hn::ConcatEven(d, load(d, from + 2 * i + lanes),
                                load(d, from + 2 * i)),
                        to + i);
    }
#endif
    for (; i < count; ++i)
        to[i] = convert_one<To>(from[i * step]);
}

/// to[i * step] = from[i], `count` elements.
template <typename From, typename To>
HWY_INLINE void scatter_line(
        const From *from, To *to, int64_t step, int64_t count) {
    using accumulator = accumulator_of<From>;
    [[maybe_unused]] const hn::ScalableTag<accumulator> d;
    constexpr auto lanes = static_cast<int64_t>(lanes_of<accumulator>);
    int64_t i = 0;
    if constexpr (sizeof(To) == 2) {
        for (; i + lanes <= count; i += lanes) {
            To some[lanes];
            store(d, load(d, from + i), some);
            for (int64_t lane = 0; lane < lanes; ++lane)
                to[(i + lane) * step] = some[lane];
        }
    }
    for (; i < count; ++i)
        to[i * step] = convert_one<To>(from[i]);
}

/// to[r * to_row + c * to_column] = from[r * from_row + c * from_column].
template <typename From, typename To>
HWY_INLINE void copy_rectangle(const From *from, int64_t from_row,
        int64_t from_column, To *to, int64_t to_row, int64_t to_column,
        int64_t rows, int64_t columns) {
    const bool rows_in = from_row == 1 || rows == 1;
    const bool rows_out = to_row == 1 || rows == 1;
    const bool columns_in = from_column == 1 || columns == 1;
    const bool columns_out = to_column == 1 || columns == 1;
    if (columns_in && columns_out
            && (columns >= rows || !(rows_in && rows_out)))
        copy_lines(from, from_row, to, to_row, rows, columns);
    else if (rows_in && rows_out)
        copy_lines(from, from_column, to, to_column, columns, rows);
    else if (columns_in && rows_out)
        transpose_lines(from, from_row, to, to_column, rows, columns);
    else if (rows_in && columns_out)
        transpose_lines(from, from_column, to, to_row, columns, rows);
    else if (rows_out)
        for (int64_t c = 0; c < columns; ++c)
            gather_line(
                    from + c * from_column, from_row, to + c * to_column, rows);
    else if (rows_in)
        for (int64_t c = 0; c < columns; ++c)
            scatter_line(
                    from + c * from_column, to + c * to_column, to_row, rows);
    else
        for (int64_t c = 0; c < columns; ++c)
            for (int64_t r = 0; r < rows; ++r)
                to[r * to_row + c * to_column]
                        = convert_one<To>(from[r * from_row + c * from_column]);
}

} // namespace gradnn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
