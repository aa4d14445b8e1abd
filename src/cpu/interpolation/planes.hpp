// Slabs in lanes: as many slabs (the rows of one plane and one place along D) as
// a vector has lanes are summed over D, transposed, summed over H and W as
// vectors, and transposed back. What is held transposed is a window of each slab
// that the first-level cache has room for where a few rows fit it.
//
// Included once for each of Highway's targets, like simd.hpp.
#include <algorithm>
#include <cstring>

#include "cpu/interpolation/columns.hpp"
#include "cpu/interpolation/scratch.hpp"
#include "cpu/interpolation/separable.hpp"
#include "cpu/interpolation/stage.hpp"
#include "cpu/interpolation/sums.hpp"
#include "cpu/simd/simd.hpp"

#if defined(GRADNN_CPU_INTERPOLATION_PLANES_TOGGLE) \
        == defined(HWY_TARGET_TOGGLE)
#ifdef GRADNN_CPU_INTERPOLATION_PLANES_TOGGLE
#undef GRADNN_CPU_INTERPOLATION_PLANES_TOGGLE
#else
#define GRADNN_CPU_INTERPOLATION_PLANES_TOGGLE
#endif

HWY_BEFORE_NAMESPACE();
namespace gradnn::cpu::HWY_NAMESPACE {

/// Fetches what is between two addresses, a few cache lines at a time.
class gradual_fetch {
public:
    gradual_fetch(const void *begin, const void *end, int64_t steps)
        : at_(static_cast<const std::byte *>(begin)),
          end_(std::max(at_, static_cast<const std::byte *>(end))),
          step_((end_ - at_ + steps - 1) / steps) {}

    HWY_INLINE void step() {
        const std::byte *const until = at_ + std::min(step_, end_ - at_);
        for (; at_ < until; at_ += 64)
            hwy::Prefetch(at_);
    }

private:
    const std::byte *at_;
    const std::byte *end_;
    std::ptrdiff_t step_;
};

/// The share's scratch, and what is in it.
template <typename T>
class plane_worker {
    using acc = accumulator_of<T>;
    static constexpr auto lanes = static_cast<int64_t>(lanes_of<acc>);
    /// Vectors of results that are worth transposing back.
    static constexpr int64_t least_results = 8 * max_lanes;

public:
    plane_worker(const separable_job &job, const T *diff_dst, T *diff_src,
            std::byte *scratch)
        : job_(job),
          diff_dst_(diff_dst),
          diff_src_(diff_src),
          row_src_(job.w.src * job.row_channels),
          row_dst_(job.w.dst * job.row_channels),
          slab_dst_(job.h.dst * row_dst_),
          held_dst_(slab_dst_ * (job.volumes ? job.d.dst : 1)),
          places_(job.volumes ? 1 : job.d.src),
          scratch_(job, scratch),
          line_(scratch_.group),
          results_(scratch_.results),
          fetch_(diff_dst, diff_dst, 1),
          held_(scratch_.window) {}

    void run(int64_t share) {
        const int64_t units = job_.units();
        const int64_t blocks = job_.h_blocks();
        const int64_t end = units * (share + 1) / job_.shares;
        for (int64_t u = units * share / job_.shares; u < end; ++u) {
            const int64_t h = u % blocks * job_.h_block;
            enter_slabs(u / blocks * lanes);
            const bool fetches = blocks == 1 && u + 1 < end;
            take_slabs(h, std::min(job_.h.src, h + job_.h_block), fetches);
        }
        scratch_.stage.finish();
    }

private:
    /// Where slab s's plane begins in diff_dst.
    const T *plane_of(int64_t s) const {
        const int64_t plane = s / places_;
        return diff_dst_ + plane / job_.c * job_.diff_dst.n_stride
                + plane % job_.c * job_.diff_dst.c_stride;
    }
    T *result_of(int64_t s) const {
        const int64_t plane = s / places_;
        return diff_src_ + plane / job_.c * job_.diff_src.n_stride
                + plane % job_.c * job_.diff_src.c_stride
                + s % places_ * job_.diff_src.d_stride;
    }
    /// What slab s sums: from the first of them to the end of the last.
    const T *begin_of(int64_t s) const {
        if (job_.volumes) return plane_of(s);
        return plane_of(s) + job_.d.begin(s % places_) * job_.diff_dst.d_stride;
    }
    const T *end_of(int64_t s) const {
        if (job_.volumes) return plane_of(s) + job_.d.dst * slab_dst_;
        return plane_of(s)
                + (job_.d.end(s % places_) - 1) * job_.diff_dst.d_stride
                + slab_dst_;
    }

