// interpolation.gpu_matrices: which problems, and the plan. The kernel: kernel.cuh;
// how a problem is cut: cut.hpp; the matrices of weights: weights.hpp.
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gpu/interpolation/matrices/cut.hpp"
#include "gpu/interpolation/matrices/kernel.cuh"
#include "gpu/interpolation/matrices/weights.hpp"
#include "gpu/interpolation/walk_plan.hpp"
#include "gpu/kernels.hpp"
#include "gpu/runtime/residency.hpp"
#include "gpu/runtime/tensor_kernel.hpp"
#include "problem_text.hpp"

namespace gradnn::gpu::interpolation::matrices {

namespace {

/// The problem as rows, with the maps of its rows and columns.
struct described {
    work_shape shape; ///< without tiles
    detail::axis_map rows, columns;
};

detail::axis_map equal_map(int64_t size) {
    detail::interpolation_axis axis;
    axis.src = size;
    axis.dst = size;
    return detail::make_axis_map(detail::interpolation_mode::nearest,
            detail::coordinate_mode::half_pixel, axis);
}

/// Rows that are not resampled are rows of the groups too, in NCX; in NXC the
/// columns become the rows, and the rows groups. So that a matrix has 16 rows
/// wherever there are 16 of anything, and rows are what is resampled.
void merge_equal_rows(described &made, bool nxc, int64_t dst_column_pitch,
        int64_t src_column_pitch) {
    work_shape &shape = made.shape;
    if (!made.rows.identity) return;
    const int64_t rows = shape.src_rows;
    const bool even = rows == 1 || shape.groups == 1
            || (shape.dst_group_pitch == rows * shape.dst_row_pitch
                    && shape.src_group_pitch == rows * shape.src_row_pitch);
    if (!even || shape.groups * rows >= int64_t {1} << 30) return;
    const int64_t groups = shape.groups * rows;
    const int64_t dst_pitch
            = rows == 1 ? shape.dst_group_pitch : shape.dst_row_pitch;
    const int64_t src_pitch
            = rows == 1 ? shape.src_group_pitch : shape.src_row_pitch;
    if (nxc) {
        shape.groups = groups;
        shape.dst_group_pitch = dst_pitch;
        shape.src_group_pitch = src_pitch;
        shape.dst_row_pitch = dst_column_pitch;
        shape.src_row_pitch = src_column_pitch;
        shape.dst_rows = shape.dst_columns;
        shape.src_rows = shape.src_columns;
        shape.dst_columns = 1;
        shape.src_columns = 1;
        made.rows = std::move(made.columns);
        made.columns = equal_map(1);
    } else {
        // Groups again, as many as have room in a tile.
        const int64_t room = segments_of_tile
                / std::min<int64_t>(segments_of_tile,
                        ceil_div(shape.dst_columns, segment) + 1);
        int64_t parts
                = std::max<int64_t>(1, std::min(room, groups / matrix_side));
        while (groups % parts != 0)
            --parts;
        shape.groups = parts;
        shape.dst_group_pitch = groups / parts * dst_pitch;
        shape.src_group_pitch = groups / parts * src_pitch;
        shape.dst_row_pitch = dst_pitch;
        shape.src_row_pitch = src_pitch;
        shape.dst_rows = static_cast<int32_t>(groups / parts);
        shape.src_rows = static_cast<int32_t>(groups / parts);
    }
}

std::optional<described> describe(const interpolation_problem &problem,
        const axis_maps &maps, bool nxc, std::string &why) {
    const auto walk = describe_walk(problem, maps, nxc, why);
    if (!walk) return {};
    if (walk->volume) {
        why = "takes two axes that are resampled at most; "
                + detail::given(problem);
        return {};
    }
    const detail::tensor_view &dst = problem.diff_dst;
    const detail::tensor_view &src = problem.diff_src;
    described made;
    work_shape &shape = made.shape;
    shape.channels = static_cast<int32_t>(nxc ? src.dims[1] : 1);
    for (const detail::tensor_view *view : {&src, &dst})
        if (view->dims[4] > 1 && view->strides[4] != shape.channels) {
            why = "takes rows without gaps; " + detail::given(problem);
            return {};
        }
    made.rows = maps[walk->row_axis - 2];
    made.columns = maps[2];
    shape.groups = walk->groups;
    shape.dst_group_pitch = walk->shape.dst_group_pitch;
    shape.src_group_pitch = walk->shape.src_group_pitch;
    shape.dst_row_pitch = walk->shape.dst_row_pitch;
    shape.src_row_pitch = walk->shape.src_row_pitch;
    shape.dst_rows = walk->shape.dst_rows;
    shape.src_rows = walk->shape.src_rows;
    shape.dst_columns = static_cast<int32_t>(dst.dims[4]);
    shape.src_columns = static_cast<int32_t>(src.dims[4]);
    merge_equal_rows(made, nxc, dst.strides[4], src.strides[4]);
    shape.equal_rows = made.rows.identity ? 1 : 0;
    return made;
}

class matrices_plan final : public detail::plan {
public:
    /// `widest`: elements that divide all distances in diff_dst. Check possible()
    /// before use.
    matrices_plan(detail::data_type type, const described &problem, int widest,
            int device)
        : type_(type),
          weights_(make_weights(
                  type, problem.rows, problem.shape.equal_rows != 0)) {
        const device_guard current(device);
        const capture_mode_guard relaxed; // attributes load the kernel
        const bool equal = problem.shape.equal_rows != 0;
        // One cut for all alignments, so that the bits are the same.
        search_facts facts;
        facts.vector = widest;
        facts.terms = weights_.terms;
        facts.multiprocessors = properties_of(device).multiprocessors;
        with_kernel(widest, [&](auto *kernel) {
            facts.resident_blocks
                    = std::max(1, blocks_held(kernel, threads, 0));
        });
        cut_ = find_cut(problem.shape, facts, problem.rows, problem.columns);
        if (!possible()) return;
        work_shape &shape = cut_.shape;
        const detail::axis_map &columns = problem.columns;
        shape.most_taps = static_cast<int32_t>(columns.max_count);
        shape.weights_pitch = shape.most_taps <= 3
                ? std::max(1, shape.most_taps)
                : round_up(shape.most_taps, 4);
        std::vector<column_range> ranges;
        std::vector<float> column_weights;
        for (size_t j = 0; j < static_cast<size_t>(columns.src); ++j) {
            ranges.push_back({static_cast<int32_t>(columns.first[j]),
                    static_cast<int32_t>(columns.count[j])});
            for (int64_t k = 0; k < shape.weights_pitch; ++k)
                column_weights.push_back(k < columns.count[j]
                                ? static_cast<float>(
                                          columns.weights[static_cast<size_t>(
                                                  columns.offset[j] + k)])
                                        / weights_.scale
                                : 0.0F);
        }
        matrices_ = upload(
                device, weights_.matrices(cut_.row_tiles, problem.rows, equal));
        row_tiles_ = upload(device, cut_.row_tiles);
        column_spans_ = upload(device, cut_.column_spans);
        columns_ = upload(device, ranges);
        column_weights_ = upload(device, column_weights);
        definition_ = gathered_tables(device,
                {equal_map(1), equal ? equal_map(1) : problem.rows, columns},
                false);
        const auto set = [&](int vector) {
            auto &to = vector == widest ? usual_ : narrow_;
            to = {nullptr, static_cast<unsigned>(cut_.blocks), threads, 0};
            with_kernel(vector, [&](auto *kernel) { to.set(kernel); });
        };
        set(1);
        set(widest);
        if (widest == 1) narrow_ = usual_;
        read_bytes_ = static_cast<size_t>(2 * widest);
    }

