// Random problems for convolution.gpu_sliding.
#pragma once

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "gpu/convolution/facts.hpp"
#include "gpu/convolution/sliding/cuts.hpp"
#include "gpu_cuts/fused_ops.hpp"
#include "gpu_cuts/h100.hpp"
#include "support/plain_convolution.hpp"

namespace gradnn::test {

/// Groups of one channel, of one and some, or of few of each, of any rank, window and layout; at
/// scale 1 now and then a first layer along one axis, of whose taps strides leave few for a result.
inline convolution_problem random_depthwise(
        random_source &random, int64_t scale = 1) {
    convolution_problem p;
    const bool first_layer = scale == 1 && random.integer(0, 15) == 0;
    p.direction = random.pick(std::vector {convolution_direction::backward_data,
            convolution_direction::backward_data,
            convolution_direction::backward_weights,
            convolution_direction::backward_weights,
            convolution_direction::forward});
    const data_type type = random.pick(std::vector {
            data_type::f32, data_type::f64, data_type::bf16, data_type::f16});
    const bool nxc = random.integer(0, 1) == 0;
    const int64_t images = scale * random.integer(1, 3);
    const bool grouped = random.integer(0, 1) == 0;
    const bool many = grouped && random.integer(0, 4) == 0;
    const int64_t group = first_layer ? random.integer(1, 2)
            : grouped                 ? random.integer(1, 8)
                                      : 1;
    const int64_t groups = first_layer ? 1
            : many                     ? random.integer(1, 2)
            : grouped ? random.pick(std::vector<int64_t> {1, 2, 3, 4, 8, 12})
                      : random.pick(std::vector<int64_t> {
                              1, 2, 3, 4, 8, 10, 16, 24, 33, 40});
    const int64_t multiplier = first_layer ? random.integer(300, 512)
            : many    ? random.pick(std::vector<int64_t> {20, 24, 32, 17})
            : grouped ? random.integer(1, 8)
            : random.integer(0, 3) == 0
            ? random.pick(std::vector<int64_t> {2, 2, 3, 4})
            : 1;
    // Of src and of dst.
    const int64_t both[2] = {group, multiplier};
    const int64_t rank = first_layer
            ? 1
            : random.pick(std::vector<int64_t> {1, 2, 2, 2, 3});
    if (first_layer) p.direction = convolution_direction::backward_data;
    const bool forward = p.direction == convolution_direction::forward;
    p.src.dims = {images, groups * both[forward], 1, 1, 1};
    p.dst.dims = {images, groups * both[!forward], 1, 1, 1};
    p.weights.dims = {groups, both[!forward], both[forward], 1, 1, 1};
    const int64_t same_window = random.integer(1, rank == 3 ? 3 : 7);
    const bool same = random.integer(0, 1) == 0;
    const int64_t stride = first_layer
            ? random.integer(4, 8)
            : random.pick(std::vector<int64_t> {1, 1, 1, 2, 3});
    const int64_t gap = random.pick(std::vector<int64_t> {1, 1, 1, 2, 3, 20});
    for (auto a = static_cast<size_t>(3 - rank); a < 3; ++a) {
        int64_t &k = p.weights.dims[a + 3];
        const int64_t long_row
                = random.pick(std::vector<int64_t> {9, 16, 17, 31, 40, 63});
        k = first_layer ? random.integer(10, 16)
                : same
                ? same_window
                : random.pick(rank == 1 ? std::vector<int64_t> {2, 3, 5, 13,
                                      long_row, long_row, long_row}
                                        : std::vector<int64_t> {1, 2, 3, 4, 5,
                                                rank == 3 ? 2 : 13});
        p.strides[a] = stride;
        p.dilations[a] = gap;
        const int64_t reach = (k - 1) * gap;
        p.src.dims[a + 2] = scale
                * random.integer(1,
                        rank == 3           ? 9
                                : rank == 2 ? 30
                                            : 120);
        p.pads_begin[a] = random.pick(
                std::vector<int64_t> {0, reach / 2, k / 2, reach + 1, -1});
        const int64_t end = random.integer(0, reach + 2);
        const int64_t room
                = p.src.dims[a + 2] + p.pads_begin[a] + end - reach - 1;
        p.dst.dims[a + 2] = std::max<int64_t>(0, room) / stride + 1;
    }
    const order how = !nxc              ? order::ncx
            : random.integer(0, 3) == 0 ? order::sliced
                                        : order::nxc;
    p.src.strides = data_strides(p.src.dims, how);
    p.dst.strides = data_strides(p.dst.dims, how);
    // Images of more channels than the problem has.
    if (how == order::ncx)
        for (auto *each : {&p.src, &p.dst})
            each->strides[0]
                    *= random.pick(std::vector<int64_t> {1, 1, 2, group});
    p.weights.strides = weights_strides(
            p.weights.dims, static_cast<int>(random.integer(0, 2)));
    p.src.type = p.dst.type = p.weights.type = type;
    if (p.direction == convolution_direction::backward_weights
            && random.integer(0, 2) == 0 && detail::size_of(type) == 2)
        p.weights.type = data_type::f32;
    return p;
}

/// A gradient of data, or the forward direction, with ops behind it now and then.
inline detail::fused_convolution random_fused_depthwise(
        random_source &random, int64_t scale = 1) {
    detail::fused_convolution made {random_depthwise(random, scale)};
    if (made.problem.direction != convolution_direction::backward_weights)
        made.epilogue = random_epilogue(random);
    return made;
}

/// As a plan has them: of all forms, best first.
inline std::vector<gpu::sliding::choice> ranked_choices(
        const detail::fused_convolution &of, int alignment, bool bulk_copies,
        const gpu::gpu_facts &facts) {
    using namespace gpu::sliding;
    std::string refusal;
    std::vector<choice> all;
    for (const auto &form :
            specifications_of(of, alignment, bulk_copies, refusal))
        std::ranges::copy(gpu::is_of_weights(of.problem)
                        ? weights_choices(form, facts)
                        : data_choices(form, facts),
                std::back_inserter(all));
    std::ranges::stable_sort(all, {}, &choice::cost);
    return all;
}

} // namespace gradnn::test
