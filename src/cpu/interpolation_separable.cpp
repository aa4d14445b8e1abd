// Separable interpolation gradient on rows without gaps:
//   diff_src[d,h,w] = sum_w' Ww[w,w'] sum_h' Wh[h,h'] sum_d' Wd[d,d']
//                     diff_dst[d',h',w'].
//
// A line is one row of diff_src before its taps along W: the sum of the rows
// of diff_dst that touch it, in the accumulator's type. Rows are summed over D
// into a ring (rank 3 only), over H into the line, element by element. Taps
// along W then come from the line alone, in one of two ways:
// - lines in lanes: as many lines as a vector has lanes are transposed piece by
//   piece into a window, so that a tap is one multiply-add for all of them,
//   whatever the ratio; results are transposed back;
// - channels in lanes: a column's channels are contiguous, a tap is a multiply-
//   add for a vector of them.
// Finished rows are staged and copied out, by streaming stores where the
// problem is large.
//
// Threads: a share of the units is a thread's; it reads the rows of diff_dst
// that its units need (those at the edge of a share are read by two) and
// writes the rows of diff_src that its units own. Deterministic: the order of
// every sum follows from the axis maps alone, not from units, lanes or shares.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/interpolation_separable.cpp"
#include "cpu/simd_target.hpp"

#include <hwy/foreach_target.h>

#include <algorithm>

#include "cpu/interpolation_separable.hpp"
#include "cpu/simd.hpp"

HWY_BEFORE_NAMESPACE();
namespace gradnn::cpu::HWY_NAMESPACE {

/// sum[k] = sum over t in [begin, end) of weights[t] * term(t, k), in blocks of
/// 8 and 64 terms so that the error grows slowly with their number. `level` is
/// 0 for up to 8 terms, 1 for up to 64, else 2.
template <int level, size_t width, class D, class Term>
HWY_INLINE void weighted_sum(D d, const hn::TFromD<D> *weights, int64_t begin,
        int64_t end, const Term &term, hn::VFromD<D> (&sum)[width]) {
    if constexpr (level == 0) {
        auto weight = hn::Set(d, weights[begin]);
        for (size_t k = 0; k < width; ++k)
            sum[k] = hn::Mul(weight, term(begin, k));
        for (int64_t t = begin + 1; t < end; ++t) {
            weight = hn::Set(d, weights[t]);
            for (size_t k = 0; k < width; ++k)
                sum[k] = hn::MulAdd(weight, term(t, k), sum[k]);
        }
    } else {
        constexpr int64_t step = level == 1 ? 8 : 64;
        weighted_sum<level - 1>(
                d, weights, begin, std::min(end, begin + step), term, sum);
        for (int64_t b = begin + step; b < end; b += step) {
            hn::VFromD<D> part[width];
            weighted_sum<level - 1>(
                    d, weights, b, std::min(end, b + step), term, part);
            for (size_t k = 0; k < width; ++k)
                sum[k] = hn::Add(sum[k], part[k]);
        }
    }
}

constexpr int level_of(int64_t terms) {
    return terms <= 8 ? 0 : terms <= 64 ? 1 : 2;
}

/// out[x] = sum over t of weights[t] * rows[t][x]; count > 0.
template <int level, typename In, typename Acc>
void sum_rows(const In *const *rows, const Acc *weights, int64_t count,
        int64_t length, Acc *out) {
    const hn::ScalableTag<Acc> d;
    using vector = hn::VFromD<decltype(d)>;
    constexpr auto lanes = static_cast<int64_t>(lanes_of<Acc>);
    constexpr size_t width = 4;
    int64_t x = 0;
    const auto term = [&](int64_t t, size_t k) HWY_ATTR {
        return load(d, rows[t] + x + static_cast<int64_t>(k) * lanes);
    };
    for (; x + static_cast<int64_t>(width) * lanes <= length;
            x += static_cast<int64_t>(width) * lanes) {
        vector sum[width];
        weighted_sum<level>(d, weights, 0, count, term, sum);
        for (size_t k = 0; k < width; ++k)
            hn::StoreU(sum[k], d, out + x + static_cast<int64_t>(k) * lanes);
    }
    vector sum[1];
    for (; x + lanes <= length; x += lanes) {
        weighted_sum<level>(d, weights, 0, count, term, sum);
        hn::StoreU(sum[0], d, out + x);
    }
    if (x == length) return;
    if (length >= lanes) { // again, what the last vector has in common
        x = length - lanes;
        weighted_sum<level>(d, weights, 0, count, term, sum);
        hn::StoreU(sum[0], d, out + x);
        return;
    }
    const auto rest = static_cast<size_t>(length - x);
    const auto partial = [&](int64_t t, size_t) HWY_ATTR {
        return load_first(d, rows[t] + x, rest);
    };
    weighted_sum<level>(d, weights, 0, count, partial, sum);
    hn::StoreU(sum[0], d, out + x); // lines are padded
}

template <typename In, typename Acc>
void sum_rows(const In *const *rows, const Acc *weights, int64_t count,
        int64_t length, Acc *out) {
    if (count == 0)
        std::fill(out, out + length, Acc {0});
    else if (count == 1 && weights[0] == Acc {1})
        convert_row(rows[0], out, static_cast<size_t>(length));
    else if (level_of(count) == 0)
        sum_rows<0>(rows, weights, count, length, out);
    else if (level_of(count) == 1)
        sum_rows<1>(rows, weights, count, length, out);
    else
        sum_rows<2>(rows, weights, count, length, out);
}

/// One tap sum of `width` vectors that lie `step` apart; count may be 0.
template <size_t width, class D>
HWY_INLINE void sum_taps(D d, const hn::TFromD<D> *weights, int64_t count,
        const hn::TFromD<D> *in, int64_t tap_stride, int64_t step,
        hn::VFromD<D> (&sum)[width]) {
    const auto term = [&](int64_t t, size_t k) HWY_ATTR {
        return hn::LoadU(
                d, in + t * tap_stride + static_cast<int64_t>(k) * step);
    };
    if (count == 0)
        for (size_t k = 0; k < width; ++k)
            sum[k] = hn::Zero(d);
    else if (level_of(count) == 0)
        weighted_sum<0>(d, weights, 0, count, term, sum);
    else if (level_of(count) == 1)
        weighted_sum<1>(d, weights, 0, count, term, sum);
    else
        weighted_sum<2>(d, weights, 0, count, term, sum);
}

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
        : job_(job), diff_dst_(diff_dst), diff_src_(diff_src) {
        const auto take = [&](auto *&array, int64_t count) {
            using element = std::remove_reference_t<decltype(*array)>;
            array = reinterpret_cast<element *>(scratch);
            const size_t bytes = static_cast<size_t>(count) * sizeof(element);
            scratch += (bytes + 63) / 64 * 64;
        };
        take(rows_, job.pointers);
        take(ring_pointers_, job.pointers);
        take(lines_, job.lines * job.line_pitch);
        take(ring_, job.ring_rows * job.line_pitch);
        take(window_, job.window * lanes);
        take(stage_, job.staged);
    }

