// diff_bias[c] = sum over n and space of diff_dst[n,c,...].
//
// Two stages. First diff_dst is cut into blocks, and each block is summed for
// each of its columns (a column: a channel, or one of several neighbouring
// elements that are folded back later) to an f64 partial in the workspace.
// Then each channel adds up its partials in the order of the blocks, and what
// these additions round off. Within a block at most a few dozen terms are added
// in the tensors' accumulator before the sum goes into an f64, of which a partial
// is at most a few thousand. Threads own blocks, then channels; they share
// nothing. Deterministic: blocks follow from the problem alone.
//
// Blocks come in two kinds. Where channels are contiguous, rows of columns are
// added element by element, one after the other: in registers where a row is a
// few whole vectors (with AVX-512 most narrow rows are, since pixels of few
// channels are joined), else to sums in memory. Images of short planes are such
// rows too, and the columns of a plane are added up at the end of a block. Other
// planes are summed one after the other, each along its contiguous (or any other)
// innermost axis.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/bias/bias.cpp"
#include "cpu/simd/simd_target.hpp"

#include <hwy/foreach_target.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/parallel.hpp"
#include "cpu/bias/work.hpp"
#include "cpu/kernels.hpp"
#include "cpu/simd/simd.hpp"

HWY_BEFORE_NAMESPACE();
namespace gradnn::cpu::HWY_NAMESPACE {

template <typename T>
double sum_contiguous(const T *from, int64_t count) {
    using acc = accumulator_of<T>;
    const hn::ScalableTag<acc> d;
    constexpr auto lanes = static_cast<int64_t>(lanes_of<acc>);
    constexpr int64_t most = 64 * lanes; // 16 sums of each of four vectors
    double total = 0;
    while (count > 0) {
        const int64_t part = std::min(count, most);
        auto a = hn::Zero(d);
        auto b = a;
        auto c = a;
        auto e = a;
        int64_t i = 0;
        for (; i + 4 * lanes <= part; i += 4 * lanes) {
            a = hn::Add(a, load(d, from + i));
            b = hn::Add(b, load(d, from + i + lanes));
            c = hn::Add(c, load(d, from + i + 2 * lanes));
            e = hn::Add(e, load(d, from + i + 3 * lanes));
        }
        for (; i + lanes <= part; i += lanes)
            a = hn::Add(a, load(d, from + i));
        if (i < part && part >= lanes) {
            // The last vector, of which the first lanes have been added.
            const auto added
                    = hn::FirstN(d, static_cast<size_t>(lanes - (part - i)));
            b = hn::Add(
                    b, hn::IfThenZeroElse(added, load(d, from + part - lanes)));
        } else if (i < part) {
            b = load_first(d, from, static_cast<size_t>(part));
        }
        const auto sum = hn::Add(hn::Add(a, b), hn::Add(c, e));
        total += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, sum)));
        from += part;
        count -= part;
    }
    return total;
}

template <typename T>
double sum_strided(const T *from, int64_t count, int64_t step) {
    double total = 0;
    while (count > 0) {
        const int64_t part = std::min<int64_t>(count, 128);
        double sum = 0;
        for (int64_t i = 0; i < part; ++i)
            sum += convert_scalar<double>(from[i * step]);
        total += sum;
        from += part * step;
        count -= part;
    }
    return total;
}

