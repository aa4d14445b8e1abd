// Taps of elements in lanes: looked up in the line by tables that are made with
// the plan.
//
// Included once for each of Highway's targets, like simd.hpp.
#include <algorithm>

#include "cpu/interpolation_separable.hpp"
#include "cpu/simd.hpp"

#if defined(GRADNN_CPU_INTERPOLATION_LOOKUP_TOGGLE) \
        == defined(HWY_TARGET_TOGGLE)
#ifdef GRADNN_CPU_INTERPOLATION_LOOKUP_TOGGLE
#undef GRADNN_CPU_INTERPOLATION_LOOKUP_TOGGLE
#else
#define GRADNN_CPU_INTERPOLATION_LOOKUP_TOGGLE
#endif

HWY_BEFORE_NAMESPACE();
namespace gradnn::cpu::HWY_NAMESPACE {

/// Takes lanes by index from `tables` vectors that follow one another in memory;
/// 1, 2 or 4 of them.
template <size_t tables, class D>
class lane_lookup {
    using T = hn::TFromD<D>;
    using signed_tag = hn::RebindToSigned<D>;
    using indices = decltype(hn::IndicesFromVec(D(), hn::Zero(signed_tag())));
    static constexpr auto lanes = static_cast<int>(lanes_of<T>);

public:
    HWY_INLINE explicit lane_lookup(hn::VFromD<signed_tag> index)
        : index_(index),
          within_(hn::IndicesFromVec(
                  D(), hn::And(index, hn::Set(signed_tag(), lanes - 1)))) {}

    HWY_INLINE hn::VFromD<D> operator()(const T *from) const {
        if constexpr (tables == 1) {
            return hn::TableLookupLanes(hn::LoadU(D(), from), within_);
        } else if constexpr (tables == 2) {
            return of_two(from);
        } else {
            return hn::IfThenElse(
                    has_bit(2 * lanes), of_two(from + 2 * lanes), of_two(from));
        }
    }

private:
    HWY_INLINE hn::Mask<D> has_bit(int bit) const {
        const auto value = hn::Set(signed_tag(), bit);
        return hn::RebindMask(D(), hn::TestBit(index_, value));
    }
    HWY_INLINE hn::VFromD<D> of_two(const T *from) const {
        const auto low = hn::LoadU(D(), from);
        const auto high = hn::LoadU(D(), from + lanes);
#if HWY_TARGET == HWY_AVX3
        if constexpr (std::is_same_v<T, float>)
            return hn::VFromD<D> {
                    _mm512_permutex2var_ps(low.raw, index_.raw, high.raw)};
        else
            return hn::VFromD<D> {
                    _mm512_permutex2var_pd(low.raw, index_.raw, high.raw)};
#else
        return hn::IfThenElse(has_bit(lanes),
                hn::TableLookupLanes(high, within_),
                hn::TableLookupLanes(low, within_));
#endif
    }

    hn::VFromD<signed_tag> index_;
    indices within_;
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

template <size_t tables, typename Acc, typename Use>
HWY_INLINE void look_up_taps(const element_taps &taps, const Acc *line,
        int64_t first, int64_t elements, const Use &use) {
    constexpr hn::ScalableTag<Acc> tag {};
    constexpr auto lanes = static_cast<int64_t>(lanes_of<Acc>);
    constexpr hn::RebindToSigned<hn::ScalableTag<Acc>> integer_tag {};
    const element_taps::vector *next = taps.vectors.data() + first;
    const element_taps::pattern *const patterns = taps.patterns.data();
    const int32_t *const indices = taps.index.data();
    const int32_t *const counts = taps.count.data();
    const Acc *const weights = taps.weights<Acc>();
    const int64_t pattern_size = taps.max_count * lanes;
    const int64_t tap_stride = taps.tap_stride;
    for (int64_t x = 0; x < elements; x += lanes, ++next) {
        const Acc *in = line + next->first;
        const element_taps::pattern pattern = patterns[next->pattern];
        const Acc *weight = weights + next->pattern * pattern_size;
        const auto count = load_integers<Acc>(counts + next->pattern * lanes);
        const lane_lookup<tables, hn::ScalableTag<Acc>> look_up(
                load_integers<Acc>(indices + next->pattern * lanes));
        const auto has = [&](int32_t t) HWY_ATTR {
            return hn::RebindMask(tag, hn::Gt(count, hn::Set(integer_tag, t)));
        };
        auto sum = hn::Mul(hn::LoadU(tag, weight), look_up(in));
        if (pattern.fewest == 0) sum = hn::IfThenElseZero(has(0), sum);
        int32_t t = 1;
        for (; t < pattern.fewest; ++t) {
            in += tap_stride;
            weight += lanes;
            sum = hn::MulAdd(hn::LoadU(tag, weight), look_up(in), sum);
        }
        for (; t < pattern.most; ++t) {
            in += tap_stride;
            weight += lanes;
            sum = hn::IfThenElse(has(t),
                    hn::MulAdd(hn::LoadU(tag, weight), look_up(in), sum), sum);
        }
        use(sum, std::min(lanes, elements - x));
    }
}

/// Takes the taps of vectors of elements from vector number `first` on, and
/// calls use(sum, lanes in use) for each in turn.
template <typename Acc, typename Use>
HWY_INLINE void take_taps(const element_taps &taps, const Acc *line,
        int64_t first, int64_t elements, const Use &use) {
    switch (taps.tables) {
        case 1: look_up_taps<1>(taps, line, first, elements, use); break;
        case 2: look_up_taps<2>(taps, line, first, elements, use); break;
        default: look_up_taps<4>(taps, line, first, elements, use); break;
    }
}

} // namespace gradnn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
