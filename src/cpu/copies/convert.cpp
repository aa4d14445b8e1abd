// dst[i] = src[i] over strided tensors of any two float types.
//
// Axes are merged where both sides allow it. Then, going along the axis on
// which dst is contiguous:
// - rows: src is contiguous on the same axis; pieces of rows are converted;
// - transpose: src is contiguous on another axis; tiles of the two axes are
//   transposed in registers onto a stage that stays in cache, and copied out;
// - scattered: neither; element by element.
// Threads own tiles of dst; large results are written past the caches.
// Deterministic: every element is converted by itself.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/copies/convert.cpp"
#include "cpu/simd/simd_target.hpp"

#include <hwy/foreach_target.h>

#include <algorithm>

#include "base/parallel.hpp"
#include "cpu/copies/convert.hpp"
#include "cpu/copies/convert_work.hpp"
#include "cpu/simd/simd.hpp"

HWY_BEFORE_NAMESPACE();
namespace gradnn::cpu::HWY_NAMESPACE {

/// A tile: where it starts on both sides, and its dims.
template <typename In, typename Out>
struct tile {
    const In *src;
    Out *dst;
    int64_t along;
    int64_t across;
};

template <typename In, typename Out>
tile<In, Out> find_tile(
        const conversion_work &work, const In *src, Out *dst, int64_t item) {
    int64_t rest = item;
    const int64_t across = rest % work.across_tiles() * work.across_tile;
    rest /= work.across_tiles();
    const int64_t along = rest % work.along_tiles() * work.along_tile;
    rest /= work.along_tiles();
    src += along * work.along.src + across * work.across.src;
    dst += along * work.along.dst + across * work.across.dst;
    for (int a = work.outer_rank; a-- > 0;) {
        const auto &axis = work.outer[static_cast<size_t>(a)];
        src += rest % axis.dim * axis.src;
        dst += rest % axis.dim * axis.dst;
        rest /= axis.dim;
    }
    return {src, dst, std::min(work.along_tile, work.along.dim - along),
            std::min(work.across_tile, work.across.dim - across)};
}

template <typename In, typename Out>
void convert_piece(const tile<In, Out> &piece, bool stream) {
    const auto count = static_cast<size_t>(piece.along);
    if (!stream) {
        convert_row(piece.src, piece.dst, count);
    } else if constexpr (std::is_same_v<In, Out>) {
        stream_copy(piece.src, piece.dst, count * sizeof(Out));
    } else {
        alignas(64) Out stage[static_cast<size_t>(row_tile)];
        convert_row(piece.src, stage, count);
        stream_copy(stage, piece.dst, count * sizeof(Out));
    }
}

/// stage[j * along + i] = src[i * step + j], a square of vectors at a time.
template <typename In, typename Out>
void transpose_tile(const tile<In, Out> &from, int64_t step, Out *stage) {
    using acc = accumulator_of<In>;
    if constexpr (!std::is_same_v<acc, accumulator_of<Out>>) {
        for (int64_t j = 0; j < from.across; ++j)
            for (int64_t i = 0; i < from.along; ++i)
                stage[j * from.along + i]
                        = convert_scalar<Out>(from.src[i * step + j]);
    } else {
        const hn::ScalableTag<acc> d;
        constexpr auto lanes = static_cast<int64_t>(lanes_of<acc>);
        hn::VFromD<decltype(d)> square[static_cast<size_t>(lanes)];
        for (int64_t i = 0; i < from.along; i += lanes) {
            const int64_t rows = std::min(lanes, from.along - i);
            for (int64_t j = 0; j < from.across; j += lanes) {
                const int64_t columns = std::min(lanes, from.across - j);
                const In *in = from.src + i * step + j;
                for (int64_t r = 0; r < lanes; ++r) {
                    if (r >= rows)
                        square[r] = hn::Zero(d);
                    else if (columns == lanes)
                        square[r] = load(d, in + r * step);
                    else
                        square[r] = load_first(
                                d, in + r * step, static_cast<size_t>(columns));
                }
                transpose<acc>(square);
                Out *out = stage + j * from.along + i;
                for (int64_t r = 0; r < columns; ++r) {
                    if (rows == lanes)
                        store(d, square[r], out + r * from.along);
                    else
                        store_first(d, square[r], out + r * from.along,
                                static_cast<size_t>(rows));
                }
            }
        }
    }
}

/// A side of so few elements leaves squares of vectors mostly empty.
template <typename In, typename Out>
bool is_thin(const tile<In, Out> &from) {
    constexpr auto lanes = static_cast<int64_t>(lanes_of<accumulator_of<In>>);
    return 4 * std::min(from.along, from.across) <= lanes;
}

/// The same by lines along the longer side, which are converted in vectors.
template <typename In, typename Out>
void transpose_lines(const tile<In, Out> &from, int64_t step, Out *stage) {
    constexpr int64_t most = 128;
    if (from.across <= from.along) {
        In line[most];
        for (int64_t j = 0; j < from.across; ++j)
            for (int64_t i = 0; i < from.along; i += most) {
                const int64_t some = std::min(most, from.along - i);
                for (int64_t k = 0; k < some; ++k)
                    line[k] = from.src[(i + k) * step + j];
                convert_row(line, stage + j * from.along + i,
                        static_cast<size_t>(some));
            }
        return;
    }
    Out line[most];
    for (int64_t i = 0; i < from.along; ++i)
        for (int64_t j = 0; j < from.across; j += most) {
            const int64_t some = std::min(most, from.across - j);
            convert_row(
                    from.src + i * step + j, line, static_cast<size_t>(some));
            for (int64_t k = 0; k < some; ++k)
                stage[(j + k) * from.along + i] = line[k];
        }
}

template <typename In, typename Out>
void transpose_and_copy(
        const conversion_work &work, const tile<In, Out> &from) {
    constexpr auto elements
            = static_cast<size_t>(transpose_along_tile * transpose_across_tile);
    alignas(64) Out stage[elements];
    (is_thin(from) ? transpose_lines<In, Out> : transpose_tile<In, Out>)(from,
            work.along.src, stage);
    // One copy where the tile's rows follow one another in dst.
    const bool whole = work.across.dst == from.along;
    const int64_t rows = whole ? 1 : from.across;
    const auto bytes
            = static_cast<size_t>(whole ? from.across * from.along : from.along)
            * sizeof(Out);
    for (int64_t r = 0; r < rows; ++r) {
        if (work.stream)
            stream_copy(stage + r * from.along, from.dst + r * work.across.dst,
                    bytes);
        else
            std::memcpy(from.dst + r * work.across.dst, stage + r * from.along,
                    bytes);
    }
}

template <typename In, typename Out>
void run_items(const conversion_work &work, const void *src, void *dst,
        int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
        const auto at = find_tile(work, static_cast<const In *>(src),
                static_cast<Out *>(dst), item);
        if (work.transposes)
            transpose_and_copy(work, at);
        else if (work.along.dst == 1 && work.along.src == 1)
            convert_piece(at, work.stream);
        else
            for (int64_t i = 0; i < at.along; ++i)
                at.dst[i * work.along.dst]
                        = convert_scalar<Out>(at.src[i * work.along.src]);
    }
    if (work.stream) hwy::FlushStream();
}

