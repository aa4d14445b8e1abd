// Separable interpolation gradient on rows without gaps:
//   diff_src[d,h,w] = sum_w' Ww[w,w'] sum_h' Wh[h,h'] sum_d' Wd[d,d']
//                     diff_dst[d',h',w'].
//
// A line is one row of diff_src before its taps along W: the sum of the rows
// of diff_dst that touch it, in the accumulator's type. Rows are summed over D
// into a ring (rank 3 only), over H into the line, element by element. Taps
// along W then come from the line alone, in one of five ways:
// - channels in lanes: a column's channels are contiguous, a tap is a multiply-
//   add for a vector of them;
// - phases in lanes: at a ratio of 2 or 4 the line's elements are sorted by
//   their place modulo the ratio, so that tap t of all outputs is a row of one
//   of the phases;
// - elements in lanes: up to a ratio of about four, a vector's taps t lie within
//   four vectors of the line, from which they are looked up by tables that are
//   made with the plan;
// - the same of a long axis that repeats nothing, whose places and weights are
//   computed on the way (walk_taps.hpp);
// - lines in lanes: as many lines as a vector has lanes are transposed block by
//   block of columns, so that a tap is one multiply-add for all of them,
//   whatever the ratio; results are transposed back.
// Where that takes fewer instructions, slabs or pieces of planes go another way: slabs.cpp, pieces.cpp.
// Columns whose taps are vectors (of channels or of lines) come sorted by the
// number of their taps: loops over taps have a fixed length, and no branch depends
// on a column.
// Results that are whole cache lines of a large problem go straight to memory by
// streaming stores, others by way of a small stage that keeps incomplete lines
// back until what follows them is there.
//
// Threads: a share of the units is a thread's; it reads the rows of diff_dst
// that its units need (those at the edge of a share are read by two) and
// writes the rows of diff_src that its units own. Deterministic: the order of
// every sum follows from the axis maps alone, not from units, lanes or shares.
//
// Included once for each of Highway's targets, like simd.hpp, by the files that
// compile it for some types each.
#include <algorithm>

#include "cpu/interpolation/line_rows.hpp"
#include "cpu/interpolation/line_taps.hpp"
#include "cpu/interpolation/scratch.hpp"
#include "cpu/interpolation/separable.hpp"
#include "cpu/interpolation/stage.hpp"
#include "cpu/interpolation/sums.hpp"

#if defined(GRADNN_CPU_INTERPOLATION_SEPARABLE_WORKER_TOGGLE) \
        == defined(HWY_TARGET_TOGGLE)
#ifdef GRADNN_CPU_INTERPOLATION_SEPARABLE_WORKER_TOGGLE
#undef GRADNN_CPU_INTERPOLATION_SEPARABLE_WORKER_TOGGLE
#else
#define GRADNN_CPU_INTERPOLATION_SEPARABLE_WORKER_TOGGLE
#endif

HWY_BEFORE_NAMESPACE();
namespace gradnn::cpu::HWY_NAMESPACE {

/// The share's scratch, and what is in it.
template <typename T>
class separable_worker {
    using acc = accumulator_of<T>;
    static constexpr hn::ScalableTag<acc> tag {};
    using vector = hn::VFromD<hn::ScalableTag<acc>>;
    static constexpr auto lanes = static_cast<int64_t>(lanes_of<acc>);

public:
    separable_worker(const separable_job &job, const T *diff_dst, T *diff_src,
            std::byte *scratch)
        : job_(job),
          diff_src_(diff_src),
          group_(job.lanes == tap_lanes::lines ? lanes : job.lines),
          scratch_(job, scratch),
          results_(scratch_.stage),
          rows_(job, scratch_, strip_, diff_dst),
          taps_(job, scratch_, strip_, results_, diff_dst) {}

    void run(int64_t share) {
        const int64_t units = job_.units();
        const int64_t strips = job_.strips();
        const int64_t h_blocks = job_.h_blocks();
        const int64_t d_blocks = job_.d_blocks();
        const int64_t end = units * (share + 1) / job_.shares;
        int64_t strip = -1;
        for (int64_t unit = units * share / job_.shares; unit < end; ++unit) {
            if (unit % strips != strip) {
                finish_lines();
                strip = unit % strips;
                enter_strip(strip);
            }
            int64_t rest = unit / strips;
            const int64_t h_block = rest % h_blocks;
            rest /= h_blocks;
            const int64_t d_block = rest % d_blocks;
            enter_plane(rest / d_blocks);
            const int64_t d_end
                    = std::min(job_.d.src, (d_block + 1) * job_.d_block);
            const int64_t h_end
                    = std::min(job_.h.src, (h_block + 1) * job_.h_block);
            for (int64_t d = d_block * job_.d_block; d < d_end; ++d) {
                int64_t h = h_block * job_.h_block;
                if (are_results(d))
                    put_lines(d, h, h_end);
                else
                    for (; h < h_end; ++h)
                        add_line(d, h);
            }
        }
        finish_lines();
        results_.finish();
    }

private:
    void enter_strip(int64_t strip) {
        strip_.src_begin = strip * job_.strip_src;
        strip_.src_end
                = std::min(job_.w.src, strip_.src_begin + job_.strip_src);
        strip_.dst_begin = job_.taps_begin(strip_.src_begin);
        strip_.length = (job_.taps_end(strip_.src_end - 1) - strip_.dst_begin)
                * job_.row_channels;
        strip_.row = (strip_.src_end - strip_.src_begin) * job_.row_channels;
        results_.set_row(strip_.row);
        rows_.enter_strip();
        if (job_.lanes == tap_lanes::phases) clear_around_phases();
    }

