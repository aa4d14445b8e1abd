#include "gpu/jit/compiler.hpp"

#include <algorithm>
#include <array>
#include <filesystem>

#include <cuda_runtime_api.h>
#include <nvrtc.h>

#include <gradnn/status.hpp>

#include "base/text.hpp"
#include "gpu/runtime/shared_library.hpp"

namespace gradnn::gpu::jit {

using detail::text;
namespace fs = std::filesystem;

namespace {

constexpr int runtime_major = CUDART_VERSION / 1000;
constexpr const char *variable = "GRADNN_NVRTC";

std::string soname(int major) {
    return text("libnvrtc.so.", major);
}

struct nvrtc_library {
    void *library = nullptr; ///< null: there is none
    int major = 0;
    int minor = 0;
    std::string path;
    std::vector<int> known; ///< architectures, ascending
    std::string missing;
};

/// A function of NVRTC's header.
#define NVRTC(of, name) find_function<decltype(name)>((of).library, #name)

/// The files to be tried, in this order.
std::vector<std::string> candidates() {
    const std::array majors {runtime_major, runtime_major == 13 ? 12 : 13};
    std::vector<std::string> paths;
    for (const int major : majors) {
        std::string wanted
                = library_of_environment(variable, soname(major).c_str());
        if (!wanted.empty()) paths.push_back(std::move(wanted));
    }
    if (!paths.empty()) return paths;
    const auto loaded = loaded_libraries();
    const auto begins = [](const fs::path &file, std::string_view with) {
        return file.filename().string().starts_with(with);
    };
    for (const int major : majors)
        for (const fs::path &file : loaded)
            if (begins(file, soname(major))) paths.push_back(file);
    // CUDA 12's wheels have a folder for each library, those of 13 one for all.
    for (const fs::path &file : loaded) {
        if (!begins(file, "libcudart.so") && !begins(file, "libcudnn.so")
                && !begins(file, "libcublas.so"))
            continue;
        for (const int major : majors)
            for (const char *place :
                    {"", "../../cuda_nvrtc/lib", "../../cu13/lib"}) {
                const fs::path beside
                        = file.parent_path() / place / soname(major);
                std::error_code ignored;
                if (fs::exists(beside, ignored)) paths.push_back(beside);
            }
    }
    for (const int major : majors)
        paths.push_back(soname(major));
    for (const int major : majors)
        paths.push_back(text(GRADNN_CUDA_LIBRARY_DIR, "/", soname(major)));
    return paths;
}

/// Why the library is not taken; empty where it is. All that is called here and below is
/// in NVRTC 11.2 and later.
std::string try_library(const std::string &path, nvrtc_library &found) {
    std::string reason;
    found = {};
    found.library = open_library(path, reason);
    if (found.library == nullptr) return reason;
    const auto version = NVRTC(found, nvrtcVersion);
    int driver = 0;
    static_cast<void>(cudaDriverGetVersion(&driver));
    if (version == nullptr)
        reason = " is no NVRTC";
    else if (version(&found.major, &found.minor) != NVRTC_SUCCESS
            || found.major < 12)
        reason = text(" is NVRTC ", found.major, ".", found.minor,
                "; gradnn needs 12 or 13");
    else if (driver != 0 && driver / 1000 < found.major)
        reason = text(" is NVRTC ", found.major, ".", found.minor,
                ", whose code the driver (of CUDA ", driver / 1000,
                ") does not load");
    if (reason.empty()) {
        int count = 0;
        NVRTC(found, nvrtcGetNumSupportedArchs)(&count);
        found.known.resize(static_cast<size_t>(count));
        NVRTC(found, nvrtcGetSupportedArchs)(found.known.data());
        std::sort(found.known.begin(), found.known.end());
        found.path = file_of(reinterpret_cast<const void *>(version));
        if (!found.known.empty()) return {};
        reason = " knows no architecture";
    }
    dlclose(found.library);
    found = {};
    return path + reason;
}

nvrtc_library find_nvrtc() {
    nvrtc_library found;
    std::string reasons;
    for (const std::string &path : candidates()) {
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

/// The instructions of instructions.cuh begin with 8.0.
int least_architecture(const nvrtc_library &library) {
    return std::max(80, library.known.front());
}

/// NVRTC has no headers of its own: what device code may ask of the standard library,
/// with the types that g++ has on 64-bit Linux.
constexpr source_file standard_headers[] = {
        {"cstdint", R"(#pragma once
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned uint32_t;
typedef unsigned long uint64_t;
typedef unsigned long uintptr_t;
)"},
        {"cstddef", "#pragma once\n"}, // size_t is there
};

std::string dotted(int architecture) {
    return text(architecture / 10, '.', architecture % 10);
}

/// What NVRTC has of a program: its log, its code.
std::string text_of_program(nvrtcProgram program,
        decltype(nvrtcGetPTXSize) *size, decltype(nvrtcGetPTX) *get) {
    size_t bytes = 0;
    size(program, &bytes);
    std::string result(bytes, '\0');
    get(program, result.data());
    return result;
}

} // namespace

bool available() {
    return nvrtc().library != nullptr;
}

std::string version_text() {
    return available() ? text(nvrtc().major, '.', nvrtc().minor) : "";
}

std::string library_path() {
    return nvrtc().path;
}

std::string missing_reason() {
    return nvrtc().missing;
}

std::string compilation::target() const {
    const std::vector<int> &known = nvrtc().known;
    const auto after
            = std::upper_bound(known.begin(), known.end(), architecture);
    if (architecture < least_architecture(nvrtc())) return {};
    const int newest = *(after - 1);
    return text(newest == architecture ? "sm_" : "compute_", newest);
}

std::vector<std::string> compilation::options() const {
    std::vector<std::string> all {"--std=c++20",
            text("--gpu-architecture=", target()),
            // Sums are explicit fma, so that every compiler gives the same bits.
            "--fmad=false",
            // Headers that the host shares need not say __device__.
            "--device-as-default-execution-space"};
    if (with_lines) all.emplace_back("--generate-line-info");
    return all;
}

compiled_code compile(const compilation &what) {
    const nvrtc_library &library = nvrtc();
    if (!available()) return {{}, library.missing};
    const std::string target = what.target();
    if (target.empty())
        return {{},
                text("NVRTC ", version_text(),
                        " compiles for compute capability ",
                        dotted(least_architecture(library)),
                        " and above; the device has ",
                        dotted(what.architecture))};
    const char *text_of_source = nullptr;
    std::vector<const char *> names;
    std::vector<const char *> texts;
    const auto add = [&](const source_file &file) {
        names.push_back(file.path);
        texts.push_back(file.text);
        if (what.source == file.path) text_of_source = file.text;
    };
    std::ranges::for_each(embedded_sources(), add);
    std::ranges::for_each(standard_headers, add);
    add({specification_name.data(), what.specification.c_str()});
    if (text_of_source == nullptr)
        throw error(status::invalid_arguments,
                text("gpu::jit: ", what.source,
                        " is not among the sources that gradnn_embed names"));
    const std::vector<std::string> options = what.options();
    std::vector<const char *> given;
    for (const std::string &option : options)
        given.push_back(option.c_str());

    nvrtcProgram program = nullptr;
    nvrtcResult result = NVRTC(library, nvrtcCreateProgram)(&program,
            text_of_source, std::string(what.source).c_str(),
            static_cast<int>(names.size()), texts.data(), names.data());
    if (result == NVRTC_SUCCESS)
        result = NVRTC(library, nvrtcCompileProgram)(
                program, static_cast<int>(given.size()), given.data());
    compiled_code made;
    if (result != NVRTC_SUCCESS) {
        made.refusal = text("NVRTC ", version_text(), " does not compile ",
                what.source, " for ", target, ": ",
                NVRTC(library, nvrtcGetErrorString)(result));
        if (program != nullptr)
            made.refusal += "; "
                    + text_of_program(program,
                            NVRTC(library, nvrtcGetProgramLogSize),
                            NVRTC(library, nvrtcGetProgramLog));
    } else if (target[0] == 's') {
        made.code = text_of_program(program, NVRTC(library, nvrtcGetCUBINSize),
                NVRTC(library, nvrtcGetCUBIN));
    } else {
        made.code = text_of_program(program, NVRTC(library, nvrtcGetPTXSize),
                NVRTC(library, nvrtcGetPTX));
    }
    NVRTC(library, nvrtcDestroyProgram)(&program);
    return made;
}

} // namespace gradnn::gpu::jit
