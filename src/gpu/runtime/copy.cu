// Strided copy with conversion: dst[i] = src[i] for all i below dims.
//
// Axes are ordered by the dst strides and merged where both tensors allow it
// (copy_shape.cpp). Where the innermost axis of dst is src's too, threads copy
// elements that neighbour each other in dst (elements_kernel). Where src is contiguous
// along another axis, a block moves a tile through shared memory, so that both sides
// are read and written along their own contiguous axis (tiles_kernel; pairs of 16-bit
// elements, 64 x 64: pair_kernel). Each element is read once, written once by one
// thread.
//
// Copies of one type move bits; a conversion goes through f64, which holds
// every value of every type exactly, and is rounded once.
#include "gpu/runtime/copy.hpp"

#include <limits>
#include <type_traits>

#include "gpu/runtime/copy_kernels.cuh"
#include "gpu/runtime/launch.hpp"

namespace gradnn::gpu {

namespace {

using namespace copies;

/// Whether 32 bits can be moved at a time.
bool hold_pairs(const void *src, const void *dst) {
    return (reinterpret_cast<uintptr_t>(src) | reinterpret_cast<uintptr_t>(dst))
            % 4
            == 0;
}

template <typename Mover, int load_width, int store_width>
void run_tiles(const shape &of, const tiling &tiles, const void *src, void *dst,
        const launch_stream &stream) {
    launch_early("copy (transposed)",
            is_small(of)
                    ? tiles_kernel<Mover, int32_t, load_width, store_width>
                    : tiles_kernel<Mover, int64_t, load_width, store_width>,
            blocks_for(tiles.count, 1), threads,
            tiles.shared_bytes(sizeof(typename Mover::value)), stream, src, dst,
            of, tiles);
}

/// False where there are too many tiles to number.
template <typename Mover>
bool run_transposed(const shape &of, const void *src, void *dst,
        const launch_stream &stream) {
    constexpr int64_t most = std::numeric_limits<int32_t>::max();
    constexpr size_t bytes = sizeof(typename Mover::value);
    const unit_widths widths = bytes == 2 && hold_pairs(src, dst)
            ? widths_of(of)
            : unit_widths {};
    const tiling tiles = cut_tiles(of, bytes, widths);
    if (tiles.count > most) return false;
    if constexpr (bytes == 2) {
        if (widths.load == 2 && widths.store == 2 && are_wide(of)) {
            const tiling wide = cut_pair_tiles(of);
            launch_early("copy (transposed)", pair_kernel,
                    blocks_for(wide.count, 1), threads,
                    pair_tile * sizeof(pair_row), stream,
                    static_cast<const uint16_t *>(src),
                    static_cast<uint16_t *>(dst), of, wide);
            return true;
        }
        if (widths == unit_widths {2, 2})
            run_tiles<Mover, 2, 2>(of, tiles, src, dst, stream);
        else if (widths == unit_widths {2, 1})
            run_tiles<Mover, 2, 1>(of, tiles, src, dst, stream);
        else if (widths == unit_widths {1, 2})
            run_tiles<Mover, 1, 2>(of, tiles, src, dst, stream);
        else
            run_tiles<Mover, 1, 1>(of, tiles, src, dst, stream);
    } else
        run_tiles<Mover, 1, 1>(of, tiles, src, dst, stream);
    return true;
}

template <typename Mover>
void run_mover(
        shape of, const void *src, void *dst, const launch_stream &stream) {
    if (make_transposed(of) && run_transposed<Mover>(of, src, dst, stream))
        return;
    if (!is_small(of)) {
        launch_early("copy", many_elements_kernel<Mover>,
                blocks_for(of.count, threads), threads, 0, stream, src, dst,
                of);
        return;
    }
    axis_dividers dividers;
    for (int axis = 0; axis < of.rank; ++axis)
        dividers.by[axis] = exact_divider(of.extent(axis));
    launch_early("copy", elements_kernel<Mover>,
            ceil_div(of.count, int64_t {threads * unroll}), threads, 0, stream,
            src, dst, of, dividers);
}

void run(const shape &of, const void *src, void *dst,
        const launch_stream &stream) {
    const int64_t bytes = detail::size_of(of.src_type);
    if (of.src_type != of.dst_type)
        run_mover<conversion>(of, src, dst, stream);
    else if (of.rank == 1 && of.src_strides[0] == 1 && of.dst_strides[0] == 1
            && of.written == of.dims[0])
        check(cudaMemcpyAsync(dst, src, static_cast<size_t>(of.count * bytes),
                      cudaMemcpyDeviceToDevice, stream),
                "cudaMemcpyAsync");
    else if (bytes == 8)
        run_mover<same_type<uint64_t>>(of, src, dst, stream);
    else if (bytes == 4)
        run_mover<same_type<uint32_t>>(of, src, dst, stream);
    else
        run_mover<same_type<uint16_t>>(of, src, dst, stream);
}

} // namespace

void copy(const strided_copy &problem, const void *src, void *dst,
        const launch_stream &stream) {
    run(arrange(problem), src, dst, stream);
}

void copy_into_zeros(const strided_copy &problem, const void *src, void *dst,
        size_t start, size_t bytes, const launch_stream &stream) {
    shape of = arrange(problem);
    const auto elements
            = static_cast<int64_t>(bytes) / detail::size_of(problem.dst_type);
    if (start != 0 || !fill_gaps(of, elements))
        check(cudaMemsetAsync(dst, 0, bytes, stream), "cudaMemsetAsync");
    run(of, src, static_cast<std::byte *>(dst) + start, stream);
}

} // namespace gradnn::gpu
