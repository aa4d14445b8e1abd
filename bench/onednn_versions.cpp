// Convolutions by whichever oneDNN the loader finds, one problem a line on
// stdin:
//   DIRECTION TYPE LAYOUT GROUPS N IC OC SRC KERNEL STRIDES DILATIONS BEGIN END
// as in: bwd_w bf16 nxc 8 2 32 32 22x30 3x3 1x1 2x2 2x2 2x2
// (fwd, bwd_d or bwd_w; any, ncx or nxc; a dilation of 1 leaves no gaps).
//   onednn_versions check     values against plain loops, guards around the
//                             buffers, a scratchpad that holds NaN or zeros
//   onednn_versions time [S]  the least and the middle time of S seconds, in ms
//   onednn_versions bits      whether 20 runs give the same bits, and threads
// A problem that ends its process is told as such, and the next ones go on.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <unordered_map>
#include <vector>

#include "bench/onednn_versions.hpp"

namespace onednn_versions {

namespace {

double seconds() {
    return std::chrono::duration<double>(
            std::chrono::steady_clock::now().time_since_epoch())
            .count();
}

double cpu_seconds() {
    timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return static_cast<double>(used.tv_sec)
            + 1e-9 * static_cast<double>(used.tv_nsec);
}

/// Clock ticks that each thread of this process has run.
std::unordered_map<std::string, long> thread_ticks() {
    std::unordered_map<std::string, long> ticks;
    for (const auto &task :
            std::filesystem::directory_iterator("/proc/self/task")) {
        std::ifstream in(task.path() / "stat");
        std::string line;
        std::getline(in, line);
        std::istringstream fields(line.substr(line.rfind(')') + 1));
        std::string skipped;
        for (int i = 0; i < 11; ++i)
            fields >> skipped;
        long user = 0, system = 0;
        fields >> user >> system;
        ticks[task.path().filename()] = user + system;
    }
    return ticks;
}

std::string check(convolution &conv, memory::data_type type) {
    const auto first = conv.run_with(0);
    const double error = conv.error();
    const bool same = conv.run_with(0xff) == first;
    const double limit = type == memory::data_type::f32 ? 1e-6
            : type == memory::data_type::bf16           ? 5e-3
                                                        : 6e-4;
    std::ostringstream out;
    out << (!conv.intact()          ? "OVERWRITES"
                    : error > limit ? "WRONG"
                    : !same         ? "UNSET"
                                    : "ok")
        << " error " << error;
    return out.str();
}

double middle(std::vector<double> &values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

std::string time_runs(convolution &conv, double for_seconds) {
    conv.run();
    std::vector<double> wall, cpu;
    const double stop = seconds() + for_seconds;
    while (wall.size() < 5 || seconds() < stop) {
        const double start = seconds(), cpu_start = cpu_seconds();
        conv.run();
        wall.push_back((seconds() - start) * 1e3);
        cpu.push_back((cpu_seconds() - cpu_start) * 1e3);
    }
    std::ostringstream out;
    out << "ms " << middle(wall) << " least " << wall.front() << " processor "
        << middle(cpu) << " least " << cpu.front();
    return out.str();
}

std::string compare_bits(convolution &conv) {
    const auto first = conv.run_with(0);
    int others = 0;
    for (int i = 0; i < 20; ++i)
        others += conv.run_with(0) != first;
    uint64_t hash = 14695981039346656037U;
    for (unsigned char byte : first)
        hash = (hash ^ byte) * 1099511628211U;
    const auto before = thread_ticks();
    for (const double stop = seconds() + 1; seconds() < stop;)
        conv.run();
    auto after = thread_ticks();
    long all = 0;
    for (auto &[thread, ticks] : after) {
        const auto known = before.find(thread);
        if (known != before.end()) ticks -= known->second;
        all += ticks;
    }
    std::ostringstream out;
    out << "other bits in " << others << " of 20 runs, hash " << std::hex
        << hash << std::dec << ", " << after.size()
        << " threads, shares of the work";
    for (const auto &[thread, ticks] : after)
        if (ticks * 20 > all) out << " " << ticks * 100 / all << " %";
    return out.str();
}

/// A problem that takes longer hangs: SIGALRM (14) ends its process.
constexpr unsigned hang_seconds = 20;

std::string work(const std::string &mode, const std::string &line, double s) {
    const problem p = parse(line);
    for (int64_t size : p.dst)
        if (size < 1) return "- empty";
    convolution conv(p, mode == "check");
    if (!conv) return "- none";
    const std::string result = mode == "check" ? check(conv, p.type)
            : mode == "time"                   ? time_runs(conv, s)
                                               : compare_bits(conv);
    return conv.name() + " " + result;
}

} // namespace

} // namespace onednn_versions

int main(int argc, char **argv) {
    const std::string mode = argc > 1 ? argv[1] : "";
    if (mode != "check" && mode != "time" && mode != "bits") {
        std::fprintf(stderr, "usage: %s check|time|bits [seconds]\n", argv[0]);
        return 2;
    }
    const double for_seconds = argc > 2 ? std::atof(argv[2]) : 0.3;
    std::vector<std::string> lines;
    for (std::string line; std::getline(std::cin, line);)
        if (!line.empty()) lines.push_back(line);
    // Each child goes through the lines until one ends it.
    for (size_t next = 0; next < lines.size();) {
        int ends[2];
        if (pipe(ends) != 0) return 1;
        std::fflush(stdout);
        const pid_t child = fork();
        if (child == 0) {
            for (size_t i = next; i < lines.size(); ++i) {
                std::string result;
                alarm(onednn_versions::hang_seconds
                        + static_cast<unsigned>(for_seconds));
                try {
                    result = onednn_versions::work(mode, lines[i], for_seconds);
                } catch (const std::exception &error) {
                    result = std::string("- exception ") + error.what();
                }
                std::printf("%s | %s\n", lines[i].c_str(), result.c_str());
                std::fflush(stdout);
                if (write(ends[1], "x", 1) != 1) _exit(1);
            }
            _exit(0);
        }
        close(ends[1]);
        char byte;
        while (read(ends[0], &byte, 1) == 1)
            ++next;
        close(ends[0]);
        int status = 0;
        waitpid(child, &status, 0);
        if (next < lines.size()) {
            std::printf("%s | - DIED %d\n", lines[next].c_str(),
                    WIFSIGNALED(status) ? WTERMSIG(status) : -1);
            ++next;
        }
    }
    return 0;
}
