// Looks for convolutions that cuDNN computes wrongly: random problems, each by
// every kernel that cuDNN's heuristics name for each of gradnn's arrangements,
// twice, on memory that is NaN before and around, beside sums in f64.
//
//   cudnn_sweep [--seed N] [--first N] [--count N] [--seconds N] [--jobs N]
//               [--type f16|bf16|f32|f64] [--direction forward|data|weights]
//               [--fpmath strict|tf32|bf16|f16|any] [--positive] [--refused]
//               [--refused-problems] [--small-groups] [--only NAME] [--list]
//               [--times] [--problems FILE]
//
// --refused also tries kernels that gradnn does not use ("unused" in the table),
// --refused-problems problems that it refuses to cuDNN ("refused"), so that rules
// can be seen to be needed; --positive draws values of [0, 1] in place of [-1, 1], and holds no
// result to the promise in norm; --small-groups draws problems of several groups and
// few positions; --only takes the kernels with that in their names;
// --list prints every trial; --times prints, in the order of the heuristics, each
// kernel's time on zeros and its workspace, in place of looking at values; --problems
// reads problems, one a line, as this program prints them. --jobs processes share the GPU: most of the time goes into making
// plans on the host.
//
// Each process is a child of this one. Where it dies, or a trial takes over 30
// seconds, that is the fault of the trial, and another child goes on behind it.
// Ends with 1 if something that gradnn would use is off by more than promised, is
// not deterministic, writes where it may not, or dies; with 77 without a GPU.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <iostream>
#include <map>
#include <new>
#include <span>
#include <string>
#include <vector>

#include "cudnn_worker.hpp"
#include "gpu/convolution/cudnn/library.hpp"
#include "gpu/runtime/device.hpp"

