#include "gpu/runtime/shared_library.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

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

bool is_loaded(const char *name) {
    void *const library = dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
    if (library != nullptr) dlclose(library);
    return library != nullptr;
}

std::string library_of_environment(const char *variable, const char *name) {
    const char *const wanted = std::getenv(variable);
    if (wanted == nullptr) return {};
    std::error_code ignored;
    if (fs::is_directory(wanted, ignored)) return fs::path(wanted) / name;
    return wanted;
}

std::vector<std::string> folders_of_loaded(
        const std::vector<std::string> &beginnings) {
    struct search {
        const std::vector<std::string> &beginnings;
        std::vector<std::string> found;
    } state {beginnings, {}};
    const auto visit = [](dl_phdr_info *info, size_t, void *given) {
        auto &to = *static_cast<search *>(given);
        const std::string path = info->dlpi_name;
        const size_t slash = path.rfind('/');
        if (slash == std::string::npos) return 0;
        const std::string folder = path.substr(0, slash);
        const bool wanted = std::any_of(to.beginnings.begin(),
                to.beginnings.end(), [&](const std::string &beginning) {
                    return path.compare(slash + 1, beginning.size(), beginning)
                            == 0;
                });
        if (wanted
                && std::find(to.found.begin(), to.found.end(), folder)
                        == to.found.end())
            to.found.push_back(folder);
        return 0;
    };
    dl_iterate_phdr(visit, &state);
    return state.found;
}

std::string file_of(const void *symbol) {
    Dl_info found {};
    if (dladdr(symbol, &found) == 0 || found.dli_fname == nullptr) return {};
    return found.dli_fname;
}

} // namespace gradnn::gpu