    void enter_plane(int64_t plane) {
        const int64_t n = plane / job_.c;
        const int64_t c = plane % job_.c;
        rows_.enter_plane(plane);
        plane_src_ = diff_src_ + n * job_.diff_src.n_stride
                + c * job_.diff_src.c_stride;
    }

    /// Where the strip's part of a line goes.
    T *line_at(int64_t d, int64_t h) const {
        const plane_view &out = job_.diff_src;
        return plane_src_ + d * out.d_stride + h * out.h_stride
                + strip_.src_begin * job_.row_channels;
    }

    /// Sums the rows of a line, and finishes the group when it is full.
    void add_line(int64_t d, int64_t h) {
        const int64_t h_count = job_.d.taps(d) == 0 ? 0 : job_.h.taps(h);
        T *const to = line_at(d, h);
        if (job_.w.identity && h_count > 0) {
            results_.add_row(to);
            results_.open(true);
            rows_.with_rows(d, h, h_count,
                    [&](const auto *rows, const row_surroundings &around)
                            HWY_ATTR { put_sums(rows, h, h_count, around); });
            results_.close();
            return;
        }
        if (h_count == 0 && group_ == 1) {
            empty_ = true;
        } else if (is_as_it_is(d, h)) {
            // A group that is not full repeats its last line.
            std::fill(scratch_.rows + results_.rows(), scratch_.rows + group_,
                    rows_.row_of(job_.d.begin(d), job_.h.begin(h)));
            taps_.set_direct(true);
        } else {
            rows_.with_rows(d, h, h_count,
                    [&](const auto *rows, const row_surroundings &around)
                            HWY_ATTR { sum_line(rows, h, h_count, around); });
            taps_.set_direct(false);
        }
        results_.add_row(to);
        if (results_.rows() == group_) finish_lines();
    }

    /// Whether the lines of d are results, one after the other, and few rows of
    /// diff_dst each.
    bool are_results(int64_t d) const {
        return job_.w.identity && job_.h.max_count <= rows_.most_rows
                && job_.d.plain<acc>(d) && strip_.row == job_.diff_src.h_stride;
    }

    /// All of them, so that what a line costs besides its sums is little.
    HWY_NOINLINE void put_lines(int64_t d, int64_t h, int64_t h_end) {
        results_.add_rows(line_at(d, h), h_end - h);
        results_.open(strip_.row * static_cast<int64_t>(sizeof(T)) % 64 == 0);
        T *out = results_.out();
        for (; h < h_end; ++h) {
            const int64_t count = job_.h.taps(h);
            if (count == 0)
                out = put_zeros(out);
            else
                rows_.with_few_rows(d, h, count,
                        [&](const auto *rows,
                                const row_surroundings &around) HWY_ATTR {
                            out = put_row<false>(rows, h, count, around, out);
                        });
        }
        results_.set_out(out);
        results_.close();
    }

    /// Whether a line is a row of diff_dst whose taps are taken as it is.
    bool is_as_it_is(int64_t d, int64_t h) const {
        if (job_.lanes == tap_lanes::lines) return job_.direct;
        const bool plain = job_.lanes == tap_lanes::channels
                && job_.d.plain<acc>(d) && job_.h.plain<acc>(h);
        if (!job_.direct && !plain) return false;
        // Vectors run over the end: look-ups, and columns of less than one.
        const int64_t beyond = looks_up(job_.lanes)
                ? look_up_slack(job_)
                : std::max<int64_t>(0, lanes - job_.row_channels);
        return rows_.ends_before(
                rows_.row_of(job_.d.begin(d), job_.h.begin(h)), beyond);
    }

    /// Sums rows over H into results.
    template <typename In>
    void put_sums(const In *const *rows, int64_t h, int64_t count,
            const row_surroundings &around) {
        if (is_long(count))
            put_sums<true>(rows, h, count, around);
        else
            put_sums<false>(rows, h, count, around);
    }

