// Taps along W of lines: of channels, elements, phases or lines in lanes
// (separable.cpp).
//
// Included once for each of Highway's targets, like simd.hpp.
#include <algorithm>
#include <type_traits>
#include <utility>

#include "cpu/interpolation/columns.hpp"
#include "cpu/interpolation/line_rows.hpp"
#include "cpu/interpolation/lookup.hpp"
#include "cpu/interpolation/scratch.hpp"
#include "cpu/interpolation/separable.hpp"
#include "cpu/interpolation/squares.hpp"
#include "cpu/interpolation/stage.hpp"
#include "cpu/interpolation/sums.hpp"
#include "cpu/interpolation/walk_columns.hpp"
#include "cpu/interpolation/walk_taps.hpp"
#include "cpu/simd/simd.hpp"

#if defined(GRADNN_CPU_INTERPOLATION_LINE_TAPS_TOGGLE) \
        == defined(HWY_TARGET_TOGGLE)
#ifdef GRADNN_CPU_INTERPOLATION_LINE_TAPS_TOGGLE
#undef GRADNN_CPU_INTERPOLATION_LINE_TAPS_TOGGLE
#else
#define GRADNN_CPU_INTERPOLATION_LINE_TAPS_TOGGLE
#endif

HWY_BEFORE_NAMESPACE();
namespace gradnn::cpu::HWY_NAMESPACE {

/// Takes the taps along W of the lines of a group, and puts them on the stage.
template <typename T>
class line_taps {
    using acc = accumulator_of<T>;
    static constexpr hn::ScalableTag<acc> tag {};
    using vector = hn::VFromD<hn::ScalableTag<acc>>;
    static constexpr auto lanes = static_cast<int64_t>(lanes_of<acc>);
    /// An accumulator's bits.
    using integer = hn::TFromD<hn::RebindToSigned<hn::ScalableTag<acc>>>;

public:
    /// References are kept.
    line_taps(const separable_job &job, const separable_scratch<T> &scratch,
            const column_strip &strip, result_stage<T> &results,
            const T *diff_dst)
        : job_(job),
          scratch_(scratch),
          strip_(strip),
          results_(results),
          diff_dst_(diff_dst) {}

    /// Whether the group's lines are rows of diff_dst as they are.
    void set_direct(bool direct) { direct_ = direct; }

    void take() {
#if HWY_TARGET != HWY_SCALAR
        if (job_.computed && job_.computed->is_widened()
                && std::exchange(factors_of_, strip_.src_begin)
                        != strip_.src_begin)
            invert_sums(*job_.computed, strip_.dst_begin,
                    strip_.length / job_.row_channels, scratch_.factors);
#endif
        switch (job_.lanes) {
#if HWY_TARGET != HWY_SCALAR // which has neither (lanes.cpp)
            case tap_lanes::elements:
                if (direct_)
                    take_taps_of_elements(scratch_.rows[0]);
                else
                    take_taps_of_elements(
                            static_cast<const acc *>(scratch_.group));
                break;
            case tap_lanes::computed:
                if (direct_)
                    take_computed_taps(scratch_.rows[0]);
                else
                    take_computed_taps(
                            static_cast<const acc *>(scratch_.group));
                break;
            case tap_lanes::phases:
                with_phase_taps([&](auto taps) HWY_ATTR {
                    take_taps_of_phases<decltype(taps)::value>();
                });
                break;
#endif
            case tap_lanes::lines: take_taps_of_lines(); break;
            default:
                if (direct_)
                    take_taps_of_channels(scratch_.rows[0]);
                else
                    take_taps_of_channels(
                            static_cast<const acc *>(scratch_.group));
        }
    }

    /// Whether results come as full vectors, except at the end of a group.
    bool has_whole_vectors() const {
        return job_.lanes != tap_lanes::lines
                && (job_.lanes != tap_lanes::phases || strip_.row % lanes == 0);
    }

private:
    /// `line` is the strip's first element: of the line, or of a row of diff_dst.
    template <typename In>
    void take_taps_of_channels(const In *line) {
        T *out = results_.out();
        if (job_.computed) {
            if (job_.computed->narrow)
                out = put_computed_channels<integer>(line, out);
            else
                out = put_computed_channels<int64_t>(line, out);
            return results_.set_out(out);
        }
        const column_taps &table = job_.columns;
        for (auto b = first_block(); b < table.blocks.size(); ++b) {
            const column_taps::block &block = table.blocks[b];
            if (block.src_begin >= strip_.src_end) break;
            const int64_t taken = block.dst_end - block.dst_begin;
            put_channels(
                    line
                            + (block.dst_begin - strip_.dst_begin)
                                    * job_.row_channels,
                    block.src_end - block.src_begin, taken, taken,
                    [&](const auto &use) GRADNN_SIMD_INLINE {
                        use(runs_of<acc>(table, block));
                    },
                    out);
        }
        results_.set_out(out);
    }

