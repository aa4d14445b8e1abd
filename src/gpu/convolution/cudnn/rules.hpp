// Which of the kernels that cuDNN's heuristics name gradnn does not use. Needs
// cudnn-frontend's headers.
#pragma once

#include <string>

#include "gpu/convolution/cudnn/arrangement.hpp"
#include "gpu/convolution/cudnn/frontend.hpp"
#include "kernel/kernel.hpp"

namespace gradnn::gpu::cudnn {

/// Whether a kernel may not be used, by what cuDNN notes of it. F(2x2, 3x3), the
/// Winograd transform of 4x4 tiles, is as exact in f32 as plain sums; larger
/// tiles are not, nor is any of them in 16 bits.
bool barred(cudnnBackendDescriptor_t config,
        const problem_arrangement &arrangement,
        const detail::compile_options &options);

/// Kernels that do less than cuDNN's notes say of them, or less than gradnn
/// promises: found by running all that the heuristics name (cuDNN 9.14, 9.19).
/// tests/sweep/cudnn_sweep.cpp does that on random problems. `tag` is cuDNN's name
/// of it: a number, which it keeps from version to version, and its knobs.
bool flawed(const std::string &tag, const problem_arrangement &arrangement,
        const detail::compile_options &options);

/// "eng17" of "eng17_k25=0".
std::string engine_of(const std::string &tag);

} // namespace gradnn::gpu::cudnn
