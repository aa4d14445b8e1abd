// Where a kernel can do a problem and another one of the list was measured to be
// faster: all such knowledge of the GPU, in one place. Each function is a row's
// `yields` (kernel.hpp): the reason, or an empty string.
#pragma once

#include <string>

#include "gpu/kernels.hpp"
#include "gpu/runtime/device.hpp"

namespace gradnn::gpu {

using rule = std::string(const convolution_problem &, const compile_options &);

rule sliding_yields;
rule col2im_yields;
rule pointwise_yields;
rule f64_yields;
rule wide_weights_yields;
rule cudnn_yields;
rule direct_yields;

inline std::string reason_if(bool yields, const char *reason) {
    return yields ? reason : std::string();
}

inline int multiprocessors_of(const compile_options &options) {
    return properties_of(options.device).multiprocessors;
}

} // namespace gradnn::gpu
