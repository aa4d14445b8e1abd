// The GPU's row of src/backends.cpp and cuda_interop, by engines and streams of
// runtime/.
#include "gpu/backend.hpp"

#include <gradnn/cuda.hpp>

#include "base/text.hpp"
#include "gpu/convolution/cudnn/library.hpp"
#include "gpu/kernels.hpp"
#include "gpu/runtime/cuda_check.hpp"
#include "gpu/runtime/device.hpp"
#include "gpu/runtime/engine.hpp"

namespace gradnn::gpu {

using detail::text;

namespace {

void check_index(size_t index) {
    if (device_count() == 0)
        throw error(status::unimplemented,
                text("engine: gpu index ", index, ": ", no_device_reason()));
    if (index >= device_count())
        throw error(status::invalid_arguments,
                text("engine: gpu index ", index, "; there ",
                        device_count() == 1
                                ? "is 1 GPU"
                                : text("are ", device_count(), " GPUs"),
                        ", counted from 0"));
}

/// Refuses a device that has to do without kernels.
void check_device(size_t index) {
    check_index(index);
    if (const device_code code = code_of_device(index); code.ptx == 0)
        throw error(status::unimplemented,
                text("engine: gpu index ", index,
                        ": kernels that it runs: ", code.text));
}

/// Refuses a CUDA stream of another device.
void check_device_of(
        [[maybe_unused]] cudaStream_t native, [[maybe_unused]] int device) {
#if CUDART_VERSION >= 12080
    // A null stream is the legacy default stream of whichever device is
    // current, which execute makes the engine's.
    if (native == nullptr || native == cudaStreamLegacy
            || native == cudaStreamPerThread)
        return;
    // While a stream is captured it may not be asked: that would end the capture.
    if (is_capturing(native)) return;
    int found = device;
    check(cudaStreamGetDevice(native, &found), "cudaStreamGetDevice");
    if (found != device)
        throw error(status::invalid_arguments,
                text("the CUDA stream is of GPU ", found,
                        "; the engine is GPU ", device));
#endif
}

const detail::engine_impl &gpu_engine_of(const engine &aengine) {
    if (!aengine || aengine.get_kind() != engine::kind::gpu)
        throw error(status::invalid_arguments,
                "cuda_interop: takes a GPU engine, given another");
    return *detail::access::impl(aengine);
}

std::shared_ptr<const detail::engine_impl> make_engine(
        size_t index, const allocator &alloc) {
    check_device(index);
    if (alloc.get_host_allocate() != nullptr)
        throw error(status::invalid_arguments,
                "engine: a GPU engine is given an allocator of host memory; "
                "cuda_interop::make_engine_with_allocator takes one of device "
                "memory");
    return std::make_shared<gpu_engine>(index);
}

std::shared_ptr<detail::stream_impl> make_stream(
        std::shared_ptr<const detail::engine_impl> engine) {
    return std::make_shared<gpu_stream>(std::move(engine));
}

bool run_on_native_stream(std::shared_ptr<const detail::engine_impl> engine,
        void *native, const std::function<void(detail::stream_impl &)> &run) {
    const auto handle = static_cast<cudaStream_t>(native);
    check_device_of(handle, static_cast<int>(engine->index));
    gpu_stream stream(std::move(engine), handle);
    run(stream);
    return stream.captured;
}

/// An H100, from times of PyTorch's convolutions there and what its memory and
/// launches take; sums of weights at 0.4 of what memory allows.
detail::kernel_rates rates(detail::data_type type, fpmath_mode fpmath) {
    const int64_t bytes = detail::size_of(type);
    const double strict = fpmath == fpmath_mode::strict ? 3e13 : 1.2e14;
    return {bytes == 8           ? 1.5e13
                    : bytes == 4 ? strict
                                 : 2e14,
            2e12, 1.6e12 / static_cast<double>(2 * bytes), 4e-6, 64};
}

constexpr detail::fusing_row<interpolation_problem> fusing_interpolations[]
        = {{"interpolation.gpu_resample", resample::make_fused}};
constexpr detail::fusing_row<convolution_problem> fusing_convolutions[]
        = {{"convolution.gpu_sliding", sliding::make_fused},
                {"convolution.gpu_tf32x3", implicit_gemm::make_tf32x3},
                {"convolution.gpu_f64", implicit_gemm::make_f64},
                {"convolution.cudnn", cudnn::make_fused}};
constexpr detail::fusing_row<bias_problem> fusing_biases[]
        = {{"bias.gpu_reduce", bias::make}};

} // namespace

constinit const detail::backend backend {engine::kind::gpu, "gpu", false,
        device_count, no_device_reason, make_engine, make_stream,
        run_on_native_stream, kernels, "cuDNN",
        [] { return text(cudnn::library().version); }, rates, 0,
        {fusing_interpolations, fusing_convolutions, fusing_biases}};

} // namespace gradnn::gpu

namespace gradnn::cuda_interop {

using detail::access;
using detail::text;

engine make_engine_with_allocator(size_t index, const device_allocator &alloc) {
    gpu::check_device(index);
    if ((alloc.allocate == nullptr) != (alloc.deallocate == nullptr))
        throw error(status::invalid_arguments,
                "cuda_interop::device_allocator: both functions must be null "
                "or neither");
    return access::make<engine>(std::shared_ptr<const detail::engine_impl>(
            std::make_shared<gpu::gpu_engine>(index, alloc)));
}

stream make_stream(const engine &aengine, cuda_stream native) {
    const detail::engine_impl &impl = gpu::gpu_engine_of(aengine);
    gpu::check_device_of(native, static_cast<int>(impl.index));
    return access::make<stream>(std::shared_ptr<detail::stream_impl>(
            std::make_shared<gpu::gpu_stream>(access::impl(aengine), native)));
}

cuda_stream get_native(const stream &astream) {
    static_cast<void>(gpu::gpu_engine_of(astream.get_engine()));
    return gpu::as_gpu(*access::impl(astream)).native;
}

device_info get_device_info(size_t index) {
    gpu::check_index(index);
    return gpu::properties_of(static_cast<int>(index)).info;
}

versions get_versions() noexcept {
    versions found;
    gpu::ignore(cudaDriverGetVersion(&found.driver));
    gpu::ignore(cudaRuntimeGetVersion(&found.runtime));
    try {
        found.cudnn = gpu::cudnn::library().version;
        found.cudnn_missing = gpu::cudnn::library().missing;
    } catch (...) {
        // Out of host memory: the version stays 0.
    }
    return found;
}

} // namespace gradnn::cuda_interop
