// Columns of a long axis that repeats nothing, whose channels are in lanes: places
// and weights of a block are computed before its taps are taken, by the integers of
// computed_taps.
//
// Included once for each of Highway's targets, like simd.hpp.
#include <algorithm>
#include <array>

#include "cpu/interpolation/columns.hpp"
#include "cpu/interpolation/computed_taps.hpp"
#include "cpu/interpolation/scratch.hpp"
#include "cpu/interpolation/walk_taps.hpp"
#include "cpu/simd/simd.hpp"

#if defined(GRADNN_CPU_INTERPOLATION_WALK_COLUMNS_TOGGLE) \
        == defined(HWY_TARGET_TOGGLE)
#ifdef GRADNN_CPU_INTERPOLATION_WALK_COLUMNS_TOGGLE
#undef GRADNN_CPU_INTERPOLATION_WALK_COLUMNS_TOGGLE
#else
#define GRADNN_CPU_INTERPOLATION_WALK_COLUMNS_TOGGLE
#endif

HWY_BEFORE_NAMESPACE();
namespace gradnn::cpu::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR // which takes tables

/// A strip's columns, a block at a time. All of an endless axis take max_count
/// outputs or one less: columns are put into a list of either kind, and those that
/// take others, at the axis' ends, into a list of runs.
template <typename Acc, typename Int>
class walking_columns {
    static constexpr hn::ScalableTag<Acc> tag {};
    static constexpr hn::RebindToSigned<hn::ScalableTag<Acc>> integers {};
    static constexpr auto lanes = static_cast<int64_t>(lanes_of<Acc>);

public:
    /// For so many columns at a time, from `begin` on; outputs are counted from
    /// `from` on. References are kept.
    template <typename T>
    walking_columns(const computed_taps &taps,
            const separable_scratch<T> &scratch, int64_t columns, int64_t begin,
            int64_t from)
        : taps_(taps),
          from_(from),
          pitch_(columns + max_lanes),
          by_vectors_(taps.max_count <= chain_terms),
          runs_(scratch.runs),
          factors_(taps.is_widened() ? scratch.factors : nullptr),
          filter_(taps),
          walk_(taps, begin, 0) {
        taps.start(begin, 0, {&first_, 1}, {&distance_, 1});
        for (size_t k = 0; k < kinds; ++k) {
            const auto before = static_cast<int64_t>(k) * pitch_;
            lists_[k].columns = scratch.columns + before;
            lists_[k].weights = scratch.weights + before * taps.max_count;
        }
    }

    /// The first output that the next column takes, as far as the axis has it.
    int64_t dst_begin() const {
        return std::clamp<int64_t>(
                       by_vectors_ ? walk_.lowest() : first_, 0, taps_.dst)
                - from_;
    }

    /// Lists columns [begin, end), which come next: whole vectors but at the end.
    HWY_NOINLINE void list(int64_t begin, int64_t end) {
        for (list_of &list : lists_)
            list.count = 0;
        other_weights_ = 0;
        run_count_ = 0;
        if (by_vectors_) {
            auto walk = walk_; // in registers
            for (int64_t i = begin; i < end; i += lanes, walk.next())
                list_vector(walk, i, i - begin, std::min(lanes, end - i));
            walk_ = walk;
        } else {
            for (int64_t i = begin; i < end; ++i)
                list_one(i, i - begin);
        }
    }
    /// Calls use(column_runs) for what has been listed.
    template <typename Use>
    HWY_INLINE void each(const Use &use) const {
        const auto regular = [&](size_t kind, int64_t taps) HWY_ATTR {
            const list_of &list = lists_[kind];
            if (list.count == 0) return;
            const column_taps::run run {static_cast<int32_t>(taps),
                    static_cast<int32_t>(list.count)};
            use(column_runs<Acc> {&run, &run + 1, list.columns, list.weights,
                    by_vectors_ ? pitch_ : 0});
        };
        if (lists_[others].count > 0)
            use(column_runs<Acc> {runs_, runs_ + run_count_,
                    lists_[others].columns, lists_[others].weights, 0});
        regular(fewer, taps_.max_count - 1);
        regular(most, taps_.max_count);
    }

private:
    enum : size_t { fewer, most, others, kinds };
    struct list_of {
        column_taps::column *columns = nullptr;
        Acc *weights = nullptr;
        int64_t count = 0;
    };

