#include "supervisor.hpp"

#include <csignal>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <new>

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "worker.hpp"

namespace gradnn::fuzz {

namespace {

volatile std::sig_atomic_t interrupted = 0;

void note_signal(int) {
    interrupted = 1;
}

/// Memory that a child shares with its parent, zeroed.
statistics &shared_statistics() {
    void *memory = mmap(nullptr, sizeof(statistics), PROT_READ | PROT_WRITE,
            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    return *new (memory) statistics {};
}

/// A problem that asks for too much memory fails instead of the machine.
void limit_process(engine::kind kind) {
    rlimit none {0, 0};
    setrlimit(RLIMIT_CORE, &none);
#ifndef __SANITIZE_ADDRESS__
    if (kind != engine::kind::cpu) return; // drivers reserve address space
    constexpr rlim_t most = rlim_t {12} << 30;
    rlimit memory {most, most};
    setrlimit(RLIMIT_AS, &memory);
#else
    (void)kind;
#endif
}

std::string how_it_ended(int status) {
    if (WIFSIGNALED(status))
        return std::string("the process was ended by ")
                + strsignal(WTERMSIG(status));
    return "the process ended with status "
            + std::to_string(WEXITSTATUS(status));
}

class supervisor {
public:
    explicit supervisor(const fuzz_options &options)
        : options_(options),
          counts_(shared_statistics()),
          begin_(milliseconds_now()),
          told_(begin_) {
        counts_.next = options.first;
    }

    int64_t run() {
        std::signal(SIGINT, note_signal);
        std::signal(SIGTERM, note_signal);
        std::cout << "gradnn_fuzz: seed " << options_.seed << " on "
                  << to_string(options_.problems.device) << std::endl;
        while (!counts_.finished && !counts_.stop) {
            const pid_t child = start();
            const int status = watch(child);
            if (counts_.no_engine) return -1;
            const bool well = WIFEXITED(status) && WEXITSTATUS(status) == 0;
            if (!well || hung_) note_death(status);
        }
        tell();
        tell_counts();
        return static_cast<int64_t>(counts_.findings);
    }

private:
    pid_t start() {
        std::cout.flush();
        hung_ = false;
        counts_.started = 0;
        const pid_t child = fork();
        if (child < 0) throw std::runtime_error("fork failed");
        if (child != 0) return child;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        limit_process(options_.problems.device);
        const bool well = work(options_, skip_, counts_);
        std::cout.flush();
        std::cerr.flush();
        // Not exit: libraries may hang or crash at their own ends.
        _exit(well ? 0 : 1);
    }

    int watch(pid_t child) {
        for (;;) {
            int status = 0;
            const pid_t ended = waitpid(child, &status, WNOHANG);
            if (ended == child) return status;
            usleep(20'000);
            const int64_t now = milliseconds_now();
            const bool over = options_.minutes > 0
                    && static_cast<double>(now - begin_)
                            > options_.minutes * 60'000;
            if (over || interrupted != 0) counts_.stop = true;
            if (now - told_ > 60'000) tell();
            const int64_t started = counts_.started;
            if (started != 0 && now - started > options_.timeout * 1000
                    && !hung_) {
                hung_ = true;
                kill(child, SIGKILL);
            }
        }
    }

    void note_death(int status) {
        if (counts_.started == 0 && !hung_) {
            // Not while a problem ran: go on, unless nothing goes on.
            std::cout << "gradnn_fuzz: " << how_it_ended(status)
                      << " between problems" << std::endl;
            if (++idle_deaths_ <= most_idle_deaths) return;
            counts_.stop = true;
            ++counts_.findings; // the run is not whole
            return;
        }
        const uint64_t index = counts_.current;
        skip_.insert(index);
        ++counts_.done;
        report(options_, index,
                hung_ ? "no end after " + std::to_string(options_.timeout)
                                + " seconds"
                      : how_it_ended(status),
                counts_);
    }

    void tell() {
        told_ = milliseconds_now();
        const double seconds
                = static_cast<double>(std::max<int64_t>(1, told_ - begin_))
                / 1000;
        std::cout << "gradnn_fuzz: " << counts_.done << " problems in "
                  << static_cast<int64_t>(seconds) << " s, "
                  << static_cast<int64_t>(
                             static_cast<double>(counts_.done) / seconds)
                  << " a second, " << counts_.refused
                  << " refused by a forced kernel, " << counts_.findings
                  << " findings" << std::endl;
    }

    template <typename Counts>
    static void list(const char *title, const Counts &counts) {
        std::cout << title << ':';
        for (size_t index = 0; index < counts.used; ++index)
            std::cout << (index == 0 ? " " : ", ")
                      << counts.rows[index].name.data() << ' '
                      << counts.rows[index].count;
        std::cout << '\n';
    }

    void tell_counts() const {
        list("by op", counts_.by_subject);
        list("by type of input 0", counts_.by_type);
        list("by kernel", counts_.by_kernel);
        if (counts_.by_finding.used != 0)
            list("findings that look alike", counts_.by_finding);
        std::cout.flush();
    }

    const fuzz_options &options_;
    statistics &counts_;
    std::set<uint64_t> skip_;
    int64_t begin_;
    int64_t told_;
    bool hung_ = false;
    static constexpr int most_idle_deaths = 20;
    int idle_deaths_ = 0;
};

} // namespace

int64_t fuzz(const fuzz_options &options) {
    return supervisor(options).run();
}

} // namespace gradnn::fuzz