    template <bool more, typename In>
    HWY_NOINLINE void put_sums(const In *const *rows, int64_t h, int64_t count,
            const row_surroundings &around) {
        results_.set_out(put_row<more>(rows, h, count, around, results_.out()));
    }

    /// A row of results at `out`; where the next one begins.
    template <bool more, typename In>
    HWY_INLINE T *put_row(const In *const *rows, int64_t h, int64_t count,
            const row_surroundings &around, T *out) {
        const acc *weights = job_.h.weights<acc>(h);
        int64_t x = 0;
        for (; x + 4 * lanes <= strip_.row; x += 4 * lanes) {
            fetch(rows + count, around, x, 4 * lanes);
            vector sum[4];
            sum_halves<more>(rows, weights, count, x, sum);
            if constexpr (has_load_half<In>) {
                results_.put_halves(sum[0], sum[1], out);
                results_.put_halves(sum[2], sum[3], out + 2 * lanes);
            } else {
                results_.put_two(sum[0], sum[1], out);
                results_.put_two(sum[2], sum[3], out + 2 * lanes);
            }
            out = results_.step(out, 4 * lanes);
        }
        fetch(rows + count, around, x, strip_.row - x);
        for (; x < strip_.row; x += lanes) {
            const int64_t rest = strip_.row - x;
            const auto term = [&](int64_t t, size_t) HWY_ATTR {
                return rest + around.slack >= lanes
                        ? load(tag, rows[t] + x)
                        : load_first(
                                tag, rows[t] + x, static_cast<size_t>(rest));
            };
            vector sum[1];
            weighted_sum<more>(tag, weights, 0, count, term, sum);
            results_.put(sum[0], out);
            out = results_.step(out, std::min(lanes, rest));
        }
        return out;
    }

    /// Sums rows over H into the next line of the group.
    template <typename In>
    void sum_line(const In *const *rows, int64_t h, int64_t count,
            row_surroundings around) {
        const acc *weights = job_.h.weights<acc>(h);
        if (lanes == 1 || job_.lanes != tap_lanes::phases)
            sum_rows(rows, weights, count, strip_.length, around,
                    scratch_.group + results_.rows() * job_.line_pitch);
        else if (count == 0)
            clear_phases();
        else if (job_.phases.ratio == 2)
            sum_rows<false, 2>(rows, weights, count, strip_.length, around,
                    scratch_.phase_origin(results_.rows()), job_.phase_pitch);
        else
            sum_rows<false, 4>(rows, weights, count, strip_.length, around,
                    scratch_.phase_origin(results_.rows()), job_.phase_pitch);
    }

    /// Zeroes the next line of the group where it is sorted by phase.
    void clear_phases() {
        acc *const origin = scratch_.phase_origin(results_.rows());
        for (int64_t p = 0; p < job_.phases.ratio; ++p)
            std::fill_n(origin + p * job_.phase_pitch,
                    strip_.length / job_.phases.ratio + 1, acc {0});
    }

    /// Makes rows of the lines of the group.
    void finish_lines() {
        if (results_.rows() == 0) return;
        results_.open(empty_ || taps_.has_whole_vectors());
        if (empty_)
            results_.set_out(put_zeros(results_.out()));
        else
            taps_.take();
        results_.close();
        empty_ = false;
    }

    T *put_zeros(T *out) {
        for (int64_t x = 0; x < strip_.row; x += lanes) {
            results_.put(hn::Zero(tag), out);
            out = results_.step(out, std::min(lanes, strip_.row - x));
        }
        return out;
    }

    /// Zeroes what is before and after the strip's lines, where outputs next to
    /// the axis' ends have no taps. (No sum is stored there.)
    void clear_around_phases() {
        const int64_t ratio = job_.phases.ratio;
        for (int64_t line = 0; line < group_; ++line)
            for (int64_t p = 0; p < ratio; ++p) {
                acc *const phase
                        = scratch_.phase_origin(line) + p * job_.phase_pitch;
                acc *const end
                        = phase + (strip_.length - p + ratio - 1) / ratio;
                std::fill(phase - most_phase_taps, phase, acc {0});
                std::fill(end, end + most_phase_taps, acc {0});
            }
    }

    const separable_job &job_;
    T *const diff_src_;

    const int64_t group_; ///< lines of a group
    const separable_scratch<T> scratch_;
    result_stage<T> results_;
    column_strip strip_;
    line_rows<T> rows_;
    line_taps<T> taps_;

    T *plane_src_ = nullptr; ///< where the plane begins in diff_src
    bool empty_ = false; ///< the group is one line of zeros
};

template <typename T>
void run_share(const separable_job &job, const void *diff_dst, void *diff_src,
        std::byte *scratch, int64_t share) {
    separable_worker<T>(job, static_cast<const T *>(diff_dst),
            static_cast<T *>(diff_src), scratch)
            .run(share);
}

} // namespace gradnn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
