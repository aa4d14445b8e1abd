// Convolutions on the host by plain loops, from the definition: what the tests
// of the GPU's plans compare copies, parts and other convolutions with. Random
// and plain problems for them. Needs no GPU.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "gpu/runtime/copy.hpp"
#include "kernel/problem.hpp"
#include "support/random.hpp"

namespace gradnn::test {

using detail::convolution_direction;
using detail::convolution_problem;
using detail::data_type;

using memory = std::vector<double>;

/// Calls body with every index below dims.
template <size_t Rank, typename Body>
void for_each(const std::array<int64_t, Rank> &dims, const Body &body) {
    std::array<int64_t, Rank> index {};
    for (;;) {
        body(index);
        size_t axis = Rank;
        while (axis > 0 && ++index[axis - 1] == dims[axis - 1])
            index[--axis] = 0;
        if (axis == 0) return;
    }
}

template <size_t Rank>
int64_t dot(const std::array<int64_t, Rank> &a,
        const std::array<int64_t, Rank> &b) {
    return std::inner_product(a.begin(), a.end(), b.begin(), int64_t {0});
}

void copy(const gpu::strided_copy &c, const double *src, double *dst);

/// Adds up one convolution; where each element lies is said by `at`, and
/// `pads`, the loops' bounds, by dims of [N or O, C, D, H, W].
struct loops {
    int64_t groups;
    std::array<int64_t, 5> src, weights, dst; ///< dims; weights[0] is all O
    std::array<int64_t, 3> strides, dilations, pads;

    template <typename Visit>
    void run(const Visit &visit) const {
        const int64_t outputs = weights[0] / groups;
        for_each(dst, [&](const std::array<int64_t, 5> &y) {
            for_each(
                    std::array {weights[1], weights[2], weights[3], weights[4]},
                    [&](const std::array<int64_t, 4> &k) {
                        std::array<int64_t, 5> x {
                                y[0], y[1] / outputs * weights[1] + k[0]};
                        for (size_t a = 0; a < 3; ++a) {
                            x[2 + a] = y[2 + a] * strides[a] - pads[a]
                                    + k[1 + a] * dilations[a];
                            if (x[2 + a] < 0 || x[2 + a] >= src[2 + a]) return;
                        }
                        visit(x,
                                std::array<int64_t, 5> {
                                        y[1], k[0], k[1], k[2], k[3]},
                                y);
                    });
        });
    }
};

void accumulate(
        convolution_direction direction, double &x, double &w, double &y);

/// What the problem's own formula gives, in the caller's memory.
void by_formula(const convolution_problem &p, size_t output,
        std::array<memory, 3> &data);

/// Whether all elements are those of the formula; not, with the first that
/// differs.
testing::AssertionResult same(const memory &found, const memory &expected);

enum class order { ncx, nxc, sliced };

std::array<int64_t, 5> data_strides(
        const std::array<int64_t, 5> &dims, order o);
/// 0: OIX, 1: OXI, 2: XIO.
std::array<int64_t, 6> weights_strides(
        const std::array<int64_t, 6> &dims, int how);

/// Gives each tensor one of the orders above.
void lay_out(convolution_problem &p, random_source &random);
convolution_problem random_problem(random_source &random);
/// One with windows of one tap and strides that pass over positions of src along
/// some axes.
convolution_problem random_with_passed_over(random_source &random);
/// Of src, weights and dst; 7 in all of the output.
std::array<memory, 3> random_data(
        const convolution_problem &p, size_t output, random_source &random);

/// Whether `carry_out` makes of random data what the formula does.
template <typename CarryOut>
testing::AssertionResult computes(const convolution_problem &p, size_t output,
        random_source &random, const CarryOut &carry_out) {
    std::array<memory, 3> found = random_data(p, output, random);
    std::array<memory, 3> expected = found;
    by_formula(p, output, expected);
    carry_out(found);
    return same(found[output], expected[output]);
}

/// A gradient of src of 3x3 windows, 8 channels from 16.
convolution_problem plain_problem(data_type type, order o, int weights);

} // namespace gradnn::test
