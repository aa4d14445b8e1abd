// InterpolateBackward for any strides: the kernel that takes everything.
//
// diff_src[n,c,d,h,w] = sum over the outputs (p,q,r) that touch (d,h,w) of
// wd[p] * wh[q] * ww[r] * diff_dst[n,c,p,q,r].
//
// A thread computes one element of diff_src; neighbouring threads have
// neighbours along diff_src's smallest stride. It reads all its taps from
// memory (from the caches, mostly: each element of diff_dst is read by at
// most 8 threads of the linear family) and writes its element once. The sum
// runs over r, then q, then p, each in ascending order, in one thread: the same
// bits on every run. Where an axis has so many taps that such a sum would lose
// digits, or an element 2,048 and more in all, threads share its taps (long.cuh).
#include <limits>

#include "gpu/interpolation/long.cuh"
#include "gpu/interpolation/makers.hpp"
#include "gpu/interpolation/tables.hpp"
#include "gpu/runtime/kernel_plan.hpp"
#include "gpu/runtime/with_type.hpp"

namespace gradnn::gpu::interpolation {

namespace {

constexpr int threads = strided_threads;

template <typename Type, typename Index>
__global__ void __launch_bounds__(threads) strided_kernel(const Type *diff_dst,
        Type *diff_src, const __grid_constant__ strided_shape shape,
        gathered_axis<sum_of<Type>> axis_d, gathered_axis<sum_of<Type>> axis_h,
        gathered_axis<sum_of<Type>> axis_w) {
    using sum = sum_of<Type>;
    const auto step = static_cast<int64_t>(gridDim.x) * threads;
    for (int64_t number = blockIdx.x * int64_t(threads) + threadIdx.x;
            number < shape.count; number += step) {
        int64_t position[5];
        shape.locate<Index>(number, position);
        const tap_range d = axis_d.ranges[position[2]];
        const tap_range h = axis_h.ranges[position[3]];
        const tap_range w = axis_w.ranges[position[4]];
        const Type *corner = diff_dst + position[0] * shape.diff_dst_strides[0]
                + position[1] * shape.diff_dst_strides[1]
                + d.first * shape.diff_dst_strides[2]
                + h.first * shape.diff_dst_strides[3]
                + w.first * shape.diff_dst_strides[4];
        sum volume = 0;
        for (int64_t p = 0; p < d.count; ++p) {
            sum plane = 0;
            for (int64_t q = 0; q < h.count; ++q) {
                const Type *from = corner + p * shape.diff_dst_strides[2]
                        + q * shape.diff_dst_strides[3];
                sum row = 0;
                for (int64_t r = 0; r < w.count; ++r)
                    row += axis_w.weights[w.offset + r]
                            * widen(from[r * shape.diff_dst_strides[4]]);
                plane += axis_h.weights[h.offset + q] * row;
            }
            volume += axis_d.weights[d.offset + p] * plane;
        }
        int64_t to = 0;
#pragma unroll
        for (int axis = 0; axis < 5; ++axis)
            to += position[axis] * shape.diff_src_strides[axis];
        diff_src[to] = narrow<Type>(volume);
    }
}

class strided_plan final : public kernel_plan {
public:
    strided_plan(
            const interpolation_problem &problem, axis_maps maps, int device)
        : type_(problem.diff_src.type),
          shape_(strided_shape_of(problem)),
          tables_(device, maps, type_ == detail::data_type::f64) {
        // With 8 taps and more for each thread of a block: one thread alone would wait
        // for one after the other.
        constexpr double many = 8.0 * threads;
        double taps = 1;
        for (const detail::axis_map &map : maps)
            taps *= static_cast<double>(map.max_count);
        if (!why_too_long(maps).empty() || taps >= many)
            long_ = long_cut_of(shape_, taps);
    }

    size_t workspace_bytes() const override {
        return long_.parts == 1
                ? 0
                : static_cast<size_t>(shape_.count * long_.parts)
                        * (type_ == detail::data_type::f64
                                        ? sizeof(long_sum<double>)
                                        : sizeof(long_sum<float>));
    }

private:
    void submit(std::span<void *const> args, std::byte *workspace,
            const launch_stream &stream) const override {
        const bool small = shape_.count < std::numeric_limits<int32_t>::max();
        with_float_type(type_, [&]<typename Type>() {
            using sum = sum_of<Type>;
            if (long_.elements > 0) {
                auto *const partial
                        = reinterpret_cast<long_sum<sum> *>(workspace);
                launch("interpolation.gpu_strided (long sums)",
                        small ? long_kernel<Type, uint32_t>
                              : long_kernel<Type, uint64_t>,
                        blocks_for(shape_.count, long_.elements)
                                * static_cast<unsigned>(long_.parts),
                        threads, threads * sizeof(long_sum<sum>), stream,
                        static_cast<const Type *>(args[0]),
                        static_cast<Type *>(args[1]), partial, shape_,
                        tables_.axis<sum>(0), tables_.axis<sum>(1),
                        tables_.axis<sum>(2), long_);
                if (long_.parts == 1) return;
                launch("interpolation.gpu_strided (parts of long sums)",
                        small ? long_parts_kernel<Type, uint32_t>
                              : long_parts_kernel<Type, uint64_t>,
                        blocks_for(shape_.count, threads), threads, 0, stream,
                        static_cast<const long_sum<sum> *>(partial),
                        static_cast<Type *>(args[1]), shape_, long_.parts);
                return;
            }
            launch("interpolation.gpu_strided",
                    small ? strided_kernel<Type, uint32_t>
                          : strided_kernel<Type, uint64_t>,
                    blocks_for(shape_.count, threads), threads, 0, stream,
                    static_cast<const Type *>(args[0]),
                    static_cast<Type *>(args[1]), shape_, tables_.axis<sum>(0),
                    tables_.axis<sum>(1), tables_.axis<sum>(2));
        });
    }

    detail::data_type type_;
    strided_shape shape_;
    gathered_tables tables_;
    long_cut long_;
};

} // namespace

plan_or_refusal make_strided(
        const interpolation_problem &problem, const compile_options &options) {
    axis_maps maps = make_axis_maps(problem);
    return std::make_unique<strided_plan>(
            problem, std::move(maps), static_cast<int>(options.device));
}

} // namespace gradnn::gpu::interpolation
