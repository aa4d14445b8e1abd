#include "gpu/runtime/copy_shape.hpp"

#include <array>
#include <bit>
#include <limits>
#include <span>
#include <utility>

#include "gpu/device/rounding.hpp"

namespace gradnn::gpu::copies {

namespace {

constexpr int sector = 16; ///< elements of 16 bits in 32 bytes

/// The size of even parts of an axis of which at most `most` fit, a multiple of
/// `sector`.
int part_of(int64_t size, int64_t most) {
    if (size <= most) return static_cast<int>(size);
    return static_cast<int>(
            round_up(ceil_div(size, ceil_div(size, most)), sector));
}

bool is_small(const shape &of) {
    constexpr int64_t most = std::numeric_limits<int32_t>::max();
    int64_t src = 0;
    int64_t dst = 0;
    for (int axis = 0; axis < of.rank; ++axis) {
        src += (of.extent(axis) - 1) * of.src_strides[axis];
        dst += (of.extent(axis) - 1) * of.dst_strides[axis];
    }
    return of.count <= most && src <= most && dst <= most;
}

/// Brings the axis along which src is contiguous to place 1; false where there is none,
/// or it is axis 0.
bool make_transposed(shape &of) {
    int contiguous = 0;
    for (int axis = 1; axis < of.rank; ++axis)
        if (of.src_strides[axis] == 1) contiguous = axis;
    if (contiguous == 0 || of.src_strides[0] == 1) return false;
    std::swap(of.dims[1], of.dims[contiguous]);
    std::swap(of.src_strides[1], of.src_strides[contiguous]);
    std::swap(of.dst_strides[1], of.dst_strides[contiguous]);
    return true;
}

/// Whether rows of so many elements along a contiguous axis begin and end at multiples of
/// `width` elements.
bool divides(int width, int64_t row, int contiguous, const shape &of,
        const int64_t (&strides)[max_rank]) {
    bool every = row % width == 0;
    for (int axis = 0; axis < of.rank; ++axis)
        every = every && (axis == contiguous || strides[axis] % width == 0);
    return every;
}

/// Two elements of 16 bits where they can be.
unit_widths widths_of(const shape &of) {
    const bool load = divides(2, of.dims[1], 1, of, of.src_strides);
    const bool store = of.dst_strides[0] == 1
            && divides(2, of.written, 0, of, of.dst_strides);
    return {load ? 2 : 1, store ? 2 : 1};
}

tiling cut_tiles(
        const shape &of, size_t element_bytes, const unit_widths &widths) {
    const int64_t most = element_bytes == 2 ? 4096 : 2048;
    tiling tiles;
    // Where both sides move two elements, as many bytes of rows as of columns.
    const bool square = widths == unit_widths {2, 2};
    tiles.dims[0] = part_of(of.written, most / (square ? 64 : 32));
    // A thread has one word of a row.
    tiles.dims[1] = part_of(of.dims[1],
            std::min<int64_t>(most / tiles.dims[0] / sector * sector,
                    int64_t {threads} * widths.load));
    // Neighbouring rows begin in neighbouring banks.
    tiles.pitch = element_bytes == 2 ? round_up(tiles.dims[1] + 2, 4) - 2
                                     : tiles.dims[1] | 1;
    if (of.rank > 2) {
        const int64_t fit
                = std::max<int64_t>(1, most / (tiles.dims[0] * tiles.dims[1]));
        tiles.dims[2] = static_cast<int>(
                ceil_div(of.dims[2], ceil_div(of.dims[2], fit)));
    }
    for (int axis = 0; axis < of.rank; ++axis) {
        const int64_t along = axis < 3
                ? ceil_div(of.extent(axis), tiles.dims[axis])
                : of.dims[axis];
        tiles.along[axis] = exact_divider(along);
        tiles.count *= along;
    }
    tiles.rows = line_steps(tiles.dims[1] / widths.load, tiles.dims[0]);
    tiles.columns = line_steps(tiles.dims[0] / widths.store, tiles.dims[1]);
    return tiles;
}

/// Neighbours of axis 0 that are stored at a time, up to four or 16 bytes, and loaded:
/// as many or one.
unit_widths words_of(
        const shape &of, size_t element_bytes, const alignments &aligned) {
    if (of.src_strides[0] != 1 || of.dst_strides[0] != 1) return {};
    const auto bytes = static_cast<int>(element_bytes);
    int width = std::max(1, std::min({4, 16 / bytes, aligned.dst / bytes}));
    while (width > 1 && !divides(width, of.written, 0, of, of.dst_strides))
        width /= 2;
    const bool load = aligned.src >= width * bytes
            && divides(width, of.dims[0], 0, of, of.src_strides);
    return {load ? width : 1, width};
}

} // namespace

shape arrange(const strided_copy &problem) {
    std::array<size_t, max_rank> axes {0, 1, 2, 3, 4, 5};
    const auto used = std::span(axes).first(static_cast<size_t>(problem.rank));
    // Stable, and without memory of its own: a copy is arranged at every launch.
    const auto stride_of
            = [&](size_t axis) { return problem.dst_strides[axis]; };
    for (auto next = used.begin(); next != used.end(); ++next)
        std::rotate(std::ranges::upper_bound(used.begin(), next,
                            stride_of(*next), {}, stride_of),
                next, next + 1);
    shape arranged {.src_type = problem.src_type, .dst_type = problem.dst_type};
    for (const size_t axis : used) {
        const int64_t dim = problem.dims[axis];
        const int64_t src_stride = problem.src_strides[axis];
        const int64_t dst_stride = problem.dst_strides[axis];
        if (dim == 1) continue;
        arranged.count *= dim;
        const int last = arranged.rank - 1;
        if (last >= 0
                && src_stride
                        == arranged.src_strides[last] * arranged.dims[last]
                && dst_stride
                        == arranged.dst_strides[last] * arranged.dims[last]) {
            arranged.dims[last] *= dim;
            continue;
        }
        arranged.dims[arranged.rank] = dim;
        arranged.src_strides[arranged.rank] = src_stride;
        arranged.dst_strides[arranged.rank] = dst_stride;
        ++arranged.rank;
    }
    if (arranged.rank == 0) {
        arranged.rank = 1;
        arranged.dims[0] = 1;
        arranged.src_strides[0] = arranged.dst_strides[0] = 1;
    }
    arranged.written = arranged.dims[0];
    return arranged;
}

bool fill_gaps(shape &of, int64_t elements) {
    if (of.dst_strides[0] != 1) return false;
    const int64_t row = of.rank == 1 ? elements : of.dst_strides[1];
    int64_t covered = row;
    for (int axis = 1; axis < of.rank; ++axis) {
        if (of.dst_strides[axis] != covered) return false;
        covered *= of.dims[axis];
    }
    if (covered != elements) return false;
    of.written = row;
    of.count = elements;
    return true;
}

shape zeros_in_place_of(shape copied) {
    copied.dims[0] = 0;
    std::ranges::copy(copied.dst_strides, copied.src_strides);
    return copied;
}

alignments alignments_of(const void *src, const void *dst) {
    const auto of = [](const void *pointer) {
        return 1 << std::countr_zero(reinterpret_cast<uintptr_t>(pointer) | 16);
    };
    return {of(src), of(dst)};
}

copy_cut cut_of(
        const shape &of, size_t element_bytes, const alignments &aligned) {
    constexpr int64_t most_tiles = std::numeric_limits<int32_t>::max();
    copy_cut cut;
    cut.of = of;
    cut.is_small = is_small(of);
    if (make_transposed(cut.of)) {
        if (element_bytes == 2 && aligned.src >= 4 && aligned.dst >= 4)
            cut.widths = widths_of(cut.of);
        cut.tiles = cut_tiles(cut.of, element_bytes, cut.widths);
        cut.by_tiles = cut.tiles.count <= most_tiles;
        if (cut.by_tiles) return cut;
    }
    cut.of = of;
    cut.widths = cut.is_small ? words_of(of, element_bytes, aligned)
                              : unit_widths {};
    return cut;
}

} // namespace gradnn::gpu::copies
