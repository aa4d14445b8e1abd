#include "gpu/jit/disk_cache.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <set>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "atomic_file.hpp"
#include "gpu/jit/sources.hpp"
#include "input_error.hpp"
#include "log.hpp"
#include "text.hpp"

namespace gradnn::gpu::jit {

using detail::text;
namespace fs = std::filesystem;

namespace {

/// What a file begins with: the version of its format. Then come, in a line, the
/// bytes of the key and of the code and the digest of both; then the key; then the
/// code.
constexpr std::string_view header = "gradnn kernel 1\n";
constexpr const char *suffix = ".kernel";

void complain(const std::string &what) {
    static std::mutex mutex;
    static auto *const said = new std::set<std::string>;
    {
        const std::lock_guard lock(mutex);
        if (!said->insert(what).second) return;
    }
    if (detail::log_level() < detail::log_events) return;
    detail::log_line line;
    line.event = "kernel:cache";
    line.note = what;
    detail::write_log(line);
}

class descriptor {
public:
    explicit descriptor(int number) : number_(number) {}
    descriptor(const descriptor &) = delete;
    descriptor &operator=(const descriptor &) = delete;
    ~descriptor() {
        if (number_ >= 0) ::close(number_);
    }
    operator int() const { return number_; }

private:
    const int number_;
};

/// Machine code of others would run as the user's own. Root's files are root's own
/// alone too.
std::string distrust(const struct stat &of) {
    if (of.st_uid != ::geteuid()) return "belongs to another user";
    if ((of.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return "may be written by other users";
    return {};
}

/// Why a folder is not used; empty where it may be.
std::string distrust_folder(int folder) {
    struct stat found {};
    if (::fstat(folder, &found) != 0) return std::strerror(errno);
    return distrust(found);
}

int open_folder(const std::string &folder) {
    return ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

std::string name_of(const std::string &key) {
    return digest_of(key) + suffix;
}

std::string contents_of(const std::string &key, const std::string &code) {
    return text(header, key.size(), ' ', code.size(), ' ',
            digest_of(key + code), '\n', key, code);
}

/// The code in a file's contents; nothing where they are none of this key's.
std::optional<std::string> code_in(
        const std::string &contents, const std::string &key) {
    // What a file of this key begins with: all but the digest, and the code.
    const size_t line = header.size();
    const size_t end = contents.find('\n', line);
    if (!contents.starts_with(header) || end == std::string::npos)
        return std::nullopt;
    if (contents.compare(end + 1, key.size(), key) != 0) return std::nullopt;
    const size_t begin = end + 1 + key.size();
    if (begin > contents.size()) return std::nullopt;
    std::string code = contents.substr(begin);
    if (contents != contents_of(key, code)) return std::nullopt;
    return code;
}

/// The whole file; nothing where it is not there or cannot be read.
std::optional<std::string> read_file(int file, int64_t bytes) {
    std::string contents(static_cast<size_t>(bytes), '\0');
    size_t there = 0;
    while (there < contents.size()) {
        const ssize_t count = ::read(
                file, contents.data() + there, contents.size() - there);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return std::nullopt;
        there += static_cast<size_t>(count);
    }
    return contents;
}

/// Deletes what was used least recently, temporary files of processes that ended early
/// among it, down to three quarters of the limit.
void delete_oldest(const std::string &folder, int64_t most_bytes) {
    struct entry {
        fs::file_time_type used;
        int64_t bytes;
        fs::path path;
    };
    std::vector<entry> all;
    int64_t bytes = 0;
    std::error_code failed;
    for (const auto &each : fs::directory_iterator(folder, failed)) {
        const std::string name = each.path().filename();
        if (name.find(suffix) == std::string::npos) continue;
        std::error_code gone; // by another process
        const auto size = static_cast<int64_t>(each.file_size(gone));
        const auto used = each.last_write_time(gone);
        if (gone) continue;
        all.push_back({used, size, each.path()});
        bytes += size;
    }
    if (bytes <= most_bytes) return;
    std::sort(all.begin(), all.end(),
            [](const entry &a, const entry &b) { return a.used < b.used; });
    for (const entry &each : all) {
        if (bytes <= most_bytes / 4 * 3) return;
        fs::remove(each.path, failed);
        bytes -= each.bytes;
    }
}

/// Whether so much was written since the folder was last looked through that it is to
/// be done again. The first write of a process does it.
bool is_time_to_delete(size_t written, int64_t most_bytes) {
    static std::mutex mutex;
    static int64_t left = 0;
    const std::lock_guard lock(mutex);
    left -= static_cast<int64_t>(written);
    if (left >= 0) return false;
    left = most_bytes / 16;
    return true;
}

} // namespace

std::optional<std::string> read_cached(
        const std::string &folder, const std::string &key) {
    if (folder.empty()) return std::nullopt;
    const descriptor opened(open_folder(folder));
    if (opened < 0) {
        if (errno != ENOENT)
            complain(text(folder, " is not read: ", std::strerror(errno)));
        return std::nullopt;
    }
    std::string reason = distrust_folder(opened);
    if (!reason.empty()) {
        complain(text(folder, " is not used: it ", reason));
        return std::nullopt;
    }
    const std::string name = name_of(key);
    const descriptor file(
            ::openat(opened, name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
    struct stat found {};
    if (file < 0 || ::fstat(file, &found) != 0) {
        if (errno != ENOENT)
            complain(text(
                    folder, '/', name, " is not read: ", std::strerror(errno)));
        return std::nullopt;
    }
    reason = S_ISREG(found.st_mode) ? distrust(found) : "is no file";
    if (!reason.empty()) {
        complain(text(folder, '/', name, " is not used: it ", reason));
        return std::nullopt;
    }
    const auto contents = read_file(file, found.st_size);
    auto code = contents ? code_in(*contents, key) : std::nullopt;
    if (!code) {
        complain(text(folder, '/', name,
                " is not used: it is damaged or of another kernel"));
        return std::nullopt;
    }
    // It was used now. Not each time: that would be a write.
    constexpr time_t day = 24 * 60 * 60;
    if (found.st_mtime + day < std::time(nullptr))
        static_cast<void>(::futimens(file, nullptr));
    return code;
}

void write_cached(const std::string &folder, const std::string &key,
        const std::string &code, int64_t most_bytes) {
    if (folder.empty()) return;
    try {
        // Those above it are private too, as the XDG base directories ask.
        fs::path made;
        for (const fs::path &part : fs::path(folder)) {
            made /= part;
            if (::mkdir(made.c_str(), 0700) != 0 && errno != EEXIST
                    && errno != EISDIR && errno != EROFS && errno != EACCES)
                break; // opening it fails too, and says why
        }
        const descriptor opened(open_folder(folder));
        if (opened < 0) {
            complain(text(folder, " cannot be used: ", std::strerror(errno)));
            return;
        }
        const std::string reason = distrust_folder(opened);
        if (!reason.empty()) {
            complain(text(folder, " is not used: it ", reason));
            return;
        }
        const std::string contents = contents_of(key, code);
        detail::atomic_file file(folder + '/' + name_of(key), 0600);
        file.write(contents);
        file.commit();
        if (is_time_to_delete(contents.size(), most_bytes))
            delete_oldest(folder, most_bytes);
    } catch (const detail::input_error &failure) {
        complain(failure.what());
    } catch (const fs::filesystem_error &failure) {
        complain(failure.what());
    }
}

} // namespace gradnn::gpu::jit
