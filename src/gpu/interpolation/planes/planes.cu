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

#include "gpu/interpolation/planes/kernel.cuh"
#include "gpu/interpolation/planes/plan.hpp"
#include "gpu/interpolation/tables.hpp"
#include "gpu/interpolation/walk_plan.hpp"
#include "gpu/kernels.hpp"
#include "gpu/runtime/launch.hpp"

namespace gradnn::gpu {

namespace {

constexpr int64_t most_row_bytes = 128; ///< less than that
constexpr int64_t most_plane_elements = 2048;

/// Calls body with the kernel of an arrangement.
template <typename Type, typename Body>
void with_planes_kernel(const planes_arrangement &use, const Body &body) {
    const auto with_window = [&]<int vector>() {
        const int taps = use.windows.taps;
        if (taps == 2)
            body(planes_kernel<Type, vector, planes_window<2, 1>>);
        else if (taps == 0)
            body(planes_kernel<Type, vector, planes_window<0, 4>>);
        else if (use.windows.align == 1)
            body(planes_kernel<Type, vector, planes_window<4, 1>>);
        else if constexpr (sizeof(Type) < 8) {
            if (taps == 4)
                body(planes_kernel<Type, vector, planes_window<4, 2>>);
            else
                body(planes_kernel<Type, vector, planes_window<8, 4>>);
        }
    };
    if constexpr (sizeof(Type) == 2)
        if (use.vector == 2) return with_window.template operator()<2>();
    with_window.template operator()<1>();
}

template <typename Sum>
class planes_plan final : public detail::plan {
public:
    planes_plan(
            detail::data_type type, planes_arrangement arrangement, int device)
        : type_(type), use_(std::move(arrangement)) {
        const device_guard current(device);
        const capture_mode_guard relaxed; // attributes load the kernel
        std::vector<planes_row<Sum>> rows;
        for (const planes_row<double> &row : use_.weights)
            rows.push_back({static_cast<Sum>(row.low_weight),
                    static_cast<Sum>(row.high_weight)});
        row_weights_ = upload(device, rows);
        row_counts_ = upload(device, use_.counts);
        order_ = upload(device, use_.order);
        windows_ = upload(device, use_.windows.places);
        weights_ = upload(device,
                std::vector<Sum>(use_.windows.weights.begin(),
                        use_.windows.weights.end()));
        use_.weights.clear();
        use_.counts.clear();
        use_.order.clear();
        use_.windows.places.clear();
        use_.windows.weights.clear();
        with_float_type(type_, [&]<typename Type>() {
            if constexpr (std::is_same_v<sum_of<Type>, Sum>)
                with_planes_kernel<Type>(use_, [&](auto *kernel) {
                    // The same for all plans, which share the kernel.
                    check(cudaFuncSetAttribute(kernel,
                                  cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  static_cast<int>(
                                          properties_of(device)
                                                  .block_shared_bytes)),
                            "cudaFuncSetAttribute");
                    int resident = 0;
                    check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
                                  &resident, kernel, use_.threads,
                                  static_cast<size_t>(use_.shared_bytes)),
                            "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
                    blocks_ = static_cast<unsigned>(std::min(
                            int64_t {use_.shape.chunks},
                            int64_t {std::max(resident, 1)}
                                    * properties_of(device).multiprocessors));
                });
        });
    }

    void execute(std::span<void *const> args, std::byte *,
            detail::stream_impl &stream) const override {
        const launch_scope scope(stream);
        with_float_type(type_, [&]<typename Type>() {
            if constexpr (std::is_same_v<sum_of<Type>, Sum>)
                with_planes_kernel<Type>(use_, [&](auto *kernel) {
                    launch_early("interpolation (planes)", kernel, blocks_,
                            static_cast<unsigned>(use_.threads),
                            static_cast<size_t>(use_.shared_bytes),
                            scope.stream(), static_cast<const Type *>(args[0]),
                            static_cast<Type *>(args[1]), use_.shape,
                            planes_tables<Sum> {
                                    row_weights_.template as<planes_row<Sum>>(),
                                    row_counts_.template as<int32_t>(),
                                    order_.template as<int32_t>(),
                                    windows_.template as<int32_t>(),
                                    weights_.template as<Sum>()},
                            is_aligned(args[0], 16));
                });
        });
    }

    std::string backend() const override { return "CUDA"; }

private:
    detail::data_type type_;
    planes_arrangement use_;
    unsigned blocks_ = 0;
    device_buffer row_weights_;
    device_buffer row_counts_;
    device_buffer order_;
    device_buffer windows_;
    device_buffer weights_;
};

} // namespace

plan_or_refusal make_interpolation_planes(
        const interpolation_problem &problem, const compile_options &options) {
    const axis_maps maps = make_axis_maps(problem);
    if (is_copy(maps)) return refuse_copy();
    const auto &dst = problem.diff_dst;
    const auto &src = problem.diff_src;
    std::string why;
    const auto walk = describe_walk(problem, maps, false, why);
    if (!walk) return plan_or_refusal::refuse(why);
    if (walk->volume)
        return plan_or_refusal::refuse("wants a depth that is not resampled");
    const auto device = static_cast<int>(options.device);
    planes_sizes sizes;
    sizes.planes = walk->groups;
    sizes.element_bytes = detail::size_of(src.type);
    sizes.multiprocessors = properties_of(device).multiprocessors;
    sizes.shared_bytes
            = static_cast<int64_t>(properties_of(device).block_shared_bytes);
    const int64_t bytes = sizes.element_bytes;
    if (dst.dims[4] * bytes >= most_row_bytes)
        return plan_or_refusal::refuse(
                "wants rows of diff_dst of less than 128 bytes");
    const walk_shape &shape = walk->shape;
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
        return plan_or_refusal::refuse("wants planes without gaps");
    if (int64_t {shape.dst_rows} * dst.dims[4] > most_plane_elements
            || int64_t {shape.src_rows} * src.dims[4] > most_plane_elements)
        return plan_or_refusal::refuse("wants planes of at most 2048 elements");
    // Rows that are not resampled: planes of one row.
    detail::axis_map rows = maps[walk->row_axis - 2];
    if (rows.identity) {
        sizes.planes *= rows.src;
        rows = detail::make_axis_map(problem.mode, problem.coordinates, {});
    }
    auto arrangement = arrange_planes(sizes, rows, maps[2]);
    if (!arrangement)
        return plan_or_refusal::refuse(
                "wants planes that fit in shared memory");
    if (src.type == detail::data_type::f64)
        return std::make_unique<planes_plan<double>>(
                src.type, std::move(*arrangement), device);
    return std::make_unique<planes_plan<float>>(
            src.type, std::move(*arrangement), device);
}

} // namespace gradnn::gpu
