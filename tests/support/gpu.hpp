// What the tests of the GPU engine share.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <gradnn/cuda.hpp>

#include "gpu/backend.hpp"
#include "support/op_builders.hpp"

namespace gradnn::test {

/// A test on GPU 0, or skipped, saying why there is none.
class gpu_fixture : public testing::Test {
protected:
    void SetUp() override {
        if (engine::get_count(engine::kind::gpu) == 0)
            GTEST_SKIP() << gpu::backend.unavailable_reason();
    }
};

inline void require(cudaError_t result) {
    if (result != cudaSuccess)
        throw std::runtime_error(cudaGetErrorString(result));
}

/// A CUDA stream of the caller's.
class cuda_stream_owner {
public:
    cuda_stream_owner() {
        require(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    }
    cuda_stream_owner(const cuda_stream_owner &) = delete;
    cuda_stream_owner &operator=(const cuda_stream_owner &) = delete;
    ~cuda_stream_owner() { cudaStreamDestroy(stream_); }

    cudaStream_t get() const { return stream_; }

private:
    cudaStream_t stream_ = nullptr;
};

/// A convolution whose three gradients need workspace.
inline op op_with_workspace(data_type type) {
    return convolution_op(op::kind::ConvBackward,
            {"conv", 2, 1, 16, 24, {30, 31}, {3, 3}, {1, 1}, {1, 1}, {1, 1},
                    {1, 1}},
            {"xio", "NXC", "XIO"}, type);
}

} // namespace gradnn::test
