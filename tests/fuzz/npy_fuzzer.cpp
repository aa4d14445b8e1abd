// libFuzzer's entry to the reader of .npy files, by files in memory.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include <sys/mman.h>
#include <unistd.h>

#include "base/input_error.hpp"
#include "files/npy.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const int descriptor = memfd_create("fuzz", 0);
    static const std::string path
            = "/proc/self/fd/" + std::to_string(descriptor);
    const bool written = ftruncate(descriptor, 0) == 0
            && pwrite(descriptor, data, size, 0) == static_cast<ssize_t>(size);
    if (!written) std::abort();
    try {
        gradnn::detail::read_npy(path);
    } catch (const gradnn::detail::input_error &) {
        // What a broken file must end in; anything else ends the process.
    }
    return 0;
}
