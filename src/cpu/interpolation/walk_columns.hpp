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
/// outputs or one less: columns are put into lists of either kind, and those that
/// take others, at the axis' ends, into a list of runs.
template <typename Acc>
class walking_columns {
public:
    /// For so many columns at a time; outputs are counted from `from` on. References
    /// are kept.
    template <typename T>
    walking_columns(const computed_taps &taps,
            const separable_scratch<T> &scratch, int64_t columns, int64_t from)
        : taps_(taps),
          from_(from),
          runs_(scratch.runs),
          inverse_(1 / static_cast<double>(taps.line.den)) {
        for (size_t k = 0; k < kinds; ++k) {
            lists_[k].columns
                    = scratch.columns + static_cast<int64_t>(k) * columns;
            lists_[k].weights = scratch.weights
                    + static_cast<int64_t>(k) * columns * taps.max_count;
        }
    }

    /// Goes to column i.
    void start(int64_t i) { taps_.start(i, 0, {&first_, 1}, {&distance_, 1}); }
    /// The first output that the next column takes, as far as the axis has it.
    int64_t dst_begin() const {
        return std::clamp<int64_t>(first_, 0, taps_.dst) - from_;
    }

    /// Lists columns [begin, end), which come next.
    void list(int64_t begin, int64_t end) {
        if (taps_.nearest)
            list_as<true, 1>(begin, end);
        else if (taps_.max_count <= 2)
            list_as<false, 2>(begin, end);
        else if (taps_.max_count <= 4)
            list_as<false, 4>(begin, end);
        else
            list_as<false, 8>(begin, end);
    }
    /// Calls use(column_runs) for what has been listed.
    template <typename Use>
    HWY_INLINE void each(const Use &use) const {
        const auto regular = [&](size_t kind, int64_t taps) HWY_ATTR {
            const list_of &list = lists_[kind];
            if (list.count == 0) return;
            const column_taps::run run {static_cast<int32_t>(taps),
                    static_cast<int32_t>(list.count)};
            use(column_runs<Acc> {&run, &run + 1, list.columns, list.weights});
        };
        if (lists_[others].count > 0)
            use(column_runs<Acc> {runs_, runs_ + run_count_,
                    lists_[others].columns, lists_[others].weights});
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

    template <bool nearest, size_t width>
    HWY_NOINLINE void list_as(int64_t begin, int64_t end) {
        const computed_taps::advance step = taps_.to_next();
        // Whether all are within the axis: no output lies before another's.
        const int64_t reach = first_ + (end - begin) * (step.outputs + 1);
        const bool within = begin > 0 && end < taps_.src && first_ >= 0
                && reach + taps_.max_count <= taps_.dst;
        const int64_t last = (taps_.max_count - 1) * taps_.line.slope;
        const int64_t least = nearest ? 0 : 1 - taps_.line.den;
        int64_t first = first_;
        int64_t distance = distance_;
        Acc *few_weights = lists_[fewer].weights;
        Acc *most_weights = lists_[most].weights;
        column_taps::column *few_columns = lists_[fewer].columns;
        column_taps::column *most_columns = lists_[most].columns;
        lists_[others].count = 0;
        other_weights_ = 0;
        run_count_ = 0;
        for (int64_t i = begin; i < end; ++i) {
            const bool all = distance + last < taps_.line.den;
            const int64_t taken = taps_.max_count - (all ? 0 : 1);
            if (within || is_regular(i, first, taken)) {
                Acc *const weights = all ? most_weights : few_weights;
                column_taps::column *const column
                        = all ? most_columns : few_columns;
                weigh<nearest, width>(distance, taken, weights);
                *column = {static_cast<int32_t>(first - from_),
                        static_cast<int32_t>(i - begin)};
                most_weights += all ? taken : 0;
                few_weights += all ? 0 : taken;
                most_columns += all ? 1 : 0;
                few_columns += all ? 0 : 1;
            } else {
                add_other(i, i - begin);
            }
            distance -= step.rest;
            const bool late = distance < least;
            distance += late ? taps_.line.slope : 0;
            first += step.outputs + (late ? 1 : 0);
        }
        first_ = first;
        distance_ = distance;
        lists_[fewer].count = few_columns - lists_[fewer].columns;
        lists_[most].count = most_columns - lists_[most].columns;
    }

    /// Whether column i takes what it would of an endless axis.
    bool is_regular(int64_t i, int64_t first, int64_t taken) const {
        return i > 0 && i + 1 < taps_.src && first >= 0
                && first + taken <= taps_.dst;
    }

    /// The weights of outputs from a distance on, and of up to `width` more.
    template <bool nearest, size_t width>
    HWY_INLINE void weigh(int64_t distance, int64_t count, Acc *weights) const {
        constexpr hn::CappedTag<int64_t, width> wide {};
        constexpr hn::RebindToFloat<decltype(wide)> wide_float {};
        constexpr hn::Rebind<Acc, decltype(wide)> tag {};
        constexpr auto lanes = static_cast<int64_t>(hn::MaxLanes(wide));
        if constexpr (nearest) {
            std::fill_n(weights, count, Acc {1});
            return;
        }
        const auto den = hn::Set(wide, taps_.line.den);
        for (int64_t t = 0; t < count; t += lanes) {
            const auto at
                    = hn::Add(hn::Set(wide, distance + t * taps_.line.slope),
                            hn::LoadU(wide, taps_.line_steps.data()));
            const auto rest
                    = hn::Sub(den, hn::Max(at, hn::Sub(hn::Zero(wide), at)));
            const auto units = hn::ConvertTo(wide_float, rest);
            if constexpr (sizeof(Acc) == sizeof(double))
                hn::StoreU(hn::Div(units, hn::ConvertTo(wide_float, den)),
                        wide_float, weights + t);
            else // what the product rounds off is far below a float's last bit
                hn::StoreU(
                        hn::DemoteTo(tag,
                                hn::Mul(units, hn::Set(wide_float, inverse_))),
                        tag, weights + t);
        }
    }

    HWY_NOINLINE void add_other(int64_t i, int64_t place) {
        list_of &list = lists_[others];
        const int64_t begin = taps_.begin(i);
        const auto taken = static_cast<int32_t>(taps_.end(i) - begin);
        list.columns[list.count++] = {static_cast<int32_t>(begin - from_),
                static_cast<int32_t>(place)};
        for (int64_t o = begin; o < begin + taken; ++o)
            list.weights[other_weights_++]
                    = static_cast<Acc>(taps_.weight(i, o));
        if (run_count_ == 0 || runs_[run_count_ - 1].taps != taken)
            runs_[run_count_++] = {taken, 0};
        ++runs_[run_count_ - 1].columns;
    }

    const computed_taps &taps_;
    const int64_t from_;
    column_taps::run *const runs_; ///< of the others
    const double inverse_;
    std::array<list_of, kinds> lists_;
    int64_t run_count_ = 0;
    int64_t other_weights_ = 0;
    // Of the next column.
    int64_t first_ = 0;
    int64_t distance_ = 0;
};

#endif
} // namespace gradnn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
