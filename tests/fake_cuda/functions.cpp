// Kernels: their registration, attributes, occupancy and launches.
#include <algorithm>
#include <cctype>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <iomanip>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>

#include <cuda_runtime_api.h>
#include <cxxabi.h>
#include <elf.h>
#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#endif
#include <cuda_occupancy.h>
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

#include "fake_code.hpp"
#include "fat_binary.hpp"
#include "state.hpp"

namespace gradnn::fake_cuda {

namespace {

struct module {
    const void *wrapper = nullptr;
    bool read = false;
    kernel_codes codes;
    std::string problem;
    bool has_all = false; ///< of fake_nvrtc.cpp: kernels of any name
};

struct function {
    std::string name;
    module *home = nullptr;
    /// As cudaFuncSetAttribute has set it; -1: as it is at first.
    int dynamic_limit = -1;
};

/// Filled before main, whatever the order of initialisation.
struct registry {
    std::mutex mutex;
    size_t libraries = 0;
    std::vector<std::unique_ptr<module>> modules;
    std::map<const void *, function> functions; ///< by the host's functions
};

registry &known() {
    static auto *all = new registry; // destroyed never: code runs at exit
    return *all;
}

/// gradnn has no kernels for GPUs before compute capability 8.0. For another one that
/// this program has no machine code for, that of the nearest stands, as if it had PTX for
/// all: registers differ little between them.
constexpr unsigned oldest_architecture = 80;

const kernel_code *code_of(const function &of) {
    module &home = *of.home;
    if (!home.read) {
        home.read = true;
        try {
            if (architecture() >= oldest_architecture)
                home.codes = read_fat_binary(
                        home.wrapper, architecture(), has_ptx());
            if (home.codes.empty())
                home.problem = "no machine code for the stand-in's GPU";
        } catch (const std::exception &failure) {
            home.problem = failure.what();
        }
    }
    const auto found = home.codes.find(of.name);
    return found == home.codes.end() ? nullptr : &found->second;
}

constexpr size_t default_shared_bytes = 48 * 1024;

int dynamic_limit(const function &of, const kernel_code &code) {
    if (of.dynamic_limit >= 0) return of.dynamic_limit;
    return static_cast<int>(default_shared_bytes
            - std::min(default_shared_bytes, code.shared_bytes));
}

/// Calls use(function, code) for a kernel whose code is known.
template <typename Use>
cudaError_t with_function(const void *host, const Use &use) {
    registry &all = known();
    const std::lock_guard lock(all.mutex);
    const auto found = all.functions.find(host);
    if (found == all.functions.end())
        return keep(cudaErrorInvalidDeviceFunction);
    const kernel_code *code = code_of(found->second);
    if (code == nullptr) return keep(cudaErrorNoKernelImageForDevice);
    return keep(use(found->second, *code));
}

cudaError_t count_blocks(int *blocks, const function &of,
        const kernel_code &code, int threads, size_t dynamic_bytes) {
    cudaOccFuncAttributes attributes;
    attributes.maxThreadsPerBlock = code.most_threads;
    attributes.numRegs = code.registers;
    attributes.sharedSizeBytes = code.shared_bytes;
    attributes.partitionedGCConfig = PARTITIONED_GC_OFF;
    attributes.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
    attributes.maxDynamicSharedSizeBytes
            = static_cast<size_t>(dynamic_limit(of, code));
    attributes.numBlockBarriers = 1;
    const cudaOccDeviceProp device(properties());
    const cudaOccDeviceState state;
    cudaOccResult result {};
    if (cudaOccMaxActiveBlocksPerMultiprocessor(
                &result, &device, &attributes, &state, threads, dynamic_bytes)
            != CUDA_OCC_SUCCESS)
        return cudaErrorInvalidValue;
    *blocks = result.activeBlocksPerMultiprocessor;
    return cudaSuccess;
}

cudaError_t launch(
        const void *host, dim3 grid, dim3 block, size_t dynamic_bytes) {
    return with_function(
            host, [&](const function &of, const kernel_code &code) {
                const cudaDeviceProp &device = properties();
                const auto inside = [](unsigned size, int most) {
                    return size >= 1 && size <= static_cast<unsigned>(most);
                };
                if (!inside(grid.x, device.maxGridSize[0])
                        || !inside(grid.y, device.maxGridSize[1])
                        || !inside(grid.z, device.maxGridSize[2])
                        || !inside(block.x, device.maxThreadsDim[0])
                        || !inside(block.y, device.maxThreadsDim[1])
                        || !inside(block.z, device.maxThreadsDim[2]))
                    return cudaErrorInvalidConfiguration;
                const unsigned threads = block.x * block.y * block.z;
                if (threads > static_cast<unsigned>(device.maxThreadsPerBlock)
                        || dynamic_bytes
                                > static_cast<size_t>(dynamic_limit(of, code)))
                    return cudaErrorInvalidValue;
                int blocks = 0;
                if (count_blocks(&blocks, of, code, static_cast<int>(threads),
                            dynamic_bytes)
                                != cudaSuccess
                        || blocks < 1)
                    return cudaErrorLaunchOutOfResources;
                event launched;
                launched.kernel = of.name;
                launched.grid = {grid.x, grid.y, grid.z};
                launched.block = {block.x, block.y, block.z};
                launched.bytes = dynamic_bytes;
                pass_time_of(launched.kernel);
                note(std::move(launched));
                return cudaSuccess;
            });
}

void remove_all(std::string &text, const std::string &part) {
    for (size_t at = 0; (at = text.find(part, at)) != std::string::npos;)
        text.erase(at, part.size());
}

/// A mangled name without the names of files.
std::string without_files(std::string mangled) {
    const std::string unnamed = "_GLOBAL__N__";
    for (size_t at = 0;
            (at = mangled.find(unnamed, at)) != std::string::npos;) {
        size_t digits = at;
        while (digits > 0
                && std::isdigit(
                        static_cast<unsigned char>(mangled[digits - 1])))
            --digits;
        const size_t length = std::strtoul(&mangled[digits], nullptr, 10);
        mangled.erase(digits, at - digits + length);
        at = digits;
    }
    return mangled;
}

/// "a::b::c" of "_ZN1a1b1cI...".
std::string plain_name(const std::string &mangled) {
    std::string name;
    for (size_t at = mangled.find_first_of("0123456789"); at < mangled.size()
            && std::isdigit(static_cast<unsigned char>(mangled[at]));) {
        char *end = nullptr;
        const size_t length = std::strtoul(&mangled[at], &end, 10);
        at = static_cast<size_t>(end - mangled.data());
        name += (name.empty() ? "" : "::") + mangled.substr(at, length);
        at += length;
    }
    return name;
}

} // namespace

std::string readable_name(const std::string &mangled) {
    const std::string stable = without_files(mangled);
    int status = 0;
    const std::unique_ptr<char, decltype(&std::free)> demangled(
            abi::__cxa_demangle(stable.c_str(), nullptr, nullptr, &status),
            &std::free);
    std::string name = status == 0 ? demangled.get() : "";
    constexpr size_t longest = 400;
    if (name.empty() || name.size() > longest) {
        std::ostringstream short_name;
        short_name << plain_name(stable) << "<#" << std::hex
                   << std::setfill('0') << std::setw(16)
                   << digest_of(stable.data(), stable.size()) << '>';
        name = short_name.str();
    }
    remove_all(name, "gradnn::gpu::");
    remove_all(name, "gradnn::detail::");
    // The arguments begin at the first parenthesis outside the template's.
    int depth = 0;
    for (size_t at = 0; at < name.size(); ++at) {
        if (name[at] == '<') ++depth;
        if (name[at] == '>') --depth;
        if (name[at] == '(' && depth == 0) {
            name.erase(at);
            break;
        }
    }
    if (name.starts_with("void ")) name.erase(0, 5);
    return name;
}

size_t kernel_count() {
    registry &all = known();
    const std::lock_guard lock(all.mutex);
    return all.functions.size();
}

size_t loaded_libraries() {
    registry &all = known();
    const std::lock_guard lock(all.mutex);
    return all.libraries;
}

std::vector<std::string> unreadable_kernels() {
    registry &all = known();
    const std::lock_guard lock(all.mutex);
    std::vector<std::string> found;
    for (const auto &[host, of] : all.functions) {
        const kernel_code *code = code_of(of);
        if (code != nullptr && code->registers >= 1) continue;
        const std::string &problem = of.home->problem;
        found.push_back(readable_name(of.name) + ": "
                + (problem.empty() ? "no registers are listed" : problem));
    }
    return found;
}

} // namespace gradnn::fake_cuda