    /// A vector of columns, or less of them.
    HWY_INLINE void list_vector(const walking_lanes<Acc, Int> &walk, int64_t i,
            int64_t place, int64_t count) {
        const int64_t low = walk.lowest();
        const int64_t high = low + lanes * (taps_.to_next().outputs + 1);
        const int64_t taps = taps_.max_count;
        if (count == lanes && i > 0 && i + lanes < taps_.src && low >= 0
                && high + taps <= taps_.dst) {
            add_vector(walk, place);
        } else {
            const bool outside = i > 0 && i + count < taps_.src
                    && (low >= taps_.dst || high + taps <= 0);
            for (int64_t l = 0; l < count; ++l)
                add_other(i + l, place + l, outside);
        }
    }

    /// All of whose columns are within the axis.
    HWY_INLINE void add_vector(
            const walking_lanes<Acc, Int> &walk, int64_t place) {
        const int64_t taps = taps_.max_count;
        // Not vectors: GCC copies those of an array byte by byte.
        HWY_ALIGN Acc weights[chain_terms * lanes];
        const auto first = walk.firsts(from_);
        auto distances = walk.distances();
        auto all = walk.within(distances);
        for (int64_t t = 0; t < taps; ++t, walk.move_on(distances)) {
            auto weight = walk.weights(distances);
            if (factors_ != nullptr) {
                const int64_t lowest = walk.lowest() - from_;
                const auto to = static_cast<hn::TFromD<decltype(integers)>>(
                        t - lowest);
                weight = hn::Mul(weight,
                        factors_at(factors_ + lowest,
                                hn::Add(first, hn::Set(integers, to))));
            }
            hn::Store(weight, tag, weights + t * lanes);
            all = walk.within(distances);
        }
        const auto at = hn::Add(walk.numbers(),
                hn::Set(integers,
                        static_cast<hn::TFromD<decltype(integers)>>(place)));
        const auto add = [&](size_t kind, int64_t count, int64_t columns,
                                 const auto &pick) GRADNN_SIMD_INLINE {
            list_of &list = lists_[kind];
            store_columns(pick(first), pick(at), list.columns + list.count);
            for (int64_t t = 0; t < count; ++t)
                hn::StoreU(pick(hn::Load(tag, weights + t * lanes)), tag,
                        list.weights + t * pitch_ + list.count);
            list.count += columns;
        };
        const auto as_it_is = [](auto v) GRADNN_SIMD_INLINE { return v; };
        const auto of_all = static_cast<int64_t>(hn::CountTrue(tag, all));
        if (of_all == 0) return add(fewer, taps - 1, lanes, as_it_is);
        if (of_all == lanes) return add(most, taps, lanes, as_it_is);
        add(fewer, taps - 1, lanes - of_all, [&](auto v) GRADNN_SIMD_INLINE {
            return compressed(v, hn::Not(all));
        });
        add(most, taps, of_all,
                [&](auto v) GRADNN_SIMD_INLINE { return compressed(v, all); });
    }

    /// The lanes of a mask, at the vector's beginning. (GCC copies Highway's table for
    /// 64 bits to the stack each time.)
    template <class V, class M>
    static HWY_INLINE V compressed(V v, M mask) {
#if HWY_TARGET == HWY_AVX3
        if constexpr (sizeof(Acc) == sizeof(double)) {
            const hn::DFromV<V> d;
            const auto bits = hn::BitCast(tag, v);
            return hn::BitCast(d,
                    hn::VFromD<hn::ScalableTag<Acc>> {
                            _mm512_maskz_compress_pd(mask.raw, bits.raw)});
        }
#endif
        return hn::Compress(v, hn::RebindMask(hn::DFromV<V>(), mask));
    }

