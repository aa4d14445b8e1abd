#include "gpu/jit/compiler.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>

#include <cuda_runtime_api.h>
#include <nvrtc.h>

#include "gpu/runtime/shared_library.hpp"
#include "text.hpp"

namespace gradnn::gpu::jit {

using detail::text;

namespace {

constexpr int runtime_major = CUDART_VERSION / 1000;
constexpr const char *variable = "GRADNN_NVRTC";

std::string soname(int major) {
    return text("libnvrtc.so.", major);
}

/// Its functions; the types are those of its header.
struct nvrtc_library {
    decltype(&nvrtcVersion) version = nullptr;
    decltype(&nvrtcGetErrorString) error_string = nullptr;
    decltype(&nvrtcGetNumSupportedArchs) architecture_count = nullptr;
    decltype(&nvrtcGetSupportedArchs) architectures = nullptr;
    decltype(&nvrtcCreateProgram) create = nullptr;
    decltype(&nvrtcDestroyProgram) destroy = nullptr;
    decltype(&nvrtcCompileProgram) compile = nullptr;
    decltype(&nvrtcGetProgramLogSize) log_size = nullptr;
    decltype(&nvrtcGetProgramLog) log = nullptr;
    decltype(&nvrtcGetCUBINSize) cubin_size = nullptr;
    decltype(&nvrtcGetCUBIN) cubin = nullptr;
    decltype(&nvrtcGetPTXSize) ptx_size = nullptr;
    decltype(&nvrtcGetPTX) ptx = nullptr;

    int major = 0; ///< of its version; 0: there is none
    int minor = 0;
    std::string path;
    std::vector<int> known; ///< architectures, ascending
    std::string missing;

