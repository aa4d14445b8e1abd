#include "gpu/jit/dump.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "log.hpp"
#include "text.hpp"

namespace gradnn::gpu::jit {

using detail::text;
namespace fs = std::filesystem;

namespace {

constexpr const char *variable = "GRADNN_DUMP_KERNELS";

void write(const fs::path &path, std::string_view contents) {
    fs::create_directories(path.parent_path());
    std::ofstream file(path, std::ios::binary);
    file.exceptions(std::ios::failbit | std::ios::badbit);
    file.write(contents.data(), static_cast<std::streamsize>(contents.size()));
    file.close();
}

} // namespace

bool dumps() {
    const char *const folder = std::getenv(variable);
    return folder != nullptr && *folder != '\0';
}

void dump(const kernel_request &request, const compilation &what,
        const std::string &key, const std::string &code) {
    if (!dumps()) return;
    detail::log_line line;
    line.event = "dump";
    const fs::path folder = fs::path(std::getenv(variable))
            / text(request.entry, '_', digest_of(key));
    line.note = folder.string();
    try {
        for (const source_file &file : what.files)
            write(folder / file.path, file.text);
        write(folder / "key.txt", key + '\n');
        const bool machine_code = code.starts_with("\177ELF");
        write(folder / (machine_code ? "kernel.cubin" : "kernel.ptx"), code);
        if (detail::log_level() < detail::log_events) return;
    } catch (const std::exception &failure) {
        line.event = "dump:failed";
        line.note = text(variable, ": ", failure.what());
    }
    detail::write_log(line);
}

} // namespace gradnn::gpu::jit
