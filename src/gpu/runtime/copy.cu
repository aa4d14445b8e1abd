// Strided copy with conversion: dst[i] = src[i] for all i below dims.
//
// Axes are ordered by the dst strides and merged where both tensors allow it
// (copy_shape.cpp). Where src is contiguous along another axis than dst, a block moves a
// tile through shared memory, so that both sides are read and written along their own
// contiguous axis (tiles_kernel). In all other copies threads have elements that neighbour
// each other in dst (elements_kernel).
// Each element is read once, written once by one thread.
//
// Copies of one type move bits; a conversion goes through f64, which holds
// every value of every type exactly, and is rounded once.
#include "gpu/runtime/copy.hpp"

#include "gpu/device/constants.hpp"
#include "gpu/runtime/copy_kernels.cuh"
#include "gpu/runtime/copy_tiles.cuh"
#include "gpu/runtime/launch.hpp"

namespace gradnn::gpu {

namespace {

using namespace copies;

template <typename Mover, int load_width, int store_width>
void run_tiles(const copy_cut &cut, const void *src, void *dst,
        const launch_stream &stream) {
    launch_early("copy (transposed)",
            cut.is_small
                    ? tiles_kernel<Mover, int32_t, load_width, store_width>
                    : tiles_kernel<Mover, int64_t, load_width, store_width>,
            blocks_for(cut.tiles.count, 1), threads,
            cut.tiles.shared_bytes(sizeof(typename Mover::value)), stream, src,
            dst, cut.of, cut.tiles);
}

template <typename Mover, typename Index, int width, bool wide_loads>
void run_elements(const shape &of, const void *src, void *dst,
        const launch_stream &stream) {
    axis_dividers<Index> dividers;
    for (int axis = 0; axis < of.rank; ++axis)
        dividers.by[axis]
                = divisor<Index>(of.extent(axis) / (axis == 0 ? width : 1));
    launch_early("copy", elements_kernel<Mover, Index, width, wide_loads>,
            ceil_div(of.count, int64_t {threads * elements_of_thread(width)}),
            threads, 0, stream, src, dst, of, dividers);
}

template <typename Mover>
void run_words(const copy_cut &cut, const void *src, void *dst,
        const launch_stream &stream) {
    const auto run = [&]<int width>() {
        if (cut.widths.load == width)
            run_elements<Mover, uint32_t, width, true>(
                    cut.of, src, dst, stream);
        else
            run_elements<Mover, uint32_t, width, false>(
                    cut.of, src, dst, stream);
    };
    if constexpr (sizeof(typename Mover::value) < 8)
        if (cut.widths.store == 4) return run.template operator()<4>();
    run.template operator()<2>();
}

template <typename Mover>
void run_mover(const shape &given, const void *src, void *dst,
        const launch_stream &stream) {
    constexpr size_t bytes = sizeof(typename Mover::value);
    // Conversions have no words.
    const copy_cut cut = cut_of(given, bytes,
            Mover::moves_bits ? alignments_of(src, dst) : alignments {});
    const shape &of = cut.of;
    if (cut.way == copy_way::many_elements) {
        run_elements<Mover, int64_t, 1, false>(of, src, dst, stream);
    } else if (cut.way == copy_way::elements) {
        run_elements<Mover, uint32_t, 1, false>(of, src, dst, stream);
    } else if (cut.way == copy_way::words) {
        if constexpr (Mover::moves_bits)
            run_words<Mover>(cut, src, dst, stream);
    } else if constexpr (bytes == 2) {
        with_chosen(
                [&]<int load, int store>() {
                    run_tiles<Mover, load, store>(cut, src, dst, stream);
                },
                one_of<1, 2> {cut.widths.load},
                one_of<1, 2> {cut.widths.store});
    } else {
        run_tiles<Mover, 1, 1>(cut, src, dst, stream);
    }
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
