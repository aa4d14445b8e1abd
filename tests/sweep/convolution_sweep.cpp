// Looks for convolutions that oneDNN computes wrongly: random problems, each by
// every implementation that gradnn may choose and by gradnn's plan, with NaN in
// all that is to be written, watched memory around it, and whole numbers that
// make every sum exact.
//
//   convolution_sweep [--seed N] [--first N] [--count N] [--seconds N]
//                     [--type f32|bf16|f16] [--direction forward|data|weights]
//                     [--fpmath strict|bf16|any] [--threads N] [--only NAME]
//                     [--refused] [--list] [--problems FILE]
//
// --refused tries the implementations that gradnn refuses, too, so that rules can
// be seen to be needed; --list prints every trial; --problems reads problems, one
// a line, as this program prints them. ONEDNN_MAX_CPU_ISA chooses among the
// instruction sets of the machine. Ends with 1 if a trial failed that gradnn does
// not refuse.
//
// Trials run in a child process. Where it dies or takes over a minute, that is the
// fault of the trial that it was at, and another one goes on behind it.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "sweep_problem.hpp"
#include "sweep_trial.hpp"

namespace gradnn::sweep {
namespace {

struct settings {
    uint64_t seed = 1;
    int64_t first = 0;
    int64_t count = 1000;
    int64_t seconds = 1000000;
    choice from;
    int threads = 0; ///< 0: any of 1 to 4
    bool list = false;
    std::string problems;
    trial_options trials;
};

/// What parent and child both see.
struct shared_state {
    int64_t problem; ///< index of the one at hand
    int64_t trial; ///< how many of its trials have begun
    bool refused;
    char text[1024]; ///< the trial at hand
    struct counter {
        char name[64];
        int64_t trials;
        int64_t faults;
        int64_t refused;
        int64_t refused_faults;
    };
    std::array<counter, 64> counters;
    size_t current; ///< index of the counter at hand
    int64_t faults;
};

void print(const std::string &line) {
    const std::string whole = line + '\n';
    if (write(STDOUT_FILENO, whole.data(), whole.size()) < 0) _exit(2);
}

class sweep {
public:
    explicit sweep(settings given) : settings_(std::move(given)) {
        void *const memory = mmap(nullptr, sizeof(shared_state),
                PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) throw std::bad_alloc();
        state_ = new (memory) shared_state {};
        if (!settings_.problems.empty()) {
            std::ifstream file(settings_.problems);
            for (std::string line; std::getline(file, line);)
                if (!line.empty()) listed_.push_back(from_text(line));
            settings_.count = static_cast<int64_t>(listed_.size());
        }
    }

    int run() {
        state_->problem = settings_.first;
        while (!is_over()) {
            const int64_t end = std::min(settings_.first + settings_.count,
                    state_->problem + problems_per_child);
            const pid_t child = fork();
            if (child < 0) throw std::runtime_error("no child process");
            if (child == 0) {
                go_on(end);
                // Neither OpenMP's nor oneDNN's memory is of interest.
                _exit(0);
            }
            int status = 0;
            waitpid(child, &status, 0);
            if (WIFSIGNALED(status))
                count_fault(
                        std::string("dies: ") + strsignal(WTERMSIG(status)));
            else if (WEXITSTATUS(status) == behind_refused)
                continue;
            else if (WEXITSTATUS(status) != 0)
                count_fault("ends with " + std::to_string(WEXITSTATUS(status)));
            else
                state_->trial = 0;
        }
        return summarize();
    }

private:
    static constexpr int64_t problems_per_child = 200;
    static constexpr unsigned trial_seconds = 60;
    /// The status of a child after a trial that gradnn refuses: it may have
    /// written anywhere, so what comes next is another child's.
    static constexpr int behind_refused = 77;

    bool is_over() const {
        return state_->problem >= settings_.first + settings_.count
                || std::chrono::steady_clock::now() - start_
                > std::chrono::seconds(settings_.seconds);
    }

    uint64_t seed_of(int64_t problem) const {
        return settings_.seed * 0x9e3779b97f4a7c15U
                + static_cast<uint64_t>(problem);
    }

    void go_on(int64_t end) {
        const int64_t finished_trials = state_->trial;
        for (bool resumed = true; state_->problem < end && !is_over();
                ++state_->problem, resumed = false)
            try_problem(resumed ? finished_trials : 0);
    }

