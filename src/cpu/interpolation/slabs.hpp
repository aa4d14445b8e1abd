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
#include "cpu/interpolation/squares.hpp"
#include "cpu/interpolation/stage.hpp"
#include "cpu/interpolation/sums.hpp"
#include "cpu/simd/simd.hpp"

#if defined(GRADNN_CPU_INTERPOLATION_SLABS_TOGGLE) == defined(HWY_TARGET_TOGGLE)
#ifdef GRADNN_CPU_INTERPOLATION_SLABS_TOGGLE
#undef GRADNN_CPU_INTERPOLATION_SLABS_TOGGLE
#else
#define GRADNN_CPU_INTERPOLATION_SLABS_TOGGLE
#endif

HWY_BEFORE_NAMESPACE();
namespace gradnn::cpu::HWY_NAMESPACE {

/// Slabs that are a vector's lanes.
template <typename T>
struct slab_group {
    static constexpr auto lanes
            = static_cast<int64_t>(lanes_of<accumulator_of<T>>);
    int64_t count = 0;
    /// What each of them sums begins here. Those beyond the last repeat it.
    const T *from[static_cast<size_t>(lanes)] = {};
    T *to[static_cast<size_t>(lanes)] = {};
    int64_t place[static_cast<size_t>(lanes)] = {}; ///< along D, of those fed
    const T *end = nullptr; ///< of what the last one sums
};

/// Goes through slabs in their order, without a division for each.
template <typename T>
class slab_walk {
public:
    slab_walk(const separable_job &job, const T *diff_dst, T *diff_src)
        : job_(job),
          places_(static_cast<int64_t>(job.fed.size())),
          slab_dst_(job.h.dst * job.w.dst * job.row_channels),
          diff_dst_(diff_dst),
          diff_src_(diff_src) {}

    void go_to(int64_t slab) {
        left_ = job_.slabs() - slab;
        place_ = slab % places_;
        const int64_t plane = slab / places_;
        n_ = plane / job_.c;
        c_ = plane % job_.c;
        enter_plane();
    }

    /// The next ones, as many as there are.
    void take(slab_group<T> &group) {
        constexpr int64_t lanes = slab_group<T>::lanes;
        group.count = std::min(lanes, left_);
        left_ -= group.count;
        for (int64_t l = 0; l < group.count; ++l) {
            const int64_t d = job_.fed[static_cast<size_t>(place_)];
            const int64_t first = job_.d.begin(d);
            const int64_t end = job_.d.end(d);
            group.from[l] = from_ + first * job_.diff_dst.d_stride;
            group.end = from_ + (end - 1) * job_.diff_dst.d_stride + slab_dst_;
            group.to[l] = to_ + d * job_.diff_src.d_stride;
            group.place[l] = place_;
            if (++place_ < places_) continue;
            place_ = 0;
            from_ += job_.diff_dst.c_stride;
            to_ += job_.diff_src.c_stride;
            if (++c_ < job_.c) continue;
            c_ = 0;
            ++n_;
            enter_plane();
        }
        for (int64_t l = group.count; l < lanes && l > 0; ++l)
            group.from[l] = group.from[l - 1];
    }

private:
    void enter_plane() {
        from_ = diff_dst_ + n_ * job_.diff_dst.n_stride
                + c_ * job_.diff_dst.c_stride;
        to_ = diff_src_ + n_ * job_.diff_src.n_stride
                + c_ * job_.diff_src.c_stride;
    }

    const separable_job &job_;
    const int64_t places_; ///< slabs of a plane
    const int64_t slab_dst_; ///< elements
    const T *const diff_dst_;
    T *const diff_src_;
    // The next slab, and where its plane begins.
    int64_t left_ = 0; ///< slabs from here on
    int64_t place_ = 0;
    int64_t n_ = 0;
    int64_t c_ = 0;
    const T *from_ = nullptr;
    T *to_ = nullptr;
};

/// The share's scratch, and what is in it.
template <typename T>
class slab_worker {
    using acc = accumulator_of<T>;
    static constexpr auto lanes = static_cast<int64_t>(lanes_of<acc>);
    /// Vectors of results that are worth transposing back.
    static constexpr int64_t least_results = 8 * max_lanes;

public:
    slab_worker(const separable_job &job, const T *diff_dst, T *diff_src,
            std::byte *scratch)
        : job_(job),
          diff_dst_(diff_dst),
          row_src_(job.w.src * job.row_channels),
          row_dst_(job.w.dst * job.row_channels),
          slab_dst_(job.h.dst * row_dst_),
          walk_(job, diff_dst, diff_src),
          scratch_(job, scratch),
          line_(scratch_.group),
          results_(scratch_.results),
          fetch_(diff_dst, diff_dst, 1) {}

