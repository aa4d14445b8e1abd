// GPUs of all generations, and kernels that NVRTC compiles for them.
#pragma once

#include <string>
#include <string_view>

#include "fake_cuda/fat_binary.hpp"
#include "gpu/jit/load.hpp"
#include "gpu_cuts/h100.hpp"

namespace gradnn::test {

struct generation {
    int architecture;
    gpu::gpu_facts facts;
};

// An A100, RTX 3090, RTX 4090, H100, B200 and RTX 5090.
constexpr generation generations[] = {
        {80, {108, 163 << 10, 164 << 10, 65536, 2048}},
        {86, {82, 99 << 10, 100 << 10, 65536, 1536}},
        {89, {128, 99 << 10, 100 << 10, 65536, 1536}},
        {90, h100},
        {100, {148, 227 << 10, 228 << 10, 65536, 2048}},
        {120, {170, 99 << 10, 100 << 10, 65536, 1536}},
};

inline std::string name_of(const generation &of) {
    return "sm_" + std::to_string(of.architecture);
}

/// The code of a kernel for a generation; throws what the compiler says where it fails.
inline fake_cuda::kernel_code compile_kernel(std::string_view source,
        const std::string &specification, const std::string &entry,
        const generation &of) {
    gpu::jit::compilation what;
    what.source = source;
    what.specification = specification;
    what.architecture = of.architecture;
    const std::string code = what.code();
    return fake_cuda::read_machine_code(code.data(), code.size()).at(entry);
}

} // namespace gradnn::test
