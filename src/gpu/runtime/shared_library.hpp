// Libraries that are loaded when they are first needed, and never closed.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <dlfcn.h>

namespace gradnn::gpu {

/// Null where it cannot be loaded; `reason` is then the loader's. Its symbols are
/// its own: another version may serve other parts of the process. A name without
/// a folder is that of a library that the process has, or that the loader finds.
void *open_library(const std::string &path, std::string &reason);

/// The file that an environment variable names, or the file of that name in the folder
/// that it names; empty where it is not set.
std::string library_of_environment(
        const char *variable, const std::string &name);

/// The files of the libraries that the process has loaded.
std::vector<std::filesystem::path> loaded_libraries();

/// The file that a symbol comes from; empty where it is not known.
std::string file_of(const void *symbol);

template <typename Function>
Function *find_function(void *library, const char *name) {
    return reinterpret_cast<Function *>(dlsym(library, name));
}

} // namespace gradnn::gpu
