// Random problems for interpolation.gpu_resample.
#pragma once

#include <algorithm>
#include <array>
#include <numeric>
#include <tuple>
#include <vector>

#include "gpu/interpolation/cuts.hpp"
#include "gpu_cuts/fused_ops.hpp"
#include "gpu_cuts/h100.hpp"
#include "kernel/problem.hpp"
#include "support/random.hpp"

namespace gradnn::test {

/// Strides of one of the layouts that tensors come in: dense NCX or NXC, slices of channels,
/// rows with gaps, permuted axes, one element for a whole axis, any for axes of one position.
inline void lay_out_randomly(
        detail::interpolation_problem &p, bool nxc, random_source &random) {
    std::array<size_t, 5> order = nxc ? std::array<size_t, 5> {1, 4, 3, 2, 0}
                                      : std::array<size_t, 5> {4, 3, 2, 1, 0};
    const int64_t kind = random.integer(0, 9);
    if (kind == 0)
        std::swap(order[0], order[static_cast<size_t>(random.integer(1, 4))]);
    for (detail::tensor_view *tensor : {&p.diff_dst, &p.diff_src}) {
        int64_t stride = kind == 1 && random.integer(0, 1) == 0 ? 2 : 1;
        for (const size_t axis : order) {
            tensor->strides[axis] = stride;
            stride *= tensor->dims[axis];
            if (kind == 2 && axis == 1)
                stride += (nxc ? 1 : stride / tensor->dims[axis])
                        * random.pick(std::vector<int64_t> {1, 4, 8});
            if (kind == 3 && axis == order[0]) stride += random.integer(1, 8);
            if (kind == 4 && tensor->dims[axis] == 1)
                tensor->strides[axis] = random.integer(1, 50);
        }
    }
    if (kind == 5)
        p.diff_dst.strides[random.pick(std::vector<size_t> {0, 1, 2, 3, 3})]
                = 0;
}

/// Sums of weights, along the axes that are there.
inline void make_box(detail::interpolation_problem &p, random_source &random) {
    p.mode = detail::interpolation_mode::box;
    for (size_t a = 0; a < 3; ++a) {
        if (p.diff_src.dims[a + 2] == 1 && p.diff_dst.dims[a + 2] == 1)
            continue;
        int64_t sizes[] = {random.integer(1, 9), 0};
        sizes[1] = sizes[0] + random.integer(0, 3);
        if (random.integer(0, 1) == 0) std::swap(sizes[0], sizes[1]);
        p.diff_src.dims[a + 2] = sizes[0];
        p.diff_dst.dims[a + 2] = sizes[1];
        p.axes[a] = {sizes[0], sizes[1]};
    }
}

/// Of any rank, mode, layout and ratio, so large that the kernels have more than one
/// of everything; `scale` enlarges it.
inline detail::interpolation_problem random_interpolation(
        random_source &random, int64_t scale = 1) {
    using namespace detail;
    interpolation_problem p;
    const auto one_in
            = [&](int64_t count) { return random.integer(1, count) == 1; };
    p.diff_src.type = p.diff_dst.type = random.pick(std::vector {
            data_type::f32, data_type::f64, data_type::bf16, data_type::f16});
    p.mode = one_in(4) ? interpolation_mode::nearest
                       : interpolation_mode::linear;
    p.coordinates = random.pick(std::vector {coordinate_mode::half_pixel,
            coordinate_mode::half_pixel, coordinate_mode::asymmetric,
            coordinate_mode::align_corners});
    if (p.mode == interpolation_mode::nearest
            && p.coordinates == coordinate_mode::align_corners)
        p.coordinates = coordinate_mode::half_pixel;
    // Maps with more taps than two: one problem in three.
    interpolation_axis filter;
    if (one_in(3)) {
        filter.forward = one_in(2);
        if (p.mode == interpolation_mode::linear) {
            if (one_in(2)) p.mode = interpolation_mode::cubic;
            filter.antialias = one_in(3);
            filter.exclude_outside = one_in(2);
        }
    }
    const int64_t rank = random.pick(std::vector<int64_t> {1, 2, 2, 3, 3});
    const bool nxc = one_in(2);
    const int64_t channels
            = random.pick(std::vector<int64_t> {1, 2, 3, 4, 8, 8, 16, 19, 32});
    p.diff_src.dims = {random.integer(1, 3) * scale, channels, 1, 1, 1};
    p.diff_dst.dims = p.diff_src.dims;
    const int64_t same_ratio
            = random.pick(std::vector<int64_t> {2, 2, 3, 4, 8});
    const int64_t kind = random.integer(0, 4);
    for (auto a = static_cast<size_t>(3 - rank); a < 3; ++a) {
        int64_t longest = (rank == 1 ? 60 : rank == 2 ? 20 : 8) * scale;
        if (rank == 1 && scale > 1 && one_in(3)) longest *= 500;
        int64_t &src = p.diff_src.dims[a + 2];
        int64_t &dst = p.diff_dst.dims[a + 2];
        src = random.integer(1, longest);
        if (one_in(2)) src = (src + 3) / 4 * 4;
        // A whole ratio, and positions beyond what it gives.
        const bool given_ratio = kind == 0 && one_in(3);
        if (kind == 0)
            dst = src * same_ratio
                    + (given_ratio ? 2 * random.integer(1, 2) : 0);
        if (kind == 1)
            dst = std::max<int64_t>(1, src * random.integer(5, 40) / 10);
        if (kind == 2)
            dst = std::max<int64_t>(1, src * random.integer(2, 10) / 10);
        if (kind == 3) {
            src = (src + 2) / 3 * 3;
            dst = src / 3 * random.pick(std::vector<int64_t> {2, 4, 5});
        }
        if (kind == 4) {
            dst = std::max<int64_t>(1, src / same_ratio);
            src = dst * same_ratio;
        }
        if (one_in(6)) dst = src;
        if (one_in(20)) dst = src * 40;
        if (one_in(20)) src = 1;
        if (a < 2 && one_in(rank == 3 ? 4 : 12)) dst = 1;
        interpolation_axis &axis = p.axes[a] = filter;
        axis.src = src;
        axis.dst = dst;
        if (p.coordinates == coordinate_mode::align_corners) continue;
        const double scale_of_sizes = filter.forward
                ? static_cast<double>(src) / static_cast<double>(dst)
                : static_cast<double>(dst) / static_cast<double>(src);
        if (given_ratio && dst > src) {
            axis.ratio_given = true;
            axis.ratio = filter.forward ? static_cast<double>(same_ratio)
                                        : 1.0 / static_cast<double>(same_ratio);
        } else if (one_in(6)) {
            axis.scale_given = true;
            const double given
                    = random.pick(std::vector {static_cast<double>(same_ratio),
                            scale_of_sizes * 1.01, scale_of_sizes / 40});
            axis.scale = static_cast<float>(given);
        } else if (one_in(8)) {
            axis.ratio_given = true;
            axis.ratio = 0.99 / scale_of_sizes;
        }
        if (p.mode == interpolation_mode::nearest && !axis.scale_given
                && one_in(4))
            axis.arithmetic
                    = random.pick(std::vector {coordinate_arithmetic::float32,
                            coordinate_arithmetic::float32_fma,
                            coordinate_arithmetic::float64});
    }
    if (one_in(8)) make_box(p, random);
    lay_out_randomly(p, nxc, random);
    return p;
}

/// Dense in NCX, where rows have one position, or one for many, or where the first positions have
/// no taps, as a scale far below that of the sizes has it, or long rows of which tiles are parts.
inline std::vector<detail::interpolation_problem> odd_rows() {
    std::vector<detail::interpolation_problem> made;
    using space = std::array<int64_t, 3>;
    for (const auto &[src, dst, broadcast, scale] :
            {std::tuple {space {3, 20, 24}, space {1, 80, 50}, false, 0.0F},
                    {{2, 9, 12}, {1, 31, 40}, false, 0.0F},
                    {{1, 16, 30}, {1, 64, 51}, true, 0.0F},
                    {{4, 8, 10}, {16, 32, 21}, true, 0.0F},
                    {{1, 7, 10}, {1, 28, 20}, false, 0.125F},
                    {{3, 7, 10}, {6, 28, 20}, false, 0.125F},
                    {{1, 1, 900}, {1, 1, 1300}, false, 0.0F}}) {
        detail::interpolation_problem p;
        p.diff_src.type = p.diff_dst.type = detail::data_type::f32;
        p.mode = detail::interpolation_mode::linear;
        p.coordinates = detail::coordinate_mode::half_pixel;
        p.diff_src.dims = {2, 8, src[0], src[1], src[2]};
        p.diff_dst.dims = {2, 8, dst[0], dst[1], dst[2]};
        for (size_t a = 0; a < 3; ++a)
            p.axes[a] = {src[a], dst[a]};
        p.axes[1].scale_given = scale != 0;
        p.axes[1].scale = scale;
        for (detail::tensor_view *tensor : {&p.diff_dst, &p.diff_src}) {
            int64_t stride = 1;
            for (size_t axis = 5; axis-- > 0; stride *= tensor->dims[axis])
                tensor->strides[axis] = stride;
        }
        if (broadcast) p.diff_dst.strides[3] = 0;
        made.insert(made.end(), 2, p);
        p.diff_src.type = p.diff_dst.type = detail::data_type::f64;
        made.push_back(p);
    }
    return made;
}

/// With ops of single elements in its loads and stores, now and then.
inline detail::fused_interpolation random_fused_interpolation(
        random_source &random, int64_t scale = 1) {
    using enum detail::elementwise_kind;
    using ops = std::vector<detail::elementwise_kind>;
    detail::fused_interpolation made {random_interpolation(random, scale)};
    made.prologue = random.pick(
            std::vector<ops> {{}, {}, {}, {}, {add}, {relu_backward}});
    made.epilogue = random_epilogue(random);
    return made;
}

/// All ways to cut a problem.
inline std::vector<gpu::resample::cut> all_cuts(
        const gpu::resample::mapped_problem &of, const gpu::gpu_facts &facts) {
    using namespace gpu::resample;
    std::vector<cut> all;
    each_cut(cut_problem(of), facts,
            [&](const cut &c, const auto &...) { all.push_back(c); });
    return all;
}

} // namespace gradnn::test
