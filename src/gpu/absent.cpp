// What stands for the GPU backend in a CPU-only build.
#include <gradnn/cuda.hpp>

#include "base/text.hpp"
#include "gpu/backend.hpp"
#include "gpu/runtime/tools.hpp"

namespace gradnn {

namespace gpu {

namespace {

std::string unavailable_reason() {
    return "this build has no GPU engine: configure with GRADNN_CUDA=ON";
}

[[noreturn]] void refuse(const std::string &wanted) {
    throw error(status::unimplemented, wanted + ": " + unavailable_reason());
}

std::shared_ptr<const detail::engine_impl> make_engine(
        size_t index, const allocator &) {
    refuse(detail::text("engine: gpu index ", index));
}

const detail::kernel_lists &kernels() {
    static const detail::kernel_lists none {};
    return none;
}

} // namespace

// No engine is made, so no stream is.
constinit const detail::backend backend {engine::kind::gpu, "gpu", false,
        []() noexcept { return size_t {0}; }, unavailable_reason, make_engine,
        nullptr, nullptr, kernels, "cuDNN", [] { return std::string(); },
        nullptr};

const kernel_compiler &find_kernel_compiler() {
    static const kernel_compiler none;
    return none;
}

const char *const code_of_library = "";

const device_code &code_of_device(size_t) {
    static const device_code none;
    return none;
}

constinit const tool_functions tools {};

} // namespace gpu

namespace cuda_interop {

engine make_engine_with_allocator(size_t index, const device_allocator &) {
    gpu::refuse(detail::text("engine: gpu index ", index));
}

stream make_stream(const engine &, cuda_stream) {
    gpu::refuse("cuda_interop::make_stream");
}

cuda_stream get_native(const stream &) {
    gpu::refuse("cuda_interop::get_native");
}

device_info get_device_info(size_t index) {
    gpu::refuse(detail::text("GPU ", index));
}

versions get_versions() noexcept {
    return {};
}

} // namespace cuda_interop

} // namespace gradnn