    void run(int64_t share) {
        const int64_t units = job_.units();
        const int64_t blocks = job_.h_blocks();
        const int64_t end = units * (share + 1) / job_.shares;
        int64_t u = units * share / job_.shares;
        if (u == end) return;
        walk_.go_to(u / blocks * lanes);
        walk_.take(next_);
        int64_t h = u % blocks;
        enter_next_slabs(h == 0);
        for (; u < end; ++u) {
            const int64_t h_begin = h * job_.h_block;
            const bool fetches = blocks == 1 && u + 1 < end;
            take_slabs(h_begin, std::min(job_.h.src, h_begin + job_.h_block),
                    fetches);
            if (++h < blocks) {
                begin_ = end_ = 0;
            } else if (u + 1 < end) {
                h = 0;
                enter_next_slabs(true);
            }
        }
        scratch_.stage.finish();
    }

private:
    /// A group is entered when the one after it is known, from which elements are
    /// fetched. `clears`: slabs around its own that nothing feeds become zeros.
    void enter_next_slabs(bool clears) {
        slabs_ = next_;
        walk_.take(next_);
        begin_ = end_ = 0;
        const auto fed = static_cast<int64_t>(job_.fed.size());
        if (!clears || fed == job_.d.src) return;
        for (int64_t l = 0; l < slabs_.count; ++l) {
            const int64_t place = slabs_.place[l];
            const int64_t d = fed_place(place);
            for (int64_t before = place == 0 ? 0 : fed_place(place - 1) + 1;
                    before < d; ++before)
                clear_slab(l, before - d);
            if (place + 1 == fed)
                for (int64_t after = d + 1; after < job_.d.src; ++after)
                    clear_slab(l, after - d);
        }
    }

    int64_t fed_place(int64_t place) const {
        return job_.fed[static_cast<size_t>(place)];
    }

    /// The slab so many places behind that of lane l.
    void clear_slab(int64_t l, int64_t places) const {
        scratch_.stage.clear(slabs_.to[l] + places * job_.diff_src.d_stride,
                job_.h.src * row_src_);
    }

    /// Into the second-level cache where slabs are summed over D: the sums of all
    /// lanes pass through the first-level one meanwhile.
    gradual_fetch fetch_of_next(bool fetches, int64_t steps) const {
        if (!fetches || next_.count == 0)
            return gradual_fetch(slabs_.end, slabs_.end, 1);
        return gradual_fetch(std::max(slabs_.end, next_.from[0]), next_.end,
                steps, !job_.d.identity);
    }

    /// Rows [h, h_end) of diff_src of all slabs.
    void take_slabs(int64_t h, int64_t h_end, bool fetches) {
        const int64_t rows = h_end - h;
        const int64_t batches = (rows + job_.batch - 1) / job_.batch;
        const auto blocks = static_cast<int64_t>(job_.columns.blocks.size());
        fetch_ = fetch_of_next(fetches,
                slab_dst_ / job_.chunk + 1 + batches * blocks
                        + (job_.h.identity ? 0 : rows));
        result_stage<T> &stage = scratch_.stage;
        piece_ = (h_end - h) * row_src_;
        stage.set_row(piece_);
        for (int64_t l = 0; l < slabs_.count; ++l)
            stage.add_row(slabs_.to[l] + h * row_src_);
        stage.open(false);
        out_ = stage.out();
        pending_ = 0;
        take_rows(h, h_end);
        put_results(pending_);
        fetch_.rest();
        stage.set_out(stage.out() + slabs_.count * piece_);
        stage.close();
    }

