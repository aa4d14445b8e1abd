#include "gpu/jit/disk_cache.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <iomanip>
#include <map>
#include <mutex>
#include <set>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/atomic_file.hpp"
#include "base/log.hpp"
#include "base/text.hpp"

namespace gradnn::gpu::jit {

using detail::text;
namespace fs = std::filesystem;

namespace {

constexpr const char *suffix = ".kernel";

void complain(const std::string &what) {
    static std::mutex mutex;
    static auto *const said = new std::set<std::string>;
    if (const std::lock_guard lock(mutex); !said->insert(what).second) return;
    detail::log_event({.event = "kernel:cache", .note = what});
}

/// A folder or file that is there and that nobody else can have written: machine code of
/// others would run as the user's own.
struct trusted {
    /// The log says why it is not used, where it is `needed` also if it is not there.
    trusted(const std::string &path, int flags, bool needed = false)
        : number(::open(path.c_str(), O_RDONLY | O_CLOEXEC | flags)) {
        if (number < 0 && errno == ENOENT && !needed) return;
        const char *const reason = number < 0 || ::fstat(number, &facts) != 0
                ? std::strerror(errno)
                : facts.st_uid != ::geteuid() ? "it belongs to another user"
                : (facts.st_mode & (S_IWGRP | S_IWOTH)) != 0
                ? "it may be written by other users"
                : nullptr;
        is_used = reason == nullptr;
        if (!is_used) complain(text(path, " is not used: ", reason));
    }
    trusted(const trusted &) = delete;
    trusted &operator=(const trusted &) = delete;
    ~trusted() {
        if (number >= 0) ::close(number);
    }

    const int number; ///< of its descriptor
    bool is_used = false;
    struct stat facts {};
};

std::string path_of(const std::string &folder, const std::string &key) {
    return text(folder, '/', digest_of(key), suffix);
}

std::string contents_of(const std::string &key, const std::string &code) {
    return text("gradnn kernel 2\n", digest_of(key + code), '\n', key, code);
}

/// Deletes what was used least recently, temporary files of processes that ended early
/// among it, down to three quarters of the limit.
void delete_oldest(const std::string &folder, int64_t most_bytes) {
    std::multimap<fs::file_time_type, std::pair<fs::path, int64_t>> by_use;
    int64_t bytes = 0;
    for (const auto &each : fs::directory_iterator(folder)) {
        std::error_code gone; // by another process
        const auto size = static_cast<int64_t>(each.file_size(gone));
        const auto used = each.last_write_time(gone);
        if (gone || each.path().string().find(suffix) == std::string::npos)
            continue;
        by_use.emplace(used, std::pair(each.path(), size));
        bytes += size;
    }
    if (bytes <= most_bytes) return;
    for (const auto &[used, file] : by_use) {
        if (bytes <= most_bytes / 4 * 3) return;
        std::error_code gone;
        fs::remove(file.first, gone);
        bytes -= file.second;
    }
}

} // namespace

std::string digest_of(std::string_view of) {
    uint64_t digest = 0xcbf29ce484222325U;
    for (const char each : of)
        digest = (digest ^ static_cast<unsigned char>(each)) * 0x100000001b3U;
    return text(std::hex, std::setfill('0'), std::setw(16), digest);
}

std::optional<std::string> read_cached(
        const std::string &folder, const std::string &key) {
    if (folder.empty() || !trusted(folder, O_DIRECTORY).is_used)
        return std::nullopt;
    const std::string path = path_of(folder, key);
    const trusted file(path, O_NOFOLLOW);
    if (!file.is_used) return std::nullopt;
    std::string contents(static_cast<size_t>(file.facts.st_size), '\0');
    const ssize_t bytes = ::read(file.number, contents.data(), contents.size());
    contents.resize(static_cast<size_t>(std::max<ssize_t>(bytes, 0)));
    // The whole file follows from key and code.
    const size_t begin = contents_of(key, {}).size();
    std::string code = contents.substr(std::min(begin, contents.size()));
    if (contents != contents_of(key, code)) {
        complain(
                text(path, " is not used: it is damaged or of another kernel"));
        return std::nullopt;
    }
    // It was used now. Not written each time: once a day.
    if (file.facts.st_mtime + 24 * 60 * 60 < std::time(nullptr))
        static_cast<void>(::futimens(file.number, nullptr));
    return code;
}

void write_cached(const std::string &folder, const std::string &key,
        const std::string &code, int64_t most_bytes) {
    if (folder.empty()) return;
    try {
        std::error_code failed;
        fs::create_directories(fs::path(folder).parent_path(), failed);
        static_cast<void>(::mkdir(folder.c_str(), 0700));
        if (!trusted(folder, O_DIRECTORY, true).is_used) return;
        const std::string contents = contents_of(key, code);
        detail::atomic_file file(path_of(folder, key), 0600);
        file.write(contents);
        file.commit();
        // By this process since a folder was last looked through: at first, much.
        static std::atomic<int64_t> written = most_bytes;
        if ((written += static_cast<int64_t>(contents.size()))
                > most_bytes / 16) {
            written = 0;
            delete_oldest(folder, most_bytes);
        }
    } catch (const std::exception &failure) {
        complain(failure.what());
    }
}

} // namespace gradnn::gpu::jit
