// convolution.gpu_sliding on the CPU: the kernels of random problems, by all ways to cut
// them, are compiled by the C++ compiler from the text that NVRTC would get, executed
// (emulated/simt.hpp) and compared with the formula; those that plans take on GPUs of all
// generations are compared bit by bit with one another. Needs no GPU.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/text.hpp"
#include "emulated/compiled.hpp"
#include "emulated/typed.hpp"
#include "gpu/convolution/operands.hpp"
#include "gpu/convolution/sliding/cuts.hpp"
#include "gpu_cuts/generations.hpp"
#include "gpu_cuts/sliding.hpp"

namespace gradnn::test {
namespace {

using namespace gpu::sliding;
using detail::text;

struct job {
    detail::fused_convolution problem;
    kernel_specification kernel;
    bool of_weights;
};

std::string numbered(const std::string &text, size_t number) {
    const std::string name = "_specification specification {";
    const size_t at = text.find(name);
    return text.substr(0, at) + "_specification specification_"
            + std::to_string(number) + " {" + text.substr(at + name.size());
}

const char *name_of(data_type type) {
    switch (type) {
        case data_type::f64: return "double";
        case data_type::f16: return "__half";
        case data_type::bf16: return "__nv_bfloat16";
        default: return "float";
    }
}

/// run_<number>(read, weights, written, others, descending) of all jobs; of weights
/// `others` are the problem.
std::string source_of(const std::vector<job> &jobs) {
    std::ostringstream source;
    source << "#include \"gpu/convolution/sliding/data.cuh\"\n"
              "#include \"gpu/convolution/sliding/weights.cuh\"\n"
              "#include \"gpu/convolution/weights_sum.cuh\"\n"
              "#include \"kernel/problem.hpp\"\n"
              "using gradnn::emulated::launch;\n";
    for (size_t i = 0; i < jobs.size(); ++i) {
        const std::string s
                = "gradnn::gpu::sliding::specification_" + std::to_string(i);
        source << numbered(text_of(jobs[i].kernel), i)
               << "extern \"C\" void run_" << i
               << "(void *read, void *weights, void *written, const void "
                  "*others, bool descending) {\n"
                  "using namespace gradnn::gpu::sliding;\n"
                  "using type = stored_of<"
               << s << ".of.type>;\nconstexpr auto g = "
               << (jobs[i].of_weights ? "weights" : "data") << "_geometry::of("
               << s << ");\n";
        if (jobs[i].of_weights)
            source << "std::vector<sum_of<" << s << ".of.type>> parts(" << s
                   << ".cut.parts * size_t(" << s << ".of.channels * " << s
                   << ".of.multiplier * " << s << ".of.depth.taps * " << s
                   << ".of.row.taps * " << s
                   << ".of.column.taps), NAN);\n"
                      "launch(g.grid, "
                   << s
                   << ".cut.threads, g.shared_bytes, descending, [&] { "
                      "slide_weights<"
                   << s
                   << ">((const type *)read, (const type *)written, "
                      "parts.data()); });\n"
                      "using src = "
                   << name_of(jobs[i].problem.problem.src.type)
                   << ";\nusing result = "
                   << name_of(jobs[i].problem.problem.weights.type)
                   << ";\nconst gradnn::gpu::partial_weights<int> of(*(const "
                      "gradnn::detail::convolution_problem *)others, "
                   << s
                   << ".cut.parts, true);\n"
                      "launch(3, 256, 0, descending, [&] { "
                      "gradnn::gpu::convolution_weights_sum_kernel<src, "
                      "result, int>(parts.data(), (const src *)read, (const "
                      "src "
                      "*)written, (result *)weights, of); });\n}\n";
        else
            source << "launch(g.grid, " << s
                   << ".cut.threads, g.shared_bytes, descending, [&] { "
                      "slide_data<"
                   << s
                   << ">((const type *)read, (const type *)weights, (type "
                      "*)written, *(const fused_places *)others); });\n}\n";
    }
    return source.str();
}

problem_specification cut_for(problem_specification form) {
    form.alignment = 16;
    return form;
}

std::vector<job> random_jobs(random_source &random, size_t count) {
    std::vector<job> jobs;
    while (jobs.size() < count) {
        const auto problem = random_fused_depthwise(random);
        const convolution_problem &p = problem.problem;
        const bool aligned = random.integer(0, 3) != 0;
        const auto bytes = static_cast<int>(detail::size_of(p.src.type));
        std::string refusal;
        const auto forms = specifications_of(problem, aligned ? 16 : bytes,
                random.integer(0, 2) != 0, refusal);
        const bool of_weights = gpu::is_of_weights(p);
        for (const problem_specification &form : forms) {
            std::vector<job> made;
            if (of_weights)
                for (auto each : weights_choices(cut_for(form), h100)) {
                    // As plans do where tensors begin anywhere.
                    each.specification.of.alignment = form.alignment;
                    if (weights_geometry::of(each.specification).fits)
                        made.push_back({problem, each.specification, true});
                }
            else
                for (const auto &each : data_choices(form, h100))
                    made.push_back({problem, each.specification, false});
            if (made.empty()) continue;
            jobs.push_back(random.pick(made));
        }
    }
    return jobs;
}

double &random_element(memory &all, random_source &random) {
    const auto last = static_cast<int64_t>(all.size()) - 1;
    return all[static_cast<size_t>(random.integer(0, last))];
}

/// A problem's tensors in their types, and those of the ops behind it.
struct operands {
    std::array<memory, 3> data;
    std::vector<memory> others;

