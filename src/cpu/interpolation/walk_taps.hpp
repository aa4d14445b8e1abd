// Taps of elements in lanes: their places and weights are computed on the way, from
// one vector's to the next one's by steps of integers (computed_taps.hpp).
//
// Included once for each of Highway's targets, like simd.hpp.
#include <algorithm>
#include <array>
#include <type_traits>

#include "cpu/interpolation/computed_taps.hpp"
#include "cpu/interpolation/lookup.hpp"
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

/// The inputs of a vector: the first output of each, and its distance.
template <typename Acc, bool nearest>
class walking_lanes {
    static constexpr hn::ScalableTag<Acc> tag {};
    static constexpr hn::ScalableTag<int64_t> wide {};
    static constexpr hn::ScalableTag<double> wide_float {};
    static constexpr hn::RebindToSigned<hn::ScalableTag<Acc>> integers {};
    using wide_vector = hn::VFromD<hn::ScalableTag<int64_t>>;
    using wide_float_vector = hn::VFromD<hn::ScalableTag<double>>;
    static constexpr size_t parts = sizeof(int64_t) / sizeof(Acc);
    using wide_vectors = std::array<wide_vector, parts>;

public:
    walking_lanes(const computed_taps &taps, int64_t input, int64_t from)
        : den_(hn::Set(wide, taps.line.den)),
          inverse_(hn::Set(wide_float, 1 / static_cast<double>(taps.line.den))),
          slope_(hn::Set(wide, taps.line.slope)),
          step_(hn::Set(wide, taps.step)),
          step_rest_(hn::Set(wide, taps.step_rest)) {
        constexpr size_t lanes = lanes_of<Acc>;
        std::array<int64_t, lanes> firsts {};
        std::array<int64_t, lanes> distances {};
        taps.start(input, from, firsts, distances);
        for (size_t p = 0; p < parts; ++p) {
            first_[p] = hn::LoadU(wide, firsts.data() + p * lanes_of<int64_t>);
            distance_[p]
                    = hn::LoadU(wide, distances.data() + p * lanes_of<int64_t>);
        }
    }

    /// Of the lane that is first.
    HWY_INLINE int64_t lowest() const { return hn::GetLane(first_[0]); }

    /// The first outputs, from `base` on.
    HWY_INLINE auto firsts(int64_t base) const {
        wide_vectors from;
        for (size_t p = 0; p < parts; ++p)
            from[p] = hn::Sub(first_[p], hn::Set(wide, base));
        if constexpr (parts == 1)
            return from[0];
        else
            return hn::ConcatEven(integers, hn::BitCast(integers, from[1]),
                    hn::BitCast(integers, from[0]));
    }

    /// The lanes' numbers.
    HWY_INLINE auto numbers() const { return numbers_; }

    /// Distances of the first outputs.
    HWY_INLINE wide_vectors distances() const { return distance_; }

    /// The weights of outputs at such distances, 0 for none; then those of the
    /// outputs behind them.
    HWY_INLINE auto weights(wide_vectors &distances) const {
        std::array<wide_float_vector, parts> of;
        for (size_t p = 0; p < parts; ++p) {
            const wide_vector at = distances[p];
            if constexpr (nearest) {
                of[p] = hn::IfThenElseZero(
                        hn::RebindMask(wide_float, hn::Lt(at, den_)),
                        hn::Set(wide_float, 1.0));
            } else {
                const auto rest = hn::Sub(
                        den_, hn::Max(at, hn::Sub(hn::Zero(wide), at)));
                const auto units = hn::ConvertTo(
                        wide_float, hn::Max(rest, hn::Zero(wide)));
                // What the product rounds off is far below a float's last bit.
                of[p] = parts == 1
                        ? hn::Div(units, hn::ConvertTo(wide_float, den_))
                        : hn::Mul(units, inverse_);
            }
            distances[p] = hn::Add(at, slope_);
        }
        if constexpr (parts == 1)
            return of[0];
        else
            return hn::Combine(tag,
                    hn::DemoteTo(hn::Half<hn::ScalableTag<Acc>>(), of[1]),
                    hn::DemoteTo(hn::Half<hn::ScalableTag<Acc>>(), of[0]));
    }

