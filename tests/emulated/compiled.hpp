// Device code that the C++ compiler compiles as a test runs, from the text that NVRTC would
// get.
#pragma once

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace gradnn::test::emulated {

/// A shared library of a source. What is to be called is extern "C"; launch(grid, threads,
/// shared bytes, descending, kernel) runs a kernel's blocks in turn.
class compiled {
public:
    explicit compiled(const std::string &source) {
        char pattern[] = "/tmp/gradnn_emulated_XXXXXX";
        folder_ = mkdtemp(pattern);
        std::ofstream file(folder_ / "kernels.cpp");
        file << "#include \"emulated/launch.hpp\"\n" << source;
        file.close();
        const std::string library = (folder_ / "kernels.so").string();
        const std::string command = std::string(GRADNN_TEST_CXX)
                + " -std=c++20 -O1 -w -fPIC -shared -ffp-contract=off "
                  "-fno-strict-aliasing -fsanitize=alignment "
                  "-fno-sanitize-recover=all "
                + GRADNN_TEST_INCLUDES + " -o " + library + " "
                + (folder_ / "kernels.cpp").string();
        if (std::system(command.c_str()) == 0)
            library_ = dlopen(library.c_str(), RTLD_NOW);
    }
    compiled(const compiled &) = delete;
    compiled &operator=(const compiled &) = delete;
    ~compiled() {
        if (library_ != nullptr) std::filesystem::remove_all(folder_);
    }

    bool is_there() const { return library_ != nullptr; }
    template <typename Function>
    Function *function(const std::string &name) const {
        return reinterpret_cast<Function *>(dlsym(library_, name.c_str()));
    }

private:
    std::filesystem::path folder_;
    void *library_ = nullptr;
};

} // namespace gradnn::test::emulated
