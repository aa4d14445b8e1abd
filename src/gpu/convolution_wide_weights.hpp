// The makers of the tiles of convolution.gpu_wide_weights, one a source file of
// that name.
#pragma once

#include "gpu/convolution_implicit_gemm.hpp"

namespace gradnn::gpu::wide_weights {

using implicit_gemm::dense_problem;
using implicit_gemm::tile_kernel;
using implicit_gemm::tile_maker;

tile_maker make_128x128, make_64x64;
tile_maker make_3d_128x128, make_3d_64x64;

} // namespace gradnn::gpu::wide_weights
