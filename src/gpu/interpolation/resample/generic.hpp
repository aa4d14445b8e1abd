// The form of a resample that takes everything, compiled ahead of time.
#pragma once

#include <array>

#include "gpu/interpolation/resample/cuts.hpp"
#include "gpu/runtime/launch.hpp"

namespace gradnn::gpu::resample {

/// The maps of a problem's axes on the device: places and weights of walk, middle and column, and
/// the steps of the walk.
using device_tables = std::array<device_buffer, 7>;
device_tables upload_tables(int device, const mapped_problem &);

template <typename Sum>
tables<Sum> tables_at(const device_tables &of, const fused_places &others) {
    const auto axis = [&](size_t a) {
        return axis_table<Sum> {of[2 * a].as<place>(), of[2 * a + 1].as<Sum>()};
    };
    return {axis(0), axis(1), axis(2), of[6].as<step<Sum>>(), others};
}

/// Tensors at any multiple of their elements. The bits are those of all other forms.
void launch_generic(const char *name, const problem_specification &,
        const device_tables &, const launch_stream &, const void *read,
        void *written, const fused_places &others);

} // namespace gradnn::gpu::resample