    bool possible() const { return cut_.blocks != 0; }

    void execute(std::span<void *const> args, std::byte *,
            detail::stream_impl &stream) const override {
        const launch_scope scope(stream);
        const kernel &use = is_aligned(args[0], read_bytes_) ? usual_ : narrow_;
        use.launch_early("interpolation (matrices)", scope.stream(), args[0],
                args[1], cut_.shape,
                kernel_tables {matrices_.as<uint4>(), row_tiles_.as<row_tile>(),
                        column_spans_.as<dst_range>(),
                        columns_.as<column_range>(),
                        column_weights_.as<float>(), definition_.axis<float>(1),
                        definition_.axis<float>(2)});
    }

    std::string backend() const override { return "CUDA"; }

private:
    using kernel = tensor_kernel<work_shape, kernel_tables>;

    template <typename Body>
    void with_kernel(int vector, const Body &body) const {
        if (type_ == detail::data_type::bf16) {
            if (weights_.terms == 1)
                with_vector<__nv_bfloat16, 1>(vector, body);
            else
                with_vector<__nv_bfloat16, 3>(vector, body);
        } else {
            if (weights_.terms == 1)
                with_vector<__half, 1>(vector, body);
            else
                with_vector<__half, 2>(vector, body);
        }
    }
    template <typename Type, int terms, typename Body>
    void with_vector(int vector, const Body &body) const {
        if (vector == 8)
            body(interpolation_matrices_kernel<Type, 8, terms>);
        else if (vector == 2)
            body(interpolation_matrices_kernel<Type, 2, terms>);
        else
            body(interpolation_matrices_kernel<Type, 1, terms>);
    }

    detail::data_type type_;
    weight_maker weights_;
    work_cut cut_;
    device_buffer matrices_, row_tiles_, column_spans_, columns_,
            column_weights_;
    gathered_tables definition_;
    kernel usual_;
    kernel narrow_; ///< for pointers that allow no wide loads
    size_t read_bytes_ = 2;
};

} // namespace

plan_or_refusal make(
        const interpolation_problem &problem, const compile_options &options) {
    const auto &src = problem.diff_src;
    if (detail::size_of(src.type) != 2)
        return detail::refuse("bf16 and f16", problem);
    const axis_maps maps = make_axis_maps(problem);
    if (is_copy(maps)) return refuse_copy();
    // Of one channel, or one column, either layout will do.
    std::string why;
    auto described = describe(problem, maps, false, why);
    if (!described) described = describe(problem, maps, true, why);
    if (!described) return plan_or_refusal::refuse(why);
    const work_shape &shape = described->shape;
    const int64_t row = int64_t {shape.dst_columns} * shape.channels;
    if (row < segment)
        return detail::refuse(
                detail::text("rows of at least ", segment, " elements"),
                problem);
    if (shape.dst_row_pitch >= int64_t {1} << 31)
        return detail::refuse("rows less than 2^31 elements apart", problem);
    // Vectors of 4 are taken as two of 2.
    int widest
            = widest_vector(2, row, shape.dst_group_pitch, shape.dst_row_pitch);
    if (widest == 4) widest = 2;
    const int64_t matrices = ceil_div(shape.dst_rows, matrix_side);
    if (shape.equal_rows == 0 && matrices > most_matrices)
        return detail::refuse(
                detail::text("at most ", most_matrices * matrix_side,
                        " rows of diff_dst"),
                problem);
    auto plan = std::make_unique<matrices_plan>(
            src.type, *described, widest, static_cast<int>(options.device));
    if (!plan->possible())
        return detail::refuse(
                "columns that are fed by at most 512 elements", problem);
    return plan_or_refusal(std::move(plan));
}

} // namespace gradnn::gpu::interpolation::matrices
