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
/// 8, 64 and 512 terms so that the error grows slowly with their number.
/// `level` is what level_of says.
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
        constexpr int64_t step = int64_t {1} << 3 * level;
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
    return terms <= 8 ? 0 : terms <= 64 ? 1 : terms <= 512 ? 2 : 3;
}

/// What sum_rows may do around the rows that it sums.
struct row_surroundings {
    /// The last `fresh` rows come from memory for the first time, and `ahead`
    /// elements further on is what follows: to be fetched now. (Short rows are
    /// too short for hardware to see them coming.)
    int64_t fresh = 0;
    int64_t ahead = 0;
    /// Elements after every row's end that may be read.
    int64_t slack = 0;
};

/// What follows elements [x, x + length) of the fresh rows before rows_end.
/// (Not a lambda: GCC 12 takes one that only fetches for one without effect.)
template <typename In>
HWY_INLINE void fetch(const In *const *rows_end, const row_surroundings &around,
        int64_t x, int64_t length) {
    for (int64_t t = -around.fresh; t < 0; ++t)
        for (int64_t i = 0; i < length; i += 64 / sizeof(In))
            hwy::Prefetch(rows_end[t] + x + around.ahead + i);
}

/// out[x] = sum over t of weights[t] * rows[t][x]; count > 0.
template <int level, typename In, typename Acc>
void sum_rows(const In *const *rows, const Acc *weights, int64_t count,
        int64_t length, row_surroundings around, Acc *out) {
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
        fetch(rows + count, around, x, static_cast<int64_t>(width) * lanes);
        vector sum[width];
        weighted_sum<level>(d, weights, 0, count, term, sum);
        for (size_t k = 0; k < width; ++k)
            hn::StoreU(sum[k], d, out + x + static_cast<int64_t>(k) * lanes);
    }
    fetch(rows + count, around, x, length - x);
    vector sum[1];
    for (; x + lanes <= length; x += lanes) {
        weighted_sum<level>(d, weights, 0, count, term, sum);
        hn::StoreU(sum[0], d, out + x);
    }
    if (x == length) return;
    // Lines are padded, rows are not: where nothing may be read after them, the
    // last vector does again what it has in common with the one before. (Loads
    // under a mask are slow.)
    if (length - x + around.slack >= lanes || length >= lanes) {
        if (length - x + around.slack < lanes) x = length - lanes;
        weighted_sum<level>(d, weights, 0, count, term, sum);
        hn::StoreU(sum[0], d, out + x);
        return;
    }
    const auto rest = static_cast<size_t>(length - x);
    const auto partial = [&](int64_t t, size_t) HWY_ATTR {
        return load_first(d, rows[t] + x, rest);
    };
    weighted_sum<level>(d, weights, 0, count, partial, sum);
    hn::StoreU(sum[0], d, out + x);
}

template <typename In, typename Acc>
void sum_rows(const In *const *rows, const Acc *weights, int64_t count,
        int64_t length, row_surroundings around, Acc *out) {
    if (count == 0)
        std::fill(out, out + length, Acc {0});
    else if (level_of(count) == 0)
        sum_rows<0>(rows, weights, count, length, around, out);
    else if (level_of(count) == 1)
        sum_rows<1>(rows, weights, count, length, around, out);
    else if (level_of(count) == 2)
        sum_rows<2>(rows, weights, count, length, around, out);
    else
        sum_rows<3>(rows, weights, count, length, around, out);
}

/// One tap sum of `width` vectors that lie `step` apart; count may be 0.
template <int level, size_t width, class D>
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
    else
        weighted_sum<level>(d, weights, 0, count, term, sum);
}

/// The axis W as the loops over taps want it: plain pointers, which stay in
/// registers where a vector's would be read again after every store.
template <typename Acc>
struct tap_tables {
    explicit tap_tables(const axis_taps &axis)
        : first(axis.first.data()), count(axis.count.data()),
          offset(axis.offset.data()), weights(axis.weights<Acc>(0)) {}

