// The families' rows of the kernel list: which problems each takes.
#include "gpu/convolution/depthwise/any/cut.hpp"
#include "gpu/convolution/depthwise/diagonals/cut.hpp"
#include "gpu/convolution/depthwise/lines/cut.hpp"
#include "gpu/convolution/depthwise/matrices/cut.hpp"
#include "gpu/convolution/depthwise/plan.hpp"
#include "gpu/convolution/depthwise/planes/cut.hpp"
#include "gpu/convolution/depthwise/rows_ncx/cut.hpp"
#include "gpu/convolution/depthwise/rows_nxc/cut.hpp"
#include "gpu/convolution/depthwise/walk/cut.hpp"

namespace gradnn::gpu::depthwise {

plan_or_refusal make_blocks(
        const convolution_problem &problem, const compile_options &options) {
    return make_plan<any::blocks_cut>(
            "NXC, any window: threads along the channels, less than 2^31 "
            "blocks of them",
            problem, options);
}

plan_or_refusal make_diagonals(
        const convolution_problem &problem, const compile_options &options) {
    return make_plan<diagonals::work_cut>(
            "bf16 and f16 in NXC, weights alike, channels in vectors of 16 "
            "bytes, windows of 5x5 and 7x7 on planes with strides and "
            "dilations of 1 and pads smaller than the window, rows that "
            "fit in shared memory",
            problem, options);
}

plan_or_refusal make_lines(
        const convolution_problem &problem, const compile_options &options) {
    return make_plan<lines::work_cut>(
            "bf16 and f16 in NCX without gaps, weights alike, windows of 5 to "
            "63 "
            "points along W alone with strides and dilations of 1 and "
            "pads smaller than the window, 64 columns and more",
            problem, options);
}

plan_or_refusal make_matrices(
        const convolution_problem &problem, const compile_options &options) {
    return make_plan<matrices::work_cut>(
            "bf16 and f16 in NCX without gaps, weights alike, windows of 5x5 "
            "and 7x7 (of src 3x3 too) on planes with strides and "
            "dilations of 1 and pads smaller than the window",
            problem, options);
}

plan_or_refusal make_planes(
        const convolution_problem &problem, const compile_options &options) {
    return make_plan<planes::work_cut>(
            "NCX without gaps, windows of 3x3, 5x5 and 7x7 on planes with "
            "dilations of 1 and strides of 1 or (gradients) 2, rows that "
            "fit in shared memory",
            problem, options);
}

plan_or_refusal make_rows_ncx(
        const convolution_problem &problem, const compile_options &options) {
    return make_plan<rows_ncx::work_cut>(
            "f32 and f64 in NCX, windows of 3 to 64 points along W alone with "
            "strides and dilations of 1 and pads smaller than the window, "
            "channels with rows enough",
            problem, options);
}

plan_or_refusal make_rows_nxc(
        const convolution_problem &problem, const compile_options &options) {
    return make_plan<rows_nxc::work_cut>(
            "NXC, windows of 9 points and more along W alone with strides and "
            "dilations of 1, 16 columns and more",
            problem, options);
}

plan_or_refusal make_tiles(
        const convolution_problem &problem, const compile_options &options) {
    return make_plan<any::tiles_cut>(
            "NCX, any window of which tiles of rows fit in shared memory, less "
            "than 2^31 tiles",
            problem, options);
}

plan_or_refusal make_walk(
        const convolution_problem &problem, const compile_options &options) {
    return make_plan<walk::work_cut>(
            "windows of 3x3, 5x5 and 7x7 with dilations of 1: f64 in NXC "
            "alone, NXC with strides of 1 or (gradient of src) 2, NCX "
            "with strides of 1 and, of data, rows that are whole vectors "
            "of 16 bytes; windows of 3x3x3 with strides and dilations of 1, in "
            "NXC of more than one slice",
            problem, options);
}

} // namespace gradnn::gpu::depthwise