using item_function = void (*)(
        const conversion_work &, const void *, void *, int64_t, int64_t);

item_function item_function_of(
        detail::data_type src_type, detail::data_type dst_type) {
    item_function found = nullptr;
    with_type(src_type, [&](auto in) {
        with_type(dst_type, [&](auto out) {
            found = run_items<decltype(in), decltype(out)>;
        });
    });
    return found;
}

} // namespace gradnn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gradnn::cpu {

HWY_EXPORT(item_function_of);

namespace {

// Results of more bytes are written past the caches.
constexpr int64_t stream_bytes = 8 << 20;
// Bytes that are worth waking a thread for.
constexpr int64_t share_bytes = 32 << 10;

using axis = conversion_work::axis;

/// The axes of more than one element by descending steps in dst, merged.
int merge_axes(const conversion &problem, std::array<axis, 6> &axes) {
    int rank = 0;
    for (int a = 0; a < problem.rank; ++a) {
        const auto at = static_cast<size_t>(a);
        if (problem.dims[at] != 1)
            axes[static_cast<size_t>(rank++)] = {problem.dims[at],
                    problem.src_strides[at], problem.dst_strides[at]};
    }
    std::stable_sort(axes.begin(), axes.begin() + rank,
            [](const axis &a, const axis &b) { return a.dst > b.dst; });
    int merged = 0;
    for (int a = 0; a < rank; ++a) {
        const axis &inner = axes[static_cast<size_t>(a)];
        if (merged > 0) {
            axis &last = axes[static_cast<size_t>(merged - 1)];
            if (last.src == inner.dim * inner.src
                    && last.dst == inner.dim * inner.dst) {
                last = {last.dim * inner.dim, inner.src, inner.dst};
                continue;
            }
        }
        axes[static_cast<size_t>(merged++)] = inner;
    }
    return merged;
}

conversion_work make_work(const conversion &problem) {
    conversion_work work;
    std::array<axis, 6> axes {};
    int rank = merge_axes(problem, axes);
    if (rank == 0) { // one element
        work.along = {1, 1, 1};
        return work;
    }
    work.along = axes[static_cast<size_t>(--rank)];
    if (work.along.dst == 1 && work.along.src != 1)
        for (int a = 0; a < rank && !work.transposes; ++a) {
            const auto at = axes.begin() + a;
            if (at->src != 1) continue;
            work.across = *at;
            work.transposes = true;
            std::move(at + 1, axes.begin() + rank--, at);
        }
    work.outer_rank = rank;
    std::copy_n(axes.begin(), rank, work.outer.begin());
    if (work.transposes) {
        // A short side leaves its part of the stage to the other.
        work.along_tile = std::min(work.along.dim, transpose_along_tile);
        work.across_tile = std::min(work.across.dim,
                transpose_along_tile * transpose_across_tile / work.along_tile);
        work.along_tile = std::min(work.along.dim,
                transpose_along_tile * transpose_across_tile
                        / work.across_tile);
    } else {
        work.along_tile = std::min(work.along.dim, row_tile);
    }
    return work;
}

} // namespace

void convert(const conversion &problem, const void *src, void *dst) {
    conversion_work work = make_work(problem);
    int64_t elements = 1;
    for (int a = 0; a < problem.rank; ++a)
        elements *= problem.dims[static_cast<size_t>(a)];
    if (elements == 0) return;
    const int64_t bytes = elements * detail::size_of(problem.dst_type);
    work.stream = bytes >= stream_bytes && work.along.dst == 1;
    const auto run = HWY_DYNAMIC_DISPATCH(item_function_of)(
            problem.src_type, problem.dst_type);
    const int64_t items = work.items();
    const int64_t grain = std::max<int64_t>(
            1, items * share_bytes / std::max<int64_t>(1, bytes));
    detail::parallel_for(items, grain, [&](int64_t begin, int64_t end) {
        run(work, src, dst, begin, end);
    });
}

} // namespace gradnn::cpu
#endif
