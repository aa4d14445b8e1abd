// Kernels compiled at run time (src/gpu/jit) on a GPU.
#include <cmath>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "gpu/backend.hpp"
#include "gpu/jit/load.hpp"
#include "support/gpu.hpp"
#include "support/loaded_kernel.hpp"

namespace gradnn::test {
namespace {

class gpu_jit : public gpu_fixture {
protected:
    void SetUp() override {
        gpu_fixture::SetUp();
        const std::string &missing = gpu::find_kernel_compiler().missing;
        if (!IsSkipped() && !missing.empty()) GTEST_SKIP() << missing;
    }
};

/// dst[i] = src[i] * factor + 1, two bf16 a thread.
gpu::jit::kernel_request kernel_of(const std::string &factor) {
    return {gpu::jit::specification_name,
            "constexpr float factor = " + factor + R"(;
#include "gpu/device/elements.cuh"
using namespace gradnn::gpu::jit;
using pair_of_elements = elements<element::bf16, 2>;
extern "C" __global__ void multiply(const void *src, void *dst) {
    const int at = 2 * static_cast<int>(threadIdx.x);
    const auto *from = static_cast<const unsigned short *>(src) + at;
    const auto values = pair_of_elements::load(from);
    const float made[2] = {multiply_add(values[0], factor, 1.0F),
            multiply_add(values[1], factor, 1.0F)};
    pair_of_elements::of(made).stream(static_cast<unsigned short *>(dst) + at);
}
)",
            "multiply"};
}

constexpr int count = 256;

/// Two arrays of `count` bf16 on the device; the first has -64, -63.5, ...
struct arrays {
    arrays() {
        require(cudaMalloc(&src, count * 2));
        require(cudaMalloc(&dst, count * 2));
        std::vector<unsigned short> bits;
        for (int i = 0; i < count; ++i) {
            const float value = 0.5F * static_cast<float>(i - count / 2);
            unsigned word = 0;
            std::memcpy(&word, &value, sizeof word);
            bits.push_back(static_cast<unsigned short>(word >> 16));
        }
        require(cudaMemcpy(src, bits.data(), count * 2, cudaMemcpyDefault));
    }
    arrays(const arrays &) = delete;
    arrays &operator=(const arrays &) = delete;
    ~arrays() {
        cudaFree(src);
        cudaFree(dst);
    }

    void launch(const gpu::jit::compiled_kernel &kernel,
            cudaStream_t stream) const {
        void *from = src, *to = dst;
        void *arguments[] = {&from, &to};
        require(cudaLaunchKernel(
                kernel.function, 1, count / 2, arguments, 0, stream));
    }

    void expect_multiplied_by_two() const {
        std::vector<unsigned short> bits(count);
        require(cudaMemcpy(bits.data(), dst, count * 2, cudaMemcpyDefault));
        for (int i = 0; i < count; ++i) {
            const unsigned word = unsigned {bits[static_cast<size_t>(i)]} << 16;
            float value = 0;
            std::memcpy(&value, &word, sizeof value);
            ASSERT_EQ(value, static_cast<float>(i - count / 2) + 1.0F) << i;
        }
    }

    void *src = nullptr;
    void *dst = nullptr;
};

TEST_F(gpu_jit, computes_what_its_source_says) {
    const auto found = load(kernel_of("2.0F"), {});
    ASSERT_TRUE(found.kernel) << found.refusal;
    EXPECT_GT(found.kernel->attributes.numRegs, 0);
    EXPECT_EQ(found.kernel->attributes.localSizeBytes, 0U);
    const arrays memory;
    const cuda_stream_owner stream;
    memory.launch(*found.kernel, stream.get());
    require(cudaStreamSynchronize(stream.get()));
    memory.expect_multiplied_by_two();
}

// In the strictest capture mode: compiling and loading, by another thread and by the
// one that captures.
TEST_F(gpu_jit, is_compiled_while_a_stream_is_captured) {
    const arrays memory;
    const cuda_stream_owner stream;
    cudaGraph_t graph = nullptr;
    require(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeGlobal));
    std::string refusal = "not asked";
    std::thread other([&] { refusal = load(kernel_of("3.0F"), {}).refusal; });
    other.join();
    const auto found = load(kernel_of("2.0F /* captured */"), {});
    if (found.kernel) memory.launch(*found.kernel, stream.get());
    require(cudaStreamEndCapture(stream.get(), &graph));
    EXPECT_EQ(refusal, "");
    ASSERT_TRUE(found.kernel) << found.refusal;
    cudaGraphExec_t executable = nullptr;
    require(cudaGraphInstantiate(&executable, graph, 0));
    require(cudaGraphLaunch(executable, stream.get()));
    require(cudaStreamSynchronize(stream.get()));
    memory.expect_multiplied_by_two();
    require(cudaGraphExecDestroy(executable));
    require(cudaGraphDestroy(graph));
}

} // namespace
} // namespace gradnn::test
