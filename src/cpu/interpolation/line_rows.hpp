// The rows that a line sums: of diff_dst, or of a ring of sums over D; and what is
// fetched from memory meanwhile.
//
// Included once for each of Highway's targets, like simd.hpp.
#include <algorithm>

#include "cpu/interpolation/scratch.hpp"
#include "cpu/interpolation/separable.hpp"
#include "cpu/interpolation/sums.hpp"
#include "cpu/simd/simd.hpp"

#if defined(GRADNN_CPU_INTERPOLATION_LINE_ROWS_TOGGLE) \
        == defined(HWY_TARGET_TOGGLE)
#ifdef GRADNN_CPU_INTERPOLATION_LINE_ROWS_TOGGLE
#undef GRADNN_CPU_INTERPOLATION_LINE_ROWS_TOGGLE
#else
#define GRADNN_CPU_INTERPOLATION_LINE_ROWS_TOGGLE
#endif

HWY_BEFORE_NAMESPACE();
namespace gradnn::cpu::HWY_NAMESPACE {

/// Columns [src_begin, src_end) of diff_src, which come from columns of diff_dst
/// from dst_begin on.
struct column_strip {
    int64_t src_begin = 0;
    int64_t src_end = 0;
    int64_t dst_begin = 0;
    int64_t length = 0; ///< elements of a line of it
    int64_t row = 0; ///< elements of a row of results
};

/// The rows that the lines of a strip sum.
template <typename T>
class line_rows {
    using acc = accumulator_of<T>;
    static constexpr auto lanes = static_cast<int64_t>(lanes_of<acc>);
    /// How far ahead of their use elements are fetched.
    static constexpr int64_t distance = 3008 / sizeof(T);
    /// Bytes of fresh rows that are fetched in the order of memory, and of these,
    /// into the second-level cache, earlier. (Fewer 16-bit elements are summed from
    /// the first-level one before others drive them out.)
    static constexpr int64_t most_in_order = 64 << 10;
    static constexpr int64_t least_far = sizeof(T) == 2 ? 4 << 10 : 0;

public:
    /// References are kept.
    line_rows(const separable_job &job, const separable_scratch<T> &scratch,
            const column_strip &strip, const T *diff_dst)
        : job_(job), scratch_(scratch), strip_(strip), diff_dst_(diff_dst) {}

    /// What the ring holds is another strip's.
    void enter_strip() { ring_plane_ = -1; }

    void enter_plane(int64_t plane) {
        plane_ = plane;
        plane_dst_ = diff_dst_ + plane / job_.c * job_.diff_dst.n_stride
                + plane % job_.c * job_.diff_dst.c_stride;
    }

    /// The strip's part of row (d, h) of diff_dst's plane.
    const T *row_of(int64_t d, int64_t h) const {
        return plane_dst_ + strip_.dst_begin * job_.row_channels
                + d * job_.diff_dst.d_stride + h * job_.diff_dst.h_stride;
    }

    /// Whether `beyond` elements after a strip's part of a row are diff_dst's.
    bool ends_before(const T *row, int64_t beyond) const {
        return diff_dst_ + job_.extent - row >= strip_.length + beyond;
    }

    /// Calls use(rows, around) for the rows that line h sums: of diff_dst, or of
    /// the ring.
    template <typename Use>
    HWY_INLINE void with_rows(
            int64_t d, int64_t h, int64_t count, const Use &use) {
        const int64_t begin = job_.h.begin(h);
        if (job_.d.plain<acc>(d)) {
            for (int64_t t = 0; t < count; ++t)
                scratch_.rows[t] = row_of(job_.d.begin(d), begin + t);
            use(scratch_.rows, surroundings_of_line(h, count, last_of(count)));
        } else {
            fill_ring(d, h);
            for (int64_t t = 0; t < count; ++t)
                scratch_.sums[t] = ring_row(begin + t);
            use(scratch_.sums, row_surroundings {.slack = lanes});
        }
    }

    /// Of a line that sums at most so many rows of diff_dst.
    static constexpr int64_t most_rows = 8;

