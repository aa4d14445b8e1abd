// interpolation.gpu_bands: which problems, and the plan. The kernel: kernel.cuh.
#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "gpu/interpolation/bands/tiles.hpp"
#include "gpu/interpolation/makers.hpp"
#include "gpu/interpolation/walk_plan.hpp"
#include "gpu/runtime/residency.hpp"
#include "gpu/runtime/tensor_kernel.hpp"
#include "gpu/runtime/with_type.hpp"
#include "kernel/problem_text.hpp"

namespace gradnn::gpu::interpolation::bands {

namespace {

/// Blocks of a multiprocessor that walk at the same time: more of them are more
/// places of memory that are read and written alternately. Measured on an H200.
constexpr int most_resident = 4;

/// Whether there are kernels with a left margin alone: wider ones would take
/// more shared memory than a volume's block has, or (f64) spill registers.
constexpr bool has_left_margin(int64_t ratio, int64_t bytes) {
    return ratio * bytes <= 8;
}

/// How far the taps of a source column reach beyond the columns over it.
struct margin_widths {
    int left = 0;
    int right = 0;
};

template <typename Sum>
class bands_plan final : public detail::plan {
public:
    bands_plan(const interpolation_problem &problem, const axis_maps &maps,
            const walk_description &walk, int ratio, margin_widths margins,
            const std::vector<Sum> &weights,
            std::unique_ptr<detail::plan> misaligned, int device)
        : type_(problem.diff_src.type),
          shape_(walk.shape),
          volume_(walk.volume),
          ratio_(ratio),
          margins_(margins),
          misaligned_(std::move(misaligned)) {
        const allocation_guard current(device); // attributes load the kernel
        tables_ = walk_storage<Sum>(device, maps, walk, depths_at_once);
        if (volume_) group_depths(shape_, depths_at_once);
        weights_ = upload(device, weights);
        bands_ = cut_bands(
                shape_, walk.groups, maps[2].dst, detail::size_of(type_));
        with_type_of_sum<Sum>(type_, [&]<typename Type>() {
            with_kernel<Type>([&](auto *kernel) {
                // Measured: where only columns are resampled the L1 cache helps,
                // elsewhere it helps that the next kernel starts early.
                const bool pads = walk.shape.src_rows > 1;
                const residency held
                        = hold_at_most(most_resident, pads, kernel, threads, 0);
                shape_.lets_start = held.full ? 1 : 0;
                bands_.runs = cut_runs(shape_, bands_.tiles,
                        int64_t {held.blocks} * warps
                                * properties_of(device).multiprocessors);
                kernel_ = {nullptr, ceil_div(bands_.runs * bands_.tiles, warps),
                        threads, held.shared_bytes};
                kernel_.set(kernel);
            });
        });
    }

    void execute(std::span<void *const> args, std::byte *workspace,
            detail::stream_impl &stream) const override {
        if (!is_aligned(args[0], 16) || !is_aligned(args[1], 16)) {
            misaligned_->execute(args, workspace, stream);
            return;
        }
        const launch_scope scope(stream);
        kernel_.launch_early("interpolation (bands)", scope.stream(), args[0],
                args[1], shape_, tables_.tables(), bands_,
                weights_.template as<Sum>());
    }

    std::string backend() const override { return "CUDA"; }

private:
    template <typename Type, typename Body>
    void with_kernel(const Body &body) const {
        if (ratio_ == 2)
            with_margin<Type, 2>(body);
        else if (ratio_ == 4)
            with_margin<Type, 4>(body);
        else if constexpr (sizeof(Type) == 2)
            with_margin<Type, 8>(body);
    }

    template <typename Type, int ratio, typename Body>
    void with_margin(const Body &body) const {
        if (margins_.left == 0)
            with_volume<Type, ratio, 0, 0>(body);
        else if (margins_.right > 0)
            with_volume<Type, ratio, ratio / 2, ratio / 2>(body);
        else if constexpr (has_left_margin(ratio, sizeof(Type)))
            with_volume<Type, ratio, ratio - 1, 0>(body);
    }