    void run(int64_t share) {
        const int64_t units = job_.units();
        const int64_t h_blocks = job_.h_blocks();
        const int64_t d_blocks = job_.d_blocks();
        const int64_t end = units * (share + 1) / job_.shares;
        int64_t strip = -1;
        for (int64_t unit = units * share / job_.shares; unit < end; ++unit) {
            int64_t rest = unit;
            const int64_t h_block = rest % h_blocks;
            rest /= h_blocks;
            const int64_t d_block = rest % d_blocks;
            rest /= d_blocks;
            const int64_t plane = rest % (job_.n * job_.c);
            rest /= job_.n * job_.c;
            if (rest != strip) {
                finish_lines();
                strip = rest;
                enter_strip(strip);
            }
            const int64_t d_end
                    = std::min(job_.d.src, (d_block + 1) * job_.d_block);
            const int64_t h_end
                    = std::min(job_.h.src, (h_block + 1) * job_.h_block);
            for (int64_t d = d_block * job_.d_block; d < d_end; ++d)
                for (int64_t h = h_block * job_.h_block; h < h_end; ++h)
                    add_line(plane, d, h);
        }
        finish_lines();
        if (job_.stream) hwy::FlushStream();
    }

private:
    void enter_strip(int64_t strip) {
        src_begin_ = strip * job_.strip_src;
        src_end_ = std::min(job_.w.src, src_begin_ + job_.strip_src);
        dst_begin_ = job_.w.begin(src_begin_);
        length_ = (job_.w.end(src_end_ - 1) - dst_begin_) * job_.row_channels;
        row_ = (src_end_ - src_begin_) * job_.row_channels;
        ring_plane_ = -1;
    }

