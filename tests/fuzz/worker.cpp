#include "worker.hpp"

#include <chrono>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <fstream>
#include <future>
#include <iostream>
#include <memory>
#include <optional>

#ifdef _OPENMP
#include <omp.h>
#endif

#include "broken_files.hpp"

#include "misuse.hpp"
#include "misuse_sample.hpp"
#include "runner.hpp"
#include "support/engines.hpp"

namespace gradnn::fuzz {

namespace {

// Of findings that look alike.
constexpr uint64_t most_reports = 8;

enum class subject { graph, json, npy, misuse };

/// Of (seed, index) alone.
subject subject_of(const fuzz_options &options, random_source &numbers) {
    const int64_t choice = numbers.integer(0, 99);
    if (!options.all_subjects || choice < 90) return subject::graph;
    return choice < 95    ? subject::json
            : choice < 97 ? subject::npy
                          : subject::misuse;
}

/// One index under way. prepare() and verify() may run on other threads.
struct item {
    uint64_t index = 0;
    subject what = subject::graph;
    random_source numbers {0};
    std::optional<run> graph;
    std::string finding;

    item(const fuzz_options &options, uint64_t at)
        : index(at), numbers(numbers_of(options.seed, at)) {
        what = subject_of(options, numbers);
        if (what != subject::graph) return;
        graph.emplace(generate(numbers, options.problems));
        graph->prepare();
    }

    void execute(const fuzz_options &options, const engine &e) {
        switch (what) {
            case subject::graph: graph->execute(e); break;
            case subject::json:
                finding = check_broken_json(numbers, options.problems, e);
                break;
            case subject::npy: finding = check_broken_npy(numbers); break;
            case subject::misuse: finding = check_misuse(numbers, e); break;
        }
    }

    void verify() {
        if (!graph) return;
        graph->verify();
        finding = graph->finding();
    }

    void count(statistics &counts) const {
        ++counts.done;
        if (!graph) {
            counts.by_subject.add(what == subject::json ? "broken JSON"
                            : what == subject::npy      ? "broken npy"
                                                        : "misuse");
            return;
        }
        if (graph->refused()) ++counts.refused;
        for (const op &each : graph->what().ops)
            counts.by_subject.add(to_string(each.get_kind()));
        counts.by_type.add(to_string(
                graph->what().ops.front().get_inputs()[0].get_data_type()));
        for (const std::string &kernel : graph->kernels())
            counts.by_kernel.add(kernel);
    }
};

void use_one_thread() {
#ifdef _OPENMP
    omp_set_num_threads(1);
#endif
}

/// Draws, executes and verifies in the order of the indices; ahead of and
/// behind the execution on other threads, where there are any.
class pipeline {
public:
    pipeline(const fuzz_options &options, const std::set<uint64_t> &skip,
            statistics &counts)
        : options_(options),
          skip_(skip),
          counts_(counts),
          device_(test::shared_engine(options.problems.device)) {}

    /// All that is left, or as much of it as a process should run.
    void run() {
        uint64_t index = counts_.next;
        const uint64_t all = options_.first
                + std::min(options_.count, UINT64_MAX - options_.first);
        const uint64_t end = all - index > most_of_a_process
                ? index + most_of_a_process
                : all;
        ahead_ = index;
        while (index < end && !counts_.stop) {
            fill(end);
            auto made = take();
            const uint64_t at = made->index;
            counts_.current = at;
            counts_.started = milliseconds_now();
            if (!skip_.contains(at)) {
                made->execute(options_, device_);
                hand_on(std::move(made));
            }
            if (options_.jobs == 0) finish(0);
            counts_.started = 0;
            finish(2 * static_cast<size_t>(options_.jobs));
            index = at + 1;
            counts_.next = verifying_.empty() ? index : oldest_;
        }
        finish(0);
        counts_.next = index;
        if (index >= all) counts_.finished = true;
    }

private:
    /// oneDNN 3.2 keeps code that its convolutions compiled, 256 KiB of addresses
    /// each, although they are gone: after a million problems of all sorts that
    /// was the 12 GiB that the supervisor allows.
    static constexpr uint64_t most_of_a_process = 200'000;

    std::shared_ptr<item> draw(uint64_t index) const {
        use_one_thread_if_many();
        return std::make_shared<item>(options_, index);
    }

    void use_one_thread_if_many() const {
        if (options_.jobs > 0) use_one_thread();
    }

