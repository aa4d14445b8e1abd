// gradnn_gpu_choice: which kernels of the GPU engine take which problems, on any
// machine (choice.hpp). One line for each step, in the same order every time:
//
//     gradnn_gpu_choice summary       tests/data/gpu_choice/h200.txt
//     gradnn_gpu_choice bench         the same problems, with backends, and the
//                                     launches that their plans make
//     gradnn_gpu_choice suite         the conformance suite's cases
//     gradnn_gpu_choice random [COUNT [SEED]]  (6000, 1)
//
// And what every row of the lists says of a graph's problems, as `gradnn kernels`
// does where there is a GPU:
//
//     gradnn_gpu_choice kernels GRAPH.json
//
// And what `gradnn info` says of the GPU:
//
//     gradnn_gpu_choice info
#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "compile/kernel_choice.hpp"
#include "driver/commands.hpp"
#include "problems.hpp"

namespace {

using namespace gradnn::test;

int usage() {
    std::cerr << "usage: gradnn_gpu_choice summary | bench | suite | random "
                 "[COUNT [SEED]] | kernels GRAPH.json | info\n";
    return 2;
}

void print_kernels(const std::string &graph) {
    gradnn::driver::kernels_options options;
    options.graph = graph;
    options.engine.engine = "gpu";
    gradnn::driver::show_kernels(options);
}

/// Where a step is cuDNN's to make, what the rows without it say: the stand-in for
/// cuDNN has no engines.
int kernels(const std::string &graph) {
    constexpr const char *row_of_cudnn = "convolution.cudnn";
    use_fake_libraries();
    try {
        print_kernels(graph);
        return 0;
    } catch (const std::exception &failure) {
        if (std::string(failure.what()).find("stand-in for cuDNN")
                        == std::string::npos
                || getenv("GRADNN_KERNEL") != nullptr)
            throw;
    }
    std::cout << "In at least one step convolution.cudnn is taken if cuDNN has "
                 "an engine for the problem, which can be seen on a GPU alone. "
                 "Below, `taken` is what is taken if it has none:\n";
    std::string others;
    for (const auto &row :
            gradnn::detail::kernel_rows(gradnn::engine::kind::gpu))
        if (std::string(row.name) != row_of_cudnn)
            others += (others.empty() ? "" : ",") + std::string(row.name);
    setenv("GRADNN_KERNEL", others.c_str(), 1);
    print_kernels(graph);
    return 0;
}

int print(const std::vector<std::string> &words) {
    if (words.empty()) return usage();
    if (words[0] == "info") return gradnn::driver::info(false);
    if (words[0] == "kernels" && words.size() == 2) return kernels(words[1]);
    const auto number = [&](size_t index, unsigned long fallback) {
        return words.size() > index ? std::stoul(words[index]) : fallback;
    };
    std::vector<choice_problem> problems;
    const bool summary = words[0] == "summary";
    if (summary || words[0] == "bench")
        problems = bench_problems();
    else if (words[0] == "suite")
        problems = suite_problems();
    else if (words[0] == "random")
        problems = random_problems(number(2, 1), number(1, 6000));
    else
        return usage();
    use_fake_libraries();
    const std::string reason = why_not_comparable();
    if (!reason.empty()) std::cerr << "gradnn_gpu_choice: " << reason << '\n';
    if (summary) {
        for (const std::string &line : summary_of(problems))
            std::cout << line << '\n';
        return 0;
    }
    for (const choice_problem &problem : problems) {
        try {
            for (const kernel_choice &choice : choices_of(problem, true))
                std::cout << line_of(problem, choice) << '\n';
        } catch (const std::exception &failure) {
            std::cout << problem.name << "\tfails\t" << failure.what() << '\n';
        }
    }
    return 0;
}

} // namespace

int main(int count, char **words) {
    try {
        return print({words + 1, words + count});
    } catch (const std::exception &failure) {
        std::cerr << "gradnn_gpu_choice: " << failure.what() << '\n';
        return 1;
    }
}