    /// Sums the rows of a line, and finishes the group when it is full.
    void add_line(int64_t plane, int64_t d, int64_t h) {
        const int64_t n = plane / job_.c;
        const int64_t c = plane % job_.c;
        const plane_view &in = job_.diff_dst;
        const plane_view &out = job_.diff_src;
        const T *from = diff_dst_ + n * in.n_stride + c * in.c_stride
                + dst_begin_ * job_.row_channels;
        acc *line = lines_ + filled_ * job_.line_pitch;
        const int64_t h_begin = job_.h.begin(h);
        const int64_t h_count = job_.d.taps(d) == 0 ? 0 : job_.h.taps(h);
        if (job_.d.identity) {
            for (int64_t t = 0; t < h_count; ++t)
                rows_[t] = from + d * in.d_stride + (h_begin + t) * in.h_stride;
            sum_rows(rows_, job_.h.weights<acc>(h), h_count, length_, line);
        } else {
            fill_ring(plane, d, h, from);
            for (int64_t t = 0; t < h_count; ++t)
                ring_pointers_[t] = ring_row(h_begin + t);
            sum_rows(static_cast<const acc *const *>(ring_pointers_),
                    job_.h.weights<acc>(h), h_count, length_, line);
        }
        targets_[filled_] = diff_src_ + n * out.n_stride + c * out.c_stride
                + d * out.d_stride + h * out.h_stride
                + src_begin_ * job_.row_channels;
        if (++filled_ == (job_.lines_in_lanes ? lanes : 1)) finish_lines();
    }

    acc *ring_row(int64_t h) {
        return ring_ + h % job_.ring_rows * job_.line_pitch;
    }

    /// Makes sure that the rows of diff_dst under line h, summed over the taps
    /// of d, are in the ring. Lines come with ascending h.
    void fill_ring(int64_t plane, int64_t d, int64_t h, const T *from) {
        if (plane != ring_plane_ || d != ring_d_ || h < ring_h_) {
            ring_plane_ = plane;
            ring_d_ = d;
            ring_end_ = 0;
        }
        ring_h_ = h;
        const int64_t count = job_.d.taps(d);
        int64_t row = std::max(ring_end_, job_.h.begin(h));
        for (; row < job_.h.end(h); ++row) {
            for (int64_t t = 0; t < count; ++t)
                rows_[t] = from + (job_.d.begin(d) + t) * job_.diff_dst.d_stride
                        + row * job_.diff_dst.h_stride;
            sum_rows(rows_, job_.d.weights<acc>(d), count, length_,
                    ring_row(row));
        }
        ring_end_ = row;
    }

    void finish_lines() {
        if (filled_ == 0) return;
        if (job_.w.identity) {
            for (int64_t l = 0; l < filled_; ++l)
                convert_row(lines_ + l * job_.line_pitch, stage_ + l * row_,
                        static_cast<size_t>(row_));
        } else if (job_.lines_in_lanes) {
            take_taps_of_lines();
        } else {
            take_taps_of_channels();
        }
        copy_out();
        filled_ = 0;
    }

    void take_taps_of_channels() {
        const int64_t channels = job_.row_channels;
        for (int64_t i = src_begin_; i < src_end_; ++i) {
            const acc *weights = job_.w.weights<acc>(i);
            const int64_t count = job_.w.taps(i);
            const acc *in = lines_ + (job_.w.begin(i) - dst_begin_) * channels;
            T *out = stage_ + (i - src_begin_) * channels;
            int64_t c = 0;
            for (; c + 4 * lanes <= channels; c += 4 * lanes) {
                vector sum[4];
                sum_taps(tag, weights, count, in + c, channels, lanes, sum);
                for (size_t k = 0; k < 4; ++k)
                    store(tag, sum[k], out + c + static_cast<int64_t>(k) * lanes);
            }
            // The last vector ends with the channels, or, where they are too
            // few, runs into the next column, which is written later.
            for (; c < channels; c += lanes) {
                const int64_t at
                        = std::max<int64_t>(0, std::min(c, channels - lanes));
                vector sum[1];
                sum_taps(tag, weights, count, in + at, channels, 0, sum);
                store(tag, sum[0], out + at);
            }
        }
    }

