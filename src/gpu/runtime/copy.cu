// Strided copies with conversion (README.md): the launches of copy_kernels.cuh and
// copy_tiles.cuh, which are cut in copy_shape.cpp.
#include "gpu/runtime/copy.hpp"

#include <type_traits>

#include "gpu/device/constants.hpp"
#include "gpu/runtime/copy_kernels.cuh"
#include "gpu/runtime/copy_tiles.cuh"
#include "gpu/runtime/launch.hpp"

namespace gradnn::gpu {

namespace {

using namespace copies;

template <typename Mover, typename Index, int width = 1,
        bool wide_loads = false>
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
void run_mover(const shape &given, const void *src, void *dst,
        const launch_stream &stream) {
    constexpr size_t bytes = sizeof(typename Mover::value);
    using tile_widths = std::conditional_t<bytes == 2, one_of<1, 2>, one_of<1>>;
    // Conversions have no words.
    using row_widths = std::conditional_t<!Mover::moves_bits, one_of<1>,
            std::conditional_t<bytes == 8, one_of<1, 2>, one_of<1, 2, 4>>>;
    const copy_cut cut = cut_of(given, bytes,
            Mover::moves_bits ? alignments_of(src, dst) : alignments {});
    const auto by_tiles = [&]<int load, int store>() {
        launch_early("copy (transposed)",
                cut.is_small ? tiles_kernel<Mover, int32_t, load, store>
                             : tiles_kernel<Mover, int64_t, load, store>,
                blocks_for(cut.tiles.count, 1), threads,
                cut.tiles.shared_bytes(bytes), stream, src, dst, cut.of,
                cut.tiles);
    };
    const auto in_order = [&]<int width>() {
        if constexpr (width > 1)
            if (cut.widths.load == width)
                return run_elements<Mover, uint32_t, width, true>(
                        cut.of, src, dst, stream);
        run_elements<Mover, uint32_t, width>(cut.of, src, dst, stream);
    };
    if (cut.by_tiles)
        with_chosen(by_tiles, tile_widths {cut.widths.load},
                tile_widths {cut.widths.store});
    else if (cut.is_small)
        with_chosen(in_order, row_widths {cut.widths.store});
    else
        run_elements<Mover, int64_t>(cut.of, src, dst, stream);
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

void write_zeros(
        const strided_copy &problem, void *dst, const launch_stream &stream) {
    const shape of = arrange(problem);
    if (of.rank > 1 || of.dst_strides[0] != 1)
        return run(zeros_in_place_of(of), nullptr, dst, stream);
    const auto bytes
            = static_cast<size_t>(of.count * detail::size_of(problem.dst_type));
    check(cudaMemsetAsync(dst, 0, bytes, stream), "cudaMemsetAsync");
}

} // namespace gradnn::gpu
