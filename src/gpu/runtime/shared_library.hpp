// Libraries that are loaded when they are first needed, and never closed.
#pragma once

#include <string>
#include <vector>

#include <dlfcn.h>

namespace gradnn::gpu {

/// Null where it cannot be loaded; dlerror then says why. Its symbols are its own:
/// another version may serve other parts of the process. A name without a folder is
/// that of a library that the process has, or that the loader finds.
void *open_library(const std::string &path);

/// The file that an environment variable names, or the file of that name in the folder
/// that it names; empty where it is not set.
std::string library_of_environment(
        const char *variable, const std::string &name);

/// The files to be tried for a library of CUDA's by its names, in this order: what the
/// variable names, and no other; what the process has loaded; what lies beside the CUDA
/// libraries that it has loaded, as in the wheels of PyTorch and JAX (`wheel`: the folder
/// of CUDA 12's); what the loader finds; the toolkit that gradnn was built with.
std::vector<std::string> library_candidates(const char *variable,
        const std::string &wheel, const std::vector<std::string> &names);

template <typename Function>
Function *find_function(void *library, const char *name) {
    return reinterpret_cast<Function *>(dlsym(library, name));
}

} // namespace gradnn::gpu
