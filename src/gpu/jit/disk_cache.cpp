#include "gpu/jit/disk_cache.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <iomanip>
#include <memory>
#include <mutex>
#include <set>
#include <sstream>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/atomic_file.hpp"
#include "base/input_error.hpp"
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

/// Why what is there is not used; empty where it is. Machine code of others would run as
/// the user's own.
std::string distrust(const struct stat &of) {
    if (of.st_uid != ::geteuid()) return " belongs to another user";
    if ((of.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return " may be written by other users";
    return {};
}

/// Whether the folder is there and may be used. Where `needed`, the log says why it is not
/// there.
bool is_usable(const std::string &folder, bool needed) {
    struct stat found {};
    const bool there = ::stat(folder.c_str(), &found) == 0;
    if (!there && !needed && errno == ENOENT) return false;
    const std::string reason
            = there ? distrust(found) : text(": ", std::strerror(errno));
    if (!reason.empty()) complain(text(folder, " is not used", reason));
    return reason.empty();
}

std::string path_of(const std::string &folder, const std::string &key) {
    return text(folder, '/', digest_of(key), suffix);
}

std::string contents_of(const std::string &key, const std::string &code) {
    return text("gradnn kernel 1\n", key.size(), ' ', code.size(), ' ',
            digest_of(key + code), '\n', key, code);
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
    for (const auto &each : fs::directory_iterator(folder)) {
        std::error_code gone; // by another process
        const auto size = static_cast<int64_t>(each.file_size(gone));
        const auto used = each.last_write_time(gone);
        if (gone || each.path().string().find(suffix) == std::string::npos)
            continue;
        all.push_back({used, size, each.path()});
        bytes += size;
    }
    if (bytes <= most_bytes) return;
    std::sort(all.begin(), all.end(),
            [](const entry &a, const entry &b) { return a.used < b.used; });
    for (size_t i = 0; i < all.size() && bytes > most_bytes / 4 * 3; ++i) {
        std::error_code gone;
        fs::remove(all[i].path, gone);
        bytes -= all[i].bytes;
    }
}

} // namespace

std::string digest_of(std::string_view text) {
    uint64_t digest = 0xcbf29ce484222325U;
    for (const char each : text)
        digest = (digest ^ static_cast<unsigned char>(each)) * 0x100000001b3U;
    std::ostringstream digits;
    digits << std::hex << std::setfill('0') << std::setw(16) << digest;
    return digits.str();
}

std::optional<std::string> read_cached(
        const std::string &folder, const std::string &key) {
    if (folder.empty() || !is_usable(folder, false)) return std::nullopt;
    const std::string path = path_of(folder, key);
    const int number = ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (number < 0 && errno == ENOENT) return std::nullopt;
    const auto refuse
            = [&](const std::string &reason) -> std::optional<std::string> {
        complain(text(path, " is not used:", reason));
        return std::nullopt;
    };
    struct stat found {};
    if (number < 0 || ::fstat(number, &found) != 0)
        return refuse(text(' ', std::strerror(errno)));
    const std::unique_ptr<std::FILE, int (*)(std::FILE *)> file(
            ::fdopen(number, "rb"), &std::fclose);
    const std::string reason = distrust(found);
    if (!reason.empty()) return refuse(" it" + reason);
    std::string contents(static_cast<size_t>(found.st_size), '\0');
    contents.resize(
            std::fread(contents.data(), 1, contents.size(), file.get()));
    // The whole file follows from key and code.
    const size_t line = contents.find('\n', contents.find('\n') + 1);
    const size_t begin = line + 1 + key.size();
    const std::string code = contents.substr(std::min(begin, contents.size()));
    if (contents != contents_of(key, code))
        return refuse(" it is damaged or of another kernel");
    // It was used now. Not written each time: once a day.
    if (found.st_mtime + 24 * 60 * 60 < std::time(nullptr))
        static_cast<void>(::futimens(number, nullptr));
    return code;
}

void write_cached(const std::string &folder, const std::string &key,
        const std::string &code, int64_t most_bytes) {
    if (folder.empty()) return;
    try {
        std::error_code failed;
        fs::create_directories(fs::path(folder).parent_path(), failed);
        static_cast<void>(::mkdir(folder.c_str(), 0700));
        if (!is_usable(folder, true)) return;
        const std::string contents = contents_of(key, code);
        detail::atomic_file file(path_of(folder, key), 0600);
        file.write(contents);
        file.commit();
        // By this process since a folder was last looked through: at first, much.
        static std::atomic<int64_t> written = most_cached_bytes;
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
