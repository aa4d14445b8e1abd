// The axis maps of an interpolation, as kernels read them on the device.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "gpu/runtime/device.hpp"
#include "kernel/axis_map.hpp"
#include "kernel/kernel.hpp"

namespace gradnn::gpu::interpolation {

using axis_maps = std::array<detail::axis_map, 3>;

inline axis_maps make_axis_maps(const detail::interpolation_problem &problem) {
    axis_maps maps;
    for (size_t axis = 0; axis < 3; ++axis)
        maps[axis] = detail::make_axis_map(
                problem.mode, problem.coordinates, problem.axes[axis]);
    return maps;
}

/// Whether every output is its own input, which interpolation.copy takes.
inline bool is_copy(const axis_maps &maps) {
    return maps[0].identity && maps[1].identity && maps[2].identity;
}

/// Outputs along an axis that touch one input: sums of more lose digits where
/// they are added one after the other.
constexpr int64_t most_taps_in_a_chain = 512;

/// Why plain sums must not take a problem; empty where they may.
inline std::string why_too_long(const axis_maps &maps) {
    for (const detail::axis_map &map : maps)
        if (map.max_count > most_taps_in_a_chain)
            return detail::text("takes sums of at most ", most_taps_in_a_chain,
                    " terms along an axis, given ", map.max_count);
    return {};
}

/// The outputs that one input receives: first <= o < first + count, with
/// weights[offset + o - first].
struct tap_range {
    int64_t first = 0;
    int64_t offset = 0;
    int64_t count = 0;
};

/// One axis in device memory, gathered by input.
template <typename Sum>
struct gathered_axis {
    const tap_range *ranges = nullptr;
    const Sum *weights = nullptr;
};

/// Keeps the tables of three axes alive. Weights are in the type of the sums.
class gathered_tables {
public:
    gathered_tables() = default;
    gathered_tables(int device, const axis_maps &maps, bool f64) {
        for (size_t axis = 0; axis < 3; ++axis) {
            const detail::axis_map &map = maps[axis];
            std::vector<tap_range> ranges(static_cast<size_t>(map.src));
            for (size_t i = 0; i < ranges.size(); ++i)
                ranges[i] = {map.first(i), map.offset(i), map.count(i)};
            ranges_[axis] = upload(device, ranges);
            weights_[axis] = f64 ? upload(device, map.all_weights<double>())
                                 : upload(device, map.all_weights<float>());
        }
    }

    template <typename Sum>
    gathered_axis<Sum> axis(size_t number) const {
        return {ranges_[number].as<tap_range>(),
                weights_[number].template as<Sum>()};
    }

private:
    std::array<device_buffer, 3> ranges_;
    std::array<device_buffer, 3> weights_;
};

} // namespace gradnn::gpu::interpolation