    operands(const detail::fused_convolution &of, random_source &random)
        : data(random_data(
                of.problem, gpu::output_of(of.problem.direction), random)) {
        const convolution_problem &p = of.problem;
        const size_t output = gpu::output_of(p.direction);
        const data_type type = output == 0 ? p.src.type : p.dst.type;
        for (size_t op = 0; op < of.epilogue.size(); ++op) {
            others.emplace_back(data[output].size());
            for (double &value : others.back())
                value = typed::rounded(random.value(), type);
        }
    }
    /// Of an input, which meets the zeros that stand for what lies outside.
    void set_one_not_finite(size_t output, random_source &random) {
        const size_t input = (output + (random.integer(0, 1) ? 1 : 2)) % 3;
        random_element(data[input], random)
                = random.pick(std::vector {HUGE_VAL, -HUGE_VAL, double {NAN}});
    }

    /// What a kernel makes of them, at multiples of 16 bytes or, as it was compiled, not.
    memory made_by(const job &of, const emulated::compiled &library,
            size_t number) const {
        const convolution_problem &p = of.problem.problem;
        const size_t output = gpu::output_of(p.direction);
        const int misplaced = of.kernel.of.alignment == 16
                ? 0
                : static_cast<int>(detail::size_of(p.src.type));
        std::vector<typed> tensors, of_ops;
        const data_type types[] = {p.src.type, p.weights.type, p.dst.type};
        for (size_t t = 0; t < 3; ++t)
            tensors.emplace_back(data[t], types[t], t == 1 ? 0 : misplaced);
        gpu::jit::fused_places places {};
        for (size_t op = 0; op < others.size(); ++op) {
            of_ops.emplace_back(others[op], types[output],
                    misplaced * static_cast<int>((number + op) % 4));
            places.epilogue[op]
                    = static_cast<const char *>(of_ops.back().data())
                    - static_cast<const char *>(tensors[output].data());
        }
        const bool to_src = gpu::is_to_src(p);
        library.function<void(void *, void *, void *, const void *, bool)>(
                text("run_", number))(tensors[to_src ? 2 : 0].data(),
                tensors[1].data(), tensors[to_src ? 0 : 2].data(),
                of.of_weights ? static_cast<const void *>(&p) : &places,
                number % 2 == 0);
        EXPECT_TRUE(tensors[output].kept_outside());
        memory made = data[output];
        tensors[output].read(made);
        return made;
    }
};

/// GRADNN_TEST_COUNT, or `usual`.
size_t count_of_problems(size_t usual) {
    const char *const count = std::getenv("GRADNN_TEST_COUNT");
    return count ? std::stoul(count) : usual;
}

TEST(sliding_emulated, random_problems_are_as_the_formula) {
    const uint64_t seed = test_seed(20261127);
    SCOPED_TRACE("GRADNN_TEST_SEED=" + std::to_string(seed));
    random_source random(seed);
    const std::vector<job> jobs = random_jobs(random, count_of_problems(40));
    const emulated::compiled library(source_of(jobs));
    ASSERT_TRUE(library.is_there());
    for (size_t i = 0; i < jobs.size(); ++i) {
        const auto &[p, prologue, epilogue] = jobs[i].problem;
        SCOPED_TRACE(text_of(jobs[i].kernel));
        const size_t output = gpu::output_of(p.direction);
        operands of(jobs[i].problem, random);
        for (size_t input = 0; input < 3; ++input)
            if (input != output)
                for (double &value : of.data[input])
                    value = std::round(4 * value);
        if (random.integer(0, 2) == 0) of.set_one_not_finite(output, random);
        std::array<memory, 3> expected = of.data;
        by_formula(p, output, expected);
        const data_type type = output == 0 ? p.src.type
                : output == 1              ? p.weights.type
                                           : p.dst.type;
        for (double &value : expected[output])
            value = typed::rounded(value, type);
        for (size_t op = 0; op < epilogue.size(); ++op) {
            const detail::tensor_view &view = output == 0 ? p.src : p.dst;
            for_each(view.dims, [&](const std::array<int64_t, 5> &index) {
                const auto at = static_cast<size_t>(dot(index, view.strides));
                double &value = expected[output][at];
                value = computed_alone(
                        epilogue[op], value, of.others[op][at], type);
            });
        }
        ASSERT_TRUE(same(of.made_by(jobs[i], library, i), expected[output]))
                << "kernel " << i;
    }
}

/// What says in which order a gradient of weights adds its terms.
auto parting_of(const work_cut &c) {
    return std::tuple(c.vector, c.columns, c.strip, c.lanes, c.threads,
            c.multiples, c.run, c.row_taps, c.parts, c.rounds, c.staged_rows,
            c.piece);
}

/// The way a kernel goes through its terms, which is code of its own.
auto way_of(const work_cut &c) {
    return std::tuple(c.row_by_row, c.chunk > 0, c.shared_weights, c.staged,
            c.row_taps > 0, c.staged_rows > 0);
}
using ways = std::set<decltype(way_of({}))>;

/// The kernels that plans try on GPUs of all generations, for tensors at multiples of 16 bytes
/// and for others, each once; those tried first ahead of the others.
std::vector<job> kernels_of_generations(
        const detail::fused_convolution &problem) {
    constexpr size_t tried = 3;
    const bool of_weights = gpu::is_of_weights(problem.problem);
    const auto bytes
            = static_cast<int>(detail::size_of(problem.problem.src.type));
    std::vector<job> made;
    std::set<std::string> seen;
    for (size_t number = 0; number < tried; ++number)
        for (const generation &each : generations)
            for (const int alignment : {16, bytes}) {
                // Weights are cut as where all begins at multiples of 16 bytes.
                const auto all
                        = ranked_choices(problem, of_weights ? 16 : alignment,
                                each.architecture >= 90, each.facts);
                if (number >= all.size()) continue;
                kernel_specification s = all[number].specification;
                s.of.alignment = alignment;
                if (of_weights && !weights_geometry::of(s).fits) continue;
                if (seen.insert(text_of(s)).second)
                    made.push_back({problem, s, of_weights});
            }
    return made;
}

/// So many of a problem's kernels, of all ways if there is more than one, or of a gradient of
/// weights: else none.
std::vector<job> unlike_ones(std::vector<job> all, size_t most, ways &found) {
    std::vector<job> of_new_ways, others;
    for (const job &each : all)
        (found.insert(way_of(each.kernel.cut)).second ? of_new_ways : others)
                .push_back(each);
    all = of_new_ways;
    all.insert(all.end(), others.begin(), others.end());
    all.resize(std::min(all.size(),
            found.size() > 1 || (!all.empty() && all[0].of_weights) ? most
                                                                    : 0));
    return all;
}

/// Whether all elements have the same bits; all NaN are alike.
testing::AssertionResult same_bits(const memory &found, const memory &wanted) {
    for (size_t i = 0; i < wanted.size(); ++i)
        if (std::isnan(wanted[i]) ? !std::isnan(found[i])
                                  : std::bit_cast<uint64_t>(found[i])
                                != std::bit_cast<uint64_t>(wanted[i]))
            return testing::AssertionFailure()
                    << "element " << i << ": " << found[i] << " for "
                    << wanted[i];
    return testing::AssertionSuccess();
}

// Whole numbers have the same sum in any order, these do not. An element of data has one order
// of terms: its bits are those of every GPU and alignment. A gradient of weights is parted as
// fills a GPU, and only where two part it differently may their bits differ.
TEST(sliding_emulated, kernels_of_all_generations_have_the_same_bits) {
    const uint64_t seed = test_seed(22);
    SCOPED_TRACE("GRADNN_TEST_SEED=" + std::to_string(seed));
    random_source random(seed);
    const size_t wanted = count_of_problems(12);
    constexpr size_t most_kernels = 3;
    std::vector<job> jobs;
    std::vector<size_t> ends; // of problems
    std::map<std::tuple<bool, bool, ways>, size_t> drawn;
    while (ends.size() < wanted) {
        const auto problem = random_fused_depthwise(random);
        // 16 bits show few of the differences that f32 has.
        if (detail::size_of(problem.problem.src.type) == 2
                && random.integer(0, 3) > 0)
            continue;
        ways all;
        const auto made = unlike_ones(
                kernels_of_generations(problem), most_kernels, all);
        if (made.size() < 2) continue;
        // Of all kinds about as many, one in three with a window of depths.
        const bool deep = made[0].kernel.of.depth.taps > 1;
        if (deep != (ends.size() % 3 == 0)) continue;
        size_t &alike = drawn[{made[0].of_weights, deep, all}];
        if (alike > ends.size() / 12) continue;
        ++alike;
        jobs.insert(jobs.end(), made.begin(), made.end());
        ends.push_back(jobs.size());
    }
    const emulated::compiled library(source_of(jobs));
    ASSERT_TRUE(library.is_there());
    size_t begin = 0, compared = 0;
    for (const size_t end : ends) {
        const size_t output
                = gpu::output_of(jobs[begin].problem.problem.direction);
        operands of(jobs[begin].problem, random);
        for (int trial = 0; trial < 4; ++trial) {
            // Results of data that meet such a weight outside are taken again, and those
            // that the thread has beside them.
            const memory weights = of.data[1];
            if (trial > 0 && output != 1)
                random_element(of.data[1], random) = HUGE_VAL;
            else if (trial > 0)
                of.set_one_not_finite(output, random);
            using parting = decltype(parting_of({}));
            std::map<parting, std::pair<memory, std::string>> firsts;
            for (size_t i = begin; i < end; ++i) {
                const std::string specification = text_of(jobs[i].kernel);
                const memory made = of.made_by(jobs[i], library, i);
                const auto [first, is_new] = firsts.try_emplace(
                        jobs[i].of_weights ? parting_of(jobs[i].kernel.cut)
                                           : parting {},
                        made, specification);
                compared += is_new ? 0 : 1;
                EXPECT_TRUE(same_bits(made, first->second.first))
                        << "kernel " << i << "\n"
                        << specification << "\nthan by\n"
                        << first->second.second;
            }
            of.data[1] = weights;
        }
        begin = end;
    }
    // Of data all but the first, of weights some.
    EXPECT_GE(compared, 4 * ends.size());
    std::cout << compared << " results of " << jobs.size()
              << " kernels compared\n";
}

} // namespace
} // namespace gradnn::test
