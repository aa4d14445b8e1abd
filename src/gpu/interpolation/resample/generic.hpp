// The form of a resample that takes everything, compiled ahead of time.
#pragma once

#include <array>
#include <cstdint>

#include "gpu/interpolation/resample/problem_specification.hpp"
#include "gpu/runtime/launch.hpp"

namespace gradnn::gpu::resample {

/// The maps of a problem's axes on the device.
class device_tables {
public:
    device_tables(int device, const mapped_problem &);

    template <typename Sum>
    tables<Sum> as(const fused_places &others) const {
        const auto axis = [&](size_t a) {
            return axis_table<Sum> {
                    places_[a].as<place>(), weights_[a].template as<Sum>()};
        };
        return {axis(0), axis(1), axis(2), steps_.as<step<Sum>>(), others};
    }

private:
    std::array<device_buffer, 3> places_, weights_;
    device_buffer steps_;
};

/// Tensors at any multiple of their elements. The bits are those of all other forms.
void launch_generic(const char *name, const problem_specification &,
        const device_tables &, const launch_stream &, const void *read,
        void *written, const fused_places &others);

} // namespace gradnn::gpu::resample