    /// What is beyond the last slab repeats it.
    void enter_slabs(int64_t first) {
        first_ = first;
        count_ = std::min(lanes, job_.slabs() - first);
        for (int64_t l = 0; l < lanes; ++l)
            slabs_[l] = begin_of(first + std::min(l, count_ - 1));
        begin_ = end_ = 0;
    }

    gradual_fetch fetch_of_next(bool fetches, int64_t steps) const {
        const T *const done = end_of(first_ + count_ - 1);
        if (!fetches) return gradual_fetch(done, done, 1);
        const int64_t last
                = std::min(first_ + count_ + lanes, job_.slabs()) - 1;
        const T *const begin = std::max(done, begin_of(first_ + count_));
        return gradual_fetch(begin, end_of(last), steps);
    }

    /// Rows [h, h_end) of diff_src of all slabs.
    void take_slabs(int64_t h, int64_t h_end, bool fetches) {
        const int64_t sums = job_.volumes ? job_.d.src : 1;
        fetch_ = fetch_of_next(fetches,
                held_dst_ / job_.chunk + 1
                        + sums * (h_end - h) * (job_.batch + 2) / job_.batch);
        result_stage<T> &stage = scratch_.stage;
        piece_ = sums * (h_end - h) * row_src_;
        stage.set_row(piece_);
        for (int64_t l = 0; l < count_; ++l)
            stage.add_row(result_of(first_ + l) + h * row_src_);
        stage.open(false);
        out_ = stage.out();
        pending_ = 0;
        if (job_.volumes) transpose_slabs(0, held_dst_, scratch_.window);
        for (int64_t d = 0; d < sums; ++d) {
            if (job_.volumes) sum_slab(d);
            take_rows(h, h_end);
        }
        put_results(pending_);
        stage.set_out(stage.out() + count_ * piece_);
        stage.close();
    }

    /// Of volumes that are held transposed: what place d sums becomes what is
    /// held.
    void sum_slab(int64_t d) {
        begin_ = 0;
        end_ = slab_dst_;
        const int64_t count = job_.d.taps(d);
        const acc *const first
                = scratch_.window + job_.d.begin(d) * slab_dst_ * lanes;
        const acc *const weights = job_.d.weights<acc>(d);
        held_ = count == 1 && weights[0] == acc {1} ? first : scratch_.ring;
        if (held_ == first) return;
        for (int64_t t = 0; t < count; ++t)
            scratch_.sums[t] = first + t * slab_dst_ * lanes;
        sum_rows(static_cast<const acc *const *>(scratch_.sums), weights, count,
                slab_dst_ * lanes, {}, scratch_.ring);
    }

    void take_rows(int64_t h, int64_t h_end) {
        for (; h < h_end; h += job_.batch) {
            const int64_t rows = std::min(job_.batch, h_end - h);
            const bool in_place = job_.h.identity || is_plain(h, rows);
            if (!in_place)
                for (int64_t r = 0; r < rows; ++r)
                    sum_row(h + r, line_ + r * row_dst_ * lanes);
            sum_along_w(rows == job_.batch ? job_.columns : job_.last_columns,
                    h, in_place);
        }
    }

    /// Whether line h is a row of diff_dst as it is.
    bool is_plain(int64_t h, int64_t rows) const {
        return rows == 1 && job_.h.taps(h) == 1
                && job_.h.weights<acc>(h)[0] == acc {1};
    }

    void sum_row(int64_t h, acc *out) {
        fetch_.step();
        const int64_t length = row_dst_ * lanes;
        const int64_t count = job_.h.taps(h);
        const int64_t begin = job_.h.begin(h);
        if (count > 0) hold(begin * row_dst_, (begin + count) * row_dst_);
        for (int64_t t = 0; t < count; ++t)
            scratch_.sums[t] = at((begin + t) * row_dst_);
        sum_rows(static_cast<const acc *const *>(scratch_.sums),
                job_.h.weights<acc>(h), count, length, {}, out);
    }

    void sum_along_w(const column_taps &table, int64_t h, bool in_place) {
        const int64_t channels = job_.row_channels;
        const int64_t origin = in_place ? job_.h.begin(h) * row_dst_ : 0;
        for (const column_taps::block &block : table.blocks) {
            fetch_.step();
            const int64_t begin = origin + block.dst_begin * channels;
            if (in_place) hold(begin, origin + block.dst_end * channels);
            sum_columns(table, block,
                    in_place ? at(begin) : line_ + begin * lanes, channels,
                    results_ + pending_ * lanes);
            pending_ += (block.src_end - block.src_begin) * channels;
            if (pending_ >= least_results)
                put_results(pending_ / lanes * lanes);
        }
    }

