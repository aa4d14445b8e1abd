// convolution.gpu_sliding on the CPU: the kernels of random problems, by all ways to cut
// them, are compiled by the C++ compiler from the text that NVRTC would get, executed
// (emulated/simt.hpp) and compared with the formula. Needs no GPU.
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "emulated/compiled.hpp"
#include "emulated/typed.hpp"
#include "gpu/convolution/operands.hpp"
#include "gpu/convolution/sliding/cuts.hpp"
#include "gpu_cuts/sliding.hpp"

namespace gradnn::test {
namespace {

using namespace gpu::sliding;

struct job {
    detail::fused_convolution problem;
    int alignment;
    std::string specification;
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
        source << numbered(jobs[i].specification, i) << "extern \"C\" void run_"
               << i
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
    std::set<std::string> seen;
    while (jobs.size() < count) {
        const auto problem = random_fused_depthwise(random);
        const convolution_problem &p = problem.problem;
        const bool aligned = random.integer(0, 3) != 0;
        const auto bytes = static_cast<int>(detail::size_of(p.src.type));
        std::string refusal;
        const auto forms = specifications_of(problem, aligned ? 16 : bytes,
                random.integer(0, 2) != 0, refusal);
        const bool of_weights
                = p.direction == convolution_direction::backward_weights;
        for (const problem_specification &form : forms) {
            std::vector<job> made;
            if (of_weights)
                for (auto each : weights_choices(cut_for(form), h100)) {
                    // As plans do where tensors begin anywhere.
                    each.specification.of.alignment = form.alignment;
                    if (!weights_geometry::of(each.specification).fits)
                        continue;
                    made.push_back({problem, form.alignment,
                            text_of(each.specification), true});
                }
            else
                for (const auto &each : data_choices(form, h100))
                    made.push_back({problem, form.alignment,
                            text_of(each.specification), false});
            if (made.empty()) continue;
            jobs.push_back(random.pick(made));
        }
    }
    return jobs;
}

TEST(sliding_emulated, random_problems_are_as_the_formula) {
    const uint64_t seed = test_seed(20261127);
    SCOPED_TRACE("GRADNN_TEST_SEED=" + std::to_string(seed));
    random_source random(seed);
    const char *const count = std::getenv("GRADNN_TEST_COUNT");
    const std::vector<job> jobs
            = random_jobs(random, count ? std::stoul(count) : 40);
    const emulated::compiled library(source_of(jobs));
    ASSERT_TRUE(library.is_there());
    for (size_t i = 0; i < jobs.size(); ++i) {
        const auto &[p, prologue, epilogue] = jobs[i].problem;
        SCOPED_TRACE(jobs[i].specification);
        const size_t output = gpu::output_of(p.direction);
        std::array<memory, 3> data = random_data(p, output, random);
        for (size_t input = 0; input < 3; ++input)
            if (input != output)
                for (double &value : data[input])
                    value = std::round(4 * value);
        // What is not finite meets the zeros that stand for what lies outside.
        if (random.integer(0, 2) == 0) {
            const size_t input = (output + (random.integer(0, 1) ? 1 : 2)) % 3;
            const auto last = static_cast<int64_t>(data[input].size()) - 1;
            data[input][static_cast<size_t>(random.integer(0, last))]
                    = random.pick(
                            std::vector {HUGE_VAL, -HUGE_VAL, double {NAN}});
        }
        std::array<memory, 3> expected = data;
        by_formula(p, output, expected);
        const int misplaced = jobs[i].alignment == 16
                ? 0
                : static_cast<int>(detail::size_of(p.src.type));
        std::vector<typed> tensors;
        const data_type types[] = {p.src.type, p.weights.type, p.dst.type};
        for (size_t t = 0; t < 3; ++t)
            tensors.emplace_back(data[t], types[t], t == 1 ? 0 : misplaced);
        std::vector<typed> others;
        gpu::jit::fused_places places {};
        for (double &value : expected[output])
            value = typed::rounded(value, types[output]);
        for (size_t op = 0; op < epilogue.size(); ++op) {
            memory other(data[output].size());
            for (double &value : other)
                value = typed::rounded(random.value(), types[output]);
            others.emplace_back(other, types[output],
                    misplaced * static_cast<int>(random.integer(0, 3)));
            places.epilogue[op]
                    = static_cast<const char *>(others.back().data())
                    - static_cast<const char *>(tensors[output].data());
            const detail::tensor_view &view = output == 0 ? p.src : p.dst;
            for_each(view.dims, [&](const std::array<int64_t, 5> &index) {
                const auto at = static_cast<size_t>(dot(index, view.strides));
                double &value = expected[output][at];
                value = computed_alone(
                        epilogue[op], value, other[at], types[output]);
            });
        }
        const bool to_src = p.direction == convolution_direction::backward_data;
        library.function<void(void *, void *, void *, const void *, bool)>(
                "run_" + std::to_string(i))(tensors[to_src ? 2 : 0].data(),
                tensors[1].data(), tensors[to_src ? 0 : 2].data(),
                jobs[i].of_weights ? static_cast<const void *>(&p) : &places,
                i % 2 == 0);
        tensors[output].read(data[output]);
        ASSERT_TRUE(same(data[output], expected[output])) << "kernel " << i;
        ASSERT_TRUE(tensors[output].kept_outside()) << "kernel " << i;
    }
}

} // namespace
} // namespace gradnn::test
