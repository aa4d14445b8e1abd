// Separable interpolation gradient on rows without gaps:
//   diff_src[d,h,w] = sum_w' Ww[w,w'] sum_h' Wh[h,h'] sum_d' Wd[d,d']
//                     diff_dst[d',h',w'].
//
// A line is one row of diff_src before its taps along W: the sum of the rows
// of diff_dst that touch it, in the accumulator's type. Rows are summed over D
// into a ring (rank 3 only), over H into the line, element by element. Taps
// along W then come from the line alone, in one of four ways:
// - channels in lanes: a column's channels are contiguous, a tap is a multiply-
//   add for a vector of them;
// - phases in lanes: at a ratio of 2 or 4 the line's elements are sorted by
//   their place modulo the ratio, so that tap t of all outputs is a row of one
//   of the phases;
// - elements in lanes: up to a ratio of about four, a vector's taps t lie within
//   four vectors of the line, from which they are looked up by tables that are
//   made with the plan;
// - lines in lanes: as many lines as a vector has lanes are transposed block by
//   block of columns, so that a tap is one multiply-add for all of them,
//   whatever the ratio; results are transposed back.
// Where that takes fewer instructions, slabs of planes go another way: planes.hpp.
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
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/interpolation/separable.cpp"
#include "cpu/simd/simd_target.hpp"

#include <hwy/foreach_target.h>

#include <algorithm>

#include "cpu/interpolation/columns.hpp"
#include "cpu/interpolation/lookup.hpp"
#include "cpu/interpolation/planes.hpp"
#include "cpu/interpolation/scratch.hpp"
#include "cpu/interpolation/separable.hpp"
#include "cpu/interpolation/stage.hpp"
#include "cpu/interpolation/sums.hpp"

HWY_BEFORE_NAMESPACE();
namespace gradnn::cpu::HWY_NAMESPACE {

/// The share's scratch, and what is in it.
template <typename T>
class separable_worker {
    using acc = accumulator_of<T>;
    static constexpr hn::ScalableTag<acc> tag {};
    using vector = hn::VFromD<hn::ScalableTag<acc>>;
    static constexpr auto lanes = static_cast<int64_t>(lanes_of<acc>);
    /// How far ahead of their use elements are fetched.
    static constexpr int64_t distance = 3008 / sizeof(T);
    /// Bytes of fresh rows that are read through in the order of memory. (Fewer
    /// are fetched in that order: of 16-bit elements that is faster.)
    static constexpr int64_t least_read = sizeof(T) == 2 ? 4 << 10 : 0;
    static constexpr int64_t most_read = 64 << 10;

public:
    separable_worker(const separable_job &job, const T *diff_dst, T *diff_src,
            std::byte *scratch)
        : job_(job),
          diff_dst_(diff_dst),
          diff_src_(diff_src),
          group_(job.lanes == tap_lanes::lines ? lanes : job.lines),
          scratch_(job, scratch),
          results_(scratch_.stage) {}

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
            for (int64_t d = d_block * job_.d_block; d < d_end; ++d)
                for (int64_t h = h_block * job_.h_block; h < h_end; ++h)
                    add_line(d, h);
        }
        finish_lines();
        results_.finish();
    }

