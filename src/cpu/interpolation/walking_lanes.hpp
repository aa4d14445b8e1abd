// Inputs of a long axis, a vector at a time: the outputs that they take and what these
// weigh, from one vector's to the next one's by steps of integers
// (computed_taps.hpp).
//
// Included once for each of Highway's targets, like simd.hpp.
#include <algorithm>
#include <array>

#include "cpu/interpolation/computed_taps.hpp"
#include "cpu/simd/simd.hpp"

#if defined(GRADNN_CPU_INTERPOLATION_WALKING_LANES_TOGGLE) \
        == defined(HWY_TARGET_TOGGLE)
#ifdef GRADNN_CPU_INTERPOLATION_WALKING_LANES_TOGGLE
#undef GRADNN_CPU_INTERPOLATION_WALKING_LANES_TOGGLE
#else
#define GRADNN_CPU_INTERPOLATION_WALKING_LANES_TOGGLE
#endif

HWY_BEFORE_NAMESPACE();
namespace gradnn::cpu::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR // which has no halves, and takes tables

/// What outputs weigh at distances in units of 1 / den, of which those within reach
/// are asked for.
template <class D>
class tap_filter {
    using vector = hn::VFromD<D>;
    using number = hn::TFromD<D>;

public:
    explicit tap_filter(const computed_taps &taps)
        : filter_(taps.filter),
          unit_(hn::Set(D(), static_cast<number>(taps.unit))),
          inverse_(hn::Set(D(),
                  static_cast<number>(1 / static_cast<double>(taps.unit)))),
          a_(hn::Set(D(), static_cast<number>(taps.cubic_coeff_a))) {}

    /// At a distance of so many units, either way.
    HWY_INLINE vector operator()(vector units) const {
        if (filter_ == computed_taps::shape::nearest)
            return hn::Set(D(), number {1});
        if (filter_ == computed_taps::shape::cubic) return cubic(units);
        const auto rest = hn::Sub(unit_, units);
        // As floats all are exact, and a product and what it lacks take less time
        // than a division. (f64 from floats rounds off far less than their bits.)
        if constexpr (HWY_NATIVE_FMA && sizeof(number) == sizeof(float)) {
            const auto product = hn::Mul(rest, inverse_);
            return hn::MulAdd(
                    hn::NegMulAdd(product, unit_, rest), inverse_, product);
        }
        return hn::Div(rest, unit_);
    }

private:
    /// As axis_filter's.
    HWY_INLINE vector cubic(vector units) const {
        const auto one = hn::Set(D(), number {1});
        const auto x = hn::Mul(units, inverse_);
        const auto to_one = hn::Mul(hn::Sub(unit_, units), inverse_);
        const auto to_two
                = hn::Mul(hn::Sub(hn::Add(unit_, unit_), units), inverse_);
        const auto slope = hn::Sub(
                one, hn::Mul(hn::Add(a_, hn::Set(D(), number {2})), x));
        const auto near = hn::Mul(to_one, hn::MulAdd(x, slope, one));
        const auto far = hn::Mul(
                hn::Neg(hn::Mul(a_, to_one)), hn::Mul(to_two, to_two));
        return hn::IfThenElse(hn::Lt(units, unit_), near, far);
    }

    computed_taps::shape filter_;
    vector unit_;
    vector inverse_;
    vector a_;
};

