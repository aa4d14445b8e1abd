// gradnn_fuzz: random problems against the float64 reference, broken files and
// misuse of the API. CONTRIBUTING.md, Fuzzing, says how to use it.
#include <charconv>
#include <cstring>
#include <ctime>
#include <iostream>

#include "runner.hpp"
#include "support/engines.hpp"
#include "worker.hpp"

namespace {

using namespace gradnn;
using namespace gradnn::fuzz;

constexpr const char *usage
        = R"(gradnn_fuzz [option...]: random problems against the float64 reference
  --engine cpu|gpu    where they run (cpu)
  --seed N|today      what is drawn (1); today: the date as YYYYMMDD
  --index N           run the problem of this index alone
  --first N           begin with this index (0)
  --count N           run so many problems
  --minutes X         run so long (without --count, --index and --minutes: 1)
  --ops PART          only op kinds whose names contain PART in lower case;
                      `convolution` is all six convolutions
  --scale X           multiply the work of the problems by this (1)
  --jobs N            threads that draw and verify beside the one that runs (0)
  --timeout SECONDS   when a problem counts as hung (60)
  --folder PATH       where the graphs of findings go (fuzz_findings)
  --write             with --index: write its graph to stdout, run nothing
  FILE.json...        run these graphs instead
Exit status: 0 without findings, 1 with, 2 for wrong options, 77 where the
machine lacks the engine.
)";

struct usage_error : std::runtime_error {
    using std::runtime_error::runtime_error;
};

template <typename Number>
Number number(const std::string &option, const char *text) {
    Number value {};
    const char *const end = text + std::strlen(text);
    const auto [at, failure] = std::from_chars(text, end, value);
    if (failure != std::errc() || at != end || value < 0)
        throw usage_error(
                option + " " + text + ": expected a number of at least 0");
    return value;
}

/// The date in UTC: 20261123.
uint64_t seed_of_today() {
    const std::time_t now = std::time(nullptr);
    std::tm date {};
    gmtime_r(&now, &date);
    return static_cast<uint64_t>((date.tm_year + 1900) * 10'000
            + (date.tm_mon + 1) * 100 + date.tm_mday);
}

struct command {
    fuzz_options options;
    bool write = false;
    std::vector<std::string> files;
};

command parse(int argc, char **argv) {
    command result;
    fuzz_options &o = result.options;
    o.seed = 1;
    bool limited = false;
    for (int at = 1; at < argc; ++at) {
        const std::string name = argv[at];
        if (name.rfind("--", 0) != 0) {
            result.files.push_back(name);
            continue;
        }
        if (name == "--write") {
            result.write = true;
            continue;
        }
        if (++at >= argc) throw usage_error(name + " needs a value");
        const char *const value = argv[at];
        if (name == "--engine") {
            if (std::string(value) != "cpu" && std::string(value) != "gpu")
                throw usage_error(std::string("--engine ") + value
                        + ": cpu or gpu is allowed");
            o.problems.device = std::string(value) == "gpu" ? engine::kind::gpu
                                                            : engine::kind::cpu;
        } else if (name == "--seed") {
            o.seed = std::string(value) == "today"
                    ? seed_of_today()
                    : number<uint64_t>(name, value);
        } else if (name == "--index") {
            o.first = number<uint64_t>(name, value);
            o.count = 1;
            limited = true;
        } else if (name == "--first") {
            o.first = number<uint64_t>(name, value);
        } else if (name == "--count") {
            o.count = number<uint64_t>(name, value);
            limited = true;
        } else if (name == "--minutes") {
            o.minutes = number<double>(name, value);
            limited = true;
        } else if (name == "--ops") {
            o.problems.ops = value;
            o.all_subjects = o.problems.ops.empty();
        } else if (name == "--scale") {
            o.problems.scale = number<double>(name, value);
        } else if (name == "--jobs") {
            o.jobs = number<int>(name, value);
        } else if (name == "--timeout") {
            o.timeout = number<int64_t>(name, value);
        } else if (name == "--folder") {
            o.folder = value;
        } else {
            throw usage_error(name + " is no option");
        }
    }
    if (!limited) o.minutes = 1;
    return result;
}

int run_files(const command &given) {
    const engine e = test::shared_engine(given.options.problems.device);
    int findings = 0;
    for (const std::string &file : given.files) {
        const std::string finding = run_all(from_json(file), e);
        std::cout << file << ": " << (finding.empty() ? "ok" : finding)
                  << std::endl;
        findings += finding.empty() ? 0 : 1;
    }
    return findings == 0 ? 0 : 1;
}

} // namespace

int main(int argc, char **argv) {
    if (argc == 2 && std::string(argv[1]) == "--help") {
        std::cout << usage;
        return 0;
    }
    try {
        const command given = parse(argc, argv);
        if (!given.files.empty()) return run_files(given);
        if (given.write) {
            std::cout << text_of(given.options, given.options.first);
            return 0;
        }
        const int64_t findings = gradnn::fuzz::fuzz(given.options);
        return findings < 0 ? 77 : findings == 0 ? 0 : 1;
    } catch (const usage_error &failure) {
        std::cerr << "gradnn_fuzz: " << failure.what() << '\n' << usage;
        return 2;
    } catch (const std::exception &failure) {
        std::cerr << "gradnn_fuzz: " << failure.what() << '\n';
        return 1;
    }
}
