#include "forward.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace gradnn::test {

namespace {

using index = std::array<int64_t, 3>;

index padded(const sizes &space, int64_t fill) {
    index result {fill, fill, fill};
    std::copy(space.rbegin(), space.rend(), result.rbegin());
    return result;
}

int64_t volume(const index &space) {
    return space[0] * space[1] * space[2];
}

int64_t flat(const index &at, const index &space) {
    return (at[0] * space[1] + at[1]) * space[2] + at[2];
}

template <typename Body>
void for_each(const index &space, Body body) {
    index at {};
    for (at[0] = 0; at[0] < space[0]; ++at[0])
        for (at[1] = 0; at[1] < space[1]; ++at[1])
            for (at[2] = 0; at[2] < space[2]; ++at[2])
                body(at);
}

int64_t floor_division(int64_t a, int64_t b) {
    return a / b - (a % b < 0 ? 1 : 0);
}

/// low index and weight of high, which is the next index.
std::pair<int64_t, double> place(const std::string &mode,
        const std::string &coordinates, int64_t src, int64_t dst, int64_t o) {
    int64_t num = o * src;
    int64_t den = dst;
    if (coordinates == "half_pixel") {
        num = (2 * o + 1) * src - dst;
        den = 2 * dst;
    } else if (coordinates == "align_corners") {
        num = dst == 1 ? 0 : o * (src - 1);
        den = dst == 1 ? 1 : dst - 1;
    }
    if (mode == "nearest") {
        const int64_t nearest = coordinates == "asymmetric"
                ? floor_division(num, den)
                : floor_division(2 * num + den, 2 * den);
        return {std::clamp<int64_t>(nearest, 0, src - 1), 0.0};
    }
    num = std::max<int64_t>(num, 0);
    const int64_t low = std::min(num / den, src - 1);
    if (low == src - 1) return {low, 0.0};
    return {low,
            static_cast<double>(num - low * den) / static_cast<double>(den)};
}

int64_t small_group(const convolution_case &c) {
    return c.small_channels / c.groups;
}

/// Calls body(index in large, index in small, index in weights) for every
/// product of the convolution.
template <typename Body>
void for_each_product(const convolution_case &c, Body body) {
    const index large = padded(c.large, 1);
    const index small = padded(c.small(), 1);
    const index kernel = padded(c.kernel, 1);
    const index strides = padded(c.strides, 1);
    const index dilations = padded(c.dilations, 1);
    index pads = padded(c.pads_begin, 0);
    if (c.auto_pad != "none")
        for (size_t axis = 0; axis < 3; ++axis) {
            const int64_t missing = std::max<int64_t>(0,
                    (small[axis] - 1) * strides[axis]
                            + (kernel[axis] - 1) * dilations[axis] + 1
                            - large[axis]);
            pads[axis] = c.auto_pad == "same_upper" ? missing / 2
                    : c.auto_pad == "same_lower"    ? (missing + 1) / 2
                                                    : 0;
        }
    const int64_t large_group = c.large_channels / c.groups;
    for (int64_t n = 0; n < c.n; ++n)
        for (int64_t s = 0; s < c.small_channels; ++s)
            for (int64_t l = 0; l < large_group; ++l)
                for_each(small, [&](const index &y) {
                    for_each(kernel, [&](const index &k) {
                        index x {};
                        for (size_t axis = 0; axis < 3; ++axis) {
                            x[axis] = y[axis] * strides[axis] - pads[axis]
                                    + k[axis] * dilations[axis];
                            if (x[axis] < 0 || x[axis] >= large[axis]) return;
                        }
                        const int64_t channel
                                = s / small_group(c) * large_group + l;
                        body(static_cast<size_t>(
                                     (n * c.large_channels + channel)
                                             * volume(large)
                                     + flat(x, large)),
                                static_cast<size_t>((n * c.small_channels + s)
                                                * volume(small)
                                        + flat(y, small)),
                                static_cast<size_t>(
                                        (s * large_group + l) * volume(kernel)
                                        + flat(k, kernel)));
                    });
                });
}

} // namespace

std::vector<double> forward_interpolation(const interpolation_case &c,
        const std::string &mode, const std::string &coordinates,
        const std::vector<double> &src) {
    const index from = padded(c.src, 1);
    const index to = padded(c.dst, 1);
    std::vector<double> dst;
    for (int64_t plane = 0; plane < c.n * c.c; ++plane)
        for_each(to, [&](const index &o) {
            std::array<std::pair<int64_t, double>, 3> places;
            for (size_t axis = 0; axis < 3; ++axis)
                places[axis] = place(
                        mode, coordinates, from[axis], to[axis], o[axis]);
            double sum = 0;
            for_each({2, 2, 2}, [&](const index &corner) {
                double weight = 1;
                index at {};
                for (size_t axis = 0; axis < 3; ++axis) {
                    const auto &[low, high_weight] = places[axis];
                    weight *= corner[axis] == 1 ? high_weight : 1 - high_weight;
                    at[axis] = std::min(low + corner[axis], from[axis] - 1);
                }
                sum += weight
                        * src[static_cast<size_t>(
                                plane * volume(from) + flat(at, from))];
            });
            dst.push_back(sum);
        });
    return dst;
}

std::vector<double> forward_convolution(const convolution_case &c,
        const std::vector<double> &src, const std::vector<double> &weights) {
    std::vector<double> dst(static_cast<size_t>(
            c.n * c.small_channels * volume(padded(c.small(), 1))));
    for_each_product(c, [&](size_t large, size_t small, size_t weight) {
        dst[small] += src[large] * weights[weight];
    });
    return dst;
}

std::vector<double> forward_transposed(const convolution_case &c,
        const std::vector<double> &src, const std::vector<double> &weights) {
    std::vector<double> dst(static_cast<size_t>(
            c.n * c.large_channels * volume(padded(c.large, 1))));
    for_each_product(c, [&](size_t large, size_t small, size_t weight) {
        dst[large] += src[small] * weights[weight];
    });
    return dst;
}

} // namespace gradnn::test
