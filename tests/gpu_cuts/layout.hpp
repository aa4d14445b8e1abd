// Tensors with gaps, for the tests of cuts.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernel/problem.hpp"

namespace gradnn::test {

/// Dense in NCX or NXC, or with gaps behind the axes, the innermost first. Returns the
/// elements from the first to the end of the last gap.
inline int64_t lay_out(detail::tensor_view &view, bool nxc,
        const std::array<int64_t, 5> &gaps) {
    const std::array<size_t, 5> order = nxc
            ? std::array<size_t, 5> {1, 4, 3, 2, 0}
            : std::array<size_t, 5> {4, 3, 2, 1, 0};
    int64_t stride = 1;
    for (size_t i = 0; i < 5; ++i) {
        view.strides[order[i]] = stride;
        stride = stride * view.dims[order[i]] + gaps[i];
    }
    return stride;
}

} // namespace gradnn::test
