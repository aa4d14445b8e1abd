// The bias gradient, diff_bias[c] = sum over n and space of diff_dst, in two launches: of
// columns_kernel or rows_kernel, which leave partial sums in the workspace, and of
// final_kernel, which adds these up in order of their number. README.md says which of the
// two takes what. With ReLU's gradient ahead the first launch computes and writes that.
#include "gpu/bias/cut.hpp"
#include "gpu/device/dtype.cuh"
#include "gpu/kernels.hpp"
#include "gpu/runtime/launch.hpp"
#include "gpu/runtime/with_type.hpp"

namespace gradnn::gpu::bias {

namespace {

/// By columns where there is a cut by these, else by rows.
template <typename Type, typename Result>
plan_or_refusal plan_by(const bias_problem &problem, int multiprocessors) {
    // One wave, which leaves the final kernel room to start early.
    const int64_t wave = (resident - 1) * int64_t {multiprocessors};
    const auto columns = cut_columns(problem, wave);
    const rows_cut rows
            = columns ? rows_cut {} : cut_rows(problem, wave * warps);
    const partial_shape sums = columns ? columns->sums : rows.sums;
    const int lanes = final_lanes(sums);
    const auto launches = [=](std::span<void *const> args, std::byte *workspace,
                                  const launch_stream &stream) {
        summed<Type> of {static_cast<const Type *>(args[0])};
        const bool masks = args.size() == 4;
        if (masks) {
            const auto *const begin = static_cast<const char *>(args[0]);
            of.src = static_cast<const char *>(args[2]) - begin;
            of.out = static_cast<const char *>(args[3]) - begin;
        }
        const bool whole = is_aligned(args[0], 16) && of.src % 16 == 0
                && of.out % 16 == 0;
        auto *partials = reinterpret_cast<sum_of<Type> *>(workspace);
        if (columns) {
            const int64_t vectors
                    = columns->row_elements / elements_of_16_bytes<Type>;
            const dim3 grid(static_cast<unsigned>(columns->parts),
                    static_cast<unsigned>(ceil_div(vectors, threads)));
            launch_early("bias (columns)",
                    masks ? columns_kernel<Type, true>
                          : columns_kernel<Type, false>,
                    grid, threads, 0, stream, of, partials, columns->elements,
                    columns->rows, vectors, columns->lanes, whole);
        } else {
            launch_early("bias (rows)",
                    masks ? rows_kernel<Type, true> : rows_kernel<Type, false>,
                    ceil_div(sums.total(), warps), threads, 0, stream, of,
                    partials, rows.shape, problem.diff_dst.dims[1],
                    rows.sums.run.by, whole);
        }
        launch_early("bias (final)", final_kernel<sum_of<Type>, Result>,
                ceil_div(sums.channels, final_threads / lanes), final_threads,
                0, stream, partials, static_cast<Result *>(args[1]),
                problem.diff_bias_stride, sums, lanes);
    };
    return std::make_unique<launched_plan>(
            launches, sizeof(sum_of<Type>) * static_cast<size_t>(sums.total()));
}

} // namespace

plan_or_refusal make(
        const detail::fused_bias &all, const compile_options &options) {
    const bias_problem &problem = all.problem;
    const int multiprocessors = properties_of(options.device).multiprocessors;
    const bool wide = problem.diff_bias_type != problem.diff_dst.type;
    return with_float_type(problem.diff_dst.type, [&]<typename Type>() {
        return wide ? plan_by<Type, float>(problem, multiprocessors)
                    : plan_by<Type, Type>(problem, multiprocessors);
    });
}

} // namespace gradnn::gpu::bias