    HWY_INLINE void next() {
        const auto least = nearest ? hn::Zero(wide)
                                   : hn::Sub(hn::Set(wide, int64_t {1}), den_);
        for (size_t p = 0; p < parts; ++p) {
            const auto at = hn::Sub(distance_[p], step_rest_);
            const auto late = hn::Lt(at, least);
            distance_[p] = hn::Add(at, hn::IfThenElseZero(late, slope_));
            first_[p] = hn::Add(hn::Add(first_[p], step_),
                    hn::IfThenElseZero(late, hn::Set(wide, int64_t {1})));
        }
    }

private:
    wide_vector den_;
    wide_float_vector inverse_;
    wide_vector slope_;
    wide_vector step_;
    wide_vector step_rest_;
    hn::VFromD<decltype(integers)> numbers_ = hn::Iota(integers, 0);
    wide_vectors first_;
    wide_vectors distance_;
};

/// The part of a line that a strip's inputs take.
template <typename In>
struct line_part {
    const In *line;
    int64_t dst_begin; ///< the output that it begins with
    int64_t dst_end;
    int64_t src_begin; ///< inputs
    int64_t src_end;
};

/// Takes the taps of a strip's inputs and calls use(sum, lanes in use) for each
/// vector. `tables` as in computed_taps.
template <size_t tables, bool nearest, typename Acc, typename In, typename Use>
HWY_INLINE void take_walking_taps(
        const computed_taps &taps, const line_part<In> &part, const Use &use) {
    constexpr hn::ScalableTag<Acc> tag {};
    constexpr hn::RebindToSigned<hn::ScalableTag<Acc>> integers {};
    using integer = hn::TFromD<decltype(integers)>;
    constexpr auto lanes = static_cast<int64_t>(lanes_of<Acc>);
    const auto zero = hn::Zero(integers);
    walking_lanes<Acc, nearest> walk(taps, part.src_begin, part.dst_begin);
    const int64_t outputs = part.dst_end - part.dst_begin;

    // An end takes what lies beyond it too.
    const auto with_end = [&](auto sum, int64_t i, int64_t lane) HWY_ATTR {
        Acc all {0};
        for (int64_t o = taps.begin(i); o < taps.end(i); ++o)
            all += static_cast<Acc>(taps.weight(i, o))
                    * convert_scalar<Acc>(part.line[o - part.dst_begin]);
        std::array<Acc, static_cast<size_t>(lanes)> each;
        hn::StoreU(sum, tag, each.data());
        each[static_cast<size_t>(lane)] = all;
        return hn::LoadU(tag, each.data());
    };

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
            const auto weight = walk.weights(distances);
            const auto taken
                    = hn::And(hn::And(hn::Gt(weight, hn::Zero(tag)),
                                      hn::RebindMask(tag, hn::Lt(at, behind))),
                            hn::RebindMask(tag, hn::Gt(at, before)));
            auto value = hn::Undefined(tag);
            if constexpr (tables > 0)
                value = table(at);
            else if constexpr (std::is_same_v<In, Acc>)
                value = hn::GatherIndex(tag, from,
                        hn::IfThenElse(
                                hn::RebindMask(integers, taken), at, zero));
            sum = hn::IfThenElse(taken, hn::MulAdd(weight, value, sum), sum);
        }
        if (i == 0) sum = with_end(sum, 0, 0);
        if (i + lanes >= taps.src)
            sum = with_end(sum, taps.src - 1, taps.src - 1 - i);
        use(sum, std::min(lanes, part.src_end - i));
        walk.next();
    }
}

template <typename Acc, typename In, typename Use>
HWY_INLINE void take_walking_taps(
        const computed_taps &taps, const line_part<In> &part, const Use &use) {
    const auto take = [&](auto tables) HWY_ATTR {
        constexpr size_t count = decltype(tables)::value;
        if (taps.nearest)
            take_walking_taps<count, true, Acc>(taps, part, use);
        else
            take_walking_taps<count, false, Acc>(taps, part, use);
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