/// A block of planes: partial[c] for its channels, over its planes and rows.
template <typename T>
void sum_planes(
        const bias_work &work, const T *from, double *partials, int64_t block) {
    int64_t rest = block;
    const int64_t c_begin = rest % work.column_blocks * work.column_block;
    rest /= work.column_blocks;
    const int64_t row_block = rest % work.row_blocks;
    const int64_t n_begin = rest / work.row_blocks * work.n_block;
    const int64_t c_end = std::min(work.columns, c_begin + work.column_block);
    const int64_t n_end = std::min(work.n.dim, n_begin + work.n_block);
    const int64_t row_begin = row_block * work.row_block;
    const int64_t row_end = std::min(work.rows(), row_begin + work.row_block);
    double *partial = partials + block / work.column_blocks * work.columns;
    std::fill(partial + c_begin, partial + c_end, 0.0);
    for (int64_t n = n_begin; n < n_end; ++n)
        for (int64_t c = c_begin; c < c_end; ++c)
            for (int64_t row = row_begin; row < row_end; ++row) {
                const int64_t line = work.pieces == 1 ? row : row / work.pieces;
                const int64_t piece = row - line * work.pieces;
                const T *at = from + n * work.n.stride + c * work.column_stride
                        + work.offset_of(line)
                        + piece * work.piece * work.inner.stride;
                const int64_t count = std::min(
                        work.piece, work.inner.dim - piece * work.piece);
                partial[c] += work.inner.stride == 1
                        ? sum_contiguous(at, count)
                        : sum_strided(at, count, work.inner.stride);
            }
}

/// sums[x] = the sum of a few rows of so many vectors at x, in registers.
template <int vectors, typename T>
HWY_INLINE void sum_vectors(const bias_work &work, const T *from, int64_t row,
        int64_t row_end, accumulator_of<T> *sums) {
    const hn::ScalableTag<accumulator_of<T>> d;
    constexpr auto lanes = static_cast<int64_t>(lanes_of<accumulator_of<T>>);
    hn::Vec<decltype(d)> total[vectors];
    for (auto &each : total)
        each = hn::Zero(d);
    for (; row < row_end; ++row) {
        const T *at = from + work.offset_of(row);
        for (int v = 0; v < vectors; ++v)
            total[v] = hn::Add(total[v], load(d, at + v * lanes));
    }
    for (int v = 0; v < vectors; ++v)
        hn::StoreU(total[v], d, sums + v * lanes);
}

/// sums[x] += row[x].
template <typename T>
HWY_INLINE void add_row(const T *row, accumulator_of<T> *sums, int64_t count) {
    using acc = accumulator_of<T>;
    const hn::ScalableTag<acc> d;
    constexpr auto lanes = static_cast<int64_t>(lanes_of<acc>);
    int64_t x = 0;
    for (; x + lanes <= count; x += lanes)
        hn::StoreU(
                hn::Add(hn::LoadU(d, sums + x), load(d, row + x)), d, sums + x);
    for (; x < count; ++x)
        sums[x] += convert_scalar<acc>(row[x]);
}

/// sums[x] = the sum of a few rows at x, read one after the other, as memory likes
/// to be read.
template <typename T>
HWY_INLINE void sum_few(const bias_work &work, const T *from, int64_t row,
        int64_t row_end, accumulator_of<T> *sums, int64_t count) {
    constexpr auto lanes = static_cast<int64_t>(lanes_of<accumulator_of<T>>);
    if (count == 4 * lanes)
        return sum_vectors<4>(work, from, row, row_end, sums);
    if (count == 8 * lanes)
        return sum_vectors<8>(work, from, row, row_end, sums);
    if (HWY_TARGET == HWY_AVX3 && count == 16 * lanes) // has 32 registers
        return sum_vectors<16>(work, from, row, row_end, sums);
    std::fill(sums, sums + count, accumulator_of<T>(0));
    for (; row < row_end; ++row)
        add_row(from + work.offset_of(row), sums, count);
}

/// A block of rows of columns: partial[x] for its columns, or for each plane of
/// columns, over its rows.
template <typename T>
void sum_rows(
        const bias_work &work, const T *from, double *partials, int64_t block) {
    const int64_t begin = block % work.column_blocks * work.column_block;
    const int64_t row_block = block / work.column_blocks;
    const int64_t count = std::min(work.column_block, work.columns - begin);
    const int64_t row_end
            = std::min(work.rows(), (row_block + 1) * work.row_block);
    double *const written = partials + row_block * work.partial_columns()
            + begin / work.plane;
    double of_planes[bias_work::most_columns];
    double *const partial = work.plane > 1 ? of_planes : written;
    std::fill(partial, partial + count, 0.0);
    // A few in the tensors' accumulator.
    constexpr int64_t few = 16;
    accumulator_of<T> sums[bias_work::most_columns];
    int64_t row = row_block * work.row_block;
    while (row < row_end) {
        const int64_t end = std::min(row + few, row_end);
        sum_few(work, from + begin, row, end, sums, count);
        for (int64_t x = 0; x < count; ++x)
            partial[x] += static_cast<double>(sums[x]);
        row = end;
    }
    // What is left of the last row where several make one row of columns.
    if (work.rest > begin && row == work.rows()) {
        const T *rest = from + row * work.outer.back().stride + begin;
        const int64_t left = std::min(count, work.rest - begin);
        for (int64_t x = 0; x < left; ++x)
            partial[x] += convert_scalar<double>(rest[x]);
    }
    if (work.plane == 1) return;
    for (int64_t c = 0; c < count / work.plane; ++c)
        written[c] = std::accumulate(
                partial + c * work.plane, partial + (c + 1) * work.plane, 0.0);
}

