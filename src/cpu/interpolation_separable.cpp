// Separable interpolation gradient on rows without gaps:
//   diff_src[d,h,w] = sum_w' Ww[w,w'] sum_h' Wh[h,h'] sum_d' Wd[d,d']
//                     diff_dst[d',h',w'].
//
// A line is one row of diff_src before its taps along W: the sum of the rows
// of diff_dst that touch it, in the accumulator's type. Rows are summed over D
// into a ring (rank 3 only), over H into the line, element by element. Taps
// along W then come from the line alone, in one of three ways:
// - channels in lanes: a column's channels are contiguous, a tap is a multiply-
//   add for a vector of them;
// - elements in lanes: up to a ratio of about four, a vector's taps t lie within
//   four vectors of the line, from which they are looked up by tables that are
//   made with the plan; the same for whole planes where rows are shorter than
//   two vectors, along W and then along H;
// - lines in lanes: as many lines as a vector has lanes are transposed piece by
//   piece into a window, so that a tap is one multiply-add for all of them,
//   whatever the ratio; results are transposed back.
// Results that are whole cache lines of a large problem go straight to memory by
// streaming stores, others by way of a small stage that keeps incomplete lines
// back until what follows them is there.
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
    /// The last `fresh` rows come from memory for the first time, and what
    /// follows is to be fetched now: `ahead` elements further on, and from
    /// element `turn` on another `jump` elements. (Short rows are too short
    /// for hardware to see them coming.)
    int64_t fresh = 0;
    int64_t ahead = 0;
    int64_t turn = 0;
    int64_t jump = 0;
    /// Elements after every row's end that may be read.
    int64_t slack = 0;
};

