// Taps of every input of an axis, as many for each. Host arithmetic.
#pragma once

#include <cstdint>
#include <vector>

#include "axis_map.hpp"

namespace gradnn::gpu::interpolation {

/// The most that such kernels hold.
constexpr int most_padded_taps = 16;

/// The taps of each source position as kernels read them that take the same number for
/// each: outputs from
/// first[i] on, with `taps` weights, those beyond its own being 0.
template <typename Sum>
struct tap_table {
    int taps = 1;
    std::vector<int32_t> first; ///< ascending
    std::vector<Sum> weights;
};

/// Taps of the smallest kernel that has room for so many.
inline int taps_that_hold(int64_t count) {
    for (const int taps : {1, 2, 3, 4, 6, 8, 12})
        if (count <= taps) return taps;
    return most_padded_taps;
}

template <typename Sum>
tap_table<Sum> make_taps(const detail::axis_map &map) {
    tap_table<Sum> table;
    table.taps = taps_that_hold(map.max_count);
    const auto taps = static_cast<size_t>(table.taps);
    const auto positions = static_cast<size_t>(map.src);
    table.first.resize(positions);
    table.weights.resize(positions * taps);
    auto next = static_cast<int32_t>(map.dst - 1); // for those without taps
    for (size_t i = positions; i-- > 0;) {
        if (map.count[i] > 0) next = static_cast<int32_t>(map.first[i]);
        table.first[i] = next;
        for (size_t k = 0; k < static_cast<size_t>(map.count[i]); ++k)
            table.weights[i * taps + k] = static_cast<Sum>(
                    map.weights[static_cast<size_t>(map.offset[i]) + k]);
    }
    return table;
}

/// Calls body with the constant that `taps` is, one of those of taps_that_hold.
template <typename Body>
auto with_padded_taps(int taps, const Body &body) {
    switch (taps) {
        case 1: return body.template operator()<1>();
        case 2: return body.template operator()<2>();
        case 3: return body.template operator()<3>();
        case 4: return body.template operator()<4>();
        case 6: return body.template operator()<6>();
        case 8: return body.template operator()<8>();
        case 12: return body.template operator()<12>();
        default: return body.template operator()<most_padded_taps>();
    }
}

} // namespace gradnn::gpu::interpolation