private:
    void enter_strip(int64_t strip) {
        src_begin_ = strip * job_.strip_src;
        src_end_ = std::min(job_.w.src, src_begin_ + job_.strip_src);
        dst_begin_ = job_.w.begin(src_begin_);
        length_ = (job_.w.end(src_end_ - 1) - dst_begin_) * job_.row_channels;
        row_ = (src_end_ - src_begin_) * job_.row_channels;
        results_.set_row(row_);
        ring_plane_ = -1;
        if (job_.lanes == tap_lanes::phases) clear_around_phases();
    }

    void enter_plane(int64_t plane) {
        const int64_t n = plane / job_.c;
        const int64_t c = plane % job_.c;
        plane_ = plane;
        plane_dst_ = diff_dst_ + n * job_.diff_dst.n_stride
                + c * job_.diff_dst.c_stride;
        plane_src_ = diff_src_ + n * job_.diff_src.n_stride
                + c * job_.diff_src.c_stride;
    }

    /// Around the rows of diff_dst that line h sums over H.
    row_surroundings surroundings_of_line(int64_t h, int64_t count) const {
        const int64_t stride = job_.diff_dst.h_stride;
        const int64_t step = job_.fresh_rows * length_;
        const auto bytes = step * static_cast<int64_t>(sizeof(T));
        if (length_ != stride || bytes > most_read)
            return surroundings(job_.h, h, count, job_.h.fresh(h) * stride);
        row_surroundings rows;
        rows.slack = slack(count);
        // Hardware sees single rows coming.
        rows.fresh = job_.fresh_rows == 1 || count == 0 ? 0 : job_.h.fresh(h);
        rows.in_order = rows.fresh > 0;
        rows.read = rows.in_order && bytes >= least_read;
        rows.ahead = step;
        return rows;
    }

    /// Around the last rows of a sum over `axis`, of which what follows is
    /// `next` elements on.
    row_surroundings surroundings(const axis_taps &axis, int64_t i,
            int64_t count, int64_t next) const {
        row_surroundings rows;
        rows.fresh = count == 0 ? 0 : axis.fresh(i);
        rows.slack = slack(count);
        rows.ahead = distance;
        rows.turn = length_;
        // Next in memory, unless what is next in memory is summed right now.
        const bool gapless = length_ == job_.diff_dst.h_stride
                && rows.fresh * length_ <= 2 * distance;
        if (!gapless && !job_.h.identity) {
            rows.ahead = std::min(
                    length_, distance / std::max<int64_t>(1, rows.fresh));
            rows.turn = length_ - rows.ahead;
            rows.jump = next - length_;
        }
        return rows;
    }

    /// Of the first `count` of rows_: where rows follow one another, up to the
    /// end of diff_dst.
    int64_t slack(int64_t count) const {
        return count > 0 && length_ == job_.diff_dst.h_stride
                ? diff_dst_ + job_.extent - scratch_.rows[count - 1] - length_
                : 0;
    }

    /// Sums the rows of a line, and finishes the group when it is full.
    void add_line(int64_t d, int64_t h) {
        const plane_view &in = job_.diff_dst;
        const plane_view &out = job_.diff_src;
        const T *from = plane_dst_ + dst_begin_ * job_.row_channels;
        const int64_t h_begin = job_.h.begin(h);
        const int64_t h_count = job_.d.taps(d) == 0 ? 0 : job_.h.taps(h);
        T *const to = plane_src_ + d * out.d_stride + h * out.h_stride
                + src_begin_ * job_.row_channels;
        if (job_.w.identity && h_count > 0) {
            results_.add_row(to);
            results_.open(true);
            with_rows(d, h, h_count, from,
                    [&](const auto *rows, const row_surroundings &around)
                            HWY_ATTR { put_sums(rows, h, h_count, around); });
            results_.close();
            return;
        }
        if (h_count == 0 && group_ == 1) {
            empty_ = true;
        } else if (job_.direct) {
            // A group that is not full repeats its last line.
            std::fill(scratch_.rows + results_.rows(), scratch_.rows + group_,
                    from + d * in.d_stride + h_begin * in.h_stride);
        } else {
            with_rows(d, h, h_count, from,
                    [&](const auto *rows, const row_surroundings &around)
                            HWY_ATTR { sum_line(rows, h, h_count, around); });
        }
        results_.add_row(to);
        if (results_.rows() == group_) finish_lines();
    }

    /// Calls use(rows, around) for the rows that line h sums: of diff_dst, or of
    /// the ring.
    template <typename Use>
    HWY_INLINE void with_rows(int64_t d, int64_t h, int64_t count,
            const T *from, const Use &use) {
        const plane_view &in = job_.diff_dst;
        const int64_t begin = job_.h.begin(h);
        if (job_.d.identity) {
            for (int64_t t = 0; t < count; ++t)
                scratch_.rows[t]
                        = from + d * in.d_stride + (begin + t) * in.h_stride;
            use(scratch_.rows, surroundings_of_line(h, count));
        } else {
            fill_ring(d, h, from);
            for (int64_t t = 0; t < count; ++t)
                scratch_.sums[t] = ring_row(begin + t);
            use(scratch_.sums, row_surroundings {.slack = lanes});
        }
    }

    /// Sums rows over H into results.
    template <typename In>
    void put_sums(const In *const *rows, int64_t h, int64_t count,
            const row_surroundings &around) {
        switch (level_of(count)) {
            case 0: return put_sums<0>(rows, h, count, around);
            case 1: return put_sums<1>(rows, h, count, around);
            case 2: return put_sums<2>(rows, h, count, around);
            default: return put_sums<3>(rows, h, count, around);
        }
    }

    template <int level, typename In>
    HWY_NOINLINE void put_sums(const In *const *rows, int64_t h, int64_t count,
            const row_surroundings &around) {
        const acc *weights = job_.h.weights<acc>(h);
        T *out = results_.out();
        if (around.read)
            read_through(rows[count - around.fresh], around.fresh * row_);
        int64_t x = 0;
        for (; x + 4 * lanes <= row_; x += 4 * lanes) {
            fetch(rows + count, around, x, 4 * lanes);
            vector sum[4];
            sum_halves<level>(rows, weights, count, x, sum);
            in_order<In>(tag, sum);
            results_.put_two(sum[0], sum[1], out);
            results_.put_two(sum[2], sum[3], out + 2 * lanes);
            out = results_.step(out, 4 * lanes);
        }
        fetch(rows + count, around, x, row_ - x);
        for (; x < row_; x += lanes) {
            const int64_t rest = row_ - x;
            const auto term = [&](int64_t t, size_t) HWY_ATTR {
                return rest + around.slack >= lanes
                        ? load(tag, rows[t] + x)
                        : load_first(
                                tag, rows[t] + x, static_cast<size_t>(rest));
            };
            vector sum[1];
            weighted_sum<level>(tag, weights, 0, count, term, sum);
            results_.put(sum[0], out);
            out = results_.step(out, std::min(lanes, rest));
        }
        results_.set_out(out);
    }

    /// Sums rows over H into the next line of the group.
    template <typename In>
    void sum_line(const In *const *rows, int64_t h, int64_t count,
            row_surroundings around) {
        const acc *weights = job_.h.weights<acc>(h);
        if (job_.lanes != tap_lanes::phases)
            sum_rows(rows, weights, count, length_, around,
                    scratch_.group + results_.rows() * job_.line_pitch);
        else if (count == 0)
            clear_phases();
        else if (job_.phases.ratio == 2)
            sum_rows<0, 2>(rows, weights, count, length_, around,
                    phase_origin(results_.rows()), job_.phase_pitch);
        else
            sum_rows<0, 4>(rows, weights, count, length_, around,
                    phase_origin(results_.rows()), job_.phase_pitch);
    }

    /// Element 0 of a line of the group where it is sorted by phase.
    acc *phase_origin(int64_t line) const {
        return scratch_.group + max_lanes + line * job_.line_pitch;
    }

    /// Zeroes the next line of the group where it is sorted by phase.
    void clear_phases() {
        acc *const origin = phase_origin(results_.rows());
        for (int64_t p = 0; p < job_.phases.ratio; ++p)
            std::fill_n(origin + p * job_.phase_pitch,
                    length_ / job_.phases.ratio + 1, acc {0});
    }

    acc *ring_row(int64_t h) {
        return scratch_.ring + h % job_.ring_rows * job_.ring_pitch;
    }

    /// Makes sure that the rows of diff_dst under line h, summed over the taps
    /// of d, are in the ring. Lines come with ascending h.
    void fill_ring(int64_t d, int64_t h, const T *from) {
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
                scratch_.rows[t] = from
                        + (job_.d.begin(d) + t) * job_.diff_dst.d_stride
                        + row * job_.diff_dst.h_stride;
            sum_rows(scratch_.rows, job_.d.weights<acc>(d), count, length_,
                    surroundings(job_.d, d, count, job_.diff_dst.h_stride),
                    ring_row(row));
        }
        ring_end_ = row;
    }

    /// Makes rows of the lines of the group.
    void finish_lines() {
        if (results_.rows() == 0) return;
        results_.open(has_whole_vectors());
        if (empty_)
            put_zeros();
        else if (job_.lanes == tap_lanes::elements)
            take_taps_of_elements();
        else if (job_.lanes == tap_lanes::phases)
            with_phase_taps([&](auto taps) HWY_ATTR {
                take_taps_of_phases<decltype(taps)::value>();
            });
        else if (job_.lanes == tap_lanes::lines)
            take_taps_of_lines();
        else if (job_.direct)
            take_taps_of_channels(scratch_.rows[0]);
        else
            take_taps_of_channels(static_cast<const acc *>(scratch_.group));
        results_.close();
        empty_ = false;
    }

    /// Whether results come as full vectors, but for the end of a group.
    bool has_whole_vectors() const {
        if (empty_) return true;
        if (job_.lanes == tap_lanes::channels)
            return !stores_columns()
                    || job_.row_channels * static_cast<int64_t>(sizeof(T)) % 64
                    == 0;
        return job_.lanes != tap_lanes::lines
                && (job_.lanes != tap_lanes::phases || row_ % lanes == 0);
    }

    void put_zeros() {
        T *out = results_.out();
        for (int64_t x = 0; x < row_; x += lanes) {
            results_.put(hn::Zero(tag), out);
            out = results_.step(out, std::min(lanes, row_ - x));
        }
        results_.set_out(out);
    }

    /// `line` is the strip's first element: of the line, or of a row of diff_dst.
    template <typename In>
    void take_taps_of_channels(const In *line) {
        const int64_t channels = job_.row_channels;
        const column_taps &table = job_.columns;
        T *out = results_.out();
        for (auto b = first_block(); b < table.blocks.size(); ++b) {
            const column_taps::block &block = table.blocks[b];
            if (block.src_begin >= src_end_) break;
            const In *in = line + (block.dst_begin - dst_begin_) * channels;
            const int64_t elements
                    = (block.src_end - block.src_begin) * channels;
            const gradual_fetch ahead = fetch_after(
                    in + (block.dst_end - block.dst_begin) * channels, block);
            if (!stores_columns()) {
                sum_channels<false>(
                        table, block, in, channels, scratch_.results, ahead);
                results_.put_all(scratch_.results, elements, out);
            } else if (results_.direct()) {
                sum_channels<true>(table, block, in, channels, out, ahead);
            } else {
                sum_channels<false>(table, block, in, channels, out, ahead);
            }
            out = results_.step(out, elements);
        }
        results_.set_out(out);
    }

    /// Columns of a block are not read in the order of memory, so that hardware
    /// does not see them coming: where they are diff_dst's, as many elements as a
    /// block takes are fetched from its end on.
    gradual_fetch fetch_after(
            const T *end, const column_taps::block &block) const {
        const int64_t taken
                = (block.dst_end - block.dst_begin) * job_.row_channels;
        const int64_t left = diff_dst_ + job_.extent - end;
        return {end, end + std::min(taken, left),
                block.src_end - block.src_begin};
    }
    template <typename In>
    gradual_fetch fetch_after(const In *, const column_taps::block &) const {
        return {nullptr, nullptr, 1};
    }

    /// Of channels in lanes: whether a column can be stored alone.
    bool stores_columns() const {
        return has_store_first<T> || job_.row_channels >= lanes;
    }

    /// Number of the strip's first block of columns.
    size_t first_block() const {
        return static_cast<size_t>(
                src_begin_ / job_.strip_src * job_.strip_blocks());
    }

    void take_taps_of_elements() {
        const acc *line = scratch_.group - dst_begin_ * job_.row_channels;
        T *out = results_.out();
        take_taps(job_.elements, line, src_begin_ * job_.row_channels / lanes,
                results_.rows() * row_,
                [&](vector sum, int64_t count) GRADNN_SIMD_INLINE {
                    results_.put(sum, out);
                    out = results_.step(out, count);
                });
        results_.set_out(out);
    }

    /// `taps` is the number of them.
    template <int64_t taps>
    void take_taps_of_phases() {
        const axis_phases &phases = job_.phases;
        const acc *from[static_cast<size_t>(taps)];
        vector weights[static_cast<size_t>(taps)];
        for (int64_t t = 0; t < taps; ++t) {
            const int64_t x
                    = src_begin_ * phases.ratio + phases.first + t - dst_begin_;
            const int shift = phases.ratio == 2 ? 1 : 2;
            from[t] = phase_origin(0)
                    + (x & (phases.ratio - 1)) * job_.phase_pitch
                    + (x >> shift);
            weights[t] = hn::Set(tag, job_.w.weights<acc>(phases.begin)[t]);
        }
        const auto weight = [&](int64_t t) HWY_ATTR { return weights[t]; };
        // The strip's vectors begin with this one of the axis, and those with
        // weights of their own are the ones before `head` and from `tail` on.
        const int64_t first = src_begin_ / lanes;
        const int64_t end = first + (row_ + lanes - 1) / lanes;
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
                out = results_.step(out, std::min(lanes, row_ - x));
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
                out = results_.step(out, std::min(2 * lanes, row_ - x));
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

    /// Zeroes what is before and after the strip's lines, where outputs next to
    /// the axis' ends have no taps. (No sum is stored there.)
    void clear_around_phases() {
        const int64_t ratio = job_.phases.ratio;
        for (int64_t line = 0; line < group_; ++line)
            for (int64_t p = 0; p < ratio; ++p) {
                acc *const phase = phase_origin(line) + p * job_.phase_pitch;
                acc *const end = phase + (length_ - p + ratio - 1) / ratio;
                std::fill(phase - most_phase_taps, phase, acc {0});
                std::fill(end, end + most_phase_taps, acc {0});
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
            if (block.src_begin >= src_end_) break;
            const int64_t begin = (block.dst_begin - dst_begin_) * channels;
            const int64_t end = (block.dst_end - dst_begin_) * channels;
            if (job_.direct)
                transpose_rows(scratch_.rows, begin, end,
                        diff_dst_ + job_.extent, scratch_.window);
            else
                transpose_rows(static_cast<const acc *const *>(lines), begin,
                        end, scratch_.group + job_.group_size, scratch_.window);
            sum_columns(table, block, static_cast<const acc *>(scratch_.window),
                    channels, scratch_.results);
            const int64_t elements
                    = (block.src_end - block.src_begin) * channels;
            store_transposed<T>(
                    scratch_.results, elements, results_.rows(), row_, out);
            out += elements;
        }
        results_.set_out(results_.out() + results_.rows() * row_);
    }

    const separable_job &job_;
    const T *const diff_dst_;
    T *const diff_src_;

    const int64_t group_; ///< lines of a group
    const separable_scratch<T> scratch_;
    result_stage<T> results_;

    // The strip: columns [src_begin_, src_end_) of diff_src come from columns
    // of diff_dst from dst_begin_ on; elements of a line and of a row of it.
    int64_t src_begin_ = 0;
    int64_t src_end_ = 0;
    int64_t dst_begin_ = 0;
    int64_t length_ = 0;
    int64_t row_ = 0;

    // The plane, and its first elements in both tensors.
    int64_t plane_ = 0;
    const T *plane_dst_ = nullptr;
    T *plane_src_ = nullptr;

    bool empty_ = false; ///< the group is one line of zeros

    // What the ring holds: rows below ring_end_.
    int64_t ring_plane_ = -1;
    int64_t ring_d_ = -1;
    int64_t ring_h_ = -1;
    int64_t ring_end_ = 0;
};

template <typename T>
void run_share(const separable_job &job, const void *diff_dst, void *diff_src,
        std::byte *scratch, int64_t share) {
    const auto *const from = static_cast<const T *>(diff_dst);
    auto *const to = static_cast<T *>(diff_src);
    if (job.lanes == tap_lanes::planes)
        plane_worker<T>(job, from, to, scratch).run(share);
    else
        separable_worker<T>(job, from, to, scratch).run(share);
}

separable_share separable_share_of(detail::data_type type) {
    separable_share share = nullptr;
    with_type(type, [&](auto t) { share = run_share<decltype(t)>; });
    return share;
}

int64_t lanes_of_type(detail::data_type type) {
    return static_cast<int64_t>(type == detail::data_type::f64
                    ? lanes_of<double>
                    : lanes_of<float>);
}

} // namespace gradnn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gradnn::cpu {

HWY_EXPORT(separable_share_of);
HWY_EXPORT(lanes_of_type);

int64_t separable_lanes(detail::data_type type) {
    return HWY_DYNAMIC_DISPATCH(lanes_of_type)(type);
}

separable_share find_separable_share(detail::data_type type) {
    return HWY_DYNAMIC_DISPATCH(separable_share_of)(type);
}

} // namespace gradnn::cpu
#endif