    /// The same for the lines of d one after the other, where none is of the ring.
    template <typename Use>
    HWY_INLINE void with_few_rows(
            int64_t d, int64_t h, int64_t count, const Use &use) const {
        const T *rows[most_rows];
        const T *row = row_of(job_.d.begin(d), job_.h.begin(h));
        for (int64_t t = 0; t < count; ++t) {
            rows[t] = row;
            row += job_.diff_dst.h_stride;
        }
        use(rows, surroundings_of_line(h, count, rows[count - 1]));
    }

private:
    /// Around the rows of diff_dst that line h sums over H, of which the last one is
    /// given.
    HWY_INLINE row_surroundings surroundings_of_line(
            int64_t h, int64_t count, const T *last) const {
        const int64_t stride = job_.diff_dst.h_stride;
        const int64_t step = job_.fresh_rows * strip_.length;
        const auto bytes = step * static_cast<int64_t>(sizeof(T));
        if (strip_.length != stride || bytes > most_in_order)
            return surroundings(
                    job_.h, h, count, job_.h.fresh(h) * stride, last);
        row_surroundings rows;
        rows.slack = slack(last);
        // Hardware sees single rows coming.
        rows.fresh = job_.fresh_rows == 1 || count == 0 ? 0 : job_.h.fresh(h);
        rows.in_order = rows.fresh > 0;
        rows.far = bytes >= least_far;
        rows.ahead = rows.far ? std::max(step, 2 * distance) : step;
        return rows;
    }

    /// Around the rows of a sum over `axis`, of the last of which what follows is
    /// `next` elements on.
    row_surroundings surroundings(const axis_taps &axis, int64_t i,
            int64_t count, int64_t next, const T *last) const {
        row_surroundings rows;
        rows.fresh = count == 0 ? 0 : axis.fresh(i);
        rows.slack = slack(last);
        rows.ahead = distance;
        rows.turn = strip_.length;
        // Next in memory, unless what is next in memory is summed right now.
        const bool gapless = strip_.length == job_.diff_dst.h_stride
                && rows.fresh * strip_.length <= 2 * distance;
        if (!gapless && !job_.h.identity) {
            rows.ahead = std::min(
                    strip_.length, distance / std::max<int64_t>(1, rows.fresh));
            rows.turn = strip_.length - rows.ahead;
            rows.jump = next - strip_.length;
        }
        return rows;
    }

    /// Around the rows of slabs that are summed over D. What is fetched of several
    /// slabs waits while rows of the ring pass through the first-level cache, so
    /// it is fetched into the second-level one, and earlier where rows follow one
    /// another.
    row_surroundings surroundings_of_slabs(int64_t d, int64_t count) const {
        const int64_t stride = job_.diff_dst.h_stride;
        row_surroundings rows
                = surroundings(job_.d, d, count, stride, last_of(count));
        rows.far = true;
        // No further than half a slab: what comes after it is not the next.
        if (rows.jump == 0)
            rows.ahead = std::min(2 * distance, stride * job_.h.dst / 2);
        return rows;
    }

    /// Of the first `count` of scratch_.rows; null of none.
    const T *last_of(int64_t count) const {
        return count > 0 ? scratch_.rows[count - 1] : nullptr;
    }

    /// After a row: where rows follow one another, up to the end of diff_dst.
    int64_t slack(const T *row) const {
        return row != nullptr && strip_.length == job_.diff_dst.h_stride
                ? diff_dst_ + job_.extent - row - strip_.length
                : 0;
    }

    acc *ring_row(int64_t h) {
        return scratch_.ring + h % job_.ring_rows * job_.ring_pitch;
    }

    /// Makes sure that the rows of diff_dst under line h, summed over the taps
    /// of d, are in the ring. Lines come with ascending h.
    void fill_ring(int64_t d, int64_t h) {
        if (plane_ != ring_plane_ || d != ring_d_ || h < ring_h_) {
            ring_plane_ = plane_;
            ring_d_ = d;
            ring_end_ = 0;
        }
        ring_h_ = h;
        const int64_t count = job_.d.taps(d);
        int64_t row = std::max(ring_end_, job_.h.begin(h));
        for (; row < job_.h.end(h); ++row) {
            for (int64_t t = 0; t < count; ++t)
                scratch_.rows[t] = row_of(job_.d.begin(d) + t, row);
            sum_rows(scratch_.rows, job_.d.weights<acc>(d), count,
                    strip_.length, surroundings_of_slabs(d, count),
                    ring_row(row));
        }
        ring_end_ = row;
    }

    const separable_job &job_;
    const separable_scratch<T> &scratch_;
    const column_strip &strip_;
    const T *const diff_dst_;

    int64_t plane_ = 0;
    const T *plane_dst_ = nullptr;

    // What the ring holds: rows below ring_end_.
    int64_t ring_plane_ = -1;
    int64_t ring_d_ = -1;
    int64_t ring_h_ = -1;
    int64_t ring_end_ = 0;
};

} // namespace gradnn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