    void fill(uint64_t end) {
        const auto most = static_cast<size_t>(std::max(1, options_.jobs));
        while (drawing_.size() < most && ahead_ < end) {
            const uint64_t index = ahead_++;
            drawing_.push_back(
                    std::async(options_.jobs > 0 ? std::launch::async
                                                 : std::launch::deferred,
                            [this, index] { return draw(index); }));
        }
    }

    std::shared_ptr<item> take() {
        auto made = drawing_.front().get();
        drawing_.pop_front();
        return made;
    }

    void hand_on(std::shared_ptr<item> made) {
        if (verifying_.empty()) oldest_ = made->index;
        verifying_.push_back(std::async(
                options_.jobs > 0 ? std::launch::async : std::launch::deferred,
                [this, made] {
                    use_one_thread_if_many();
                    made->verify();
                    return made;
                }));
    }

    /// Waits until no more than `left` are being verified.
    void finish(size_t left) {
        while (verifying_.size() > left) {
            const auto made = verifying_.front().get();
            verifying_.pop_front();
            oldest_ = made->index + 1;
            made->count(counts_);
            if (!made->finding.empty())
                report(options_, made->index, made->finding, counts_);
        }
    }

    const fuzz_options &options_;
    const std::set<uint64_t> &skip_;
    statistics &counts_;
    engine device_;
    std::deque<std::future<std::shared_ptr<item>>> drawing_;
    std::deque<std::future<std::shared_ptr<item>>> verifying_;
    uint64_t ahead_ = 0;
    uint64_t oldest_ = 0;
};

/// Digits become one '#', so that like findings have like texts.
std::string without_numbers(const std::string &text) {
    std::string result;
    for (const char letter : text) {
        const bool digit = std::string_view("0123456789.").find(letter)
                != std::string_view::npos;
        if (!digit)
            result += letter;
        else if (result.empty() || result.back() != '#')
            result += '#';
    }
    return result;
}

} // namespace

int64_t milliseconds_now() {
    return std::chrono::duration_cast<std::chrono::milliseconds>(
            std::chrono::steady_clock::now().time_since_epoch())
            .count();
}

std::string text_of(const fuzz_options &options, uint64_t index) {
    random_source numbers = numbers_of(options.seed, index);
    const subject what = subject_of(options, numbers);
    if (what == subject::json) return broken_json(numbers, options.problems);
    if (what == subject::npy) return {};
    return to_json(what == subject::graph
                    ? generate(numbers, options.problems)
                    : problem_to_misuse(numbers, options.problems.device),
            to_string(options.problems.device));
}

void report(const fuzz_options &options, uint64_t index,
        const std::string &finding, statistics &counts) {
    ++counts.findings;
    random_source numbers = numbers_of(options.seed, index);
    const subject what = subject_of(options, numbers);
    std::string kinds = what == subject::json ? "broken JSON"
            : what == subject::npy            ? "broken npy"
                                              : "misuse";
    if (what == subject::graph) {
        const problem made = generate(numbers, options.problems);
        kinds = kinds_of(made) + " "
                + to_string(made.ops.front().get_inputs()[0].get_data_type());
        if (!made.kernel.empty()) kinds += " " + made.kernel;
    }
    const std::string text = text_of(options, index);
    const std::string file = options.folder + "/seed"
            + std::to_string(options.seed) + "_" + std::to_string(index)
            + (what == subject::json ? ".broken_json" : ".json");
    if (!text.empty()) {
        std::error_code ignored;
        std::filesystem::create_directories(options.folder, ignored);
        std::ofstream(file) << text;
    }
    const uint64_t alike = counts.by_finding.add(
            kinds + ": " + without_numbers(finding).substr(0, 24));
    if (alike > most_reports) return;
    std::cout << "FINDING seed " << options.seed << " index " << index << ": "
              << kinds << ": " << finding;
    if (!text.empty()) std::cout << "; written to " << file;
    if (alike == most_reports) std::cout << "; more of this kind not printed";
    std::cout << std::endl;
}

bool work(const fuzz_options &options, const std::set<uint64_t> &skip,
        statistics &counts) {
    try {
        pipeline(options, skip, counts).run();
        return true;
    } catch (const error &failure) {
        std::cerr << "gradnn_fuzz: " << failure.what() << '\n';
        counts.no_engine = counts.done == 0;
    } catch (const std::exception &failure) {
        std::cerr << "gradnn_fuzz: " << failure.what() << '\n';
    }
    return counts.no_engine;
}

} // namespace gradnn::fuzz
