// Types of elements, for the host and for kernels compiled at run time.
#pragma once

namespace gradnn::gpu::jit {

enum class element { f32, f64, bf16, f16 };

constexpr int bytes_of(element type) {
    return type == element::f64 ? 8 : type == element::f32 ? 4 : 2;
}

} // namespace gradnn::gpu::jit
