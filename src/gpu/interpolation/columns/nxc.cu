// InterpolateBackward, NXC: a row is (column, channel), its elements side by
// side, and the columns kernel of NCX takes it (kernel.cuh): in the
// line, the channels lie one after the other, as rows of planes do there.
#include "gpu/interpolation/columns/plan.cuh"
#include "kernel/problem_text.hpp"

namespace gradnn::gpu::interpolation::columns {

namespace {

struct nxc_family {
    template <typename Type, int vector, int taps, int words, int outputs,
            int side = 1, bool dense = false>
    using kind = kernel_kind<Type, vector, taps, words, outputs, side, dense, 0,
            true>;

    template <typename t, bool volume>
    static auto kinds_of() {
        // Other types, volumes and other taps than 5 to 8 come where gpu_resample does not
        // take a problem, or no kernel is compiled for it.
        if constexpr (sizeof(t) == 8)
            return kind_list<kind<t, 1, 0, 4, 4>>();
        else if constexpr (sizeof(t) == 4)
            return kind_list<kind<t, 1, 0, 8, 4>>();
        else if constexpr (volume)
            return kind_list<kind<t, 2, 0, 4, 4>, kind<t, 1, 0, 8, 4>>();
        else
            return kind_list<kind<t, 2, 8, 4, 4>, kind<t, 2, 8, 6, 4, 1, true>,
                    kind<t, 2, 0, 4, 4>,
                    // Words of one element.
                    kind<t, 1, 8, 8, 4>, kind<t, 1, 0, 8, 4>>();
    }
};

} // namespace

plan_or_refusal make_nxc(
        const interpolation_problem &problem, const compile_options &options) {
    const auto &dst = problem.diff_dst;
    const auto &src = problem.diff_src;
    const int64_t channels = dst.dims[1];
    const auto dense = [&](const detail::tensor_view &view) {
        return view.dims[4] == 1 || view.strides[4] == channels;
    };
    if (!dense(dst) || !dense(src))
        return detail::refuse("rows of pixels without gaps", problem);
    return make_plan<nxc_family>(problem, walked_problem(problem, true),
            channels, static_cast<int>(options.device));
}

} // namespace gradnn::gpu::interpolation::columns
