#include "gpu/runtime/shared_library.hpp"

#include <cstdlib>
#include <filesystem>

#include <link.h>

namespace gradnn::gpu {

namespace fs = std::filesystem;

void *open_library(const std::string &path) {
    return dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
}

std::string library_of_environment(
        const char *variable, const std::string &name) {
    const char *const wanted = std::getenv(variable);
    if (wanted == nullptr) return {};
    std::error_code ignored;
    if (fs::is_directory(wanted, ignored)) return fs::path(wanted) / name;
    return wanted;
}

std::vector<std::string> library_candidates(const char *variable,
        const std::string &wheel, const std::vector<std::string> &names) {
    std::vector<std::string> paths;
    for (const std::string &name : names)
        if (const auto wanted = library_of_environment(variable, name);
                !wanted.empty())
            paths.push_back(wanted);
    if (!paths.empty()) return paths;
    std::vector<fs::path> loaded;
    const auto visit = [](dl_phdr_info *info, size_t, void *to) {
        static_cast<std::vector<fs::path> *>(to)->emplace_back(info->dlpi_name);
        return 0;
    };
    dl_iterate_phdr(visit, &loaded);
    const auto begins = [](const fs::path &file, const std::string &with) {
        return file.filename().string().starts_with(with);
    };
    for (const std::string &name : names)
        for (const fs::path &file : loaded)
            if (begins(file, name)) paths.push_back(file);
    std::vector<fs::path> folders;
    for (const char *beside : {"libcudart.so", "libcudnn.so", "libcublas.so"})
        for (const fs::path &file : loaded)
            if (begins(file, beside))
                // CUDA 12's wheels have a folder for each library, those of 13 one for all.
                for (const fs::path &place :
                        {fs::path(), "../.." / fs::path(wheel) / "lib",
                                fs::path("../../cu13/lib")})
                    folders.push_back(file.parent_path() / place);
    for (const char *folder : {"", GRADNN_CUDA_LIBRARY_DIR})
        folders.emplace_back(folder);
    for (const fs::path &folder : folders)
        for (const std::string &name : names) {
            std::error_code ignored;
            if (folder.empty() || fs::exists(folder / name, ignored))
                paths.push_back(folder / name);
        }
    return paths;
}

} // namespace gradnn::gpu