template <typename T>
void sum_blocks(const bias_work &work, const void *from, double *partials,
        int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
        if (work.channels_within)
            sum_rows(work, static_cast<const T *>(from), partials, block);
        else
            sum_planes(work, static_cast<const T *>(from), partials, block);
    }
}

using block_function
        = void (*)(const bias_work &, const void *, double *, int64_t, int64_t);

block_function block_function_of(detail::data_type type) {
    block_function found = nullptr;
    with_type(type, [&](auto t) { found = sum_blocks<decltype(t)>; });
    return found;
}

} // namespace gradnn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gradnn::cpu {

HWY_EXPORT(block_function_of);

namespace {

class bias_plan : public detail::plan {
public:
    explicit bias_plan(const bias_problem &problem)
        : work_(make_bias_work(problem.diff_dst)),
          channels_(problem.diff_dst.dims[1]),
          type_(problem.diff_bias_type),
          stride_(problem.diff_bias_stride),
          sum_blocks_(HWY_DYNAMIC_DISPATCH(block_function_of)(
                  problem.diff_dst.type)),
          target_(simd_target()) {}

    void execute(std::span<void *const> args, std::byte *workspace,
            detail::stream_impl &) const override {
        auto *partials = reinterpret_cast<double *>(workspace);
        detail::parallel_for(
                work_.blocks(), 1, [&](int64_t begin, int64_t end) {
                    sum_blocks_(work_, args[0], partials, begin, end);
                });
        const int64_t terms
                = work_.partial_rows() * work_.partial_columns() / channels_;
        detail::parallel_for(channels_, grain_terms / terms + 1,
                [&](int64_t begin, int64_t end) {
                    with_type(type_, [&](auto type) {
                        using T = decltype(type);
                        auto *out = static_cast<T *>(args[1]);
                        for (int64_t c = begin; c < end; ++c)
                            out[c * stride_]
                                    = convert_scalar<T>(sum(partials, c));
                    });
                });
    }
    size_t workspace_bytes() const override {
        return static_cast<size_t>(
                       work_.partial_rows() * work_.partial_columns())
                * sizeof(double);
    }
    std::string backend() const override { return "Highway " + target_; }

private:
    // Additions that are worth waking a thread for.
    static constexpr int64_t grain_terms = 8192;

    /// With what the additions round off.
    double sum(const double *partials, int64_t channel) const {
        double total = 0;
        double low = 0;
        const int64_t columns = work_.partial_columns();
        for (int64_t row = 0; row < work_.partial_rows(); ++row)
            for (int64_t x = channel; x < columns; x += channels_) {
                const double addend = partials[row * columns + x];
                const double next = total + addend;
                const double taken = next - total;
                const double rest = (total - (next - taken)) + (addend - taken);
                if (std::isfinite(next)) low += rest;
                total = next;
            }
        return total + low;
    }

    const bias_work work_;
    const int64_t channels_;
    const detail::data_type type_;
    const int64_t stride_;
    const HWY_NAMESPACE::block_function sum_blocks_;
    const std::string target_;
};

} // namespace

plan_or_refusal make_bias(
        const bias_problem &problem, const compile_options &) {
    return plan_or_refusal(std::make_unique<bias_plan>(problem));
}

} // namespace gradnn::cpu
#endif