using namespace gradnn::fake_cuda;

extern "C" {

void **__cudaRegisterFatBinary(void *wrapper) {
    registry &all = known();
    const std::lock_guard lock(all.mutex);
    all.modules.push_back(std::make_unique<module>());
    all.modules.back()->wrapper = wrapper;
    return reinterpret_cast<void **>(all.modules.back().get());
}

void __cudaRegisterFatBinaryEnd(void **) {}
void __cudaUnregisterFatBinary(void **) {}

void __cudaRegisterFunction(void **handle, const char *host, char *,
        const char *name, int, uint3 *, uint3 *, dim3 *, dim3 *, int *) {
    registry &all = known();
    const std::lock_guard lock(all.mutex);
    all.functions[host] = {name, reinterpret_cast<module *>(handle)};
}

#if CUDART_VERSION >= 12080
// Machine code alone; its end is that of its table of sections.
cudaError_t cudaLibraryLoadData(cudaLibrary_t *library, const void *code,
        cudaJitOption *, void **, unsigned, cudaLibraryOption *, void **,
        unsigned) {
    if (is_unsafe_here()) return keep(cudaErrorStreamCaptureUnsupported);
    Elf64_Ehdr head;
    std::memcpy(&head, code, sizeof head);
    auto made = std::make_unique<module>();
    made->read = true;
    made->has_all = std::memcmp(code, fake_code, sizeof fake_code) == 0;
    try {
        if (!made->has_all)
            made->codes = read_machine_code(code,
                    head.e_shoff + size_t {head.e_shnum} * head.e_shentsize);
    } catch (const std::exception &) {
        return keep(cudaErrorInvalidKernelImage);
    }
    registry &all = known();
    const std::lock_guard lock(all.mutex);
    *library = reinterpret_cast<cudaLibrary_t>(made.get());
    all.modules.push_back(std::move(made));
    ++all.libraries;
    return cudaSuccess;
}

cudaError_t cudaLibraryGetKernel(
        cudaKernel_t *kernel, cudaLibrary_t library, const char *name) {
    registry &all = known();
    const std::lock_guard lock(all.mutex);
    auto *const home = reinterpret_cast<module *>(library);
    if (home->has_all) {
        kernel_code &code = home->codes[name];
        code.registers = 64;
        code.most_threads = 1024;
    }
    if (!home->codes.contains(name)) return keep(cudaErrorSymbolNotFound);
    *kernel = new_handle<cudaKernel_t>();
    all.functions[*kernel] = {name, home};
    return cudaSuccess;
}
#endif

void __cudaRegisterVar(
        void **, char *, char *, const char *, int, size_t, int, int) {}

// What nvcc's launches by <<<>>> are made of; gradnn has none.
cudaError_t __cudaPopCallConfiguration(dim3 *, dim3 *, size_t *, void *) {
    return keep(cudaErrorMissingConfiguration);
}
cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *host) {
    *kernel = static_cast<cudaKernel_t>(const_cast<void *>(host));
    return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block,
        void **, size_t bytes, cudaStream_t) {
    return launch(kernel, grid, block, bytes);
}

