#include <algorithm>

#include <cuda_runtime_api.h>
#include <link.h>
#include <nvrtc.h>

#include <gradnn/status.hpp>

#include "base/text.hpp"
#include "gpu/backend.hpp"
#include "gpu/jit/load.hpp"
#include "gpu/runtime/shared_library.hpp"

namespace gradnn::gpu {

using detail::text;

namespace {

constexpr int runtime_major = CUDART_VERSION / 1000;
constexpr int least_architecture = 80; ///< has the instructions of gpu/device
constexpr const char *variable = "GRADNN_NVRTC";

std::string soname(int major) {
    return text("libnvrtc.so.", major);
}

struct nvrtc_library : kernel_compiler {
    void *library = nullptr; ///< null: there is none
    std::vector<int> known; ///< architectures
};

/// A function of NVRTC's header.
#define NVRTC(library, name) find_function<decltype(name)>(library, #name)

/// Why the library is not taken; empty where it is. All that is called here and below is
/// in NVRTC 11.2 and later.
std::string try_library(const std::string &path, nvrtc_library &found) {
    void *const library = open_library(path);
    if (library == nullptr) return dlerror();
    std::string reason;
    const auto version = NVRTC(library, nvrtcVersion);
    int major = 0, minor = 0, driver = 0;
    static_cast<void>(cudaDriverGetVersion(&driver));
    if (version == nullptr || version(&major, &minor) != NVRTC_SUCCESS)
        reason = " is no NVRTC";
    else if (major < 12)
        reason = "; gradnn needs 12 or 13";
    else if (driver != 0 && driver / 1000 < major)
        reason = text(", whose code the driver (of CUDA ", driver / 1000,
                ") does not load");
    if (!reason.empty()) {
        dlclose(library);
        return path + (major > 0 ? text(" is NVRTC ", major, '.', minor) : "")
                + reason;
    }
    found.library = library;
    found.version = text(major, '.', minor);
    link_map *loaded = nullptr;
    if (dlinfo(library, RTLD_DI_LINKMAP, &loaded) == 0)
        found.path = loaded->l_name;
    int count = 0;
    NVRTC(library, nvrtcGetNumSupportedArchs)(&count);
    found.known.resize(static_cast<size_t>(count));
    NVRTC(library, nvrtcGetSupportedArchs)(found.known.data());
    return {};
}

nvrtc_library find_nvrtc() {
    nvrtc_library found;
    std::string reasons;
    // Versions 12 and 13, that of gradnn's CUDA runtime first.
    for (const std::string &path : library_candidates(variable, "cuda_nvrtc",
                 {soname(runtime_major),
                         soname(runtime_major == 13 ? 12 : 13)})) {
        const std::string reason = try_library(path, found);
        if (reason.empty()) return found;
        if (reasons.find(reason) == std::string::npos)
            reasons += (reasons.empty() ? "" : "; ") + reason;
    }
    found.missing = text("NVRTC cannot be loaded (", reasons,
            "); install it (Debian package cuda-nvrtc-", runtime_major,
            "-0 or pip package nvidia-cuda-nvrtc",
            runtime_major == 12 ? "-cu12" : "", ") or set ", variable,
            " to the path of ", soname(runtime_major));
    return found;
}

const nvrtc_library &nvrtc() {
    static const auto *const found = new nvrtc_library(find_nvrtc());
    return *found;
}

/// NVRTC has no headers of its own: what device code asks of the standard library,
/// with the types that g++ has on 64-bit Linux.
constexpr jit::source_file cstdint {"cstdint", R"(#pragma once
typedef long int64_t;
typedef unsigned short uint16_t;
typedef unsigned uint32_t;
typedef unsigned long uint64_t;
typedef unsigned long uintptr_t;
)"};

} // namespace

const kernel_compiler &find_kernel_compiler() {
    return nvrtc();
}

std::string jit::compilation::target() const {
    int newest = 0;
    for (const int each : nvrtc().known)
        if (each <= architecture) newest = std::max(newest, each);
    if (newest < least_architecture) return {};
    return text(newest == architecture ? "sm_" : "compute_", newest);
}

std::vector<std::string> jit::compilation::options() const {
    std::vector<std::string> all {"--std=c++20",
            text("--gpu-architecture=", target()),
            // Sums are explicit fma, so that every compiler gives the same bits.
            "--fmad=false",
            // Headers that the host shares need not say __device__.
            "--device-as-default-execution-space"};
    if (!dumped_to.empty()) all.emplace_back("--generate-line-info");
    return all;
}

std::string jit::compilation::code() const {
    void *const library = nvrtc().library;
    const std::string made_for = target();
    if (made_for.empty())
        throw error(status::unimplemented,
                text("NVRTC ", nvrtc().version,
                        " compiles for compute capability ",
                        least_architecture / 10, '.', least_architecture % 10,
                        " and above; the device has ", architecture / 10, '.',
                        architecture % 10));
    const char *main = nullptr;
    std::vector<const char *> names;
    std::vector<const char *> texts;
    const auto add = [&](const source_file &file) {
        names.push_back(file.path);
        texts.push_back(file.text);
        if (source == file.path) main = file.text;
    };
    std::ranges::for_each(embedded_sources(), add);
    add(cstdint);
    add({specification_name.data(), specification.c_str()});
    if (main == nullptr)
        throw error(status::invalid_arguments,
                text("gpu::jit: ", source,
                        " is not among the sources that gradnn_embed names"));
    const std::vector<std::string> all = options();
    std::vector<const char *> given;
    for (const std::string &option : all)
        given.push_back(option.c_str());

    nvrtcProgram program = nullptr;
    nvrtcResult result = NVRTC(library, nvrtcCreateProgram)(&program, main,
            std::string(source).c_str(), static_cast<int>(names.size()),
            texts.data(), names.data());
    if (result == NVRTC_SUCCESS)
        result = NVRTC(library, nvrtcCompileProgram)(
                program, static_cast<int>(given.size()), given.data());
    std::string made;
    const auto take = [&](auto *size_of, auto *read) {
        size_t bytes = 0;
        size_of(program, &bytes);
        made.resize(bytes);
        read(program, made.data());
    };
    if (result != NVRTC_SUCCESS)
        take(NVRTC(library, nvrtcGetProgramLogSize),
                NVRTC(library, nvrtcGetProgramLog));
    else if (made_for.starts_with("sm"))
        take(NVRTC(library, nvrtcGetCUBINSize), NVRTC(library, nvrtcGetCUBIN));
    else
        take(NVRTC(library, nvrtcGetPTXSize), NVRTC(library, nvrtcGetPTX));
    NVRTC(library, nvrtcDestroyProgram)(&program);
    if (result != NVRTC_SUCCESS)
        throw error(status::unimplemented,
                text("NVRTC ", nvrtc().version, " does not compile ", source,
                        " for ", made_for, ": ",
                        NVRTC(library, nvrtcGetErrorString)(result), "; ",
                        made));
    return made;
}

} // namespace gradnn::gpu
