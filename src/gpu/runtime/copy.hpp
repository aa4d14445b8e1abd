// Copies a strided tensor in device memory into another layout and float type.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "kernel/problem.hpp"

namespace gradnn::gpu {

struct launch_stream;

/// dst[i] = src[i] for all i below dims, in strides of elements. Types are
/// f16, bf16, f32 or f64; narrowing rounds to nearest even, once. Dims of 1
/// may pad the rank. src strides may be 0; dst elements are distinct. Tensors
/// may exceed 2^31 elements; data lies at multiples of its element's size and
/// no more.
struct strided_copy {
    detail::data_type src_type = detail::data_type::undef;
    detail::data_type dst_type = detail::data_type::undef;
    int rank = 0; ///< at least 1
    std::array<int64_t, 6> dims {};
    std::array<int64_t, 6> src_strides {};
    std::array<int64_t, 6> dst_strides {};
};

/// Of what both tensors have.
template <typename View>
strided_copy copy_of(const View &from, const View &to) {
    strided_copy made;
    made.src_type = from.type;
    made.dst_type = to.type;
    made.rank = static_cast<int>(to.dims.size());
    made.dims.fill(1);
    for (size_t axis = 0; axis < to.dims.size(); ++axis) {
        made.dims[axis] = std::min(from.dims[axis], to.dims[axis]);
        made.src_strides[axis] = from.strides[axis];
        made.dst_strides[axis] = to.strides[axis];
    }
    return made;
}

/// Launches the copy (copy.cu): tiled through shared memory where the two
/// contiguous axes differ (a transpose). Asynchronous; allocates nothing. The
/// device must be the current one.
void copy(const strided_copy &problem, const void *src, void *dst,
        const launch_stream &stream);

/// The same to what lies `start` bytes behind dst, and zeros in all else of the
/// `bytes` from dst on: in one launch where these are between the rows of the
/// innermost axis (channels that are filled up).
void copy_into_zeros(const strided_copy &problem, const void *src, void *dst,
        size_t start, size_t bytes, const launch_stream &stream);

/// Zeros in place of what a copy of one type would write, and nothing in gaps between.
void write_zeros(
        const strided_copy &problem, void *dst, const launch_stream &stream);

} // namespace gradnn::gpu
