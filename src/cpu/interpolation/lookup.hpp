// Taps of elements in lanes: looked up in the line by tables that are made with
// the plan.
//
// Included once for each of Highway's targets, like simd.hpp.
#include <algorithm>
#include <type_traits>

#include "cpu/interpolation/separable.hpp"
#include "cpu/simd/simd.hpp"

#if defined(GRADNN_CPU_INTERPOLATION_LOOKUP_TOGGLE) \
        == defined(HWY_TARGET_TOGGLE)
#ifdef GRADNN_CPU_INTERPOLATION_LOOKUP_TOGGLE
#undef GRADNN_CPU_INTERPOLATION_LOOKUP_TOGGLE
#else
#define GRADNN_CPU_INTERPOLATION_LOOKUP_TOGGLE
#endif

HWY_BEFORE_NAMESPACE();
namespace gradnn::cpu::HWY_NAMESPACE {

/// Vectors that follow one another in memory, 1, 2 or 4 of them, from which
/// lanes are taken by index.
template <size_t tables, class D>
class lane_tables {
    using T = hn::TFromD<D>;
    using vector = hn::VFromD<D>;
    using signed_tag = hn::RebindToSigned<D>;
    using indices = hn::VFromD<signed_tag>;
    static constexpr auto lanes = static_cast<int>(lanes_of<T>);

public:
    template <typename In>
    HWY_INLINE explicit lane_tables(const In *from) {
#pragma GCC unroll 4
        for (size_t k = 0; k < tables; ++k)
            parts_[k] = load(D(), from + k * lanes_of<T>);
    }

    HWY_INLINE vector operator()(indices index) const {
        if constexpr (tables == 1)
            return of_one(0, index);
        else if constexpr (tables == 2)
            return of_two(0, index);
        else
            return hn::IfThenElse(has_bit(index, 2 * lanes), of_two(2, index),
                    of_two(0, index));
    }

private:
    HWY_INLINE hn::Mask<D> has_bit(indices index, int bit) const {
        const auto value = hn::Set(signed_tag(), bit);
        return hn::RebindMask(D(), hn::TestBit(index, value));
    }
    HWY_INLINE vector of_one(size_t k, indices index) const {
        const auto within = hn::And(index, hn::Set(signed_tag(), lanes - 1));
        return hn::TableLookupLanes(parts_[k], hn::IndicesFromVec(D(), within));
    }
    HWY_INLINE vector of_two(size_t k, indices index) const {
#if HWY_TARGET == HWY_AVX3
        if constexpr (std::is_same_v<T, float>)
            return vector {_mm512_permutex2var_ps(
                    parts_[k].raw, index.raw, parts_[k + 1].raw)};
        else
            return vector {_mm512_permutex2var_pd(
                    parts_[k].raw, index.raw, parts_[k + 1].raw)};
#else
        return hn::IfThenElse(
                has_bit(index, lanes), of_one(k + 1, index), of_one(k, index));
#endif
    }