    void try_problem(int64_t finished_trials) {
        const int64_t index = state_->problem;
        test::random_source random(seed_of(index));
        const auto problem = listed_.empty()
                ? random_problem(random, settings_.from)
                : listed_[static_cast<size_t>(index)];
        trial_options options = settings_.trials;
        options.threads = settings_.threads > 0
                ? settings_.threads
                : static_cast<int>(random.integer(1, 4));
        const values expected = exact_values(problem, seed_of(index));
        const std::string text = to_text(problem) + " threads "
                + std::to_string(options.threads);
        state_->trial = 0;
        try_all(
                problem, expected, options,
                [&](const std::string &name, const std::string &layouts,
                        bool refused) {
                    if (state_->trial++ < finished_trials) return false;
                    begin(name, name + " " + layouts + " : " + text, refused);
                    return true;
                },
                [&](const std::string &fault) {
                    alarm(0);
                    if (!fault.empty())
                        count_fault(fault);
                    else if (settings_.list)
                        print("right " + std::string(state_->text));
                    if (state_->refused) _exit(behind_refused);
                });
    }

    void begin(const std::string &name, const std::string &text, bool refused) {
        auto &counters = state_->counters;
        size_t &at = state_->current;
        for (at = 0; at + 1 < counters.size() && counters[at].name[0] != 0
                && name.compare(
                           0, sizeof(counters[at].name) - 1, counters[at].name)
                        != 0;)
            ++at;
        copy(name, counters[at].name, sizeof(counters[at].name));
        ++(refused ? counters[at].refused : counters[at].trials);
        copy(text, state_->text, sizeof(state_->text));
        state_->refused = refused;
        alarm(trial_seconds);
    }

    static void copy(const std::string &from, char *to, size_t room) {
        const size_t length = std::min(from.size(), room - 1);
        std::memcpy(to, from.data(), length);
        to[length] = 0;
    }

    void count_fault(const std::string &fault) {
        auto &counter = state_->counters[state_->current];
        ++(state_->refused ? counter.refused_faults : counter.faults);
        if (!state_->refused) ++state_->faults;
        print((state_->refused ? "refused " : "FAULT ")
                + std::string(state_->text) + " : " + fault + " ["
                + std::to_string(state_->problem) + "]");
    }

    int summarize() const {
        std::printf("%-40s %8s %8s %8s %8s\n", "implementation", "trials",
                "faults", "refused", "faults");
        for (const auto &counter : state_->counters)
            if (counter.name[0] != 0)
                std::printf("%-40s %8lld %8lld %8lld %8lld\n", counter.name,
                        static_cast<long long>(counter.trials),
                        static_cast<long long>(counter.faults),
                        static_cast<long long>(counter.refused),
                        static_cast<long long>(counter.refused_faults));
        std::printf("problems %lld to %lld of seed %llu: %lld faults\n",
                static_cast<long long>(settings_.first),
                static_cast<long long>(state_->problem),
                static_cast<unsigned long long>(settings_.seed),
                static_cast<long long>(state_->faults));
        return state_->faults > 0 ? 1 : 0;
    }

    settings settings_;
    std::vector<detail::convolution_problem> listed_;
    shared_state *state_ = nullptr;
    const std::chrono::steady_clock::time_point start_
            = std::chrono::steady_clock::now();
};

settings parse(const std::vector<std::string> &arguments) {
    static const std::map<std::string, detail::data_type> types {
            {"f32", detail::data_type::f32}, {"bf16", detail::data_type::bf16},
            {"f16", detail::data_type::f16}};
    static const std::map<std::string, int> directions {
            {"forward", 0}, {"data", 1}, {"weights", 2}};
    static const std::map<std::string, fpmath_mode> modes {
            {"strict", fpmath_mode::strict}, {"bf16", fpmath_mode::bf16},
            {"any", fpmath_mode::any}};
    settings s;
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
        else if (option == "--type")
            s.from.type = types.at(value());
        else if (option == "--direction")
            s.from.direction = directions.at(value());
        else if (option == "--fpmath")
            s.trials.fpmath = modes.at(value());
        else if (option == "--threads")
            s.threads = std::stoi(value());
        else if (option == "--only")
            s.trials.only = value();
        else if (option == "--refused")
            s.trials.refused_too = true;
        else if (option == "--list")
            s.list = true;
        else if (option == "--problems")
            s.problems = value();
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
        std::cerr << "convolution_sweep: " << failure.what() << '\n';
        return 2;
    }
}
