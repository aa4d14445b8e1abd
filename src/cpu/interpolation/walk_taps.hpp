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

/// The inputs of a vector: the first output of each, and its distance. `Int` holds
/// distances: half as many bits, where they fit, take half the instructions.
template <typename Acc, typename Int>
class walking_lanes {
    static constexpr hn::ScalableTag<Acc> tag {};
    static constexpr hn::ScalableTag<Int> wide {};
    static constexpr hn::ScalableTag<double> wide_float {};
    static constexpr hn::RebindToSigned<hn::ScalableTag<Acc>> integers {};
    using float_vector = hn::VFromD<hn::ScalableTag<Acc>>;
    using wide_vector = hn::VFromD<hn::ScalableTag<Int>>;
    static constexpr size_t parts = sizeof(Int) / sizeof(Acc);
    using wide_vectors = std::array<wide_vector, parts>;

public:
    walking_lanes(const computed_taps &taps, int64_t input, int64_t from)
        : nearest_(taps.nearest),
          den_(set(taps.line.den)),
          least_(set(taps.nearest ? 0 : 1 - taps.line.den)),
          slope_(set(taps.line.slope)),
          step_(set(taps.step)),
          step_rest_(set(taps.step_rest)),
          float_den_(hn::Set(tag, static_cast<Acc>(taps.line.den))),
          float_inverse_(hn::Set(tag,
                  static_cast<Acc>(1 / static_cast<double>(taps.line.den)))),
          inverse_(
                  hn::Set(wide_float, 1 / static_cast<double>(taps.line.den))) {
        constexpr size_t lanes = lanes_of<Acc>;
        std::array<int64_t, lanes> firsts {};
        std::array<int64_t, lanes> distances {};
        taps.start(input, from, firsts, distances);
        std::array<Int, lanes> narrow {};
        const auto load_parts = [&](const auto &numbers, wide_vectors &to) {
            for (size_t lane = 0; lane < lanes; ++lane)
                narrow[lane] = static_cast<Int>(numbers[lane]);
            for (size_t p = 0; p < parts; ++p)
                to[p] = hn::LoadU(wide, narrow.data() + p * lanes_of<Int>);
        };
        load_parts(firsts, first_);
        load_parts(distances, distance_);
    }

    /// Of the lane that is first.
    HWY_INLINE int64_t lowest() const { return hn::GetLane(first_[0]); }

    /// The first outputs, from `base` on.
    HWY_INLINE auto firsts(int64_t base) const {
        wide_vectors from;
        for (size_t p = 0; p < parts; ++p)
            from[p] = hn::Sub(first_[p], set(base));
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
    HWY_INLINE float_vector weights(wide_vectors &distances) const {
        std::array<float_vector, parts> of;
        for (size_t p = 0; p < parts; ++p) {
            const wide_vector at = distances[p];
            distances[p] = hn::Add(at, slope_);
            of[p] = nearest_ ? one_below(at)
                             : quotient(hn::Max(hn::Sub(den_, hn::Abs(at)),
                                     hn::Zero(wide)));
        }
        if constexpr (parts == 1)
            return of[0];
        else
            return hn::ConcatLowerLower(tag, of[1], of[0]);
    }

    HWY_INLINE void next() {
        for (size_t p = 0; p < parts; ++p) {
            const auto at = hn::Sub(distance_[p], step_rest_);
            const auto late = hn::Lt(at, least_);
            distance_[p] = hn::Add(at, hn::IfThenElseZero(late, slope_));
            first_[p] = hn::Add(hn::Add(first_[p], step_),
                    hn::IfThenElseZero(late, set(1)));
        }
    }

private:
    static HWY_INLINE wide_vector set(int64_t value) {
        return hn::Set(wide, static_cast<Int>(value));
    }

    /// Of `parts` vectors the lower half.
    template <class V>
    static HWY_INLINE float_vector narrowed(V v) {
        if constexpr (parts == 1)
            return v;
        else
            return hn::ZeroExtendVector(
                    tag, hn::DemoteTo(hn::Half<decltype(tag)>(), v));
    }

    HWY_INLINE float_vector one_below(wide_vector at) const {
        const auto is_below = hn::Lt(at, den_);
        if constexpr (parts == 1)
            return hn::IfThenElseZero(
                    hn::RebindMask(tag, is_below), hn::Set(tag, Acc {1}));
        else
            return narrowed(
                    hn::IfThenElseZero(hn::RebindMask(wide_float, is_below),
                            hn::Set(wide_float, 1.0)));
    }

    /// units / den
    HWY_INLINE float_vector quotient(wide_vector units) const {
        // As floats both are exact, and a product and what it lacks take less time
        // than a division.
        constexpr bool by_product
                = HWY_NATIVE_FMA && sizeof(Int) < sizeof(double);
        if constexpr (parts
                == 2) { // rounds off far less than a float's last bit
            return narrowed(
                    hn::Mul(hn::ConvertTo(wide_float, units), inverse_));
        } else if constexpr (by_product) {
            const auto u = hn::ConvertTo(tag, units);
            const auto q = hn::Mul(u, float_inverse_);
            return hn::MulAdd(
                    hn::NegMulAdd(q, float_den_, u), float_inverse_, q);
        } else {
            return hn::Div(hn::ConvertTo(tag, units), float_den_);
        }
    }

    bool nearest_;
    wide_vector den_;
    wide_vector least_; ///< distance of a first output
    wide_vector slope_;
    wide_vector step_;
    wide_vector step_rest_;
    float_vector float_den_;
    float_vector float_inverse_;
    hn::VFromD<decltype(wide_float)> inverse_;
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

/// An end takes what lies beyond it too: input i's sum in the lanes from `lane` on,
/// as many as there are of its channels from `channel` on.
template <typename Acc, typename In, class V>
HWY_NOINLINE V with_end(const computed_taps &taps, const line_part<In> &part,
        V sum, int64_t i, int64_t lane, int64_t channel) {
    constexpr hn::ScalableTag<Acc> tag {};
    std::array<Acc, lanes_of<Acc>> each;
    hn::StoreU(sum, tag, each.data());
    for (; channel < taps.channels && lane < static_cast<int64_t>(each.size());
            ++channel, ++lane) {
        Acc all {0};
        for (int64_t o = taps.begin(i); o < taps.end(i); ++o)
            all += static_cast<Acc>(taps.weight(i, o))
                    * convert_scalar<Acc>(
                            part.line[(o - part.dst_begin) * taps.channels
                                    + channel]);
        each[static_cast<size_t>(lane)] = all;
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
    const auto none = hn::Zero(tag);
    walking_lanes<Acc, Int> walk(taps, part.src_begin, part.dst_begin);
    for (int64_t i = part.src_begin; i < part.src_end;
            i += lanes, walk.next()) {
        const auto first = walk.firsts(0);
        hn::Store(first, integers, firsts);
        auto distances = walk.distances();
        auto at = first;
        for (int64_t t = 0; t < taps.max_count; ++t) {
            const auto within = hn::And(hn::Lt(at, behind),
                    hn::Gt(at, hn::Set(integers, integer {-1})));
            hn::Store(hn::IfThenElseZero(hn::RebindMask(tag, within),
                              walk.weights(distances)),
                    tag, weights + t * lanes);
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
            auto sum = none;
            for (int64_t t = 0; t < taps.max_count; ++t) {
                const auto weight = hn::TableLookupLanes(
                        hn::Load(tag, weights + t * lanes), mine);
                sum = hn::IfThenElse(hn::Gt(weight, none),
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
        take_by(tables, int64_t {0});
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
