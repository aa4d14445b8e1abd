// What an H100 has, for the cuts of kernels that are compiled for their problem.
#pragma once

#include "gpu/runtime/multiprocessor.hpp"

namespace gradnn::test {

constexpr gpu::gpu_facts h100 {132, 227 << 10, 228 << 10, 65536, 2048};

} // namespace gradnn::test
