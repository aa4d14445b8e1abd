// Which problems interpolation.gpu_whole takes: dense tensors.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "gpu/interpolation/whole/cut.hpp"
#include "gpu/runtime/device.hpp"
#include "kernel/problem.hpp"

namespace gradnn::gpu::interpolation::whole {

/// Whether axes in `order`, the innermost first, lie one right around the other.
inline bool is_dense(
        const detail::tensor_view &view, const std::array<size_t, 5> &order) {
    int64_t stride = 1;
    for (const size_t axis : order) {
        if (view.dims[axis] != 1 && view.strides[axis] != stride) return false;
        stride *= view.dims[axis];
    }
    return true;
}

/// Groups and channels; nothing for another layout.
inline std::optional<search_facts> describe(
        const detail::interpolation_problem &problem) {
    const detail::tensor_view &src = problem.diff_src;
    const detail::tensor_view &dst = problem.diff_dst;
    search_facts facts;
    facts.element_bytes = static_cast<int>(detail::size_of(src.type));
    facts.sum_bytes = facts.element_bytes == 8 ? 8 : 4;
    constexpr std::array<size_t, 5> ncx {4, 3, 2, 1, 0};
    constexpr std::array<size_t, 5> nxc {1, 4, 3, 2, 0};
    if (is_dense(src, ncx) && is_dense(dst, ncx)) {
        facts.groups = src.dims[0] * src.dims[1];
        return facts;
    }
    if (!is_dense(src, nxc) || !is_dense(dst, nxc)) return {};
    facts.groups = src.dims[0];
    facts.channels = src.dims[1];
    return facts;
}

/// The same on a device.
inline std::optional<search_facts> describe(
        const detail::interpolation_problem &problem,
        const device_properties &device) {
    auto facts = describe(problem);
    if (facts) {
        facts->shared_bytes = static_cast<int64_t>(device.block_shared_bytes);
        facts->multiprocessors = device.multiprocessors;
        facts->sm = device.sm;
    }
    return facts;
}

} // namespace gradnn::gpu::interpolation::whole
