#include "kernel/plan_cache.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <set>

#include <unistd.h>

#include <gradnn/status.hpp>

#include "base/atomic_file.hpp"
#include "base/input_error.hpp"
#include "base/text.hpp"

namespace gradnn::detail {

namespace {

/// What names the file, for messages.
constexpr const char *setting
        = "compile_settings::plan_cache or GRADNN_PLAN_CACHE";
/// The first line of a file: what it is, and the version of its format.
constexpr const char *header = "gradnn plans 1";

using entries = std::map<std::string, std::string>;

/// The problem and the kernel of each line are parted by a tab.
entries read_file(const std::string &path) {
    entries read;
    if (::access(path.c_str(), F_OK) != 0) return read;
    const auto fail = [&](const std::string &what) {
        throw error(status::invalid_arguments,
                text(setting, " names ", path, ": ", what));
    };
    std::ifstream file(path);
    if (!file) fail(text("cannot be read: ", std::strerror(errno)));
    std::string line;
    if (!std::getline(file, line)) return read; // made empty, to be filled
    if (line != header) fail(text("line 1 is not \"", header, "\""));
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
        atomic_file file(path);
        file.write(text(header, "\n"));
        for (const auto &[problem, kernel] : kept)
            file.write(text(problem, "\t", kernel, "\n"));
        file.commit();
    } catch (const input_error &failure) {
        throw error(status::runtime_error,
                text(setting, " names ", failure.what()));
    }
}

/// Of this process; what is read from a file is added to it.
struct plan_cache {
    std::mutex mutex;
    entries known;
    std::set<std::string> files; ///< that were read
};

plan_cache &the_plan_cache() {
    static auto *instance = new plan_cache;
    return *instance;
}

} // namespace

std::optional<std::string> find_in_plan_cache(
        const std::string &problem, const std::string &file) {
    plan_cache &plans = the_plan_cache();
    const std::lock_guard lock(plans.mutex);
    if (!file.empty() && !plans.files.contains(file)) {
        plans.known.merge(read_file(file));
        plans.files.insert(file);
    }
    const auto found = plans.known.find(problem);
    if (found == plans.known.end()) return std::nullopt;
    return found->second;
}

bool may_find_in_plan_cache(const std::string &file) {
    plan_cache &plans = the_plan_cache();
    const std::lock_guard lock(plans.mutex);
    return !file.empty() || !plans.known.empty();
}

void forget_plans() {
    plan_cache &plans = the_plan_cache();
    const std::lock_guard lock(plans.mutex);
    plans.known.clear();
    plans.files.clear();
}

void keep_in_plan_cache(const std::string &problem, const std::string &kernel,
        const std::string &file) {
    plan_cache &plans = the_plan_cache();
    const std::lock_guard lock(plans.mutex);
    plans.known[problem] = kernel;
    if (file.empty()) return;
    // Other processes may have added to the file since it was read.
    entries all = read_file(file);
    all[problem] = kernel;
    write_file(file, all);
}

} // namespace gradnn::detail