    const int64_t *const first;
    const int64_t *const count;
    const int64_t *const offset;
    const Acc *const weights;
};

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
        take(stage_, job.staged_rows * job.strip_src * job.row_channels + lanes);
        take(targets_, job.staged_rows);
    }

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
                copy_out();
                strip = unit % strips;
                enter_strip(strip);
            }
            int64_t rest = unit / strips;
            const int64_t h_block = rest % h_blocks;
            rest /= h_blocks;
            const int64_t d_block = rest % d_blocks;
            const int64_t plane = rest / d_blocks;
            const int64_t d_end
                    = std::min(job_.d.src, (d_block + 1) * job_.d_block);
            const int64_t h_end
                    = std::min(job_.h.src, (h_block + 1) * job_.h_block);
            for (int64_t d = d_block * job_.d_block; d < d_end; ++d)
                for (int64_t h = h_block * job_.h_block; h < h_end; ++h)
                    add_line(plane, d, h);
        }
        finish_lines();
        copy_out();
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
        // Within long rows and rows without gaps what follows is next in
        // memory; else it is found under the same columns, some rows on.
        constexpr int64_t distance = 6144 / sizeof(T);
        const int64_t step = job_.diff_dst.h_stride;
        ahead_ = length_ == step || length_ >= 4 * distance
                ? distance
                : distance / std::max<int64_t>(1, length_) * step;
    }

    /// Outputs that touch element i and not the one before.
    static int64_t fresh(const axis_taps &axis, int64_t i) {
        const int64_t seen = i == 0 ? 0 : axis.end(i - 1);
        return axis.end(i) - std::max(axis.begin(i), seen);
    }

    /// Of the first `count` of rows_: where rows follow one another, up to the
    /// end of diff_dst.
    int64_t slack(int64_t count) const {
        return count > 0 && length_ == job_.diff_dst.h_stride
                ? diff_dst_ + job_.extent - rows_[count - 1] - length_
                : 0;
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
            sum_rows(rows_, job_.h.weights<acc>(h), h_count, length_,
                    {fresh(job_.h, h), ahead_, slack(h_count)}, line);
        } else {
            fill_ring(plane, d, h, from);
            for (int64_t t = 0; t < h_count; ++t)
                ring_pointers_[t] = ring_row(h_begin + t);
            sum_rows(static_cast<const acc *const *>(ring_pointers_),
                    job_.h.weights<acc>(h), h_count, length_,
                    {0, 0, lanes}, line);
        }
        targets_[staged_ + filled_] = diff_src_ + n * out.n_stride + c * out.c_stride
                + d * out.d_stride + h * out.h_stride
                + src_begin_ * job_.row_channels;
        if (++filled_ == std::min(lanes, job_.lines)) finish_lines();
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
                    {fresh(job_.d, d), ahead_, slack(count)}, ring_row(row));
        }
        ring_end_ = row;
    }

    /// Makes rows of the lines of the group.
    void finish_lines() {
        if (filled_ == 0) return;
        if (job_.w.identity)
            for (int64_t l = 0; l < filled_; ++l)
                convert_row(lines_ + l * job_.line_pitch,
                        stage_ + (staged_ + l) * row_,
                        static_cast<size_t>(row_));
        else if (job_.lines_in_lanes)
            with_level([&](auto level) HWY_ATTR {
                take_taps_of_lines<decltype(level)::value>();
            });
        else
            with_level([&](auto level) HWY_ATTR {
                take_taps_of_channels<decltype(level)::value>();
            });
        staged_ += filled_;
        filled_ = 0;
        if (staged_ + job_.lines > job_.staged_rows) copy_out();
    }

    template <int level>
    void take_taps_of_channels() {
        const int64_t channels = job_.row_channels;
        const tap_tables<acc> taps(job_.w);
        const acc *const line = lines_ - dst_begin_ * channels;
        T *out = stage_ + staged_ * row_;
        for (int64_t i = src_begin_; i < src_end_; ++i, out += channels) {
            const acc *weights = taps.weights + taps.offset[i];
            const int64_t count = taps.count[i];
            const acc *in = line + taps.first[i] * channels;
            int64_t c = 0;
            for (; c + 4 * lanes <= channels; c += 4 * lanes) {
                vector sum[4];
                sum_taps<level>(
                        tag, weights, count, in + c, channels, lanes, sum);
                for (size_t k = 0; k < 4; ++k)
                    store(tag, sum[k], out + c + static_cast<int64_t>(k) * lanes);
            }
            // The last vector ends with the channels, or, where they are too
            // few, runs into the next column, which is written later.
            for (; c < channels; c += lanes) {
                const int64_t at
                        = std::max<int64_t>(0, std::min(c, channels - lanes));
                vector sum[1];
                sum_taps<level>(
                        tag, weights, count, in + at, channels, 0, sum);
                store(tag, sum[0], out + at);
            }
        }
    }

    template <int level>
    void take_taps_of_lines() {
        const int64_t channels = job_.row_channels;
        const tap_tables<acc> taps(job_.w);
        window_begin_ = window_end_ = 0;
        const acc *window = window_;
        int64_t end = 0;
        int64_t filled = 0;
        int64_t at = 0;
        alignas(64) acc results[static_cast<size_t>(lanes * lanes)];
        for (int64_t i = src_begin_; i < src_end_; ++i) {
            const acc *weights = taps.weights + taps.offset[i];
            const int64_t count = taps.count[i];
            const int64_t first = (taps.first[i] - dst_begin_) * channels;
            if (first + count * channels > end) {
                fill_window(first, first + count * channels);
                end = window_end_;
                window = window_ - window_begin_ * lanes;
            }
            const acc *in = window + first * lanes;
            for (int64_t c = 0; c < channels; ++c, in += lanes) {
                vector sum[1];
                sum_taps<level>(
                        tag, weights, count, in, channels * lanes, 0, sum);
                hn::Store(sum[0], tag, results + filled * lanes);
                if (++filled == lanes) {
                    store_results(results, at, lanes);
                    at += lanes;
                    filled = 0;
                }
            }
        }
        if (filled != 0) store_results(results, at, filled);
    }

    /// Calls take_taps for the number of taps that the axis has at most.
    template <typename TakeTaps>
    void with_level(const TakeTaps &take_taps) {
        switch (level_of(job_.w.max_count)) {
            case 0: take_taps(std::integral_constant<int, 0> {}); break;
            case 1: take_taps(std::integral_constant<int, 1> {}); break;
            case 2: take_taps(std::integral_constant<int, 2> {}); break;
            default: take_taps(std::integral_constant<int, 3> {}); break;
        }
    }

    /// Transposes lines into the window so that it holds [first, last).
    HWY_NOINLINE void fill_window(int64_t first, int64_t last) {
        int64_t end = window_end_;
        if (first >= end) { // nothing of it is wanted any more
            window_begin_ = end = first / lanes * lanes;
        } else if (last - window_begin_ + lanes > job_.window) {
            std::memmove(window_, window_ + (first - window_begin_) * lanes,
                    static_cast<size_t>((end - first) * lanes) * sizeof(acc));
            window_begin_ = first;
        }
        acc *out = window_ + (end - window_begin_) * lanes;
        for (; end < last; end += lanes, out += lanes * lanes) {
            vector square[static_cast<size_t>(lanes)];
            for (int64_t l = 0; l < lanes; ++l)
                square[l] = hn::LoadU(tag, lines_ + l * job_.line_pitch + end);
            transpose<acc>(square);
            for (int64_t l = 0; l < lanes; ++l)
                hn::StoreU(square[l], tag, out + l * lanes);
        }
        window_end_ = end;
    }

    /// Puts elements [at, at + count) of every line's row on the stage;
    /// results[e] holds element at + e of all lines.
    HWY_NOINLINE void store_results(
            const acc *results, int64_t at, int64_t count) {
        vector square[static_cast<size_t>(lanes)];
        for (int64_t l = 0; l < lanes; ++l)
            square[l] = hn::Load(tag, results + l * lanes);
        transpose<acc>(square);
        T *out = stage_ + staged_ * row_ + at;
        for (int64_t l = 0; l < filled_; ++l, out += row_) {
            if (count == lanes)
                store(tag, square[l], out);
            else
                store_first(tag, square[l], out, static_cast<size_t>(count));
        }
    }

    /// Rows that follow one another in memory go in one copy.
    void copy_out() {
        for (int64_t l = 0; l < staged_;) {
            int64_t run = 1;
            while (l + run < staged_
                    && targets_[l + run] == targets_[l] + run * row_)
                ++run;
            const auto bytes = static_cast<size_t>(run * row_) * sizeof(T);
            if (job_.stream)
                stream_copy(stage_ + l * row_, targets_[l], bytes);
            else
                std::memcpy(targets_[l], stage_ + l * row_, bytes);
            l += run;
        }
        staged_ = 0;
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
    T **targets_ = nullptr; ///< where each row on the stage goes

    // The strip: columns [src_begin_, src_end_) of diff_src come from columns
    // of diff_dst from dst_begin_ on; elements of a line and of a row of it.
    int64_t src_begin_ = 0;
    int64_t src_end_ = 0;
    int64_t dst_begin_ = 0;
    int64_t length_ = 0;
    int64_t row_ = 0;
    int64_t ahead_ = 0; ///< see row_surroundings

    int64_t filled_ = 0; ///< lines in the group
    int64_t staged_ = 0; ///< rows on the stage
    // Elements [window_begin_, window_end_) of the lines are in the window.
    int64_t window_begin_ = 0;
    int64_t window_end_ = 0;

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
