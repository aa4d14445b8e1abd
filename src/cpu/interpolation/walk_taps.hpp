// Taps of elements in lanes: their places and weights are computed on the way, from
// one vector's to the next one's by steps of integers (computed_taps.hpp).
//
// Included once for each of Highway's targets, like simd.hpp.
#include <algorithm>
#include <array>
#include <limits>
#include <type_traits>

#include "cpu/interpolation/computed_taps.hpp"
#include "cpu/interpolation/lookup.hpp"
#include "cpu/interpolation/walking_lanes.hpp"
#include "cpu/simd/simd.hpp"

#if defined(GRADNN_CPU_INTERPOLATION_WALK_TAPS_TOGGLE) \
        == defined(HWY_TARGET_TOGGLE)
#ifdef GRADNN_CPU_INTERPOLATION_WALK_TAPS_TOGGLE
#undef GRADNN_CPU_INTERPOLATION_WALK_TAPS_TOGGLE
#else
#define GRADNN_CPU_INTERPOLATION_WALK_TAPS_TOGGLE
#endif

HWY_BEFORE_NAMESPACE();
namespace gradnn::cpu::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR // which has no halves, and takes tables

/// The part of a line that a strip's inputs take.
template <typename In>
struct line_part {
    const In *line;
    int64_t dst_begin; ///< the output that it begins with
    int64_t dst_end;
    int64_t src_begin; ///< inputs
    int64_t src_end;
    const accumulator_of<In> *factors; ///< of its outputs' weights, or none
};

/// Factors of outputs `at`, counted from the first of `from` on: few are apart.
template <typename Acc, class V>
HWY_INLINE auto factors_at(const Acc *from, V at) {
    return lane_tables<4, hn::ScalableTag<Acc>>(from)(at);
}

/// An end takes what lies beyond it too: input i's sum in the lanes from `lane` on,
/// as many as there are of its channels from `channel` on.
template <typename Acc, typename In, class V>
HWY_NOINLINE V with_end(const computed_taps &taps, const line_part<In> &part,
        V sum, int64_t i, int64_t lane, int64_t channel) {
    constexpr hn::ScalableTag<Acc> tag {};
    constexpr hn::CappedTag<Acc, 1> one {};
    std::array<Acc, lanes_of<Acc>> each;
    hn::StoreU(sum, tag, each.data());
    for (; channel < taps.channels && lane < static_cast<int64_t>(each.size());
            ++channel, ++lane) {
        auto all = hn::Zero(one);
        for (int64_t o = taps.begin(i); o < taps.end(i); ++o)
            all = hn::MulAdd(hn::Set(one, static_cast<Acc>(taps.weight(i, o))),
                    hn::Set(one,
                            convert_scalar<Acc>(part.line[(o - part.dst_begin)
                                            * taps.channels
                                    + channel])),
                    all);
        each[static_cast<size_t>(lane)] = hn::GetLane(all);
    }
    return hn::LoadU(tag, each.data());
}

/// Takes the taps of a strip's inputs and calls use(sum, lanes in use) for each
/// vector. `tables` as in computed_taps.
template <size_t tables, typename Acc, typename Int, typename In, typename Use>
HWY_INLINE void take_walking_taps(
        const computed_taps &taps, const line_part<In> &part, const Use &use) {
    constexpr hn::ScalableTag<Acc> tag {};
    constexpr hn::RebindToSigned<hn::ScalableTag<Acc>> integers {};
    using integer = hn::TFromD<decltype(integers)>;
    constexpr auto lanes = static_cast<int64_t>(lanes_of<Acc>);
    const auto zero = hn::Zero(integers);
    walking_lanes<Acc, Int> walk(taps, part.src_begin, part.dst_begin);
    const int64_t outputs = part.dst_end - part.dst_begin;

    for (int64_t i = part.src_begin; i < part.src_end; i += lanes) {
        // Lanes whose first output is before the line take only what is in it.
        const int64_t base = std::clamp<int64_t>(walk.lowest(), 0, outputs);
        const In *const from = part.line + base;
        const auto first = walk.firsts(base);
        const auto behind
                = hn::Set(integers, static_cast<integer>(outputs - base));
        const auto before = hn::Set(integers, static_cast<integer>(-1 - base));
        auto distances = walk.distances();
        auto sum = hn::Zero(tag);
        [[maybe_unused]] const lane_tables<std::max<size_t>(1, tables),
                hn::ScalableTag<Acc>>
                table(from);
        for (int64_t t = 0; t < taps.max_count; ++t) {
            const auto at = hn::Add(
                    first, hn::Set(integers, static_cast<integer>(t)));
            auto weight = walk.weights(distances);
            if (part.factors != nullptr)
                weight = hn::Mul(weight, factors_at(part.factors + base, at));
            const auto taken
                    = hn::And(hn::And(walk.within(distances),
                                      hn::RebindMask(tag, hn::Lt(at, behind))),
                            hn::RebindMask(tag, hn::Gt(at, before)));
            walk.move_on(distances);
            auto value = hn::Undefined(tag);
            if constexpr (tables > 0)
                value = table(at);
            else if constexpr (std::is_same_v<In, Acc>)
                value = hn::GatherIndex(tag, from,
                        hn::IfThenElse(
                                hn::RebindMask(integers, taken), at, zero));
            sum = hn::IfThenElse(taken, hn::MulAdd(weight, value, sum), sum);
        }
        if (i == 0) sum = with_end<Acc>(taps, part, sum, 0, 0, 0);
        if (i + lanes >= taps.src)
            sum = with_end<Acc>(
                    taps, part, sum, taps.src - 1, taps.src - 1 - i, 0);
        use(sum, std::min(lanes, part.src_end - i));
        walk.next();
    }
}

