// InterpolateBackward, NCX, many small planes. The formula, the mapping of
// threads and why it is deterministic: see kernel.cuh; chunks and
// places in shared memory: plan.hpp.
//
// Taken where rows of diff_dst are dense and shorter than 128 bytes (longer ones
// go well row by row: gpu_bands, gpu_ncx), planes follow one another without
// gaps and have at most 2048 elements on either side. A depth that is not
// resampled makes planes of its own; rows that are not resampled make planes of
// one row each.
#include <memory>

#include "gpu/interpolation/makers.hpp"
#include "gpu/interpolation/planes/kernel.cuh"
#include "gpu/interpolation/planes/plan.hpp"
#include "gpu/interpolation/tables.hpp"
#include "gpu/interpolation/walk_plan.hpp"
#include "gpu/runtime/kernel_plan.hpp"
#include "gpu/runtime/residency.hpp"
#include "gpu/runtime/tensor_kernel.hpp"
#include "kernel/problem_text.hpp"

namespace gradnn::gpu::interpolation::planes {

namespace {

constexpr int64_t most_row_bytes = 128; ///< less than that
constexpr int64_t most_plane_elements = 2048;

/// Calls body with the kernel of an arrangement.
template <typename Type, typename Body>
void with_kernel(const arranged_work &use, const Body &body) {
    const auto with_window = [&]<int vector>() {
        const int taps = use.windows.taps;
        if (taps == 2)
            body(planes_kernel<Type, vector, window_kind<2, 1>>);
        else if (taps == 0)
            body(planes_kernel<Type, vector, window_kind<0, 4>>);
        else if (use.windows.align == 1)
            body(planes_kernel<Type, vector, window_kind<4, 1>>);
        else if constexpr (sizeof(Type) < 8) {
            if (taps == 4)
                body(planes_kernel<Type, vector, window_kind<4, 2>>);
            else
                body(planes_kernel<Type, vector, window_kind<8, 4>>);
        }
    };
    if constexpr (sizeof(Type) == 2)
        if (use.vector == 2) return with_window.template operator()<2>();
    with_window.template operator()<1>();
}

template <typename Sum>
class planes_plan final : public kernel_plan {
public:
    planes_plan(detail::data_type type, const arranged_work &use, int device)
        : shape_(use.shape) {
        const allocation_guard current(device); // attributes load the kernel
        std::vector<weighted_row<Sum>> rows;
        for (const weighted_row<double> &row : use.weights)
            rows.push_back({static_cast<Sum>(row.low_weight),
                    static_cast<Sum>(row.high_weight)});
        row_weights_ = upload(device, rows);
        row_counts_ = upload(device, use.counts);
        order_ = upload(device, use.order);
        windows_ = upload(device, use.windows.places);
        weights_ = upload(device,
                std::vector<Sum>(use.windows.weights.begin(),
                        use.windows.weights.end()));
        with_type_of_sum<Sum>(type, [&]<typename Type>() {
            with_kernel<Type>(use, [&](auto *kernel) {
                // The same for all plans, which share the kernel.
                allow_shared_bytes(
                        kernel, properties_of(device).block_shared_bytes);
                const int64_t resident = blocks_held(kernel, use.threads,
                        static_cast<size_t>(use.shared_bytes));
                kernel_ = {nullptr,
                        std::min(int64_t {shape_.chunks},
                                std::max<int64_t>(resident, 1)
                                        * properties_of(device)
                                                  .multiprocessors),
                        use.threads, static_cast<size_t>(use.shared_bytes)};
                kernel_.set(kernel);
            });
        });
    }

private:
    void submit(std::span<void *const> args, std::byte *,
            const launch_stream &stream) const override {
        kernel_.launch_early("interpolation (planes)", stream, args[0], args[1],
                shape_,
                kernel_tables<Sum> {
                        row_weights_.template as<weighted_row<Sum>>(),
                        row_counts_.template as<int32_t>(),
                        order_.template as<int32_t>(),
                        windows_.template as<int32_t>(),
                        weights_.template as<Sum>()},
                is_aligned(args[0], 16));
    }

    work_cut shape_;
    tensor_kernel<work_cut, kernel_tables<Sum>, bool> kernel_;
    device_buffer row_weights_;
    device_buffer row_counts_;
    device_buffer order_;
    device_buffer windows_;
    device_buffer weights_;
};

} // namespace

plan_or_refusal make(
        const interpolation_problem &problem, const compile_options &options) {
    const auto [maps, walk, refusal] = walked_problem(problem, false);
    if (!refusal.empty()) return plan_or_refusal::refuse(refusal);
    const auto &dst = problem.diff_dst;
    const auto &src = problem.diff_src;
    if (walk.volume)
        return detail::refuse("a depth that is not resampled", problem);
    const auto device = static_cast<int>(options.device);
    problem_sizes sizes;
    sizes.planes = walk.groups;
    sizes.element_bytes = detail::size_of(src.type);
    sizes.multiprocessors = properties_of(device).multiprocessors;
    sizes.shared_bytes
            = static_cast<int64_t>(properties_of(device).block_shared_bytes);
    sizes.sm = properties_of(device).sm;
    const int64_t bytes = sizes.element_bytes;
    if (dst.dims[4] * bytes >= most_row_bytes)
        return detail::refuse(
                "rows of diff_dst of less than 128 bytes", problem);
    const walk_shape &shape = walk.shape;
    const auto dense = [&](const detail::tensor_view &view, int64_t row_count,
                               int64_t row_pitch, int64_t plane_pitch) {
        const int64_t columns = view.dims[4];
        return (columns == 1 || view.strides[4] == 1)
                && (row_count == 1 || row_pitch == columns)
                && (sizes.planes == 1 || plane_pitch == row_count * columns);
    };
    if (!dense(dst, shape.dst_rows, shape.dst_row_pitch, shape.dst_group_pitch)
            || !dense(src, shape.src_rows, shape.src_row_pitch,
                    shape.src_group_pitch))
        return detail::refuse("planes without gaps", problem);
    if (int64_t {shape.dst_rows} * dst.dims[4] > most_plane_elements
            || int64_t {shape.src_rows} * src.dims[4] > most_plane_elements)
        return detail::refuse("planes of at most 2048 elements", problem);
    // Rows that are not resampled: planes of one row.
    detail::axis_map rows = maps[walk.row_axis - 2];
    if (rows.identity) {
        sizes.planes *= rows.src;
        rows = detail::make_axis_map(problem.mode, problem.coordinates, {});
    }
    auto arrangement = arrange(sizes, rows, maps[2]);
    if (!arrangement)
        return detail::refuse(
                "planes of which several fit in shared memory", problem);
    if (src.type == detail::data_type::f64)
        return std::make_unique<planes_plan<double>>(
                src.type, *arrangement, device);
    return std::make_unique<planes_plan<float>>(src.type, *arrangement, device);
}

} // namespace gradnn::gpu::interpolation::planes