namespace gradnn::sweep {
namespace {

constexpr int skipped = 77;

/// Of memory that children share with this process, all zeros.
template <typename Value>
std::span<Value> shared(size_t count) {
    void *const memory = mmap(nullptr, count * sizeof(Value),
            PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    return {static_cast<Value *>(memory), count};
}

/// The work's result, in a child, so that this process never uses CUDA.
template <typename Work>
pid_t in_child(const Work &work) {
    std::cout.flush();
    const pid_t child = fork();
    if (child < 0) throw std::runtime_error("no child process");
    if (child != 0) return child;
    int status = 2;
    try {
        status = work();
    } catch (const std::exception &failure) {
        print(std::string("cudnn_sweep: ") + failure.what());
    }
    // CUDA's memory is of no interest.
    _exit(status);
}

int find_gpu() {
    if (gpu::device_count() == 0) {
        print("cudnn_sweep: skipped: " + gpu::no_device_reason());
        return skipped;
    }
    if (gpu::cudnn::library().version == 0) {
        print("cudnn_sweep: skipped, no cuDNN: "
                + gpu::cudnn::library().missing);
        return skipped;
    }
    print(gpu::properties_of(0).info.name + ", cuDNN "
            + gpu::cudnn::version_text());
    return 0;
}

class sweep {
public:
    explicit sweep(cudnn_settings given)
        : settings_(std::move(given)),
          progress_(
                  shared<cudnn_progress>(static_cast<size_t>(settings_.jobs))) {
        for (size_t job = 0; job < progress_.size(); ++job)
            progress_[job].problem
                    = settings_.first + static_cast<int64_t>(job);
    }

    int run() {
        int status = 0;
        waitpid(in_child(find_gpu), &status, 0);
        if (!WIFEXITED(status)) return 2;
        if (WEXITSTATUS(status) != 0) return WEXITSTATUS(status);
        for (size_t job = 0; job < progress_.size(); ++job)
            start(job);
        while (!children_.empty()) {
            const pid_t ended = waitpid(-1, &status, 0);
            const auto child = children_.find(ended);
            if (child == children_.end()) continue;
            const size_t job = child->second;
            children_.erase(child);
            if (status == 0) continue;
            if (!count_end(progress_[job], status)) return 2;
            if (!settings_.is_over()) start(job);
        }
        return summarize();
    }

private:
    void start(size_t job) {
        cudnn_progress &progress = progress_[job];
        children_[in_child([&] {
            try_problems(settings_, progress);
            return 0;
        })] = job;
    }

    /// What a child left behind that did not finish; whether the sweep goes on.
    static bool count_end(cudnn_progress &progress, int status) {
        if (WIFEXITED(status) && WEXITSTATUS(status) == unusable) return true;
        if (!progress.begun) return false;
        ++progress.table.rows[progress.row].deaths;
        report_fault(progress,
                WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM
                        ? "takes too long"
                        : WIFSIGNALED(status)
                        ? std::string("dies: ") + strsignal(WTERMSIG(status))
                        : "ends with " + std::to_string(WEXITSTATUS(status)));
        return true;
    }

    int summarize() const {
        std::vector<engine_table> tables;
        int64_t problems = 0;
        int64_t faults = 0;
        for (const cudnn_progress &progress : progress_) {
            tables.push_back(progress.table);
            problems += progress.problems;
            faults += progress.faults;
        }
        print_rows(tables);
        std::cout << problems << " problems from " << settings_.first
                  << " on, of seed " << settings_.seed << ": " << faults
                  << " faults" << std::endl;
        return faults > 0 ? 1 : 0;
    }

    const cudnn_settings settings_;
    const std::span<cudnn_progress> progress_;
    std::map<pid_t, size_t> children_;
};

/// Problems that fill a GPU, with sums of up to 10^5 terms.
limits large() {
    limits most;
    most.elements = 4000000;
    most.products = 150000000;
    most.images = 32;
    most.axis = {20000, 256, 40};
    for (const int64_t channels : {64, 96, 128, 128, 160, 192, 256, 256, 384,
                 512, 512, 768, 1024, 2048})
        most.channels.push_back(channels);
    return most;
}

void read_problems(cudnn_settings &settings, const std::string &name) {
    std::ifstream file(name);
    if (!file) throw std::invalid_argument("cannot read " + name);
    for (std::string line; std::getline(file, line);)
        if (!line.empty()) settings.listed.push_back(from_text(line));
    settings.count = static_cast<int64_t>(settings.listed.size());
}

cudnn_settings parse(const std::vector<std::string> &arguments) {
    static const std::map<std::string, fpmath_mode> modes {
            {"strict", fpmath_mode::strict}, {"bf16", fpmath_mode::bf16},
            {"f16", fpmath_mode::f16}, {"tf32", fpmath_mode::tf32},
            {"any", fpmath_mode::any}};
    cudnn_settings s;
    s.from.types.push_back(detail::data_type::f64);
    s.from.most = large();
    for (size_t index = 0; index < arguments.size(); ++index) {
        const std::string &option = arguments[index];
        const auto value = [&]() -> const std::string & {
            return arguments.at(++index);
        };
        if (option == "--seed")
            s.seed = std::stoull(value());
        else if (option == "--first")
            s.first = std::stoll(value());
        else if (option == "--count")
            s.count = std::stoll(value());
        else if (option == "--seconds")
            s.seconds = std::stoll(value());
        else if (option == "--jobs")
            s.jobs = std::max(1, std::stoi(value()));
        else if (option == "--type")
            s.from.type = type_named(value());
        else if (option == "--direction")
            s.from.direction = direction_named(value());
        else if (option == "--fpmath")
            s.fpmath = modes.at(value());
        else if (option == "--positive")
            s.signs = sign::positive;
        else if (option == "--refused")
            s.refused_too = true;
        else if (option == "--refused-problems")
            s.refused_problems = true;
        else if (option == "--small-groups") {
            s.from.grouped = true;
            s.from.most.axis = {8, 5, 4};
        } else if (option == "--only")
            s.only = value();
        else if (option == "--list")
            s.list = true;
        else if (option == "--times")
            s.times = true;
        else if (option == "--problems")
            read_problems(s, value());
        else
            throw std::invalid_argument("unknown option " + option);
    }
    return s;
}

} // namespace
} // namespace gradnn::sweep

int main(int count, char **arguments) {
    try {
        return gradnn::sweep::sweep(
                gradnn::sweep::parse({arguments + 1, arguments + count}))
                .run();
    } catch (const std::exception &failure) {
        std::cerr << "cudnn_sweep: " << failure.what() << '\n';
        return 2;
    }
}
