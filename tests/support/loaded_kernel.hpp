// Kernels that are compiled at run time, as tests ask for them.
#pragma once

#include <memory>
#include <string>

#include "gpu/jit/load.hpp"

namespace gradnn::test {

/// A kernel, or why there is none.
struct loaded {
    std::shared_ptr<const gpu::jit::compiled_kernel> kernel;
    std::string refusal;
};
inline loaded load(const gpu::jit::kernel_request &request,
        const detail::compile_options &options) {
    gpu::jit::kernel_launch launch {request};
    std::string refusal = gpu::jit::load(launch, options);
    return {launch.kernel, refusal};
}

} // namespace gradnn::test