cudaError_t cudaLaunchKernel(const void *host, dim3 grid, dim3 block, void **,
        size_t bytes, cudaStream_t) {
    return launch(host, grid, block, bytes);
}

cudaError_t cudaLaunchKernelExC(
        const cudaLaunchConfig_t *config, const void *host, void **) {
    return launch(
            host, config->gridDim, config->blockDim, config->dynamicSmemBytes);
}

cudaError_t cudaFuncGetAttributes(
        cudaFuncAttributes *attributes, const void *host) {
    if (is_unsafe_here()) return keep(cudaErrorStreamCaptureUnsupported);
    return with_function(
            host, [&](const function &of, const kernel_code &code) {
                *attributes = {};
                attributes->sharedSizeBytes = code.shared_bytes;
                attributes->localSizeBytes = code.local_bytes;
                attributes->maxThreadsPerBlock = code.most_threads;
                attributes->numRegs = code.registers;
                attributes->ptxVersion = static_cast<int>(code.ptx);
                attributes->binaryVersion = static_cast<int>(code.binary);
                attributes->maxDynamicSharedSizeBytes = dynamic_limit(of, code);
                attributes->preferredShmemCarveout = -1;
                return cudaSuccess;
            });
}

cudaError_t cudaFuncSetAttribute(
        const void *host, cudaFuncAttribute which, int value) {
    return with_function(host, [&](function &of, const kernel_code &code) {
        if (which != cudaFuncAttributeMaxDynamicSharedMemorySize)
            return cudaSuccess; // a wish
        if (value < 0
                || static_cast<size_t>(value) + code.shared_bytes
                        > properties().sharedMemPerBlockOptin)
            return cudaErrorInvalidValue;
        of.dynamic_limit = value;
        return cudaSuccess;
    });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks,
        const void *host, int threads, size_t dynamic_bytes, unsigned) {
    return with_function(
            host, [&](const function &of, const kernel_code &code) {
                return count_blocks(blocks, of, code, threads, dynamic_bytes);
            });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        int *blocks, const void *host, int threads, size_t dynamic_bytes) {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
            blocks, host, threads, dynamic_bytes, 0);
}

} // extern "C"
