#include "sweep_values.hpp"

#include <algorithm>
#include <cmath>

#include "support/random.hpp"

namespace gradnn::sweep {

namespace {

using detail::convolution_direction;
using detail::convolution_problem;
using detail::data_type;

template <typename Dims>
std::vector<float> whole_numbers(
        const Dims &dims, test::random_source &random) {
    size_t count = 1;
    for (const int64_t dim : dims)
        count *= static_cast<size_t>(dim);
    std::vector<float> result(count);
    for (float &value : result)
        value = static_cast<float>(random.integer(-3, 3));
    return result;
}

/// Calls visit with the offsets of the elements of src, weights and dst that meet.
template <typename Visit>
void for_each_product(const convolution_problem &p, const Visit &visit) {
    const auto &[groups, outputs, inputs, kd, kh, kw] = p.weights.dims;
    const auto &[batch, src_channels, sd, sh, sw] = p.src.dims;
    const int64_t dd = p.dst.dims[2];
    const int64_t dh = p.dst.dims[3];
    const int64_t dw = p.dst.dims[4];
    const auto position = [&](size_t axis, int64_t y, int64_t k) {
        return y * p.strides[axis] - p.pads_begin[axis] + k * p.dilations[axis];
    };
    const auto inside
            = [](int64_t x, int64_t size) { return x >= 0 && x < size; };
    for (int64_t n = 0; n < batch; ++n)
        for (int64_t go = 0; go < groups * outputs; ++go)
            for (int64_t i = 0; i < inputs; ++i)
                for (int64_t z = 0; z < dd; ++z)
                    for (int64_t kz = 0; kz < kd; ++kz) {
                        const int64_t xz = position(0, z, kz);
                        if (!inside(xz, sd)) continue;
                        for (int64_t y = 0; y < dh; ++y)
                            for (int64_t ky = 0; ky < kh; ++ky) {
                                const int64_t xy = position(1, y, ky);
                                if (!inside(xy, sh)) continue;
                                const int64_t channel
                                        = go / outputs * inputs + i;
                                const int64_t src
                                        = (((n * src_channels + channel) * sd
                                                   + xz) * sh
                                                  + xy)
                                        * sw;
                                const int64_t weights
                                        = (((go * inputs + i) * kd + kz) * kh
                                                  + ky)
                                        * kw;
                                const int64_t dst
                                        = (((n * groups * outputs + go) * dd
                                                   + z) * dh
                                                  + y)
                                        * dw;
                                for (int64_t kx = 0; kx < kw; ++kx)
                                    for (int64_t x = 0; x < dw; ++x) {
                                        const int64_t xx = position(2, x, kx);
                                        if (inside(xx, sw))
                                            visit(static_cast<size_t>(src + xx),
                                                    static_cast<size_t>(
                                                            weights + kx),
                                                    static_cast<size_t>(
                                                            dst + x));
                                    }
                            }
                    }
}

} // namespace

size_t output_of(const convolution_problem &problem) {
    switch (problem.direction) {
        case convolution_direction::forward: return 2;
        case convolution_direction::backward_data: return 0;
        case convolution_direction::backward_weights: return 1;
    }
    return 2;
}

values exact_values(const convolution_problem &problem, uint64_t seed) {
    test::random_source random(seed);
    values v {whole_numbers(problem.src.dims, random),
            whole_numbers(problem.weights.dims, random),
            whole_numbers(problem.dst.dims, random)};
    const size_t output = output_of(problem);
    std::fill(v[output].begin(), v[output].end(), 0.0F);
    float *const src = v[0].data();
    float *const weights = v[1].data();
    float *const dst = v[2].data();
    if (output == 0)
        for_each_product(problem, [=](size_t s, size_t w, size_t d) {
            src[s] += weights[w] * dst[d];
        });
    else if (output == 1)
        for_each_product(problem, [=](size_t s, size_t w, size_t d) {
            weights[w] += src[s] * dst[d];
        });
    else
        for_each_product(problem, [=](size_t s, size_t w, size_t d) {
            dst[d] += src[s] * weights[w];
        });
    return v;
}

difference compare(const std::vector<float> &found,
        const std::vector<float> &expected, data_type type) {
    // Twice the half of an ulp, for sums that are rounded on the way.
    const float share = type == data_type::bf16 ? 0x1p-7F
            : type == data_type::f16            ? 0x1p-10F
                                                : 0.0F;
    difference result;
    for (size_t index = 0; index < expected.size(); ++index) {
        const float error = std::abs(found[index] - expected[index]);
        if (error <= share * std::abs(expected[index])) continue;
        if (std::isnan(found[index])) ++result.unwritten;
        if (result.count++ > 0) continue;
        result.first = index;
        result.found = found[index];
        result.expected = expected[index];
    }
    return result;
}

} // namespace gradnn::sweep
