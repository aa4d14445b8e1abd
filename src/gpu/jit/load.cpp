#include "gpu/jit/load.hpp"

#include <chrono>
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

struct known_kernel {
    std::mutex mutex; ///< held while it is compiled
    kernel_or_refusal made; ///< neither at first
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
    static const std::string sources = [] {
        std::string all;
        for (const auto &[path, contents] : embedded_sources())
            all += text(path, '\n', contents);
        return digest_of(all);
    }();
    std::string key = text("source ", what.source, ' ', sources, "\nentry ",
            what.entry, "\narchitecture ", what.architecture, "\nNVRTC ",
            find_kernel_compiler().version);
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

/// The folder that GRADNN_DUMP_KERNELS names; empty where it is not set.
std::string dump_folder() {
    const char *const folder = std::getenv("GRADNN_DUMP_KERNELS");
    return folder != nullptr ? folder : "";
}

/// Writes sources, key and code of a kernel for people and tools.
void dump(const compilation &what, const std::string &key,
        const std::string &code) {
    namespace fs = std::filesystem;
    const fs::path folder
            = fs::path(dump_folder()) / text(what.entry, '_', digest_of(key));
    const auto write = [&](std::string_view name, std::string_view contents) {
        const fs::path path = folder / name;
        fs::create_directories(path.parent_path());
        std::ofstream file(path, std::ios::binary);
        file.exceptions(std::ios::failbit | std::ios::badbit);
        file << contents << std::flush;
    };
    detail::log_line line;
    line.event = "dump";
    line.note = folder.string();
    try {
        for (const auto &[path, contents] : embedded_sources())
            write(path, contents);
        write(specification_name, what.specification);
        write("key.txt", key + '\n');
        write(code.starts_with("\177ELF") ? "kernel.cubin" : "kernel.ptx",
                code);
        if (detail::log_level() < detail::log_events) return;
    } catch (const std::exception &failure) {
        line.event = "dump:failed";
        line.note += text(": ", failure.what());
    }
    detail::write_log(line);
}

/// From the disk, or compiled. The device is current.
compiled_kernel make(const compilation &what, const std::string &key,
        const std::string &folder) {
    compiled_kernel made;
    auto code = read_cached(folder, key);
    made.from_disk = code.has_value();
    if (!code) {
        code = what.code();
        write_cached(folder, key, *code);
    }
    if (what.with_lines) dump(what, key, *code);
    made.function = function_of(*code, what.entry);
    const auto attributes = attributes_on_device(made.function);
    made.registers = attributes.numRegs;
    made.local_bytes = attributes.localSizeBytes;
    made.static_shared_bytes = attributes.sharedSizeBytes;
    return made;
}

void log_outcome(const kernel_request &request,
        const detail::compile_options &options,
        const kernel_or_refusal &outcome, double milliseconds) {
    if (detail::log_level() < detail::log_events) return;
    detail::log_line line;
    line.event = "kernel";
    line.engine = text("gpu:", options.device);
    line.milliseconds = detail::log_milliseconds(milliseconds);
    line.note = text(request.source, ' ', request.entry, " {",
            request.specification, "}: ", outcome.refusal);
    if (const auto &kernel = outcome.kernel)
        line.note += text(kernel->from_disk
                        ? "from the disk"
                        : "compiled by NVRTC " + find_kernel_compiler().version,
                "; ", kernel->registers, " registers; ", kernel->local_bytes,
                " bytes of local memory");
    detail::write_log(line);
}

} // namespace

void forget_kernels() {
    known_kernels &all = known();
    const std::lock_guard lock(all.mutex);
    all.by_key.clear();
}

kernel_or_refusal load(
        const kernel_request &request, const detail::compile_options &options) {
    if (const std::string &missing = find_kernel_compiler().missing;
            !missing.empty())
        return {nullptr, missing};
    const auto device = static_cast<int>(options.device);
    const device_properties &properties = properties_of(device);
    const compilation what {request, 10 * properties.major + properties.minor,
            !dump_folder().empty()};
    const std::string key = key_of(what);

    const allocation_guard current(device);
    known_kernel &entry = [&]() -> known_kernel & {
        const std::lock_guard lock(known().mutex);
        return known().by_key[key];
    }();
    const std::lock_guard lock(entry.mutex);
    kernel_or_refusal &made = entry.made;
    if (made.kernel) {
        attributes_on_device(made.kernel->function);
    } else if (made.refusal.empty()) {
        const auto start = std::chrono::steady_clock::now();
        try {
            made.kernel = std::make_shared<compiled_kernel>(
                    make(what, key, options.kernel_cache));
        } catch (const error &failure) {
            if (failure.status == status::out_of_memory
                    || failure.status == status::invalid_arguments)
                throw;
            made.refusal = failure.what();
        }
        log_outcome(request, options, made, detail::milliseconds_since(start));
    }
    return made;
}

std::optional<size_t> load_without_spills(std::span<kernel_launch> from,
        const detail::compile_options &options, std::string &refusal) {
    std::optional<size_t> best;
    for (size_t i = 0; i < from.size(); ++i) {
        const kernel_or_refusal loaded = load(from[i].request, options);
        if (!loaded.kernel) {
            refusal = loaded.refusal;
            break;
        }
        from[i].kernel = loaded.kernel;
        const size_t spilled = loaded.kernel->local_bytes;
        if (!best || spilled < from[*best].kernel->local_bytes) best = i;
        if (spilled == 0) break;
    }
    if (!best) return best;
    const kernel_launch &taken = from[*best];
    if (taken.shared_bytes + taken.kernel->static_shared_bytes
            > default_block_shared_bytes) {
        const allocation_guard guard(static_cast<int>(options.device));
        allow_shared_bytes(taken.kernel->function, taken.shared_bytes);
    }
    return best;
}

} // namespace gradnn::gpu::jit
