// The GPUs that the stand-in can be.
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>

#include <cuda_runtime_api.h>

#include "state.hpp"

namespace gradnn::fake_cuda {

namespace {

/// By the CUDA programming guide's table of compute capabilities, NVIDIA's papers of
/// each architecture, and for the H200 what such a machine says.
struct gpu {
    const char *name;
    int architecture; ///< 90: compute capability 9.0
    int multiprocessors;
    size_t memory_mib;
    int l2_mib;
    int block_shared_kib; ///< that a block may ask for
    int shared_kib, threads, blocks; ///< of a multiprocessor
};

constexpr gpu gpus[] = {
        {"H200", 90, 132, 143771, 60, 227, 228, 2048, 32},
        {"V100", 70, 80, 32768, 6, 96, 96, 2048, 32},
        {"T4", 75, 40, 15360, 4, 64, 64, 1024, 16},
        {"A100", 80, 108, 81920, 40, 163, 164, 2048, 32},
        {"RTX 3090", 86, 82, 24576, 6, 99, 100, 1536, 16},
        {"L4", 89, 58, 23034, 48, 99, 100, 1536, 24},
        {"RTX 4090", 89, 128, 24564, 72, 99, 100, 1536, 24},
        {"B200", 100, 148, 183359, 126, 227, 228, 2048, 32},
        {"RTX 5090", 120, 170, 32607, 96, 99, 100, 1536, 24},
        {"GPU to come", 200, 200, 200000, 200, 227, 228, 2048, 32},
};

const gpu &chosen() {
    static const gpu &found = []() -> const gpu & {
        const char *const wanted = std::getenv("GRADNN_FAKE_GPU");
        if (wanted == nullptr) return gpus[0];
        std::string known;
        for (const gpu &each : gpus) {
            if (std::strcmp(each.name, wanted) == 0) return each;
            known += std::string(known.empty() ? "" : ", ") + each.name;
        }
        std::cerr << "GRADNN_FAKE_GPU is \"" << wanted
                  << "\"; allowed are: " << known << '\n';
        std::exit(2);
    }();
    return found;
}

cudaDeviceProp make_properties() {
    const gpu &from = chosen();
    cudaDeviceProp made {};
    std::strncpy(made.name,
            ("NVIDIA " + std::string(from.name) + " (stand-in)").c_str(),
            sizeof made.name - 1);
    made.totalGlobalMem = from.memory_mib << 20U;
    made.major = from.architecture / 10;
    made.minor = from.architecture % 10;
    made.multiProcessorCount = from.multiprocessors;
    made.l2CacheSize = from.l2_mib << 20;
    made.warpSize = 32;
    made.maxThreadsPerBlock = 1024;
    made.maxThreadsPerMultiProcessor = from.threads;
    made.maxBlocksPerMultiProcessor = from.blocks;
    made.regsPerBlock = 65536;
    made.regsPerMultiprocessor = 65536;
    made.sharedMemPerBlock = 48 * 1024;
    made.sharedMemPerBlockOptin = static_cast<size_t>(from.block_shared_kib)
            << 10U;
    made.sharedMemPerMultiprocessor = static_cast<size_t>(from.shared_kib)
            << 10U;
    made.reservedSharedMemPerBlock
            = made.sharedMemPerMultiprocessor - made.sharedMemPerBlockOptin;
    made.maxThreadsDim[0] = made.maxThreadsDim[1] = 1024;
    made.maxThreadsDim[2] = 64;
    made.maxGridSize[0] = 0x7fffffff;
    made.maxGridSize[1] = made.maxGridSize[2] = 65535;
    made.memoryPoolsSupported = 1;
    made.unifiedAddressing = 1;
    return made;
}

} // namespace

const cudaDeviceProp &properties() {
    static const cudaDeviceProp all = make_properties();
    return all;
}

unsigned architecture() {
    return static_cast<unsigned>(chosen().architecture);
}

bool has_ptx() {
    return &chosen() != gpus && std::getenv("GRADNN_FAKE_NO_PTX") == nullptr;
}

} // namespace gradnn::fake_cuda