    /// The same where columns are computed; where the next one goes.
    template <typename Int, typename In>
    T *put_computed_channels([[maybe_unused]] const In *line, T *out) {
#if HWY_TARGET != HWY_SCALAR
        walking_columns<acc, Int> walk(*job_.computed, scratch_, job_.block,
                strip_.src_begin, strip_.dst_begin);
        for (int64_t i = strip_.src_begin; i < strip_.src_end;
                i += job_.block) {
            const int64_t end = std::min(strip_.src_end, i + job_.block);
            const int64_t begin = walk.dst_begin();
            walk.list(i, end);
            put_channels(
                    line, end - i, walk.dst_begin(), walk.dst_begin() - begin,
                    [&](const auto &use) GRADNN_SIMD_INLINE { walk.each(use); },
                    out);
        }
#endif
        return out;
    }

    /// So many columns at `out`, which moves on. with_runs(use) calls use(column_runs).
    /// They take `taken` columns of `in` up to column `end`, as many as are fetched
    /// from there on.
    template <typename In, typename WithRuns>
    HWY_INLINE void put_channels(const In *in, int64_t columns, int64_t end,
            int64_t taken, const WithRuns &with_runs, T *&out) {
        const int64_t channels = job_.row_channels;
        gradual_fetch ahead
                = fetch_after(in + end * channels, taken * channels, columns);
        const auto put = [&](auto past_caches, auto *to) GRADNN_SIMD_INLINE {
            with_runs([&](const column_runs<acc> &runs) HWY_ATTR {
                sum_channels<decltype(past_caches)::value>(
                        runs, in, channels, to, ahead);
            });
        };
        const int64_t elements = columns * channels;
        if (!stores_columns()) {
            put(std::false_type(), scratch_.results);
            results_.put_all(scratch_.results, elements, out);
        } else if (!results_.direct()) {
            put(std::false_type(), out);
        } else if (channels * static_cast<int64_t>(sizeof(T)) % 64 == 0) {
            put(std::true_type(), out);
        } else {
            // Parts of cache lines go past the caches in order only.
            auto *const stored = reinterpret_cast<T *>(scratch_.results);
            put(std::false_type(), stored);
            results_.stream_all(stored, elements, out);
        }
        out = results_.step(out, elements);
    }

    /// Columns of a block are not read in the order of memory, so that hardware
    /// does not see them coming: where they are diff_dst's, as many elements as a
    /// block takes are fetched from its end on.
    template <typename In>
    gradual_fetch fetch_after([[maybe_unused]] const In *end,
            [[maybe_unused]] int64_t taken,
            [[maybe_unused]] int64_t columns) const {
        if constexpr (std::is_same_v<In, T>)
            if (direct_)
                return {end,
                        end + std::min(taken, diff_dst_ + job_.extent - end),
                        columns * fetches_of<acc>(job_.row_channels)};
        return {nullptr, nullptr, 1};
    }

    /// Of channels in lanes: whether a column can be stored alone.
    bool stores_columns() const {
        return has_store_first<T> || lanes == 1 || job_.row_channels >= lanes;
    }

    /// Number of the strip's first block of columns.
    size_t first_block() const {
        return static_cast<size_t>(
                strip_.src_begin / job_.strip_src * job_.strip_blocks());
    }

    /// `line` is the strip's first element: of the group, or of a row of diff_dst.
    template <typename In>
    void take_taps_of_elements(const In *line) {
        T *out = results_.out();
        take_taps<acc>(job_.elements,
                line - strip_.dst_begin * job_.row_channels,
                strip_.src_begin * job_.row_channels / lanes,
                results_.rows() * strip_.row,
                [&](vector sum, int64_t count) GRADNN_SIMD_INLINE {
                    results_.put(sum, out);
                    out = results_.step(out, count);
                });
        results_.set_out(out);
    }

    /// `line` as above.
    template <typename In>
    void take_computed_taps([[maybe_unused]] const In *line) {
#if HWY_TARGET != HWY_SCALAR
        T *out = results_.out();
        take_walking_taps<acc>(*job_.computed,
                line_part<In> {line, strip_.dst_begin,
                        strip_.dst_begin + strip_.length / job_.row_channels,
                        strip_.src_begin, strip_.src_end,
                        job_.computed->is_widened() ? scratch_.factors
                                                    : nullptr},
                [&](vector sum, int64_t count) GRADNN_SIMD_INLINE {
                    results_.put(sum, out);
                    out = results_.step(out, count);
                });
        results_.set_out(out);
#endif
    }

