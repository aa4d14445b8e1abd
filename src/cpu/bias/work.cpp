#include "cpu/bias/work.hpp"

#include <algorithm>
#include <vector>

namespace gradnn::cpu {

namespace {

using axis = bias_work::axis;

// Elements of a block, if there are that many, and of a row that is read on its
// own.
constexpr int64_t block_elements = 64 << 10;
constexpr int64_t piece_elements = 16 << 10;
// Elements of a partial and of a small block, and blocks, if there are that many.
constexpr int64_t summed_elements = 128;
constexpr int64_t small_block_elements = 16 << 10;
constexpr int64_t few_blocks = 8;
// Rows, and sums of rows, that a partial adds up at most.
constexpr int64_t most_rows = 64 << 10;
constexpr int64_t most_sums = 8 << 10;
// Rows of pixels are joined until they have this many elements.
constexpr int64_t joined_elements = 128;
// Planes of at most so many elements are columns, of that many images and more.
constexpr int64_t short_plane = 256;
constexpr int64_t least_images = 8;

constexpr int64_t blocks_of(int64_t count, int64_t size) {
    return (count + size - 1) / size;
}

/// Of more than one element, by descending stride, merged.
std::vector<axis> merge(std::vector<axis> axes) {
    std::erase_if(axes, [](const axis &a) { return a.dim == 1; });
    std::stable_sort(axes.begin(), axes.end(),
            [](const axis &a, const axis &b) { return a.stride > b.stride; });
    std::vector<axis> merged;
    for (const axis &inner : axes) {
        if (!merged.empty() && merged.back().stride == inner.dim * inner.stride)
            merged.back() = {merged.back().dim * inner.dim, inner.stride};
        else
            merged.push_back(inner);
    }
    return merged;
}

void put_outer(bias_work &work, const std::vector<axis> &axes) {
    std::copy(axes.begin(), axes.end(),
            work.outer.end() - static_cast<std::ptrdiff_t>(axes.size()));
}

bias_work cut_pixels(const detail::tensor_view &view) {
    bias_work work;
    work.channels_within = true;
    work.columns = view.dims[1];
    auto pixels = merge({{view.dims[0], view.strides[0]},
            {view.dims[2], view.strides[2]}, {view.dims[3], view.strides[3]},
            {view.dims[4], view.strides[4]}});
    if (pixels.size() == 1 && pixels[0].stride == view.dims[1]) {
        const int64_t join = std::min(
                pixels[0].dim, blocks_of(joined_elements, view.dims[1]));
        work.rest = pixels[0].dim % join * work.columns;
        pixels[0].dim /= join;
        pixels[0].stride *= join;
        work.columns *= join;
    }
    put_outer(work, pixels);
    work.column_block = std::min(work.columns, bias_work::most_columns);
    work.column_blocks = blocks_of(work.columns, work.column_block);
    // 64 rows and more, so that partials are few against what they sum.
    const int64_t rows = std::max<int64_t>(1, work.rows());
    work.row_block = std::max<int64_t>({64, block_elements / work.columns,
            std::min(blocks_of(rows, 256), most_rows)});
    work.row_blocks = blocks_of(rows, work.row_block);
    return work;
}

/// Rows are images whose planes are too short to be summed one by one.
bias_work cut_images(const detail::tensor_view &view, int64_t plane) {
    bias_work work;
    work.channels_within = true;
    work.plane = plane;
    work.columns = view.dims[1] * plane;
    work.outer.back() = {view.dims[0], view.strides[0]};
    work.column_block
            = std::min(work.columns, bias_work::most_columns / plane * plane);
    work.column_blocks = blocks_of(work.columns, work.column_block);
    const int64_t rows = view.dims[0];
    work.row_block = std::max<int64_t>({64, block_elements / work.column_block,
            std::min(blocks_of(rows, 256), most_rows)});
    work.row_blocks = blocks_of(rows, work.row_block);
    return work;
}

bias_work cut_planes(const detail::tensor_view &view) {
    bias_work work;
    work.columns = view.dims[1];
    work.column_stride = view.strides[1];
    work.n = {view.dims[0], view.strides[0]};
    auto space = merge({{view.dims[2], view.strides[2]},
            {view.dims[3], view.strides[3]}, {view.dims[4], view.strides[4]}});
    work.inner = {1, 1};
    if (!space.empty()) {
        work.inner = space.back();
        space.pop_back();
    }
    if (space.empty() && work.inner.stride == 1 && work.inner.dim > 1
            && work.inner.dim <= short_plane && work.n.dim >= least_images
            && (work.columns == 1 || work.column_stride == work.inner.dim))
        return cut_images(view, work.inner.dim);
    put_outer(work, space);
    work.piece = std::min(work.inner.dim, piece_elements);
    work.pieces = blocks_of(work.inner.dim, work.piece);

    const int64_t rows = work.rows();
    const int64_t plane = rows * work.piece; // or a little less
    work.row_block = std::max<int64_t>(1, block_elements / work.piece);
    work.row_block = std::min({work.row_block, rows, most_sums});
    work.row_blocks = blocks_of(rows, work.row_block);
    // Small planes: several channels, then several n, make a block, read in the
    // order of memory: a few blocks at least, but of a channel so many that
    // partials are few against what they sum, and no tiny blocks.
    const int64_t planes = std::max<int64_t>(1, block_elements / plane);
    work.column_block = std::min(work.columns, planes);
    work.column_blocks = blocks_of(work.columns, work.column_block);
    const int64_t least = std::max(blocks_of(summed_elements, plane),
            blocks_of(small_block_elements, plane * work.column_block));
    const int64_t most
            = work.n.dim * work.column_blocks * work.row_blocks / few_blocks;
    work.n_block = std::min(
            std::max(std::min(planes / work.column_block, most), least),
            std::min(work.n.dim,
                    std::max<int64_t>(1, most_sums / work.row_block)));
    work.n_blocks = blocks_of(work.n.dim, work.n_block);
    return work;
}

} // namespace

bias_work make_bias_work(const detail::tensor_view &diff_dst) {
    if (diff_dst.dims[1] > 1 && diff_dst.strides[1] == 1)
        return cut_pixels(diff_dst);
    return cut_planes(diff_dst);
}

} // namespace gradnn::cpu