/// The inputs of a vector: the first output of each, and its distance. `Int` holds
/// distances: half as many bits, where they fit, take half the instructions.
template <typename Acc, typename Int>
class walking_lanes {
    static constexpr hn::ScalableTag<Acc> tag {};
    static constexpr hn::ScalableTag<Int> wide {};
    static constexpr hn::RebindToSigned<hn::ScalableTag<Acc>> integers {};
    using float_vector = hn::VFromD<hn::ScalableTag<Acc>>;
    using wide_vector = hn::VFromD<hn::ScalableTag<Int>>;
    static constexpr size_t parts = sizeof(Int) / sizeof(Acc);
    using wide_vectors = std::array<wide_vector, parts>;
    using wide_float = hn::RebindToFloat<hn::ScalableTag<Int>>;

public:
    walking_lanes(const computed_taps &taps, int64_t input, int64_t from)
        : filter_(taps),
          least_(set(taps.least())),
          end_(set(taps.end_distance())),
          slope_(set(taps.line.slope)),
          step_(set(taps.step)),
          step_rest_(set(taps.step_rest)) {
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

    /// Those of the outputs behind them.
    HWY_INLINE void move_on(wide_vectors &distances) const {
        for (wide_vector &at : distances)
            at = hn::Add(at, slope_);
    }

    /// Which lanes take outputs at such distances, which are not before the first.
    HWY_INLINE auto within(const wide_vectors &distances) const {
        if constexpr (parts == 1) {
            return hn::RebindMask(tag, hn::Lt(distances[0], end_));
        } else { // by the signs, which the upper halves have
            const auto behind = [&](size_t p) HWY_ATTR {
                return hn::BitCast(integers, hn::Sub(distances[p], end_));
            };
            return hn::RebindMask(tag,
                    hn::Lt(hn::ConcatOdd(integers, behind(1), behind(0)),
                            hn::Zero(integers)));
        }
    }

    /// The weights of outputs at such distances, where they are taken.
    HWY_INLINE float_vector weights(const wide_vectors &distances) const {
        const auto of = [&](size_t p) HWY_ATTR {
            return filter_(hn::ConvertTo(wide_float(), hn::Abs(distances[p])));
        };
        if constexpr (parts == 1) {
            return of(0);
        } else {
            const hn::Half<hn::ScalableTag<Acc>> half;
            return hn::Combine(
                    tag, hn::DemoteTo(half, of(1)), hn::DemoteTo(half, of(0)));
        }
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

    tap_filter<wide_float> filter_;
    wide_vector least_; ///< distance of a first output
    wide_vector end_; ///< and of the one behind the last
    wide_vector slope_;
    wide_vector step_;
    wide_vector step_rest_;
    hn::VFromD<decltype(integers)> numbers_ = hn::Iota(integers, 0);
    wide_vectors first_;
    wide_vectors distance_;
};

/// One by the sum of the filter of each of the outputs from `begin` on: a few vectors
/// may be stored beyond them.
template <typename Acc>
HWY_NOINLINE void invert_sums(
        const computed_taps &taps, int64_t begin, int64_t count, Acc *factors) {
    constexpr hn::ScalableTag<double> tag {};
    constexpr hn::ScalableTag<int64_t> integers {};
    constexpr hn::Rebind<Acc, decltype(tag)> narrow {};
    constexpr auto lanes = static_cast<int64_t>(lanes_of<double>);
    const bool is_linear = taps.filter == computed_taps::shape::linear;
    const tap_filter<decltype(tag)> filter(taps);
    const auto unit = hn::Set(integers, taps.unit);
    const auto den = hn::Set(integers, taps.line.den);
    const auto reach = hn::Set(tag, static_cast<double>(taps.end_distance()));
    const int64_t most = taps.inputs_beside();
    const auto before = hn::Set(integers, (1 - most) * taps.line.den);
    const auto step = hn::Set(
            integers, taps.line.slope % taps.line.den * lanes % taps.line.den);
    std::array<int64_t, lanes_of<double>> rests;
    for (int64_t l = 0; l < lanes; ++l)
        rests[static_cast<size_t>(l)] = taps.rest_of(begin + l);
    auto rest = hn::LoadU(integers, rests.data());
    for (int64_t i = 0; i < count; i += lanes) {
        auto at = hn::Sub(rest, before);
        auto units = hn::Zero(integers);
        auto sum = hn::Zero(tag);
        for (int64_t k = 1 - most; k <= most; ++k, at = hn::Sub(at, den)) {
            if (is_linear) {
                units = hn::Add(units,
                        hn::Max(hn::Sub(unit, hn::Abs(at)),
                                hn::Zero(integers)));
            } else {
                const auto apart = hn::ConvertTo(tag, hn::Abs(at));
                sum = hn::Add(sum,
                        hn::IfThenElseZero(
                                hn::Lt(apart, reach), filter(apart)));
            }
        }
        const auto factor = is_linear
                ? hn::Div(hn::ConvertTo(tag, unit), hn::ConvertTo(tag, units))
                : hn::Div(hn::Set(tag, 1.0), sum);
        if constexpr (sizeof(Acc) == sizeof(double))
            hn::StoreU(factor, tag, factors + i);
        else
            hn::StoreU(hn::DemoteTo(narrow, factor), narrow, factors + i);
        rest = hn::Add(rest, step);
        rest = hn::Sub(rest, hn::IfThenZeroElse(hn::Lt(rest, den), den));
    }
    // Of outputs that may leave inputs out.
    const auto correct = [&](int64_t from, int64_t to) HWY_ATTR {
        for (int64_t o = std::max(from, begin); o < std::min(to, begin + count);
                ++o)
            factors[o - begin] = static_cast<Acc>(1 / taps.sum_of(o));
    };
    correct(begin, taps.inner_begin());
    correct(std::max(taps.inner_begin(), taps.inner_end()), begin + count);
}

#endif
} // namespace gradnn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