    void take_taps_of_lines() {
        const int64_t channels = job_.row_channels;
        int64_t begin = 0; // elements [begin, end) of the lines are in window_
        int64_t end = 0;
        int64_t element = 0;
        vector results[static_cast<size_t>(lanes)];
        for (int64_t i = src_begin_; i < src_end_; ++i) {
            const acc *weights = job_.w.weights<acc>(i);
            const int64_t count = job_.w.taps(i);
            const int64_t first = (job_.w.begin(i) - dst_begin_) * channels;
            const int64_t last = first + count * channels;
            if (last > end) fill_window(first, last, begin, end);
            const acc *in = window_ + (first - begin) * lanes;
            for (int64_t c = 0; c < channels; ++c) {
                vector sum[1];
                sum_taps(tag, weights, count, in + c * lanes, channels * lanes,
                        0, sum);
                results[static_cast<size_t>(element % lanes)] = sum[0];
                if (++element % lanes == 0 || element == row_)
                    store_results(results, (element - 1) / lanes * lanes);
            }
        }
    }

    /// Transposes lines into the window so that it holds [first, last).
    void fill_window(
            int64_t first, int64_t last, int64_t &begin, int64_t &end) {
        if (first >= end) { // nothing of it is wanted any more
            begin = end = first / lanes * lanes;
        } else if (last - begin + lanes > job_.window) {
            std::memmove(window_, window_ + (first - begin) * lanes,
                    static_cast<size_t>((end - first) * lanes) * sizeof(acc));
            begin = first;
        }
        for (; end < last; end += lanes) {
            vector square[static_cast<size_t>(lanes)];
            for (int64_t l = 0; l < lanes; ++l)
                square[l] = hn::LoadU(tag, lines_ + l * job_.line_pitch + end);
            transpose<acc>(square);
            acc *out = window_ + (end - begin) * lanes;
            for (int64_t l = 0; l < lanes; ++l)
                hn::StoreU(square[l], tag, out + l * lanes);
        }
    }

    /// Puts elements [at, at + lanes) of every line's row on the stage.
    void store_results(vector *results, int64_t at) {
        transpose<acc>(results);
        const int64_t rest = row_ - at;
        for (int64_t l = 0; l < filled_; ++l) {
            T *out = stage_ + l * row_ + at;
            if (rest >= lanes)
                store(tag, results[l], out);
            else
                store_first(tag, results[l], out, static_cast<size_t>(rest));
        }
    }

    /// Rows that follow one another in memory go in one copy.
    void copy_out() {
        for (int64_t l = 0; l < filled_;) {
            int64_t run = 1;
            while (l + run < filled_
                    && targets_[l + run] == targets_[l] + run * row_)
                ++run;
            const auto bytes = static_cast<size_t>(run * row_) * sizeof(T);
            if (job_.stream)
                stream_copy(stage_ + l * row_, targets_[l], bytes);
            else
                std::memcpy(targets_[l], stage_ + l * row_, bytes);
            l += run;
        }
    }

    const separable_job &job_;
    const T *const diff_dst_;
    T *const diff_src_;

    const T **rows_ = nullptr;
    const acc **ring_pointers_ = nullptr;
    acc *lines_ = nullptr;
    acc *ring_ = nullptr;
    acc *window_ = nullptr;
    T *stage_ = nullptr;

    // The strip: columns [src_begin_, src_end_) of diff_src come from columns
    // of diff_dst from dst_begin_ on; elements of a line and of a row of it.
    int64_t src_begin_ = 0;
    int64_t src_end_ = 0;
    int64_t dst_begin_ = 0;
    int64_t length_ = 0;
    int64_t row_ = 0;

    int64_t filled_ = 0; ///< lines in the group, and where their rows go
    T *targets_[static_cast<size_t>(max_lanes)] = {};

    // What the ring holds: rows below ring_end_.
    int64_t ring_plane_ = -1;
    int64_t ring_d_ = -1;
    int64_t ring_h_ = -1;
    int64_t ring_end_ = 0;
};

template <typename T>
void run_share(const separable_job &job, const void *diff_dst, void *diff_src,
        std::byte *scratch, int64_t share) {
    separable_worker<T>(job, static_cast<const T *>(diff_dst),
            static_cast<T *>(diff_src), scratch)
            .run(share);
}

separable_share separable_share_of(detail::data_type type) {
    separable_share share = nullptr;
    with_type(type, [&](auto t) { share = run_share<decltype(t)>; });
    return share;
}

} // namespace gradnn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gradnn::cpu {

HWY_EXPORT(separable_share_of);

separable_share find_separable_share(detail::data_type type) {
    return HWY_DYNAMIC_DISPATCH(separable_share_of)(type);
}

} // namespace gradnn::cpu
#endif
