// Depthwise, 3x3x3: what the two kernels share.
#pragma once

#include "gpu/convolution/depthwise/volume/cut.hpp"
#include "gpu/convolution/depthwise/walk/device.cuh"

namespace gradnn::gpu::depthwise::volume {

/// Whether a row is loaded before the one whose place it takes is multiplied, which
/// then has to be moved away. Vectors that need no unpacking: the compiler would move
/// parts of the new one otherwise, and wait for it to do so.
template <typename Type, int together>
constexpr bool loads_row_first = sizeof(Type) >= 4 && together > 1;

/// Calls body.template operator()<vector, together>() for a cut.
template <typename Type, typename Body>
void with_constants(const walk::work_cut &walk, const Body &body) {
    if constexpr (strip_columns * sizeof(Type) <= 16)
        if (walk.together == strip_columns)
            return body.template operator()<1, strip_columns>();
    if (walk.together == 2) return body.template operator()<1, 2>();
    if constexpr (widest_vector(sizeof(Type)) == 2)
        if (walk.vector == 2) return body.template operator()<2, 1>();
    body.template operator()<1, 1>();
}

} // namespace gradnn::gpu::depthwise::volume
