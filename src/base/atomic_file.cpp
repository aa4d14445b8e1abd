#include "base/atomic_file.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>

#include "base/input_error.hpp"

namespace gradnn::detail {

namespace fs = std::filesystem;

void atomic_file::fail(const std::string &what) const {
    throw input_error(shown_, what);
}

atomic_file::atomic_file(const std::string &target, unsigned permissions)
    : shown_(target), target_(target) {
    std::error_code ignored;
    const fs::file_status there = fs::status(target, ignored);
    if (fs::exists(there)) {
        if (!fs::is_regular_file(there))
            fail("cannot be written: it is not a regular file");
        target_ = fs::canonical(target, ignored).string();
        if (ignored) fail("cannot be written: " + ignored.message());
    }
    std::string pattern = target_ + ".XXXXXX";
    std::vector<char> name(
            pattern.c_str(), pattern.c_str() + pattern.size() + 1);
    const int descriptor = ::mkstemp(name.data());
    if (descriptor < 0)
        fail(std::string("cannot be written: ") + std::strerror(errno));
    temporary_ = name.data();
    pending_ = true;
    // mkstemp makes the file private.
    const mode_t mask = ::umask(0);
    ::umask(mask);
    (void)::fchmod(descriptor, permissions & ~mask);
    file_ = ::fdopen(descriptor, "wb");
    if (!file_) {
        const int reason = errno;
        ::close(descriptor);
        ::unlink(temporary_.c_str());
        fail(std::string("cannot be written: ") + std::strerror(reason));
    }
}

atomic_file::atomic_file(atomic_file &&other) noexcept
    : shown_(std::move(other.shown_)),
      target_(std::move(other.target_)),
      temporary_(std::move(other.temporary_)),
      file_(std::exchange(other.file_, nullptr)),
      pending_(std::exchange(other.pending_, false)) {}

atomic_file::~atomic_file() {
    if (file_) std::fclose(file_);
    if (pending_) ::unlink(temporary_.c_str());
}

void atomic_file::write(const void *data, size_t bytes) {
    if (std::fwrite(data, 1, bytes, file_) != bytes)
        fail(std::string("cannot be written: ") + std::strerror(errno));
}

void atomic_file::finish() {
    if (!file_) return;
    const bool flushed = std::fflush(file_) == 0;
    const int reason = errno;
    const bool closed = std::fclose(std::exchange(file_, nullptr)) == 0;
    if (!flushed || !closed)
        fail(std::string("cannot be written: ")
                + std::strerror(flushed ? errno : reason));
}

void atomic_file::commit() {
    finish();
    if (std::rename(temporary_.c_str(), target_.c_str()) != 0)
        fail(std::string("cannot be written: ") + std::strerror(errno));
    pending_ = false;
}

} // namespace gradnn::detail
