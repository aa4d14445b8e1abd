// What the compiler's C++ library calls and older C libraries do not have, for
// libraries that are linked with an older one (GRADNN_GLIBC_STUBS, python.cmake).
// Hidden, so that it serves this library alone.
#include <cstdint>
#include <cstdlib>

#include <sys/stat.h>
#include <unistd.h>

#define GRADNN_HIDDEN __attribute__((visibility("hidden")))

extern "C" {

// Since 2.32: whether a process has one thread, which may spare atomic additions.
GRADNN_HIDDEN char __libc_single_threaded = 0;

// Since 2.33; before that they were inline, of these.
int __xstat(int version, const char *path, struct stat *found);
int __lxstat(int version, const char *path, struct stat *found);
int __fxstat(int version, int file, struct stat *found);
GRADNN_HIDDEN int stat(const char *path, struct stat *found) noexcept {
    return __xstat(1, path, found);
}
GRADNN_HIDDEN int lstat(const char *path, struct stat *found) noexcept {
    return __lxstat(1, path, found);
}
GRADNN_HIDDEN int fstat(int file, struct stat *found) noexcept {
    return __fxstat(1, file, found);
}
GRADNN_HIDDEN int fstat64(int file, struct stat64 *found) noexcept {
    return __fxstat(1, file, reinterpret_cast<struct stat *>(found));
}

// Since 2.36.
GRADNN_HIDDEN uint32_t arc4random() noexcept {
    uint32_t value = 0;
    if (getentropy(&value, sizeof value) != 0) std::abort();
    return value;
}

} // extern "C"
