// Depthwise convolutions: where convolution.gpu_sliding, which plain products bind, comes
// before kernels for windows of many points. An H100, list of bench/cases.json by
// `gradnn bench --every-kernel`, b25b3c9.
#include "gpu/measured.hpp"

#include <algorithm>

#include "gpu/jit/compiler.hpp"

namespace gradnn::gpu {

namespace {

/// Whether kernels are compiled for their problems here.
bool compiles(const compile_options &options) {
    return options.specialise && jit::available();
}

} // namespace

// 7x7 in bf16 NCX, planes of 56x56: 64 and 44 us for dX, 71 and 44 for dW; 5x5 on planes of
// 14x14 42 and 54 for dX. Planes narrower than a matrix product's 16 columns waste it.
std::string depthwise_matrices_yields(
        const convolution_problem &problem, const compile_options &options) {
    constexpr int64_t least_plane = 12;
    const auto &src = problem.src.dims;
    const auto &dst = problem.dst.dims;
    const bool wide = std::min({src[3], src[4], dst[3], dst[4]}) >= least_plane;
    if (!compiles(options) || (problem.weights.dims[5] == 7 && wide)) return {};
    return "products of small matrices were slower for such windows or planes";
}

// 31 points: 44 and 30 us by tensor cores in bf16 NCX. A product each for a point takes as
// long as the memory from some 16 points on: an element of 16 bits moves 4 bytes, 175 of
// which a multiprocessor gets in the time of its 128 products, twice that in what a product
// costs beside itself.
std::string depthwise_rows_yield(
        const convolution_problem &problem, const compile_options &options) {
    constexpr int64_t long_row = 16;
    if (!compiles(options) || problem.weights.dims[5] >= long_row) return {};
    return "windows of few points are read from memory no faster than they are "
           "multiplied";
}

} // namespace gradnn::gpu