    template <class V>
    static HWY_INLINE void store_columns(
            V in, V out, column_taps::column *columns) {
        static_assert(sizeof(column_taps::column) == 2 * sizeof(int32_t));
        if constexpr (sizeof(Acc) == sizeof(int32_t))
            hn::StoreInterleaved2(
                    in, out, integers, reinterpret_cast<int32_t *>(columns));
        else // two of 32 bits are one of 64
            hn::StoreU(hn::Or(hn::ShiftLeft<32>(out), in), integers,
                    reinterpret_cast<int64_t *>(columns));
    }

    /// The next column, whose taps are many.
    void list_one(int64_t i, int64_t place) {
        const detail::axis_walk::line &line = taps_.line;
        const int64_t last = (taps_.max_count - 1) * line.slope;
        const bool all = distance_ + last < taps_.end_distance();
        const int64_t taken = taps_.max_count - (all ? 0 : 1);
        if (i > 0 && i + 1 < taps_.src && first_ >= 0
                && first_ + taken <= taps_.dst) {
            list_of &list = lists_[all ? most : fewer];
            weigh(taken, list.weights + list.count * taken);
            list.columns[list.count++] = {static_cast<int32_t>(first_ - from_),
                    static_cast<int32_t>(place)};
        } else {
            add_other(i, place,
                    i > 0 && i + 1 < taps_.src
                            && (first_ >= taps_.dst || first_ + taken <= 0));
        }
        const computed_taps::advance step = taps_.to_next();
        distance_ -= step.rest;
        first_ += step.outputs;
        if (distance_ >= taps_.least()) return;
        distance_ += line.slope;
        ++first_;
    }

    /// The weights of the next column's outputs; some more are stored.
    void weigh(int64_t count, Acc *weights) const {
        constexpr hn::ScalableTag<int64_t> wide {};
        constexpr hn::ScalableTag<double> wide_float {};
        constexpr hn::Rebind<Acc, decltype(wide)> narrow {};
        constexpr auto step = static_cast<int64_t>(lanes_of<int64_t>);
        const auto apart = hn::LoadU(wide, taps_.line_steps.data());
        for (int64_t t = 0; t < count; t += step) {
            const auto at = hn::Add(
                    hn::Set(wide, distance_ + t * taps_.line.slope), apart);
            const auto found = filter_(hn::ConvertTo(wide_float, hn::Abs(at)));
            if constexpr (sizeof(Acc) == sizeof(double))
                hn::StoreU(found, wide_float, weights + t);
            else
                hn::StoreU(hn::DemoteTo(narrow, found), narrow, weights + t);
        }
    }

    /// A column by its own places; `outside`: it takes nothing.
    HWY_NOINLINE void add_other(int64_t i, int64_t place, bool outside) {
        list_of &list = lists_[others];
        const int64_t begin = outside ? from_ : taps_.begin(i);
        const int64_t end = outside ? from_ : taps_.end(i);
        list.columns[list.count++] = {static_cast<int32_t>(begin - from_),
                static_cast<int32_t>(place)};
        for (int64_t o = begin; o < end; ++o)
            list.weights[other_weights_++]
                    = static_cast<Acc>(taps_.weight(i, o));
        const auto taken = static_cast<int32_t>(end - begin);
        if (run_count_ == 0 || runs_[run_count_ - 1].taps != taken)
            runs_[run_count_++] = {taken, 0};
        ++runs_[run_count_ - 1].columns;
    }

    const computed_taps &taps_;
    const int64_t from_;
    const int64_t pitch_; ///< of a list's weights of one tap and the next
    const bool by_vectors_;
    column_taps::run *const runs_; ///< of the others
    const Acc *const factors_; ///< of outputs' weights, or none
    const tap_filter<hn::ScalableTag<double>> filter_;
    std::array<list_of, kinds> lists_;
    int64_t run_count_ = 0;
    int64_t other_weights_ = 0;
    // Of the next columns.
    walking_lanes<Acc, Int> walk_;
    int64_t first_ = 0;
    int64_t distance_ = 0;
};

#endif
} // namespace gradnn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
