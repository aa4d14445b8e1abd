#include "gpu/cudnn_plan_cache.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>

#include <unistd.h>

#include <gradnn/status.hpp>

#include "atomic_file.hpp"
#include "input_error.hpp"
#include "text.hpp"

namespace gradnn::gpu {

using detail::text;

namespace {

constexpr const char *variable = "GRADNN_CUDNN_PLAN_CACHE";
/// The first line of a file: what it is, and the version of its format.
constexpr const char *header = "gradnn cuDNN plans 1";

using entries = std::map<std::string, std::string>;

/// The problem and the kernel of each line are parted by a tab.
entries read_file(const std::string &path) {
    entries read;
    if (::access(path.c_str(), F_OK) != 0) return read;
    const auto fail = [&](const std::string &what) {
        throw error(status::invalid_arguments,
                text(variable, " names ", path, ": ", what));
    };
    std::ifstream file(path);
    if (!file) fail(text("cannot be read: ", std::strerror(errno)));
    std::string line;
    if (!std::getline(file, line)) return read; // made empty, to be filled
    if (line != header)
        fail(text("line 1 is not \"", header, "\""));
    for (int number = 2; std::getline(file, line); ++number) {
        const size_t tab = line.find('\t');
        if (tab == std::string::npos || tab == 0 || tab + 1 == line.size())
            fail(text("line ", number, " is not a problem, a tab, a kernel"));
        read[line.substr(0, tab)] = line.substr(tab + 1);
    }
    return read;
}

void write_file(const std::string &path, const entries &kept) {
    try {
        detail::atomic_file file(path);
        file.write(text(header, "\n"));
        for (const auto &[problem, kernel] : kept)
            file.write(text(problem, "\t", kernel, "\n"));
        file.commit();
    } catch (const detail::input_error &failure) {
        throw error(status::runtime_error,
                text(variable, " names ", failure.what()));
    }
}

/// Of this process; what is read from a file is added to it.
struct plan_cache {
    std::mutex mutex;
    entries known;
    std::string read_from;
};

plan_cache &cache() {
    static auto *instance = new plan_cache;
    return *instance;
}

std::string file_path() {
    const char *value = std::getenv(variable);
    return value != nullptr ? value : "";
}

} // namespace

std::optional<std::string> find_in_plan_cache(const std::string &problem) {
    plan_cache &plans = cache();
    const std::lock_guard lock(plans.mutex);
    const std::string path = file_path();
    if (!path.empty() && path != plans.read_from) {
        plans.known.merge(read_file(path));
        plans.read_from = path;
    }
    const auto found = plans.known.find(problem);
    if (found == plans.known.end()) return std::nullopt;
    return found->second;
}

void keep_in_plan_cache(
        const std::string &problem, const std::string &kernel) {
    plan_cache &plans = cache();
    const std::lock_guard lock(plans.mutex);
    plans.known[problem] = kernel;
    const std::string path = file_path();
    if (path.empty()) return;
    // Other processes may have added to the file since it was read.
    entries all = read_file(path);
    all[problem] = kernel;
    write_file(path, all);
}

} // namespace gradnn::gpu
