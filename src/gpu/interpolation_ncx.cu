// InterpolateBackward, NCX: the elements of a row are columns.
// The formula, the mapping of threads and why it is deterministic: see
// interpolation_lines.cuh.
#include "gpu/interpolation_lines_plan.cuh"

namespace gradnn::gpu {

plan_or_refusal make_interpolation_ncx(
        const interpolation_problem &problem, const compile_options &options) {
    std::array<detail::axis_map, 3> maps;
    for (size_t axis = 0; axis < 3; ++axis)
        maps[axis] = detail::make_axis_map(
                problem.mode, problem.coordinates, problem.axes[axis]);
    if (maps[0].identity && maps[1].identity && maps[2].identity)
        return std::make_unique<identity_plan>(problem);
    std::string why;
    auto choice = choose_lines_ncx(problem, maps, why);
    if (!choice) return plan_or_refusal::refuse(why);
    return std::make_unique<lines_plan<line_items::columns, line_items::shared_columns>>(
            problem, std::move(*choice), maps,
            static_cast<int>(options.device));
}

} // namespace gradnn::gpu