    vector parts_[tables];
};

/// `from` as lanes as wide as T's.
template <typename T>
HWY_INLINE auto load_integers(const int32_t *from) {
    const hn::RebindToSigned<hn::ScalableTag<T>> tag;
    if constexpr (sizeof(T) == sizeof(int32_t))
        return hn::LoadU(tag, from);
    else
        return hn::PromoteTo(
                tag, hn::LoadU(hn::Rebind<int32_t, decltype(tag)>(), from));
}

/// `shared` taps in turn come from the same tables. `known` is the number of
/// taps at most, or 0 where that is taps.max_count.
template <size_t tables, int32_t shared, int32_t known, typename Acc,
        typename In, typename Use>
HWY_INLINE void look_up_taps(const element_taps &taps, const In *line,
        int64_t first, int64_t elements, const Use &use) {
    constexpr hn::ScalableTag<Acc> tag {};
    constexpr auto lanes = static_cast<int64_t>(lanes_of<Acc>);
    constexpr hn::RebindToSigned<hn::ScalableTag<Acc>> integer_tag {};
    const element_taps::vector *next = taps.vectors.data() + first;
    [[maybe_unused]] const element_taps::pattern *const patterns
            = taps.patterns.data();
    const int32_t *const pattern_lanes = taps.lanes.data();
    const Acc *const weights = taps.weights<Acc>();
    const int64_t pattern_size = taps.max_count * lanes;
    const int64_t tap_stride = taps.tap_stride;
    const auto index_step = hn::Set(integer_tag,
            static_cast<hn::TFromD<decltype(integer_tag)>>(tap_stride));
    for (int64_t x = 0; x < elements; x += lanes, ++next) {
        const In *in = line + next->first;
        const Acc *weight = weights + next->pattern * pattern_size;
        const auto index
                = load_integers<Acc>(pattern_lanes + next->pattern * lanes);
        lane_tables<tables, hn::ScalableTag<Acc>> from(in);
        auto sum = hn::Mul(hn::LoadU(tag, weight), from(index));
        auto at = index;
        const auto has = [&](int32_t t) GRADNN_SIMD_INLINE {
            const int32_t below = (t + 1) << tap_count_shift;
            return hn::RebindMask(
                    tag, hn::Gt(index, hn::Set(integer_tag, below - 1)));
        };
        const auto add_tap = [&](int32_t t) GRADNN_SIMD_INLINE {
            in += tap_stride;
            weight += lanes;
            if (t % shared == 0) {
                from = lane_tables<tables, hn::ScalableTag<Acc>>(in);
                at = index;
            } else {
                at = hn::Add(at, index_step);
            }
            return hn::MulAdd(hn::LoadU(tag, weight), from(at), sum);
        };
        if constexpr (known > 0) {
            // Patterns differ: branches on their counts would be mispredicted.
            sum = hn::IfThenElseZero(has(0), sum);
#pragma GCC unroll 8
            for (int32_t t = 1; t < known; ++t)
                sum = hn::IfThenElse(has(t), add_tap(t), sum);
        } else {
            const element_taps::pattern pattern = patterns[next->pattern];
            if (pattern.fewest == 0) sum = hn::IfThenElseZero(has(0), sum);
            int32_t t = 1;
            for (; t < pattern.fewest; ++t)
                sum = add_tap(t);
            for (; t < pattern.most; ++t)
                sum = hn::IfThenElse(has(t), add_tap(t), sum);
        }
        use(sum, std::min(lanes, elements - x));
    }
}

template <int32_t count>
using count_of = std::integral_constant<int32_t, count>;

/// Takes the taps of vectors of elements from vector number `first` on, and
/// calls use(sum, lanes in use) for each in turn.
template <typename Acc, typename In, typename Use>
HWY_INLINE void take_taps(const element_taps &taps, const In *line,
        int64_t first, int64_t elements, const Use &use) {
    const auto look_up = [&](auto tables, auto shared, auto known) HWY_ATTR {
        look_up_taps<decltype(tables)::value, decltype(shared)::value,
                decltype(known)::value, Acc>(taps, line, first, elements, use);
    };
    const auto look_up_shared = [&](auto tables, auto shared) HWY_ATTR {
        switch (taps.max_count) {
            case 2: return look_up(tables, shared, count_of<2>());
            case 3: return look_up(tables, shared, count_of<3>());
            case 4: return look_up(tables, shared, count_of<4>());
            default: return look_up(tables, shared, count_of<0>());
        }
    };
    const auto look_up_from = [&](auto tables) HWY_ATTR {
        taps.share ? look_up_shared(tables, count_of<shared_taps>())
                   : look_up_shared(tables, count_of<1>());
    };
    switch (taps.tables) {
        case 1: look_up_from(std::integral_constant<size_t, 1>()); break;
        case 2: look_up_from(std::integral_constant<size_t, 2>()); break;
        default: look_up_from(std::integral_constant<size_t, 4>()); break;
    }
}

} // namespace gradnn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
