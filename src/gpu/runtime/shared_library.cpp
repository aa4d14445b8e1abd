#include "gpu/runtime/shared_library.hpp"

#include <cstdlib>

#include <link.h>

namespace gradnn::gpu {

namespace fs = std::filesystem;

void *open_library(const std::string &path, std::string &reason) {
    void *const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) return library;
    const char *const said = dlerror();
    reason = said != nullptr ? said : path;
    return nullptr;
}

std::string library_of_environment(
        const char *variable, const std::string &name) {
    const char *const wanted = std::getenv(variable);
    if (wanted == nullptr) return {};
    std::error_code ignored;
    if (fs::is_directory(wanted, ignored)) return fs::path(wanted) / name;
    return wanted;
}

std::vector<fs::path> loaded_libraries() {
    std::vector<fs::path> all;
    const auto visit = [](dl_phdr_info *info, size_t, void *to) {
        static_cast<std::vector<fs::path> *>(to)->emplace_back(info->dlpi_name);
        return 0;
    };
    dl_iterate_phdr(visit, &all);
    return all;
}

std::string file_of(const void *symbol) {
    Dl_info found {};
    if (dladdr(symbol, &found) == 0 || found.dli_fname == nullptr) return {};
    return found.dli_fname;
}

} // namespace gradnn::gpu
