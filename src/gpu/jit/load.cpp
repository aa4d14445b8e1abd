#include "gpu/jit/load.hpp"

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>

#include <gradnn/status.hpp>

#include "base/log.hpp"
#include "base/text.hpp"
#include "gpu/backend.hpp"
#include "gpu/jit/disk_cache.hpp"

namespace gradnn::gpu::jit {

using detail::text;

namespace {

/// Has neither a kernel nor a refusal at first.
struct known_kernel {
    std::mutex mutex; ///< held while it is compiled
    std::shared_ptr<const compiled_kernel> kernel;
    std::string refusal;
};

/// By their keys, for the life of the process: a few tens of kilobytes each. Never
/// destroyed, as kernels may run when static destructors do.
struct known_kernels {
    std::mutex mutex;
    std::map<std::string, known_kernel> by_key;
};

known_kernels &known() {
    static auto *const all = new known_kernels;
    return *all;
}

/// All that the machine code follows from.
std::string key_of(const compilation &what) {
    std::string key = text("source ", what.source, ' ', digest_of_sources,
            "\nentry ", what.entry, "\narchitecture ", what.architecture,
            "\nNVRTC ", find_kernel_compiler().version);
    for (const std::string &option : what.options())
        key += ' ' + option;
    return text(key, "\nspecification\n", what.specification);
}

/// The cudaKernel_t of an entry.
const void *function_of([[maybe_unused]] const std::string &code,
        [[maybe_unused]] const char *entry) {
#if CUDART_VERSION >= 12080
    cudaLibrary_t library = nullptr;
    check(cudaLibraryLoadData(&library, code.data(), nullptr, nullptr, 0,
                  nullptr, nullptr, 0),
            text("cudaLibraryLoadData of ", entry).c_str());
    cudaKernel_t kernel = nullptr;
    check(cudaLibraryGetKernel(&kernel, library, entry),
            text("cudaLibraryGetKernel of ", entry).c_str());
    return kernel;
#else
    throw error(status::unimplemented,
            text("gradnn was built with CUDA ", CUDART_VERSION / 1000, ".",
                    CUDART_VERSION / 10 % 100,
                    ", which loads no kernels: that takes 12.8"));
#endif
}

/// Loads it on the current device too, which CUDA else does at the first launch.
cudaFuncAttributes attributes_on_device(const void *function) {
    cudaFuncAttributes attributes {};
    check(cudaFuncGetAttributes(&attributes, function),
            "cudaFuncGetAttributes");
    return attributes;
}

/// Writes sources, key and code of a kernel for people and tools.
void dump(const compilation &what, const std::string &key,
        const std::string &code) {
    namespace fs = std::filesystem;
    const fs::path folder
            = fs::path(what.dumped_to) / text(what.entry, '_', digest_of(key));
    const auto write = [&](std::string_view name, std::string_view contents) {
        const fs::path path = folder / name;
        fs::create_directories(path.parent_path());
        std::ofstream file(path, std::ios::binary);
        file.exceptions(std::ios::failbit | std::ios::badbit);
        file << contents << std::flush;
    };
    detail::log_line line {.event = "dump", .note = folder.string()};
    try {
        for (const auto &[path, contents] : embedded_sources())
            write(path, contents);
        write(specification_name, what.specification);
        write("key.txt", key + '\n');
        write(code.starts_with("\177ELF") ? "kernel.cubin" : "kernel.ptx",
                code);
        return detail::log_event(line);
    } catch (const std::exception &failure) {
        line.event = "dump:failed";
        line.note += text(": ", failure.what());
        detail::write_log(line);
    }
}

/// From the disk, or compiled. The device is current.
compiled_kernel make(const compilation &what, const std::string &key,
        const std::string &folder) {
    const auto start = std::chrono::steady_clock::now();
    auto code = read_cached(folder, key);
    std::string origin = "from the disk";
    if (!code) {
        code = what.code();
        write_cached(folder, key, *code);
        origin = "compiled by NVRTC " + find_kernel_compiler().version;
    }
    if (!what.dumped_to.empty()) dump(what, key, *code);
    const void *const function = function_of(*code, what.entry);
    return {function, attributes_on_device(function),
            text("CUDA (", origin, " in ",
                    std::round(10 * detail::milliseconds_since(start)) / 10,
                    " ms)")};
}

} // namespace

void forget_kernels() {
    const std::lock_guard lock(known().mutex);
    known().by_key.clear();
}

std::string load(
        kernel_launch &launch, const detail::compile_options &options) {
    if (const std::string &missing = find_kernel_compiler().missing;
            !missing.empty())
        return missing;
    const cuda_interop::device_info &info = properties_of(options.device).info;
    const char *const dumped_to = std::getenv("GRADNN_DUMP_KERNELS");
    const compilation what {launch.request,
            10 * info.compute_capability_major + info.compute_capability_minor,
            dumped_to != nullptr ? dumped_to : ""};
    const std::string key = key_of(what);

    const allocation_guard current(options.device);
    known_kernel &made = [&]() -> known_kernel & {
        const std::lock_guard lock(known().mutex);
        return known().by_key[key];
    }();
    std::unique_lock lock(made.mutex);
    if (made.kernel) {
        attributes_on_device(made.kernel->function);
    } else if (made.refusal.empty()) {
        const auto start = std::chrono::steady_clock::now();
        std::string note;
        try {
            made.kernel = std::make_shared<compiled_kernel>(
                    make(what, key, options.kernel_cache));
            const auto &[function, attributes, backend] = *made.kernel;
            note = text(backend, "; ", attributes.numRegs, " registers; ",
                    attributes.localSizeBytes, " bytes of local memory");
        } catch (const error &failure) {
            if (failure.status == status::out_of_memory
                    || failure.status == status::invalid_arguments)
                throw;
            note = made.refusal = failure.what();
        }
        lock.unlock(); // what is logged to may ask for the kernel
        detail::log_event({.event = "kernel",
                .engine = text("gpu:", options.device),
                .milliseconds
                = detail::log_milliseconds(detail::milliseconds_since(start)),
                .note = text(what.source, ' ', what.entry, " {",
                        what.specification, "}: ", note)});
    }
    launch.kernel = made.kernel;
    return made.refusal;
}

std::optional<size_t> load_without_spills(std::span<kernel_launch> from,
        const detail::compile_options &options, std::string &refusal) {
    const auto spilled = [&](size_t number) {
        return from[number].kernel->attributes.localSizeBytes;
    };
    std::optional<size_t> best;
    for (size_t i = 0; i < from.size(); ++i) {
        refusal = load(from[i], options);
        if (!refusal.empty()) break;
        if (!best || spilled(i) < spilled(*best)) best = i;
        if (spilled(i) == 0) break;
    }
    if (!best) return best;
    const kernel_launch &taken = from[*best];
    if (taken.shared_bytes + taken.kernel->attributes.sharedSizeBytes
            > default_block_shared_bytes) {
        const allocation_guard guard(options.device);
        allow_shared_bytes(taken.kernel->function, taken.shared_bytes);
    }
    return best;
}

} // namespace gradnn::gpu::jit
