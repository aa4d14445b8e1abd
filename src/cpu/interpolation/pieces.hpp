// Pieces in lanes: as many pieces as a vector has lanes are transposed as a whole,
// summed along one axis after another, and transposed back. A piece is a plane's
// volume, a slab that needs no sum over D, or several small planes.
//
// Included once for each of Highway's targets, like simd.hpp.
#include <algorithm>

#include "cpu/interpolation/passes.hpp"
#include "cpu/interpolation/scratch.hpp"
#include "cpu/interpolation/separable.hpp"
#include "cpu/interpolation/squares.hpp"
#include "cpu/interpolation/stage.hpp"
#include "cpu/interpolation/traffic.hpp"
#include "cpu/simd/simd.hpp"

#if defined(GRADNN_CPU_INTERPOLATION_PIECES_TOGGLE) \
        == defined(HWY_TARGET_TOGGLE)
#ifdef GRADNN_CPU_INTERPOLATION_PIECES_TOGGLE
#undef GRADNN_CPU_INTERPOLATION_PIECES_TOGGLE
#else
#define GRADNN_CPU_INTERPOLATION_PIECES_TOGGLE
#endif

HWY_BEFORE_NAMESPACE();
namespace gradnn::cpu::HWY_NAMESPACE {

/// The share's scratch, and what is in it.
template <typename T>
class piece_worker {
    using acc = accumulator_of<T>;
    static constexpr auto lanes = static_cast<int64_t>(lanes_of<acc>);
    static constexpr int64_t square = square_of<T>;

public:
    piece_worker(const separable_job &job, const T *diff_dst, T *diff_src,
            std::byte *scratch)
        : job_(job),
          diff_dst_(diff_dst),
          diff_src_(diff_src),
          end_(diff_dst + job.extent),
          piece_dst_(job.d.dst * job.h.dst * job.w.dst * job.row_channels),
          piece_src_(job.d.src * job.h.src * job.w.src * job.row_channels),
          follow_(job.n == 1 && job.diff_src.c_stride == piece_src_),
          past_caches_(follow_ && job.stream && job.gradual
                  && lanes * piece_src_ * static_cast<int64_t>(sizeof(T))
                          >= 2 * line_bytes),
          scratch_(job, scratch) {
        constexpr int64_t line = line_bytes / sizeof(T);
        if (past_caches_)
            buffers_ = result_buffers<T>(
                    scratch_.stage.memory(), job.stage_size / 2 / line * line);
        steps_ = piece_dst_ / square + piece_src_ / square + 1;
        for (const piece_pass &pass : job.passes)
            steps_ += std::min(pass.outer, pass.inner) * pass.src;
        if (job.chunk < piece_dst_)
            steps_ += piece_dst_ / job.chunk * job.passes.front().src;
        scratch_.stage.set_row(piece_src_);
    }

    void run(int64_t share) {
        const int64_t units = job_.units();
        const int64_t end = units * (share + 1) / job_.shares;
        for (int64_t u = units * share / job_.shares; u < end; ++u)
            take_group(u * lanes, u + 1 < end);
        traffic_.rest();
        if (past_caches_)
            buffers_.finish();
        else
            scratch_.stage.finish();
    }

private:
    /// Where piece number `piece` begins in a tensor.
    template <typename Element>
    Element *piece_of(
            Element *tensor, const plane_view &view, int64_t piece) const {
        if (job_.n == 1) return tensor + piece * view.c_stride;
        return tensor + piece / job_.c * view.n_stride
                + piece % job_.c * view.c_stride;
    }

    void take_group(int64_t first, bool more) {
        const int64_t count = std::min(lanes, job_.slabs() - first);
        const T *rows[static_cast<size_t>(lanes)];
        for (int64_t l = 0; l < lanes; ++l)
            rows[l] = piece_of(
                    diff_dst_, job_.diff_dst, first + std::min(l, count - 1));
        fetch_next(first + lanes, more);
        acc *in = scratch_.window;
        acc *out = scratch_.results;
        size_t number = 0;
        if (job_.chunk < piece_dst_) {
            sum_rows_of(rows, job_.passes[number++], in, out);
            std::swap(in, out);
        } else {
            transpose_pieces(rows, 0, piece_dst_, in);
        }
        for (; number < job_.passes.size(); ++number) {
            const piece_pass &pass = job_.passes[number];
            sum_pass(pass, pass.outer, static_cast<const acc *>(in), traffic_,
                    out);
            std::swap(in, out);
        }
        put(first, count, in);
    }

    /// What is to be fetched while a group is in work: the pieces of the next.
    void fetch_next(int64_t first, bool more) {
        const bool dense = job_.n == 1 && job_.diff_dst.c_stride == piece_dst_;
        const T *const from = diff_dst_ + first * piece_dst_;
        traffic_.fetch = more && dense
                ? gradual_fetch(
                        from, std::min(end_, from + lanes * piece_dst_), steps_)
                : gradual_fetch(end_, end_, 1);
    }

    /// Sums pieces over W, some rows of them after others.
    void sum_rows_of(const T *const *rows, const piece_pass &pass, acc *window,
            acc *out) {
        const int64_t row_dst = pass.dst * pass.inner;
        const int64_t row_src = pass.src * pass.inner;
        for (int64_t at = 0; at < piece_dst_; at += job_.chunk) {
            const int64_t end = std::min(piece_dst_, at + job_.chunk);
            const int64_t count = (end - at) / row_dst;
            transpose_pieces(rows, at, end, window);
            sum_pass(pass, count, static_cast<const acc *>(window), traffic_,
                    out);
            out += count * row_src * lanes;
        }
    }

    /// Elements [at, end) of pieces.
    void transpose_pieces(
            const T *const *rows, int64_t at, int64_t end, acc *out) {
        for (; at + square <= end; at += square, out += square * lanes) {
            traffic_.step();
            transpose_square(rows, at, out);
        }
        if (at == end) return;
        traffic_.step();
        const T *const last = *std::max_element(rows, rows + lanes);
        if (end_ - last - at >= square)
            transpose_square(rows, at, out);
        else
            transpose_rows(rows, at, end, end_, out);
    }

    /// Puts a group's results where they are written from.
    void put(int64_t first, int64_t count, const acc *results) {
        T *const target = piece_of(diff_src_, job_.diff_src, first);
        if (past_caches_) {
            T *const out = buffers_.open(target);
            store(results, count, out);
            traffic_.rest();
            traffic_.write = buffers_.close(count * piece_src_, steps_, out);
            return;
        }
        result_stage<T> &stage = scratch_.stage;
        if (follow_)
            stage.add_rows(target, count);
        else
            for (int64_t l = 0; l < count; ++l)
                stage.add_row(piece_of(diff_src_, job_.diff_src, first + l));
        stage.open(false);
        store(results, count, stage.out());
        stage.set_out(stage.out() + count * piece_src_);
        stage.close();
    }

    void store(const acc *results, int64_t count, T *out) {
        if (count == lanes)
            store_pieces<T>(results, piece_src_, traffic_, out);
        else
            store_transposed<T>(results, piece_src_, count, piece_src_, out);
    }

    const separable_job &job_;
    const T *const diff_dst_;
    T *const diff_src_;
    const T *const end_; ///< of diff_dst
    const int64_t piece_dst_; ///< elements
    const int64_t piece_src_;
    const bool follow_; ///< pieces of diff_src follow one another
    const bool past_caches_;
    separable_scratch<T> scratch_;
    result_buffers<T> buffers_; ///< of results that go past the caches
    gradual_traffic traffic_;
    int64_t steps_ = 0; ///< of the traffic in a group
};

} // namespace gradnn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
