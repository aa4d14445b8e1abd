// The makers of the tiles of convolution.gpu_f64, one a source file of that
// name.
#pragma once

#include "gpu/convolution_implicit_gemm.hpp"

namespace gradnn::gpu::f64 {

using implicit_gemm::dense_problem;
using implicit_gemm::operation;
using implicit_gemm::tile_kernel;
using implicit_gemm::tile_maker;

tile_maker make_forward_128x128, make_forward_128x64, make_forward_64x64,
        make_forward_128x32;
tile_maker make_strided_data_128x64;
tile_maker make_weights_128x128, make_weights_64x128, make_weights_64x64;
tile_maker make_forward_3d_128x128, make_forward_3d_128x64;
tile_maker make_weights_3d_128x128, make_weights_3d_64x128;

} // namespace gradnn::gpu::f64
