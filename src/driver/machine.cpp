#include "machine.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string_view>

#include <sched.h>
#include <sys/resource.h>

#include <gradnn/version.hpp>

namespace gradnn::driver {

namespace {

constexpr int64_t unlimited = std::numeric_limits<int64_t>::max();

std::optional<int64_t> number_in(const std::string &path) {
    std::ifstream in(path);
    int64_t value = 0;
    if (in >> value) return value;
    return std::nullopt; // missing, or the word "max"
}

/// The value after "KEY" in a file of "KEY VALUE" or "KEY: VALUE" lines.
std::optional<int64_t> field_in(const std::string &path, std::string_view key) {
    std::ifstream in(path);
    for (std::string line; std::getline(in, line);) {
        std::istringstream words(line);
        std::string name;
        int64_t value = 0;
        if (words >> name >> value && name == key) return value;
    }
    return std::nullopt;
}

/// What a control group leaves of its limit; what its files keep cached can be
/// freed.
int64_t left_in_group(const std::string &folder, const char *limit_name,
        const char *usage_name) {
    const auto limit = number_in(folder + "/" + limit_name);
    const auto usage = number_in(folder + "/" + usage_name);
    if (!limit || !usage) return unlimited;
    int64_t cached = 0;
    for (const char *key : {"inactive_file", "total_inactive_file"})
        cached = std::max(
                cached, field_in(folder + "/memory.stat", key).value_or(0));
    return std::max<int64_t>(0, *limit - std::max<int64_t>(0, *usage - cached));
}

/// A group is bound by its own limit and by that of every group above it.
int64_t left_in_groups(const std::string &root, std::string path,
        const char *limit_name, const char *usage_name) {
    int64_t left = left_in_group(root, limit_name, usage_name);
    while (path.size() > 1) {
        left = std::min(
                left, left_in_group(root + path, limit_name, usage_name));
        path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
    }
    return left;
}

int64_t left_by_control_groups() {
    int64_t left = unlimited;
    std::ifstream in("/proc/self/cgroup");
    for (std::string line; std::getline(in, line);) {
        const size_t first = line.find(':');
        const size_t second = line.find(':', first + 1);
        if (first == std::string::npos || second == std::string::npos) continue;
        const std::string controllers
                = "," + line.substr(first + 1, second - first - 1) + ",";
        const std::string path = line.substr(second + 1);
        if (controllers == ",,")
            left = std::min(left,
                    left_in_groups("/sys/fs/cgroup", path, "memory.max",
                            "memory.current"));
        else if (controllers.find(",memory,") != std::string::npos)
            left = std::min(left,
                    left_in_groups("/sys/fs/cgroup/memory", path,
                            "memory.limit_in_bytes", "memory.usage_in_bytes"));
    }
    return left;
}

int64_t left_by_address_space() {
    struct rlimit limit {};
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return unlimited;
    const auto pages = number_in("/proc/self/statm").value_or(0);
    return std::max<int64_t>(
            0, static_cast<int64_t>(limit.rlim_cur) - pages * 4096);
}

} // namespace

std::string version_text() {
    return std::to_string(version_major) + "." + std::to_string(version_minor)
            + "." + std::to_string(version_patch);
}

std::string cpu_name() {
    std::ifstream in("/proc/cpuinfo");
    for (std::string line; std::getline(in, line);)
        if (line.rfind("model name", 0) == 0 && line.find(": ") != line.npos)
            return line.substr(line.find(": ") + 2);
    return "unknown";
}

int cpu_count() {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set) == 0) return CPU_COUNT(&set);
    return 1;
}

int64_t available_memory() {
    const auto free_kib = field_in("/proc/meminfo", "MemAvailable:");
    const int64_t free_bytes = free_kib ? *free_kib * 1024 : unlimited;
    return std::min(
            {free_bytes, left_by_control_groups(), left_by_address_space()});
}

int64_t last_level_cache_bytes() {
    int64_t largest = 0;
    for (int index = 0; index < 8; ++index) {
        std::ifstream in("/sys/devices/system/cpu/cpu0/cache/index"
                + std::to_string(index) + "/size");
        int64_t size = 0;
        char unit = ' ';
        if (!(in >> size)) continue;
        if (in >> unit)
            size *= unit == 'M' ? 1 << 20 : unit == 'K' ? 1 << 10 : 1;
        largest = std::max(largest, size);
    }
    return largest > 0 ? largest : int64_t {32} << 20;
}

std::string bytes_text(int64_t bytes) {
    constexpr std::array units = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB"};
    auto value = static_cast<double>(bytes);
    size_t unit = 0;
    for (; value >= 1024 && unit + 1 < units.size(); ++unit)
        value /= 1024;
    std::array<char, 64> text {};
    std::snprintf(text.data(), text.size(), unit == 0 ? "%.0f %s" : "%.1f %s",
            value, units[unit]);
    return text.data();
}

} // namespace gradnn::driver