    void take_rows(int64_t h, int64_t h_end) {
        for (; h < h_end; h += job_.batch) {
            const int64_t rows = std::min(job_.batch, h_end - h);
            if (are_empty(h, rows)) {
                put_zeros(rows);
                continue;
            }
            const bool in_place = job_.h.identity || is_plain(h, rows);
            if (!in_place)
                for (int64_t r = 0; r < rows; ++r)
                    sum_row(h + r, line_ + r * row_dst_ * lanes);
            sum_along_w(rows == job_.batch ? job_.columns : job_.last_columns,
                    h, in_place);
        }
    }

    /// Whether nothing feeds the rows from h on.
    bool are_empty(int64_t h, int64_t rows) const {
        for (int64_t r = 0; r < rows; ++r)
            if (job_.h.taps(h + r) > 0) return false;
        return true;
    }

    void put_zeros(int64_t rows) {
        put_results(pending_);
        for (int64_t l = 0; l < slabs_.count; ++l)
            std::fill_n(out_ + l * piece_, rows * row_src_, T {});
        out_ += rows * row_src_;
    }

    /// Whether line h is a row of diff_dst as it is.
    bool is_plain(int64_t h, int64_t rows) const {
        return rows == 1 && job_.h.plain<acc>(h);
    }

    void sum_row(int64_t h, acc *out) {
        fetch_.step();
        const int64_t length = row_dst_ * lanes;
        const int64_t count = job_.h.taps(h);
        const int64_t begin = job_.h.begin(h);
        if (count > 0) hold(begin * row_dst_, (begin + count) * row_dst_);
        sum_spaced_rows(at(begin * row_dst_), length, job_.h.weights<acc>(h),
                count, length, scratch_.sums, out);
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
        store_transposed<T>(results_, count, slabs_.count, piece_, out_);
        out_ += count;
        pending_ -= count;
        std::memmove(results_, results_ + count * lanes,
                static_cast<size_t>(pending_ * lanes) * sizeof(acc));
    }

    /// Element e of all slabs, which is held.
    const acc *at(int64_t e) const {
        return scratch_.window + (e - begin_) * lanes;
    }

    /// Makes sure that elements [first, last) of all slabs are held transposed.
    /// They come with ascending ends; a row that was taken by blocks of columns may be
    /// taken again as a whole.
    void hold(int64_t first, int64_t last) {
        if (last <= end_ && first >= begin_) return;
        if (first >= end_ || first < begin_) begin_ = end_ = first;
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
            transpose_rows(static_cast<const T *const *>(slabs_.from), begin,
                    std::min(end, begin + job_.chunk), diff_dst_ + job_.extent,
                    out);
        }
    }

    /// The same of slabs that are sums of others: [begin, end) of them to `out`.
    void sum_over_d(int64_t begin, int64_t end, acc *out) {
        const int64_t pitch = job_.ring_pitch;
        const acc *sums[static_cast<size_t>(lanes)];
        for (int64_t l = 0; l < lanes; ++l)
            sums[l] = scratch_.ring + std::min(l, slabs_.count - 1) * pitch;
        for (; begin < end; begin += job_.chunk) {
            fetch_.step();
            const int64_t length = std::min(job_.chunk, end - begin);
            for (int64_t l = 0; l < slabs_.count; ++l) {
                const int64_t d = fed_place(slabs_.place[l]);
                const int64_t count = job_.d.taps(d);
                for (int64_t t = 0; t < count; ++t)
                    scratch_.rows[t] = slabs_.from[l]
                            + t * job_.diff_dst.d_stride + begin;
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
    // Elements.
    const int64_t row_src_;
    const int64_t row_dst_;
    const int64_t slab_dst_;
    slab_walk<T> walk_;
    separable_scratch<T> scratch_;
    acc *const line_; ///< rows summed over H, transposed
    acc *const results_; ///< transposed

    gradual_fetch fetch_; ///< of what the next slabs are made of
    slab_group<T> slabs_;
    slab_group<T> next_;
    // Their elements [begin_, end_) are held transposed.
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
