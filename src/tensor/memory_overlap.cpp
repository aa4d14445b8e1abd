#include "tensor/memory_overlap.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

#include "kernel/engine_impl.hpp"
#include "kernel/problem.hpp"

namespace gradnn::detail {

namespace {

struct axis {
    int64_t stride;
    int64_t a_dim;
    int64_t b_dim;
};

/// Whether a difference of indices makes `delta`: sum of k * stride = delta
/// with -b_dim < k < a_dim on every axis. Strides descend and nest, so what
/// smaller axes can make is less than a stride: only the two multiples around
/// delta come into question.
bool reachable(const axis *axes, int count, int64_t delta) {
    if (count == 0) return delta == 0;
    const axis &first = axes[0];
    const int64_t below = delta >= 0
            ? delta / first.stride
            : -((-delta + first.stride - 1) / first.stride);
    for (const int64_t k : {below, below + 1})
        if (k > -first.b_dim && k < first.a_dim
                && reachable(axes + 1, count - 1, delta - k * first.stride))
            return true;
    return false;
}

} // namespace

bool memory_overlaps(const logical_tensor &a, const void *a_data,
        size_t a_extent, const logical_tensor &b, const void *b_data,
        size_t b_extent) {
    const auto a_begin = reinterpret_cast<uintptr_t>(a_data);
    const auto b_begin = reinterpret_cast<uintptr_t>(b_data);
    if (a_begin + a_extent <= b_begin || b_begin + b_extent <= a_begin)
        return false;
    const int rank = access::ndims(a);
    if (a.get_data_type() != b.get_data_type() || rank != access::ndims(b))
        return true;
    std::array<axis, logical_tensor::max_ndims> axes {};
    int count = 0;
    for (int i = 0; i < rank; ++i) {
        const auto place = static_cast<size_t>(i);
        const axis next {access::strides(a)[place], access::dims(a)[place],
                access::dims(b)[place]};
        if (next.a_dim == 1 && next.b_dim == 1) continue;
        if (next.stride != access::strides(b)[place] || next.stride == 0)
            return true;
        // Kept in the order of descending strides.
        size_t at = static_cast<size_t>(count++);
        for (; at > 0 && axes[at - 1].stride < next.stride; --at)
            axes[at] = axes[at - 1];
        axes[at] = next;
    }
    int64_t reach = 0;
    for (int i = count; i-- > 0;) {
        const axis &next = axes[static_cast<size_t>(i)];
        if (next.stride <= reach) return true; // do not nest
        reach += (std::max(next.a_dim, next.b_dim) - 1) * next.stride;
    }
    const auto delta = static_cast<int64_t>(b_begin - a_begin);
    const int64_t size = size_of(a.get_data_type());
    if (delta % size != 0) return true;
    return reachable(axes.data(), count, delta / size);
}

} // namespace gradnn::detail
