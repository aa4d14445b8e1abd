// Columns of transposed rows: element e of as many rows as a vector has lanes
// is one vector, so that a tap along W is one multiply-add for all of the rows.
//
// Included once for each of Highway's targets, like simd.hpp.
#include <algorithm>

#include "cpu/interpolation/separable.hpp"
#include "cpu/interpolation/sums.hpp"
#include "cpu/simd/pairs.hpp"
#include "cpu/simd/simd.hpp"

#if defined(GRADNN_CPU_INTERPOLATION_COLUMNS_TOGGLE) \
        == defined(HWY_TARGET_TOGGLE)
#ifdef GRADNN_CPU_INTERPOLATION_COLUMNS_TOGGLE
#undef GRADNN_CPU_INTERPOLATION_COLUMNS_TOGGLE
#else
#define GRADNN_CPU_INTERPOLATION_COLUMNS_TOGGLE
#endif

HWY_BEFORE_NAMESPACE();
namespace gradnn::cpu::HWY_NAMESPACE {

/// The columns of a block, and the weights of their taps, one run after another.
template <typename Acc>
struct column_runs {
    const column_taps::run *begin;
    const column_taps::run *end;
    const column_taps::column *column;
    const Acc *weights;
    /// From a tap's weights to the next tap's, where a tap's are those of one column
    /// after another; or 0 where a column's follow one another.
    int64_t pitch = 0;
};

template <typename Acc>
HWY_INLINE column_runs<Acc> runs_of(
        const column_taps &table, const column_taps::block &block) {
    return {table.runs.data() + block.run, table.runs.data() + block.run_end,
            table.columns.data() + block.column,
            table.weights<Acc>() + block.weight};
}

/// Columns of one run: each has `taps` of them.
template <int64_t taps, typename Acc>
HWY_INLINE void sum_run(const column_taps::column *column, int64_t columns,
        const Acc *weights, const Acc *in, int64_t channels, Acc *out) {
    const hn::ScalableTag<Acc> tag;
    using vector = hn::VFromD<hn::ScalableTag<Acc>>;
    constexpr auto lanes = static_cast<int64_t>(lanes_of<Acc>);
    const int64_t step = channels * lanes;
    for (int64_t i = 0; i < columns; ++i, weights += taps) {
        const Acc *from = in + column[i].in * step;
        Acc *to = out + column[i].out * step;
        if (channels == 1) {
            auto sum = hn::Mul(hn::Set(tag, weights[0]), hn::LoadU(tag, from));
#pragma GCC unroll 8
            for (int64_t t = 1; t < taps; ++t)
                sum = hn::MulAdd(hn::Set(tag, weights[t]),
                        hn::LoadU(tag, from + t * lanes), sum);
            hn::StoreU(sum, tag, to);
            continue;
        }
        vector weight[static_cast<size_t>(taps)];
#pragma GCC unroll 8
        for (int64_t t = 0; t < taps; ++t)
            weight[t] = hn::Set(tag, weights[t]);
        for (int64_t c = 0; c < step; c += lanes) {
            auto sum = hn::Mul(weight[0], hn::LoadU(tag, from + c));
#pragma GCC unroll 8
            for (int64_t t = 1; t < taps; ++t)
                sum = hn::MulAdd(
                        weight[t], hn::LoadU(tag, from + t * step + c), sum);
            hn::StoreU(sum, tag, to + c);
        }
    }
}

/// Columns of no taps.
template <typename Acc>
HWY_INLINE void clear_run(const column_taps::column *column, int64_t columns,
        int64_t channels, Acc *out) {
    const hn::ScalableTag<Acc> tag;
    constexpr auto lanes = static_cast<int64_t>(lanes_of<Acc>);
    for (int64_t i = 0; i < columns; ++i)
        for (int64_t c = 0; c < channels; ++c)
            hn::StoreU(hn::Zero(tag), tag,
                    out + (column[i].out * channels + c) * lanes);
}

/// Columns of one run of more taps than a chain has terms.
template <typename Acc>
HWY_NOINLINE void sum_long_run(const column_taps::column *column,
        int64_t columns, int64_t taps, const Acc *weights, const Acc *in,
        int64_t channels, Acc *out) {
    const hn::ScalableTag<Acc> tag;
    constexpr auto lanes = static_cast<int64_t>(lanes_of<Acc>);
    const int64_t step = channels * lanes;
    for (int64_t i = 0; i < columns; ++i, weights += taps)
        for (int64_t c = 0; c < step; c += lanes) {
            const Acc *from = in + column[i].in * step + c;
            hn::VFromD<hn::ScalableTag<Acc>> sum[1];
            sum_taps<true>(tag, weights, taps, from, step, 0, sum);
            hn::StoreU(sum[0], tag, out + column[i].out * step + c);
        }
}

/// Taps along W of a block of columns. `in` is its first element of the
/// transposed rows, `out` where its first result goes.
template <typename Acc>
HWY_NOINLINE void sum_columns(const column_taps &table,
        const column_taps::block &block, const Acc *in, int64_t channels,
        Acc *out) {
    const column_taps::column *column = table.columns.data() + block.column;
    const Acc *weights = table.weights<Acc>() + block.weight;
    for (int64_t r = block.run; r < block.run_end; ++r) {
        const auto taps = table.runs[static_cast<size_t>(r)].taps;
        const auto count = table.runs[static_cast<size_t>(r)].columns;
        const auto sum = [&](auto known) HWY_ATTR {
            sum_run<decltype(known)::value>(
                    column, count, weights, in, channels, out);
        };
        switch (taps) {
            case 0: clear_run(column, count, channels, out); break;
            case 1: sum(std::integral_constant<int64_t, 1>()); break;
            case 2: sum(std::integral_constant<int64_t, 2>()); break;
            case 3: sum(std::integral_constant<int64_t, 3>()); break;
            case 4: sum(std::integral_constant<int64_t, 4>()); break;
            case 5: sum(std::integral_constant<int64_t, 5>()); break;
            case 6: sum(std::integral_constant<int64_t, 6>()); break;
            case 7: sum(std::integral_constant<int64_t, 7>()); break;
            case 8: sum(std::integral_constant<int64_t, 8>()); break;
            default:
                sum_long_run(column, count, taps, weights, in, channels, out);
        }
        column += count;
        weights += static_cast<int64_t>(taps) * count;
    }
}

/// Channels of a column as they are, at least a vector of them.
template <bool past_caches, typename T>
HWY_INLINE void copy_channels(const T *from, int64_t channels, T *to) {
    using acc = accumulator_of<T>;
    const hn::Rebind<storage_of<T>, hn::ScalableTag<acc>> stored;
    constexpr auto lanes = static_cast<int64_t>(lanes_of<acc>);
    const auto *in = reinterpret_cast<const storage_of<T> *>(from);
    auto *out = reinterpret_cast<storage_of<T> *>(to);
    int64_t c = 0;
    for (; c + lanes <= channels; c += lanes) {
        const auto v = hn::LoadU(stored, in + c);
        if constexpr (past_caches)
            hn::Stream(v, stored, out + c);
        else
            hn::StoreU(v, stored, out + c);
    }
    if (c == channels) return;
    c = channels - lanes;
    hn::StoreU(hn::LoadU(stored, in + c), stored, out + c);
}

/// Steps of what is fetched ahead in a column: one for every four vectors of its
/// channels.
template <typename Acc>
HWY_INLINE int64_t fetches_of(int64_t channels) {
    return std::max<int64_t>(
            1, channels / (4 * static_cast<int64_t>(lanes_of<Acc>)));
}

/// Columns of one run whose channels are in lanes, at least a vector of them or
/// as many as the target can store of a vector.
template <int64_t taps, bool past_caches, typename In, typename Acc,
        typename Out>
HWY_NOINLINE void sum_channels_of_run(const column_taps::column *column,
        int64_t columns, const Acc *weights, const In *in, int64_t channels,
        Out *out, gradual_fetch &ahead, int64_t pitch) {
    const hn::ScalableTag<Acc> tag;
    using vector = hn::VFromD<hn::ScalableTag<Acc>>;
    constexpr auto lanes = static_cast<int64_t>(lanes_of<Acc>);
    const int64_t next_tap = pitch == 0 ? 1 : pitch;
    const int64_t next_column = pitch == 0 ? taps : 1;
    for (int64_t i = 0; i < columns; ++i, weights += next_column) {
        const In *from = in + column[i].in * channels;
        Out *to = out + column[i].out * channels;
        if constexpr (taps == 1 && std::is_same_v<In, Out>)
            if (weights[0] == Acc {1} && channels >= lanes) {
                ahead.step(fetches_of<Acc>(channels));
                copy_channels<past_caches>(from, channels, to);
                continue;
            }
        vector weight[static_cast<size_t>(taps)];
#pragma GCC unroll 8
        for (int64_t t = 0; t < taps; ++t)
            weight[t] = hn::Set(tag, weights[t * next_tap]);
        const auto sum_at = [&](int64_t c) GRADNN_SIMD_INLINE {
            auto sum = hn::Mul(weight[0], load(tag, from + c));
#pragma GCC unroll 8
            for (int64_t t = 1; t < taps; ++t)
                sum = hn::MulAdd(
                        weight[t], load(tag, from + t * channels + c), sum);
            return sum;
        };
        // Of two vectors, the elements of even or of odd places.
        [[maybe_unused]] const auto sum_half_at =
                [&](auto *at, int64_t c, bool even) GRADNN_SIMD_INLINE {
                    auto sum = hn::Mul(weight[0], load_half(tag, at + c, even));
#pragma GCC unroll 8
                    for (int64_t t = 1; t < taps; ++t)
                        sum = hn::MulAdd(weight[t],
                                load_half(tag, at + t * channels + c, even),
                                sum);
                    return sum;
                };
        int64_t c = 0;
        if (channels < 4 * lanes) ahead.step();
        for (; c + 2 * lanes <= channels; c += 2 * lanes) {
            if (c % (4 * lanes) == 0 && c + 4 * lanes <= channels) ahead.step();
            if constexpr (has_load_half<In> && std::is_same_v<In, Out>) {
                const auto pairs
                        = join_pairs<Out>(tag, sum_half_at(from, c, true),
                                sum_half_at(from, c, false));
                store_pairs<past_caches>(tag, pairs, to + c);
            } else {
                store_two<past_caches>(
                        tag, sum_at(c), sum_at(c + lanes), to + c);
            }
        }
        if (c + lanes <= channels) {
            if constexpr (past_caches)
                stream(tag, sum_at(c), to + c);
            else
                store(tag, sum_at(c), to + c);
            c += lanes;
        }
        if (c == channels) continue;
        if (channels >= lanes)
            store(tag, sum_at(channels - lanes), to + channels - lanes);
        else
            store_first(tag, sum_at(0), to, static_cast<size_t>(channels));
    }
}

/// The same for any number of taps.
template <typename In, typename Acc, typename Out>
HWY_NOINLINE void sum_channels_of_long_run(const column_taps::column *column,
        int64_t columns, int64_t taps, const Acc *weights, const In *in,
        int64_t channels, Out *out, gradual_fetch &ahead) {
    const hn::ScalableTag<Acc> tag;
    using vector = hn::VFromD<hn::ScalableTag<Acc>>;
    constexpr auto lanes = static_cast<int64_t>(lanes_of<Acc>);
    for (int64_t i = 0; i < columns; ++i, weights += taps) {
        const In *from = in + column[i].in * channels;
        Out *to = out + column[i].out * channels;
        int64_t c = 0;
        if (channels < 4 * lanes) ahead.step();
        for (; c + 4 * lanes <= channels; c += 4 * lanes) {
            ahead.step();
            vector sum[4];
            sum_taps<true>(tag, weights, taps, from + c, channels, lanes, sum);
            store_two<false>(tag, sum[0], sum[1], to + c);
            store_two<false>(tag, sum[2], sum[3], to + c + 2 * lanes);
        }
        for (; c < channels; c += lanes) {
            vector sum[1];
            const int64_t at
                    = std::max<int64_t>(0, std::min(c, channels - lanes));
            sum_taps<true>(tag, weights, taps, from + at, channels, 0, sum);
            if (channels >= lanes)
                store(tag, sum[0], to + at);
            else
                store_first(tag, sum[0], to, static_cast<size_t>(channels));
        }
    }
}

/// The same for none.
template <bool past_caches, typename Out>
HWY_INLINE void clear_channels(const column_taps::column *column,
        int64_t columns, int64_t channels, Out *out) {
    const hn::ScalableTag<accumulator_of<Out>> tag;
    constexpr auto lanes = static_cast<int64_t>(lanes_of<accumulator_of<Out>>);
    const auto zero = hn::Zero(tag);
    for (int64_t i = 0; i < columns; ++i) {
        Out *to = out + column[i].out * channels;
        int64_t c = 0;
        for (; c + lanes <= channels; c += lanes) {
            if constexpr (past_caches)
                stream(tag, zero, to + c);
            else
                store(tag, zero, to + c);
        }
        if (c == channels) continue;
        if (channels >= lanes)
            store(tag, zero, to + channels - lanes);
        else
            store_first(tag, zero, to, static_cast<size_t>(channels));
    }
}

/// Taps along W of a block of columns whose channels are in lanes. Columns' first
/// taps are counted from `in` on, `out` is where the block's first result goes: past
/// the caches only where columns are whole cache lines of full vectors. `ahead` goes a
/// step with each column.
template <bool past_caches, typename In, typename Out>
HWY_NOINLINE void sum_channels(const column_runs<accumulator_of<Out>> &runs,
        const In *in, int64_t channels, Out *out, gradual_fetch &ahead) {
    // A single lane's stream is a store.
    constexpr size_t lanes = lanes_of<accumulator_of<Out>>;
    constexpr bool streams = past_caches && lanes > 1;
    const column_taps::column *column = runs.column;
    const accumulator_of<Out> *weights = runs.weights;
    for (const column_taps::run *r = runs.begin; r != runs.end; ++r) {
        const int64_t taps = r->taps;
        const int64_t count = r->columns;
        const auto sum = [&](auto known) HWY_ATTR {
            sum_channels_of_run<decltype(known)::value, streams>(column, count,
                    weights, in, channels, out, ahead, runs.pitch);
        };
        switch (taps) {
            case 0:
                clear_channels<streams>(column, count, channels, out);
                break;
            case 1: sum(std::integral_constant<int64_t, 1>()); break;
            case 2: sum(std::integral_constant<int64_t, 2>()); break;
            case 3: sum(std::integral_constant<int64_t, 3>()); break;
            case 4: sum(std::integral_constant<int64_t, 4>()); break;
            case 5: sum(std::integral_constant<int64_t, 5>()); break;
            case 6: sum(std::integral_constant<int64_t, 6>()); break;
            case 7: sum(std::integral_constant<int64_t, 7>()); break;
            case 8: sum(std::integral_constant<int64_t, 8>()); break;
            default:
                sum_channels_of_long_run(
                        column, count, taps, weights, in, channels, out, ahead);
        }
        column += count;
        weights += taps * count;
    }
}

} // namespace gradnn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