/// The same where a row's columns are a few channels: as many columns as lanes are
/// placed and weighed at a time, and each vector of their elements picks its own.
template <size_t tables, typename Acc, typename Int, typename In, typename Use>
HWY_INLINE void take_walking_channels(
        const computed_taps &taps, const line_part<In> &part, const Use &use) {
    constexpr hn::ScalableTag<Acc> tag {};
    constexpr hn::RebindToSigned<hn::ScalableTag<Acc>> integers {};
    using integer = hn::TFromD<decltype(integers)>;
    constexpr auto lanes = static_cast<int64_t>(lanes_of<Acc>);
    constexpr int64_t most_channels = computed_taps::most_channels;
    const int64_t channels = taps.channels;
    const int64_t outputs = part.dst_end - part.dst_begin;
    // Of the elements: whose of the vector's columns they are, and which channel.
    HWY_ALIGN integer columns[most_channels * lanes];
    HWY_ALIGN integer channel[most_channels * lanes];
    for (int64_t e = 0; e < channels * lanes; ++e) {
        columns[e] = static_cast<integer>(e / channels);
        channel[e] = static_cast<integer>(e % channels);
    }
    HWY_ALIGN Acc weights[computed_taps::most_taps * lanes];
    HWY_ALIGN integer firsts[lanes];
    const auto behind = hn::Set(integers, static_cast<integer>(outputs));
    const auto apart = hn::Set(integers, static_cast<integer>(channels));
    const auto none // no weight is NaN
            = hn::Set(tag, std::numeric_limits<Acc>::quiet_NaN());
    walking_lanes<Acc, Int> walk(taps, part.src_begin, part.dst_begin);
    for (int64_t i = part.src_begin; i < part.src_end;
            i += lanes, walk.next()) {
        const auto first = walk.firsts(0);
        hn::Store(first, integers, firsts);
        const int64_t lowest = std::clamp<int64_t>(firsts[0], 0, outputs);
        auto distances = walk.distances();
        auto at = first;
        for (int64_t t = 0; t < taps.max_count; ++t) {
            const auto inside = hn::And(hn::Lt(at, behind),
                    hn::Gt(at, hn::Set(integers, integer {-1})));
            const auto taken = hn::And(
                    hn::RebindMask(tag, inside), walk.within(distances));
            auto weight = walk.weights(distances);
            if (part.factors != nullptr)
                weight = hn::Mul(weight,
                        factors_at(part.factors + lowest,
                                hn::Sub(at,
                                        hn::Set(integers,
                                                static_cast<integer>(
                                                        lowest)))));
            hn::Store(hn::IfThenElse(taken, weight, none), tag,
                    weights + t * lanes);
            walk.move_on(distances);
            at = hn::Add(at, hn::Set(integers, integer {1}));
        }
        const auto places = hn::Mul(first, apart);
        const int64_t elements = std::min(lanes, part.src_end - i) * channels;
        for (int64_t e = 0; e < elements; e += lanes) {
            const int64_t base
                    = std::clamp<int64_t>(firsts[columns[e]], 0, outputs);
            const lane_tables<tables, hn::ScalableTag<Acc>> table(
                    part.line + base * channels);
            auto index = hn::Add(
                    hn::TableLookupLanes(
                            places, hn::SetTableIndices(integers, columns + e)),
                    hn::Sub(hn::Load(integers, channel + e),
                            hn::Set(integers,
                                    static_cast<integer>(base * channels))));
            const auto mine = hn::SetTableIndices(tag, columns + e);
            auto sum = hn::Zero(tag);
            for (int64_t t = 0; t < taps.max_count; ++t) {
                const auto weight = hn::TableLookupLanes(
                        hn::Load(tag, weights + t * lanes), mine);
                sum = hn::IfThenElse(hn::Eq(weight, weight),
                        hn::MulAdd(weight, table(index), sum), sum);
                index = hn::Add(index, apart);
            }
            // The ends' elements.
            for (const int64_t end : {int64_t {0}, taps.src - 1}) {
                const int64_t lane = (end - i) * channels - e;
                if (lane > -channels && lane < lanes)
                    sum = with_end<Acc>(taps, part, sum, end,
                            std::max<int64_t>(0, lane),
                            std::max<int64_t>(0, -lane));
            }
            use(sum, std::min(lanes, elements - e));
        }
    }
}

template <typename Acc, typename In, typename Use>
HWY_INLINE void take_walking_taps(
        const computed_taps &taps, const line_part<In> &part, const Use &use) {
    const auto take_by = [&](auto tables, auto zero) HWY_ATTR {
        constexpr size_t count = decltype(tables)::value;
        if constexpr (count > 0)
            if (taps.channels > 1)
                return take_walking_channels<count, Acc, decltype(zero)>(
                        taps, part, use);
        take_walking_taps<count, Acc, decltype(zero)>(taps, part, use);
    };
    const auto take = [&](auto tables) HWY_ATTR {
        if constexpr (sizeof(Acc) == sizeof(float))
            if (taps.narrow) return take_by(tables, int32_t {0});
        // Few axes of floats have distances of 64 bits: the most tables serve them.
        constexpr size_t count = decltype(tables)::value;
        constexpr bool serves_all = sizeof(Acc) == sizeof(float) && count > 0;
        constexpr size_t most = serves_all ? 4 : count;
        take_by(std::integral_constant<size_t, most>(), int64_t {0});
    };
    switch (taps.tables) {
        case 1: take(std::integral_constant<size_t, 1>()); break;
        case 2: take(std::integral_constant<size_t, 2>()); break;
        case 4: take(std::integral_constant<size_t, 4>()); break;
        default: take(std::integral_constant<size_t, 0>());
    }
}

#endif
} // namespace gradnn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