    bool find_functions(void *library) {
        bool all = true;
        const auto find = [&](auto &function, const char *name) {
            function = find_function<std::remove_pointer_t<
                    std::remove_reference_t<decltype(function)>>>(
                    library, name);
            all = all && function != nullptr;
        };
        find(version, "nvrtcVersion");
        find(error_string, "nvrtcGetErrorString");
        find(architecture_count, "nvrtcGetNumSupportedArchs");
        find(architectures, "nvrtcGetSupportedArchs");
        find(create, "nvrtcCreateProgram");
        find(destroy, "nvrtcDestroyProgram");
        find(compile, "nvrtcCompileProgram");
        find(log_size, "nvrtcGetProgramLogSize");
        find(log, "nvrtcGetProgramLog");
        find(cubin_size, "nvrtcGetCUBINSize");
        find(cubin, "nvrtcGetCUBIN");
        find(ptx_size, "nvrtcGetPTXSize");
        find(ptx, "nvrtcGetPTX");
        return all;
    }
};

/// The files to be tried, in this order.
std::vector<std::string> candidates() {
    const std::string wanted
            = library_of_environment(variable, soname(runtime_major).c_str());
    if (!wanted.empty()) return {wanted};
    const std::array majors {runtime_major, runtime_major == 13 ? 12 : 13};
    std::vector<std::string> paths;
    for (const int major : majors)
        if (is_loaded(soname(major).c_str())) paths.push_back(soname(major));
    // CUDA 12's wheels have a folder for each library, those of 13 one for all.
    for (const std::string &folder :
            folders_of_loaded({"libcudart.so", "libcudnn.so", "libcublas.so"}))
        for (const int major : majors)
            for (const char *place :
                    {"/", "/../../cuda_nvrtc/lib/", "/../../cu13/lib/"}) {
                std::string path = folder + place + soname(major);
                std::error_code ignored;
                if (std::filesystem::exists(path, ignored))
                    paths.push_back(std::move(path));
            }
    for (const int major : majors)
        paths.push_back(soname(major));
    for (const int major : majors)
        paths.push_back(text(GRADNN_CUDA_LIBRARY_DIR, "/", soname(major)));
    return paths;
}

/// Why the library is not taken; empty where it is.
std::string try_library(const std::string &path, nvrtc_library &found) {
    std::string reason;
    void *const library = open_library(path, reason);
    if (library == nullptr) return reason;
    const auto refuse = [&](std::string why) {
        found = {};
        dlclose(library);
        return text(path, why);
    };
    const bool all = found.find_functions(library);
    if (found.version == nullptr) return refuse(" is no NVRTC");
    int major = 0;
    int driver = 0;
    if (found.version(&major, &found.minor) != NVRTC_SUCCESS || major < 12
            || !all)
        return refuse(text(" is NVRTC ", major, ".", found.minor,
                "; gradnn needs 12 or 13"));
    static_cast<void>(cudaDriverGetVersion(&driver));
    if (driver != 0 && driver / 1000 < major)
        return refuse(text(" is NVRTC ", major, ".", found.minor,
                ", whose code the driver (CUDA ", driver / 1000, ".",
                driver / 10 % 100, ") does not load"));
    int count = 0;
    if (found.architecture_count(&count) != NVRTC_SUCCESS || count <= 0)
        return refuse(" does not say what it compiles for");
    found.known.resize(static_cast<size_t>(count));
    if (found.architectures(found.known.data()) != NVRTC_SUCCESS)
        return refuse(" does not say what it compiles for");
    std::sort(found.known.begin(), found.known.end());
    found.path = file_of(reinterpret_cast<const void *>(found.version));
    found.major = major;
    return {};
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

std::string dotted(int architecture) {
    return text(architecture / 10, '.', architecture % 10);
}

/// What one of the two functions of each kind of text gives.
template <typename Size, typename Get>
std::string text_of_program(nvrtcProgram program, Size size, Get get) {
    size_t bytes = 0;
    if (size(program, &bytes) != NVRTC_SUCCESS || bytes == 0) return {};
    std::string result(bytes, '\0');
    if (get(program, result.data()) != NVRTC_SUCCESS) return {};
    return result;
}

} // namespace

bool available() {
    return nvrtc().major != 0;
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
    if (library.major == 0) return {{}, library.missing};
    const std::string target = what.target();
    if (target.empty())
        return {{},
                text("NVRTC ", version_text(),
                        " compiles for compute capability ",
                        dotted(least_architecture(library)),
                        " and above; the device has ",
                        dotted(what.architecture))};
    // It takes texts that end with a zero.
    std::vector<std::string> copies;
    for (const source_file &file : what.files) {
        copies.emplace_back(file.path);
        copies.emplace_back(file.text);
    }
    std::vector<const char *> names;
    std::vector<const char *> texts;
    for (size_t file = 1; file < what.files.size(); ++file) {
        names.push_back(copies[2 * file].c_str());
        texts.push_back(copies[2 * file + 1].c_str());
    }
    nvrtcProgram made = nullptr;
    const nvrtcResult created
            = library.create(&made, copies[1].c_str(), copies[0].c_str(),
                    static_cast<int>(names.size()), texts.data(), names.data());
    if (created != NVRTC_SUCCESS)
        return {{},
                text("nvrtcCreateProgram failed: ",
                        library.error_string(created))};
    const auto destroy
            = [&](nvrtcProgram program) { library.destroy(&program); };
    const std::unique_ptr<std::remove_pointer_t<nvrtcProgram>,
            decltype(destroy)>
            program(made, destroy);
    const std::vector<std::string> options = what.options();
    std::vector<const char *> given;
    for (const std::string &option : options)
        given.push_back(option.c_str());
    const nvrtcResult result = library.compile(
            made, static_cast<int>(given.size()), given.data());
    if (result != NVRTC_SUCCESS)
        return {{},
                text("NVRTC ", version_text(), " does not compile ", copies[0],
                        " for ", target, ": ", library.error_string(result),
                        "; ",
                        text_of_program(made, library.log_size, library.log)
                                .c_str())};
    const bool machine_code = target[0] == 's';
    std::string code = machine_code
            ? text_of_program(made, library.cubin_size, library.cubin)
            : text_of_program(made, library.ptx_size, library.ptx);
    if (code.empty())
        return {{}, text("NVRTC ", version_text(), " gives no code")};
    return {std::move(code), {}};
}

} // namespace gradnn::gpu::jit