/// What follows elements [x, x + length) of the fresh rows before rows_end.
/// (Not a lambda: GCC 12 takes one that only fetches for one without effect.)
template <typename In>
HWY_INLINE void fetch(const In *const *rows_end, const row_surroundings &around,
        int64_t x, int64_t length) {
    const int64_t at = x + around.ahead + (x >= around.turn ? around.jump : 0);
    for (int64_t t = -around.fresh; t < 0; ++t)
        for (int64_t i = 0; i < length; i += 64 / sizeof(In))
            hwy::Prefetch(rows_end[t] + at + i);
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
        if constexpr (has_load_half<In>) {
            // Of a pair of vectors k, the elements of even and of odd places.
            const auto half_term = [&](int64_t t, size_t k) HWY_ATTR {
                const auto pair = static_cast<int64_t>(k / 2 * 2);
                return load_half(d, rows[t] + x + pair * lanes, k % 2 == 0);
            };
            weighted_sum<level>(d, weights, 0, count, half_term, sum);
            for (size_t k = 0; k < width; k += 2)
                interleave(d, sum[k], sum[k + 1]);
        } else {
            weighted_sum<level>(d, weights, 0, count, term, sum);
        }
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

/// Takes lanes by index from `tables` vectors that follow one another in memory;
/// 1, 2 or 4 of them.
template <size_t tables, class D>
class lane_lookup {
    using T = hn::TFromD<D>;
    using signed_tag = hn::RebindToSigned<D>;
    using indices = decltype(hn::IndicesFromVec(D(), hn::Zero(signed_tag())));
    static constexpr auto lanes = static_cast<int>(lanes_of<T>);

public:
    HWY_INLINE explicit lane_lookup(hn::VFromD<signed_tag> index)
        : index_(index),
          within_(hn::IndicesFromVec(
                  D(), hn::And(index, hn::Set(signed_tag(), lanes - 1)))) {}

    HWY_INLINE hn::VFromD<D> operator()(const T *from) const {
        if constexpr (tables == 1) {
            return hn::TableLookupLanes(hn::LoadU(D(), from), within_);
        } else if constexpr (tables == 2) {
            return of_two(from);
        } else {
            return hn::IfThenElse(has_bit(2 * lanes), of_two(from + 2 * lanes),
                    of_two(from));
        }
    }

private:
    HWY_INLINE hn::Mask<D> has_bit(int bit) const {
        const auto value = hn::Set(signed_tag(), bit);
        return hn::RebindMask(D(), hn::TestBit(index_, value));
    }
    HWY_INLINE hn::VFromD<D> of_two(const T *from) const {
        const auto low = hn::LoadU(D(), from);
        const auto high = hn::LoadU(D(), from + lanes);
#if HWY_TARGET == HWY_AVX3
        if constexpr (std::is_same_v<T, float>)
            return hn::VFromD<D> {
                    _mm512_permutex2var_ps(low.raw, index_.raw, high.raw)};
        else
            return hn::VFromD<D> {
                    _mm512_permutex2var_pd(low.raw, index_.raw, high.raw)};
#else
        return hn::IfThenElse(has_bit(lanes), hn::TableLookupLanes(high, within_),
                hn::TableLookupLanes(low, within_));
#endif
    }

    hn::VFromD<signed_tag> index_;
    indices within_;
};

/// The share's scratch, and what is in it.
template <typename T>
class separable_worker {
    using acc = accumulator_of<T>;
    static constexpr hn::ScalableTag<acc> tag {};
    using vector = hn::VFromD<hn::ScalableTag<acc>>;
    static constexpr auto lanes = static_cast<int64_t>(lanes_of<acc>);
    static constexpr hn::RebindToSigned<hn::ScalableTag<acc>> integer_tag {};
    /// Elements on the stage that are worth moving on.
    /// How far ahead of their use elements are fetched.
    static constexpr int64_t distance = 3008 / sizeof(T);
    static constexpr int64_t chunk = stage_bytes / sizeof(T);

public:
    separable_worker(const separable_job &job, const T *diff_dst, T *diff_src,
            std::byte *scratch)
        : job_(job), diff_dst_(diff_dst), diff_src_(diff_src),
          group_(job.lanes == tap_lanes::lines ? lanes : job.lines) {
        const auto take = [&](auto *&array, int64_t count) {
            using element = std::remove_reference_t<decltype(*array)>;
            array = reinterpret_cast<element *>(scratch);
            const size_t bytes = static_cast<size_t>(count) * sizeof(element);
            scratch += (bytes + 63) / 64 * 64;
        };
        take(rows_, job.pointers);
        take(ring_pointers_, job.pointers);
        take(lines_, job.group_size);
        take(sums_, job.sums_size);
        take(ring_, job.ring_rows * job.ring_pitch);
        take(window_, job.window * lanes);
        take(stage_, job.stage_size);
        take(targets_, job.lines);
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
        pass_on(staged_);
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

    /// Around the last rows of a sum over `axis`, of which what follows is
    /// `next` elements on.
    row_surroundings surroundings(const axis_taps &axis, int64_t i,
            int64_t count, int64_t next) const {
        row_surroundings around;
        around.fresh = count == 0 ? 0 : fresh(axis, i);
        around.slack = slack(count);
        around.ahead = distance;
        around.turn = length_;
        // Next in memory, unless what is next in memory is summed right now.
        const bool gapless = length_ == job_.diff_dst.h_stride
                && around.fresh * length_ <= 2 * distance;
        if (!gapless && !job_.h.identity) {
            around.ahead = std::min(
                    length_, distance / std::max<int64_t>(1, around.fresh));
            around.turn = length_ - around.ahead;
            around.jump = next - length_;
        }
        return around;
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
        if (h_count == 0 && group_ == 1) {
            empty_ = true;
        } else if (job_.d.identity) {
            for (int64_t t = 0; t < h_count; ++t)
                rows_[t] = from + d * in.d_stride + (h_begin + t) * in.h_stride;
            sum_rows(rows_, job_.h.weights<acc>(h), h_count, length_,
                    surroundings(job_.h, h, h_count,
                            fresh(job_.h, h) * job_.diff_dst.h_stride),
                    line);
        } else {
            fill_ring(plane, d, h, from);
            for (int64_t t = 0; t < h_count; ++t)
                ring_pointers_[t] = ring_row(h_begin + t);
            sum_rows(static_cast<const acc *const *>(ring_pointers_),
                    job_.h.weights<acc>(h), h_count, length_,
                    {.slack = lanes}, line);
        }
        T *const target = diff_src_ + n * out.n_stride + c * out.c_stride
                + d * out.d_stride + h * out.h_stride
                + src_begin_ * job_.row_channels;
        gapless_ = filled_ == 0
                || (gapless_ && target == targets_[filled_ - 1] + row_);
        targets_[filled_] = target;
        if (++filled_ == group_) finish_lines();
    }

    acc *ring_row(int64_t h) {
        return ring_ + h % job_.ring_rows * job_.ring_pitch;
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
                    surroundings(job_.d, d, count, job_.diff_dst.h_stride),
                    ring_row(row));
        }
        ring_end_ = row;
    }

    /// Makes rows of the lines of the group.
    void finish_lines() {
        if (filled_ == 0) return;
        if (!gapless_ || targets_[0] != run_ + staged_) {
            pass_on(staged_);
            run_ = targets_[0];
        }
        direct_ = may_write_directly();
        out_ = direct_ ? run_ : stage_ + staged_;
        if (empty_)
            put_zeros();
        else if (job_.w.identity)
            put_line();
        else if (job_.lanes == tap_lanes::elements)
            take_taps_of_elements();
        else if (job_.lanes == tap_lanes::lines)
            with_level([&](auto level) HWY_ATTR {
                take_taps_of_lines<decltype(level)::value>();
            });
        else
            with_level([&](auto level) HWY_ATTR {
                take_taps_of_channels<decltype(level)::value>();
            });
        if (direct_) {
            run_ += filled_ * row_;
        } else if (gapless_) {
            staged_ = out_ - stage_;
            if (staged_ >= chunk) pass_on_lines();
        } else {
            const T *row = stage_;
            for (int64_t l = 0; l < filled_; ++l, row += row_)
                copy_out(row, targets_[l], row_);
        }
        empty_ = false;
        filled_ = 0;
    }

    /// Whether the group's rows are whole cache lines, one after another, that
    /// may go past the caches.
    bool may_write_directly() const {
        return job_.stream && staged_ == 0 && job_.lanes != tap_lanes::lines
                && (job_.w.identity || job_.lanes == tap_lanes::elements
                        || job_.row_channels % lanes == 0)
                && filled_ * row_ * static_cast<int64_t>(sizeof(T)) % 64 == 0
                && reinterpret_cast<uintptr_t>(run_) % 64 == 0 && gapless_;
    }

    /// Steps over `count` results that have been put at `out`. What is on the
    /// stage leaves it little by little, so that reading goes on meanwhile.
    HWY_INLINE T *step(T *out, int64_t count) {
        out += count;
        if (!direct_ && gapless_ && out - stage_ >= chunk) {
            staged_ = out - stage_;
            pass_on_lines();
            out = stage_ + staged_;
        }
        return out;
    }

    void put_zeros() {
        for (int64_t x = 0; x < row_; x += lanes) {
            put(hn::Zero(tag), out_);
            out_ = step(out_, std::min(lanes, row_ - x));
        }
    }

    void put_line() {
        for (int64_t x = 0; x < row_; x += lanes) {
            put(hn::LoadU(tag, lines_ + x), out_);
            out_ = step(out_, std::min(lanes, row_ - x));
        }
    }

    /// A vector of results. On the stage it may run over the end of its row.
    HWY_INLINE void put(vector v, T *out) const {
        if (direct_)
            stream(tag, v, out);
        else
            store(tag, v, out);
    }

    template <int level>
    void take_taps_of_channels() {
        const int64_t channels = job_.row_channels;
        const tap_tables<acc> taps(job_.w);
        const acc *const line = lines_ - dst_begin_ * channels;
        T *out = out_;
        for (int64_t i = src_begin_; i < src_end_;
                ++i, out = step(out, channels)) {
            const acc *weights = taps.weights + taps.offset[i];
            const int64_t count = taps.count[i];
            const acc *in = line + taps.first[i] * channels;
            int64_t c = 0;
            for (; c + 4 * lanes <= channels; c += 4 * lanes) {
                vector sum[4];
                sum_taps<level>(
                        tag, weights, count, in + c, channels, lanes, sum);
                for (size_t k = 0; k < 4; ++k)
                    put(sum[k], out + c + static_cast<int64_t>(k) * lanes);
            }
            // The last vector ends with the channels, or, where they are too
            // few, runs into the next column, which is written later.
            for (; c < channels; c += lanes) {
                const int64_t at
                        = std::max<int64_t>(0, std::min(c, channels - lanes));
                vector sum[1];
                sum_taps<level>(
                        tag, weights, count, in + at, channels, 0, sum);
                put(sum[0], out + at);
            }
        }
        out_ = out;
    }

    /// Where planes of short rows are a group's lines, taps are taken along W
    /// first.
    void take_taps_of_elements() {
        const acc *line = lines_ - dst_begin_ * job_.row_channels;
        if (job_.row_elements.tables != 0) {
            acc *sums = sums_;
            take_taps(job_.row_elements, line, 0, filled_ * job_.sums,
                    [&](vector sum, int64_t) HWY_ATTR {
                        hn::StoreU(sum, tag, sums);
                        sums += lanes;
                    });
            line = sums_;
        }
        T *out = out_;
        take_taps(job_.elements, line, src_begin_ * job_.row_channels / lanes,
                filled_ * row_, [&](vector sum, int64_t count) HWY_ATTR {
                    put(sum, out);
                    out = step(out, count);
                });
        out_ = out;
    }

    /// Calls use(sum, lanes in use) for vectors of elements in turn.
    template <typename Use>
    HWY_INLINE void take_taps(const element_taps &taps, const acc *line,
            int64_t first, int64_t elements, const Use &use) {
        switch (taps.tables) {
            case 1: look_up_taps<1>(taps, line, first, elements, use); break;
            case 2: look_up_taps<2>(taps, line, first, elements, use); break;
            default: look_up_taps<4>(taps, line, first, elements, use); break;
        }
    }

    template <size_t tables, typename Use>
    HWY_INLINE void look_up_taps(const element_taps &taps, const acc *line,
            int64_t first, int64_t elements, const Use &use) {
        const element_taps::vector *next = taps.vectors.data() + first;
        const element_taps::pattern *const patterns = taps.patterns.data();
        const int32_t *const indices = taps.index.data();
        const int32_t *const counts = taps.count.data();
        const acc *const weights = taps.weights<acc>();
        const int64_t pattern_size = taps.max_count * lanes;
        const int64_t tap_stride = taps.tap_stride;
        for (int64_t x = 0; x < elements; x += lanes, ++next) {
            const acc *in = line + next->first;
            const element_taps::pattern pattern = patterns[next->pattern];
            const acc *weight = weights + next->pattern * pattern_size;
            const auto count = load_integers(counts + next->pattern * lanes);
            const lane_lookup<tables, decltype(tag)> look_up(
                    load_integers(indices + next->pattern * lanes));
            const auto has = [&](int32_t t) HWY_ATTR {
                return hn::RebindMask(
                        tag, hn::Gt(count, hn::Set(integer_tag, t)));
            };
            auto sum = hn::Mul(hn::LoadU(tag, weight), look_up(in));
            if (pattern.fewest == 0) sum = hn::IfThenElseZero(has(0), sum);
            int32_t t = 1;
            for (; t < pattern.fewest; ++t) {
                in += tap_stride;
                weight += lanes;
                sum = hn::MulAdd(hn::LoadU(tag, weight), look_up(in), sum);
            }
            for (; t < pattern.most; ++t) {
                in += tap_stride;
                weight += lanes;
                sum = hn::IfThenElse(has(t),
                        hn::MulAdd(hn::LoadU(tag, weight), look_up(in), sum),
                        sum);
            }
            use(sum, std::min(lanes, elements - x));
        }
    }

    static HWY_INLINE auto load_integers(const int32_t *from) {
        if constexpr (sizeof(acc) == sizeof(int32_t))
            return hn::LoadU(integer_tag, from);
        else
            return hn::PromoteTo(integer_tag,
                    hn::LoadU(hn::Rebind<int32_t, decltype(integer_tag)>(), from));
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
        out_ += filled_ * row_;
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
        T *out = out_ + at;
        for (int64_t l = 0; l < filled_; ++l, out += row_) {
            if (count == lanes)
                store(tag, square[l], out);
            else
                store_first(tag, square[l], out, static_cast<size_t>(count));
        }
    }

    void copy_out(const T *from, T *to, int64_t count) const {
        const auto bytes = static_cast<size_t>(count) * sizeof(T);
        if (job_.stream)
            stream_copy(from, to, bytes);
        else
            std::memcpy(to, from, bytes);
    }

    /// Moves the first `count` elements off the stage.
    HWY_NOINLINE void pass_on(int64_t count) {
        if (count <= 0) return;
        copy_out(stage_, run_, count);
        run_ += count;
        staged_ -= count;
        std::memmove(stage_, stage_ + count,
                static_cast<size_t>(staged_) * sizeof(T));
    }

    /// All but the last cache line, unless it is whole.
    void pass_on_lines() {
        const auto end = reinterpret_cast<uintptr_t>(run_ + staged_);
        pass_on(staged_ - static_cast<int64_t>(end % 64 / sizeof(T)));
    }

    const separable_job &job_;
    const T *const diff_dst_;
    T *const diff_src_;

    const T **rows_ = nullptr;
    const acc **ring_pointers_ = nullptr;
    acc *lines_ = nullptr;
    acc *sums_ = nullptr; ///< planes of short rows after the taps along W
    acc *ring_ = nullptr;
    acc *window_ = nullptr;
    T *stage_ = nullptr;
    T **targets_ = nullptr; ///< where the rows of the group go

    // The strip: columns [src_begin_, src_end_) of diff_src come from columns
    // of diff_dst from dst_begin_ on; elements of a line and of a row of it.
    int64_t src_begin_ = 0;
    int64_t src_end_ = 0;
    int64_t dst_begin_ = 0;
    int64_t length_ = 0;
    int64_t row_ = 0;

    int64_t group_ = 0; ///< lines of a group
    int64_t filled_ = 0; ///< lines in the group so far
    bool empty_ = false; ///< the group is one line of zeros
    // Where results are being put: on the stage or where they belong.
    T *out_ = nullptr;
    bool direct_ = false;

    bool gapless_ = true; ///< the group's rows follow one another in memory

    // Elements on the stage, and where they go.
    int64_t staged_ = 0;
    T *run_ = nullptr;
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