    template <typename Type, int ratio, int left, int right, typename Body>
    void with_volume(const Body &body) const {
        if (volume_)
            body(bands_kernel<Type, ratio, left, right, true>);
        else
            body(bands_kernel<Type, ratio, left, right, false>);
    }

    detail::data_type type_;
    walk_shape shape_;
    bool volume_;
    int ratio_;
    margin_widths margins_;
    work_cut bands_;
    tensor_kernel<walk_shape, walk_tables<Sum>, work_cut, const Sum *> kernel_;
    walk_storage<Sum> tables_;
    device_buffer weights_;
    std::unique_ptr<detail::plan> misaligned_;
};

template <typename Sum>
plan_or_refusal make_plan(const interpolation_problem &problem,
        const compile_options &options, interpolation_maker &of_misaligned,
        const axis_maps &maps, const walk_description &walk) {
    const detail::axis_map &map = maps[2];
    const int64_t own = detail::size_of(problem.diff_src.type) == 2 ? 8 : 4;
    for (const int ratio : {2, 4, 8}) {
        if (map.dst != ratio * map.src || ratio > own) continue;
        for (const margin_widths margins :
                {margin_widths {ratio / 2, ratio / 2},
                        margin_widths {ratio - 1, 0}, margin_widths {}}) {
            // No margins say that rows have one tap too.
            if (margins.left == 0
                    && problem.mode != detail::interpolation_mode::nearest)
                continue;
            if (margins.left > margins.right
                    && !has_left_margin(
                            ratio, detail::size_of(problem.diff_src.type)))
                continue;
            const auto weights = weights_of_places<Sum>(map, ratio,
                    margins.left, ratio + margins.left + margins.right);
            if (!weights) continue;
            // For pointers that are not at multiples of 16 bytes.
            auto misaligned = of_misaligned(problem, options);
            if (!misaligned.plan) return misaligned;
            return std::make_unique<bands_plan<Sum>>(problem, maps, walk, ratio,
                    margins, *weights, std::move(misaligned.plan),
                    static_cast<int>(options.device));
        }
    }
    return detail::refuse(
            "columns enlarged 2, 4 or (16-bit types) 8 times, with the taps of "
            "each at the same places",
            problem);
}

} // namespace

plan_or_refusal make(const interpolation_problem &problem,
        const compile_options &options, interpolation_maker &of_misaligned) {
    const auto [maps, walk, refusal] = walked_problem(problem, false);
    if (!refusal.empty()) return plan_or_refusal::refuse(refusal);
    const auto &dst = problem.diff_dst;
    const auto &src = problem.diff_src;
    const int64_t bytes = detail::size_of(src.type);
    const int64_t own = bytes == 2 ? 8 : 4;
    const walk_shape &shape = walk.shape;
    if (dst.dims[4] % own != 0
            || widest_vector(bytes, shape.dst_row_pitch, shape.dst_depth_pitch,
                       shape.dst_group_pitch)
                            * bytes
                    != 16
            || widest_vector(bytes, shape.src_row_pitch, shape.src_depth_pitch,
                       shape.src_group_pitch)
                    < own
                            / (dst.dims[4] / src.dims[4] > 0
                                            ? dst.dims[4] / src.dims[4]
                                            : 1))
        return plan_or_refusal::refuse(
                detail::text("takes rows at multiples of 16 "
                             "bytes, given ",
                        dst.dims[4], " columns of ", to_string(src.type),
                        " and strides ", detail::text_of(dst.strides)));
    if (src.type == detail::data_type::f64)
        return make_plan<double>(problem, options, of_misaligned, maps, walk);
    return make_plan<float>(problem, options, of_misaligned, maps, walk);
}

} // namespace gradnn::gpu::interpolation::bands
