// What interpolations of random problems are compared with.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernel/axis_map.hpp"
#include "kernel/problem.hpp"

namespace gradnn::test {

inline size_t elements_of(const detail::tensor_view &tensor) {
    int64_t last = 0;
    for (size_t i = 0; i < 5; ++i)
        last += (tensor.dims[i] - 1) * tensor.strides[i];
    return static_cast<size_t>(last + 1);
}

/// Calls visit(position, place) for all of a tensor.
template <typename Visit>
void each_element(const detail::tensor_view &tensor, const Visit &visit) {
    std::array<int64_t, 5> at {};
    for (;;) {
        int64_t place = 0;
        for (size_t i = 0; i < 5; ++i)
            place += at[i] * tensor.strides[i];
        visit(at, static_cast<size_t>(place));
        size_t axis = 5;
        while (axis > 0 && ++at[axis - 1] == tensor.dims[axis - 1])
            at[--axis] = 0;
        if (axis == 0) return;
    }
}

/// By the maps: sums, and those of the terms' magnitudes.
struct expectation {
    std::vector<double> sums, magnitudes;
    std::vector<bool> exists; ///< whether an element is the tensor's
};
inline expectation expected_of(const detail::interpolation_problem &p,
        const std::vector<double> &read) {
    std::array<detail::axis_map, 3> maps;
    for (size_t a = 0; a < 3; ++a)
        maps[a] = make_axis_map(p.mode, p.coordinates, p.axes[a]);
    expectation made;
    const size_t count = elements_of(p.diff_src);
    made.sums.assign(count, 0.0);
    made.magnitudes.assign(count, 0.0);
    made.exists.assign(count, false);
    each_element(p.diff_src, [&](const auto &at, size_t place) {
        made.exists[place] = true;
        std::array<int64_t, 3> tap {};
        const auto count = [&](size_t a) { return maps[a].count(at[a + 2]); };
        const bool any = count(0) > 0 && count(1) > 0 && count(2) > 0;
        while (any) {
            double weight = 1;
            int64_t from = at[0] * p.diff_dst.strides[0]
                    + at[1] * p.diff_dst.strides[1];
            for (size_t a = 0; a < 3; ++a) {
                const int64_t i = at[a + 2];
                weight *= maps[a].weight(maps[a].offset(i) + tap[a]);
                from += (maps[a].first(i) + tap[a]) * p.diff_dst.strides[a + 2];
            }
            const double term = weight * read[static_cast<size_t>(from)];
            made.sums[place] += term;
            made.magnitudes[place] += std::abs(term);
            size_t a = 3;
            while (a > 0 && ++tap[a - 1] == count(a - 1))
                tap[--a] = 0;
            if (a == 0) break;
        }
    });
    return made;
}

/// One ulp of 16-bit types, as the sums are in f32; of f64 what some hundred terms lose, here and in
/// what they are compared with.
inline double tolerance(detail::data_type type, double sum, double magnitude) {
    const double exact
            = (type == detail::data_type::f64 ? 0x1p-47 : 0x1p-20) * magnitude;
    if (type == detail::data_type::bf16) return exact + std::abs(sum) * 0x1p-7;
    if (type == detail::data_type::f16)
        return exact + std::abs(sum) * 0x1p-10 + 0x1p-24;
    return exact;
}

} // namespace gradnn::test
