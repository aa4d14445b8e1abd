// InterpolateBackward, NCX: any ratio, any row length, any alignment. The formula,
// the mapping of lanes and why it is deterministic: kernel.cuh; the tiles:
// tiles.hpp; the choice: plan.cuh.
#include "gpu/interpolation/columns/plan.cuh"

namespace gradnn::gpu::interpolation::columns {

namespace {

/// The kernels of a type: see kernel_kind.
struct ncx_family {
    template <typename Type, bool volume>
    static auto kinds_of() {
        using t = Type;
        // f64 and volumes in f32 come only where no kernel is compiled for the problem.
        if constexpr (sizeof(t) == 8 && volume)
            return kind_list<kernel_kind<t, 1, 0, 4, 4>>();
        else if constexpr (sizeof(t) == 8)
            return kind_list<kernel_kind<t, 1, 1, 2, 8>,
                    kernel_kind<t, 1, 4, 4, 3>, kernel_kind<t, 1, 0, 4, 4>>();
        else if constexpr (sizeof(t) == 4 && volume)
            return kind_list<kernel_kind<t, 1, 0, 8, 4>>();
        else if constexpr (sizeof(t) == 4)
            return kind_list<kernel_kind<t, 1, 1, 4, 8>,
                    kernel_kind<t, 1, 2, 4, 8>,
                    kernel_kind<t, 1, 2, 8, 6, 1, false, 1>,
                    kernel_kind<t, 1, 3, 12, 10, 1, true>,
                    kernel_kind<t, 1, 4, 8, 6>,
                    kernel_kind<t, 1, 4, 10, 6, 1, true>,
                    kernel_kind<t, 1, 8, 8, 4>,
                    kernel_kind<t, 1, 8, 6, 4, 1, true>,
                    kernel_kind<t, 1, 8, 12, 5, 1, true>,
                    kernel_kind<t, 1, 0, 8, 4>,
                    kernel_kind<t, 1, 0, 8, 4, 1, true>,
                    kernel_kind<t, 1, 0, 6, 4, 1, true>>();
        else if constexpr (volume)
            return kind_list<kernel_kind<t, 2, 4, 4, 6>,
                    kernel_kind<t, 2, 0, 4, 4>,
                    kernel_kind<t, 1, 8, 5, 2, 1, true>,
                    kernel_kind<t, 1, 0, 8, 4>>();
        else
            return kind_list<kernel_kind<t, 2, 2, 8, 10, 1, true, 1>,
                    kernel_kind<t, 2, 3, 6, 10, 1, true>,
                    kernel_kind<t, 2, 4, 8, 10, 1, true>,
                    kernel_kind<t, 2, 8, 4, 4>,
                    kernel_kind<t, 2, 8, 6, 5, 1, true>,
                    kernel_kind<t, 2, 0, 4, 4>,
                    kernel_kind<t, 2, 0, 8, 4, 1, true>,
                    // Words of one element.
                    kernel_kind<t, 1, 1, 4, 8, 2>, kernel_kind<t, 1, 2, 4, 8>,
                    kernel_kind<t, 1, 2, 8, 6, 1, false, 1>,
                    kernel_kind<t, 1, 2, 8, 6, 1, true, 1>,
                    kernel_kind<t, 1, 4, 8, 6>,
                    kernel_kind<t, 1, 4, 8, 6, 1, true>,
                    kernel_kind<t, 1, 8, 8, 4>,
                    kernel_kind<t, 1, 8, 6, 4, 1, true>,
                    kernel_kind<t, 1, 0, 8, 4>,
                    kernel_kind<t, 1, 0, 6, 4, 1, true>>();
    }
};

} // namespace

plan_or_refusal make_ncx(
        const interpolation_problem &problem, const compile_options &options) {
    return make_plan<ncx_family>(problem, walked_problem(problem, false), 1,
            static_cast<int>(options.device));
}

} // namespace gradnn::gpu::interpolation::columns