    /// Transposes `count` vectors of results back, to the stage.
    void put_results(int64_t count) {
        store_transposed<T>(results_, count, count_, piece_, out_);
        out_ += count;
        pending_ -= count;
        std::memmove(results_, results_ + count * lanes,
                static_cast<size_t>(pending_ * lanes) * sizeof(acc));
    }

    /// Element e of all slabs, which is held.
    const acc *at(int64_t e) const { return held_ + (e - begin_) * lanes; }

    /// Makes sure that elements [first, last) of all slabs are held transposed.
    /// They come with ascending ends.
    void hold(int64_t first, int64_t last) {
        if (last <= end_) return;
        if (first >= end_) begin_ = end_ = first;
        // As many as are worth the calls.
        const int64_t wanted = std::max(last, end_ + job_.chunk);
        int64_t until = std::min(slab_dst_, wanted);
        if (until - begin_ > job_.window_elements()) {
            std::memmove(scratch_.window, at(first),
                    static_cast<size_t>((end_ - first) * lanes) * sizeof(acc));
            begin_ = first;
        }
        until = std::min(until, begin_ + job_.window_elements());
        constexpr int64_t square = 2 * max_lanes;
        if (until < slab_dst_) {
            const int64_t whole = (until - end_) / square * square;
            if (end_ + whole >= last) until = end_ + whole;
        }
        acc *const out = scratch_.window + (end_ - begin_) * lanes;
        if (job_.d.identity)
            transpose_slabs(end_, until, out);
        else
            sum_over_d(end_, until, out);
        end_ = until;
    }

    /// Elements [begin, end) of all slabs as they are, transposed to `out`.
    void transpose_slabs(int64_t begin, int64_t end, acc *out) {
        for (; begin < end; begin += job_.chunk, out += job_.chunk * lanes) {
            fetch_.step();
            transpose_rows(static_cast<const T *const *>(slabs_), begin,
                    std::min(end, begin + job_.chunk), diff_dst_ + job_.extent,
                    out);
        }
    }

    /// The same of slabs that are sums of others: [begin, end) of them to `out`.
    void sum_over_d(int64_t begin, int64_t end, acc *out) {
        const int64_t pitch = job_.ring_pitch;
        const acc *sums[static_cast<size_t>(lanes)];
        for (int64_t l = 0; l < lanes; ++l)
            sums[l] = scratch_.ring + std::min(l, count_ - 1) * pitch;
        for (; begin < end; begin += job_.chunk) {
            fetch_.step();
            const int64_t length = std::min(job_.chunk, end - begin);
            for (int64_t l = 0; l < count_; ++l) {
                const int64_t d = (first_ + l) % job_.d.src;
                const int64_t count = job_.d.taps(d);
                for (int64_t t = 0; t < count; ++t)
                    scratch_.rows[t]
                            = slabs_[l] + t * job_.diff_dst.d_stride + begin;
                row_surroundings around;
                if (count > 0)
                    around.slack = diff_dst_ + job_.extent
                            - scratch_.rows[count - 1] - length;
                sum_rows(scratch_.rows, job_.d.weights<acc>(d), count, length,
                        around, scratch_.ring + l * pitch);
            }
            transpose_rows(static_cast<const acc *const *>(sums), 0, length,
                    static_cast<const acc *>(scratch_.ring + lanes * pitch),
                    out);
            out += length * lanes;
        }
    }

    const separable_job &job_;
    const T *const diff_dst_;
    T *const diff_src_;
    // Elements.
    const int64_t row_src_;
    const int64_t row_dst_;
    const int64_t slab_dst_;
    const int64_t held_dst_; ///< of what is held transposed, or passes there
    const int64_t places_; ///< slabs of a plane
    separable_scratch<T> scratch_;
    acc *const line_; ///< rows summed over H, transposed
    acc *const results_; ///< transposed

    gradual_fetch fetch_; ///< of what the next slabs are made of
    // The slabs: where the first that each of them sums is.
    int64_t first_ = 0;
    int64_t count_ = 0;
    const T *slabs_[static_cast<size_t>(lanes)] = {};
    // Their elements [begin_, end_) are held transposed, there.
    const acc *held_;
    int64_t begin_ = 0;
    int64_t end_ = 0;
    // Results on their way back, and where they go on the stage.
    int64_t pending_ = 0;
    int64_t piece_ = 0;
    T *out_ = nullptr;
};

} // namespace gradnn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
