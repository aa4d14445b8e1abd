// The bias gradient: diff_bias[c] = sum over n and space of diff_dst.
//
// The first launch leaves partial sums in the workspace, one of two ways; a
// second (final_kernel) adds them up:
// - columns_kernel, where diff_dst is dense memory that repeats the channels
//   every `period` elements (NXC; NCX with small planes, whose period is C
//   times the plane): memory is a matrix of rows of lcm(period, vector)
//   elements, a thread owns one 16-byte column of it and walks down the rows
//   of its part, so that every element of the vector belongs to one channel
//   however odd C is.
// - rows_kernel, for all else (NCX, any strides): a warp sums runs of elements
//   along the innermost axes of one channel.
// diff_dst is read once, in contiguous pieces. Which elements a thread adds,
// and in which order, follows from the shape and the device alone; sums of
// threads and parts are added in order of their number. No atomics.
#include <optional>

#include "gpu/bias/cut.hpp"
#include "gpu/device/dtype.cuh"
#include "gpu/kernels.hpp"
#include "gpu/runtime/kernel_plan.hpp"
#include "gpu/runtime/with_type.hpp"

namespace gradnn::gpu::bias {

namespace {

class reduce_plan final : public kernel_plan {
public:
    reduce_plan(const bias_problem &problem, int device) : problem_(problem) {
        // One wave, which leaves the final kernel room to start early. Three
        // waves took up to 14 % longer on an H200, clusters that add up their
        // sums without a final kernel up to 20 % (and 3 % less at best).
        const int64_t wave = int64_t {properties_of(device).multiprocessors}
                * (resident - 1);
        columns_ = cut_columns(problem, wave);
        if (!columns_) rows_ = cut_rows(problem, wave * warps);
        const bool wide = problem.diff_bias_type != problem.diff_dst.type;
        submit_ = with_float_type(
                problem.diff_dst.type, [&]<typename Type>() -> typed_submit {
                    return wide ? &reduce_plan::submit_of<Type, float>
                                : &reduce_plan::submit_of<Type, Type>;
                });
    }

    size_t workspace_bytes() const override {
        const size_t bytes
                = problem_.diff_dst.type == detail::data_type::f64 ? 8 : 4;
        const int64_t partials = columns_ ? columns_->partials : rows_.partials;
        return static_cast<size_t>(partials) * bytes;
    }

private:
    void submit(std::span<void *const> args, std::byte *workspace,
            const launch_stream &stream) const override {
        (this->*submit_)(args, workspace, stream);
    }

    template <typename Type, typename Result>
    void submit_of(std::span<void *const> args, std::byte *workspace,
            const launch_stream &stream) const {
        auto *partials = reinterpret_cast<sum_of<Type> *>(workspace);
        const auto *from = static_cast<const Type *>(args[0]);
        if (columns_)
            run_columns(from, partials, stream);
        else
            run_rows(from, partials, stream);
        finish(partials, static_cast<Result *>(args[1]),
                columns_ ? columns_->sums : rows_.sums, stream);
    }

    template <typename Type>
    void run_columns(const Type *from, sum_of<Type> *partials,
            const launch_stream &stream) const {
        const columns_cut &cut = *columns_;
        const int64_t vectors = cut.row_elements / elements_of_16_bytes<Type>;
        const dim3 grid(static_cast<unsigned>(cut.parts),
                static_cast<unsigned>(ceil_div(vectors, threads)));
        launch_early("bias (columns)", columns_kernel<Type>, grid, threads, 0,
                stream, from, partials, cut.elements, cut.rows, vectors,
                cut.lanes, is_aligned(from, 16));
    }

    template <typename Type>
    void run_rows(const Type *from, sum_of<Type> *partials,
            const launch_stream &stream) const {
        launch_early("bias (rows)", rows_kernel<Type>,
                ceil_div(rows_.partials, warps), threads, 0, stream, from,
                partials, rows_.shape, problem_.diff_dst.dims[1], rows_.parts,
                is_aligned(from, 16));
    }

    template <typename Sum, typename Result>
    void finish(const Sum *partials, Result *diff_bias,
            const partial_shape &shape, const launch_stream &stream) const {
        const int lanes = final_lanes(shape);
        launch_early("bias (final)", final_kernel<Sum, Result>,
                ceil_div(shape.channels, final_threads / lanes), final_threads,
                0, stream, partials, diff_bias, problem_.diff_bias_stride,
                shape, lanes);
    }

    using typed_submit = void (reduce_plan::*)(
            std::span<void *const>, std::byte *, const launch_stream &) const;

    bias_problem problem_;
    typed_submit submit_ = nullptr; ///< by the types
    std::optional<columns_cut> columns_;
    rows_cut rows_; ///< where there is no cut by columns
};

} // namespace

plan_or_refusal make(
        const bias_problem &problem, const compile_options &options) {
    return std::make_unique<reduce_plan>(
            problem, static_cast<int>(options.device));
}

} // namespace gradnn::gpu::bias