    /// `taps` is the number of them.
    template <int64_t taps>
    void take_taps_of_phases() {
        const axis_phases &phases = job_.phases;
        const acc *from[static_cast<size_t>(taps)];
        vector weights[static_cast<size_t>(taps)];
        for (int64_t t = 0; t < taps; ++t) {
            const int64_t x = strip_.src_begin * phases.ratio + phases.first + t
                    - strip_.dst_begin;
            const int shift = phases.ratio == 2 ? 1 : 2;
            from[t] = scratch_.phase_origin(0)
                    + (x & (phases.ratio - 1)) * job_.phase_pitch
                    + (x >> shift);
            weights[t] = hn::Set(tag, job_.w.weights<acc>(phases.begin)[t]);
        }
        const auto weight = [&](int64_t t) HWY_ATTR { return weights[t]; };
        // The strip's vectors begin with this one of the axis, and those with
        // weights of their own are the ones before `head` and from `tail` on.
        const int64_t first = strip_.src_begin / lanes;
        const int64_t end = first + (strip_.row + lanes - 1) / lanes;
        const int64_t head = std::max(first, phases.head);
        const int64_t tail = std::max(head, std::min(end, phases.tail));
        const acc *const ends = phases.ends<acc>();
        T *out = results_.out();
        for (int64_t line = 0; line < results_.rows(); ++line) {
            int64_t x = 0;
            const auto sum_at =
                    [&](int64_t at, const auto &weight_of) GRADNN_SIMD_INLINE {
                        auto sum = hn::Mul(
                                weight_of(0), hn::LoadU(tag, from[0] + at));
#pragma GCC unroll 8
                        for (int64_t t = 1; t < taps; ++t)
                            sum = hn::MulAdd(weight_of(t),
                                    hn::LoadU(tag, from[t] + at), sum);
                        return sum;
                    };
            const auto put = [&](const auto &weight_of) GRADNN_SIMD_INLINE {
                results_.put(sum_at(x, weight_of), out);
                out = results_.step(out, std::min(lanes, strip_.row - x));
                x += lanes;
            };
            // `number` counts the vectors with weights of their own.
            const auto put_end = [&](int64_t number) HWY_ATTR {
                put([&](int64_t t) HWY_ATTR {
                    return hn::LoadU(tag, ends + (number * taps + t) * lanes);
                });
            };
            for (int64_t v = first; v < head; ++v)
                put_end(v);
            int64_t v = head;
            for (; v + 2 <= tail; v += 2, x += 2 * lanes) {
                results_.put_two(
                        sum_at(x, weight), sum_at(x + lanes, weight), out);
                out = results_.step(out, std::min(2 * lanes, strip_.row - x));
            }
            for (; v < tail; ++v)
                put(weight);
            for (v = tail; v < end; ++v)
                put_end(phases.head + v - phases.tail);
            for (int64_t t = 0; t < taps; ++t)
                from[t] += job_.line_pitch;
        }
        results_.set_out(out);
    }

    /// Calls take_taps for the number of taps that phases take.
    template <int64_t taps = 1, typename TakeTaps>
    void with_phase_taps(const TakeTaps &take_taps) {
        if constexpr (taps <= most_phase_taps) {
            if (job_.phases.count == taps)
                take_taps(std::integral_constant<int64_t, taps> {});
            else
                with_phase_taps<taps + 1>(take_taps);
        }
    }

    /// The blocks of columns of the strip, a window of the lines after another.
    void take_taps_of_lines() {
        const int64_t channels = job_.row_channels;
        const acc *lines[static_cast<size_t>(lanes)];
        for (int64_t l = 0; l < lanes; ++l)
            lines[l] = scratch_.group
                    + std::min(l, results_.rows() - 1) * job_.line_pitch;
        const column_taps &table = job_.columns;
        T *out = results_.out();
        for (auto b = first_block(); b < table.blocks.size(); ++b) {
            const column_taps::block &block = table.blocks[b];
            if (block.src_begin >= strip_.src_end) break;
            const int64_t begin
                    = (block.dst_begin - strip_.dst_begin) * channels;
            const int64_t end = (block.dst_end - strip_.dst_begin) * channels;
            if (direct_)
                transpose_rows(scratch_.rows, begin, end,
                        diff_dst_ + job_.extent, scratch_.window);
            else
                transpose_rows(static_cast<const acc *const *>(lines), begin,
                        end, scratch_.group + job_.group_size, scratch_.window);
            sum_columns(table, block, static_cast<const acc *>(scratch_.window),
                    channels, scratch_.results);
            const int64_t elements
                    = (block.src_end - block.src_begin) * channels;
            store_transposed<T>(scratch_.results, elements, results_.rows(),
                    strip_.row, out);
            out += elements;
        }
        results_.set_out(results_.out() + results_.rows() * strip_.row);
    }

    const separable_job &job_;
    const separable_scratch<T> &scratch_;
    const column_strip &strip_;
    result_stage<T> &results_;
    const T *const diff_dst_;
    bool direct_ = false;
    int64_t factors_of_ = -1; ///< the strip whose factors are there
};

} // namespace gradnn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
