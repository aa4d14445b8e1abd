// interpolation.gpu_resample on the CPU: the kernels of random problems, by random ways to
// cut them, and the form that takes everything are compiled by the C++ compiler from the text
// that NVRTC or nvcc would get, executed (emulated/simt.hpp) and compared with the formula,
// and bit by bit with one another, those with ops in their loads and stores with these ops
// one by one. Needs no GPU.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/text.hpp"
#include "emulated/compiled.hpp"
#include "emulated/typed.hpp"
#include "gpu/jit/specification_text.hpp"
#include "gpu_cuts/expected_sums.hpp"
#include "gpu_cuts/generations.hpp"
#include "gpu_cuts/resample.hpp"

namespace gradnn::test {
namespace {

using namespace gpu::resample;
using detail::axis_map;
using detail::data_type;
using detail::interpolation_problem;
using detail::tensor_view;
using detail::text;

/// A kernel for a problem's tensors, at multiples of 16 bytes or anywhere.
struct job {
    size_t problem;
    bool aligned;
    mapped_problem mapped;
    std::string specification; ///< empty: the form that takes everything
};

std::string numbered(const std::string &text, size_t number) {
    const std::string name = "specification_of_kernel specification {";
    const size_t at = text.find(name);
    return text.substr(0, at) + "specification_of_kernel specification_"
            + std::to_string(number) + " {" + text.substr(at + name.size());
}

std::string source_of(const std::vector<job> &jobs) {
    std::string source
            = "#include \"gpu/interpolation/generic.cuh\"\n"
              "#include \"gpu/interpolation/lines.cuh\"\n"
              "extern \"C\" void limit(const void *begin, const void *end, "
              "const "
              "void *other, const void *end_of_other, const void *steps, "
              "const void *end_of_steps) {\n"
              "gradnn::emulated::tensors = {{begin, end}, {other, "
              "end_of_other}, {steps, end_of_steps}}; }\n";
    for (const char *const type : {"f32", "f64", "bf16", "f16"}) {
        const std::string name = text("element::", type);
        source += text("extern \"C\" void any_", type,
                "(const void *read, void *written, const void *map, const void "
                "*of, int resident, bool descending) {\n"
                "using namespace gradnn::gpu::resample;\nusing type = "
                "stored_of<",
                name, ">;\nusing maps = tables<sum_of<", name,
                ">>;\nauto ordered_map = *(const maps *)map;\n"
                "const auto &p = *(const problem_specification *)of;\n"
                "auto ordered = p;\norder_by_sums(p, ordered);\n"
                "order_by_sums(p, ordered_map);\n"
                "const auto h = sharing_of(ordered, false, false, resident);\n"
                "const auto run = [&]<int vector, int together>() "
                "{\nconst auto kernel = p.prologue == fused_op::none "
                "&& epilogues_of(p) == 0 ? resample_any_kernel<",
                name,
                ", vector, together, 1, work::plain> "
                ": resample_any_kernel<",
                name,
                ", vector, together, 1, work::with_ops>;\n"
                "gradnn::emulated::launch(3, 64, 0, descending, [&] { "
                "kernel((const type *)read, (type *)written, ordered_map, "
                "ordered, h, nullptr, false); }); };\n"
                "if (h.vector > 1) run.template operator()<16 / sizeof(type), "
                "1>();\n"
                "else if (h.together == 1) run.template operator()<1, 1>();\n"
                "else run.template operator()<1, 4>();\n}\n");
    }
    // Blocks of tiles: few, which have ranges of them, and many, which have neighbouring ones.
    constexpr const char *resident[] = {"3", "19", "40"};
    for (size_t i = 0; i < jobs.size(); ++i) {
        if (jobs[i].specification.empty()) continue;
        const std::string s = "specification_" + std::to_string(i);
        source += numbered(jobs[i].specification, i) + "extern \"C\" void run_"
                + std::to_string(i)
                + "(const void *read, void *written, const void *map, bool "
                  "descending) {\nusing namespace gradnn::gpu::resample;\n"
                  "constexpr auto g = geometry_of("
                + s + ");\nconst unsigned grid = " + s
                + ".cut_by.stages ? std::min(g.grid, " + resident[i % 3]
                + ") : g.grid;\n"
                  "using type = stored_of<"
                + s + ".of.type>;\nusing maps = tables<sum_of<" + s
                + ".of.type>>;\ngradnn::emulated::launch(grid, " + s
                + ".cut_by.threads, g.shared_bytes, descending, [&] { resample<"
                + s
                + ">((const type *)read, (type *)written, *(const maps *)map); "
                  "});\n}\n";
    }
    return source;
}

/// Rows of lines that are copied from a line of the caches on, or wider than a block; tiles of f64
/// that gather, or of one axis that are parts of rows and that many blocks have side by side.
bool is_rare(const problem_specification &p, const cut &c) {
    const geometry g = geometry_of({p, c});
    if (p.walk_first)
        return g.copy_alignment > bytes_of_piece || g.layer_threads > c.threads;
    return (p.type == element::f64 && c.gathers)
            || (c.stages > 0 && !p.walk.is_there() && g.tile_strips > 1
                    && g.grid >= 8 * g.tile_strips);
}

class resample_emulated : public testing::Test {
protected:
    std::vector<detail::fused_interpolation> problems;
    std::vector<job> jobs;

    /// What a plan takes first for the last problem on one of the GPUs of all generations.
    void add_first_choice(
            const detail::fused_interpolation &problem, random_source &random) {
        const auto last = static_cast<int64_t>(std::size(generations)) - 1;
        const element type = element_of(problem.problem.diff_src.type);
        const bool aligned = random.integer(0, 1) == 0;
        std::string refusal;
        const auto form = specification_of(
                problem, aligned ? 16 : bytes_of(type), refusal);
        if (!form) return;
        const auto choices = choices_of(*form,
                generations[static_cast<size_t>(random.integer(0, last))]
                        .facts);
        if (choices.empty()) return;
        // Those drawn may sum along another axis first than a plan would: other bits.
        const problem_specification &drawn = jobs.back().mapped.specification,
                                    &of = form->specification;
        if (of.walk_first != drawn.walk_first
                || of.walk.read_pitch != drawn.walk.read_pitch)
            return;
        jobs.push_back({problems.size(), aligned, *form,
                text_of({form->specification, choices.front().cut_by})});
    }

    /// Kernels of `cuts` cuts for each of `count` random problems, and a plan's.
    void draw(random_source &random, size_t count, size_t cuts) {
        for (const auto &each : odd_rows())
            draw_cuts({each}, random, cuts);
        while (problems.size() < count)
            draw_cuts(random_fused_interpolation(random), random, cuts);
    }
    void draw_cuts(const detail::fused_interpolation &fused,
            random_source &random, size_t cuts) {
        const interpolation_problem &p = fused.problem;
        // Also where it would not pay.
        const bool walks_first
                = fused.prologue.empty() && random.integer(0, 1) == 0;
        const bool turned = walks_first && random.integer(0, 1) == 0;
        bool any = false;
        for (size_t i = 0; i < cuts; ++i) {
            const bool aligned = random.integer(0, 3) != 0;
            std::string refusal;
            const auto drawn = specification_of(fused,
                    aligned ? 16 : bytes_of(element_of(p.diff_src.type)),
                    refusal);
            if (!drawn) break;
            mapped_problem form = *drawn;
            mapped_problem other = form; // along the other axis
            std::swap(other.specification.walk, other.specification.middle);
            std::swap(other.maps[0], other.maps[1]);
            if (turned && can_walk_first(other)) form = other;
            form.specification.walk_first
                    |= walks_first && can_walk_first(form);
            auto all = all_cuts(form, h100);
            const bool staged = random.integer(0, 1) == 0; // both alike
            if (!form.specification.walk_first)
                std::erase_if(all, [&](const auto &each) {
                    return (each.stages > 0) != staged;
                });
            const auto exchanged
                    = [](const cut &each) { return each.exchanged; };
            if (random.integer(0, 1) == 0
                    && std::ranges::any_of(all, exchanged))
                std::erase_if(all, std::not_fn(exchanged));
            if (all.empty()) continue;
            cut taken = random.pick(all);
            // Now and then one of those that few are like.
            for (int64_t left = random.integer(0, 1) * 50;
                    left > 0 && !is_rare(form.specification, taken); --left)
                taken = random.pick(all);
            jobs.push_back({problems.size(), aligned, form,
                    text_of({form.specification, taken})});
            any = true;
            if (i > 0) continue;
            jobs.push_back({problems.size(), aligned, form, {}});
        }
        if (!any) return;
        add_first_choice(fused, random);
        problems.push_back(fused);
    }

    /// `others` as the problem has ops.
    template <typename Sum>
    void run(const emulated::compiled &library, const job &of, size_t number,
            typed &read, typed &written, std::vector<typed> &others) {
        const host_tables<Sum> host(of.mapped);
        const problem_specification &p = of.mapped.specification;
        const auto axis = [&](size_t a) {
            return axis_table<Sum> {
                    host.places[a].data(), host.weights[a].data()};
        };
        tables<Sum> map {axis(0), axis(1), axis(2), host.steps.data()};
        size_t next = 0;
        const auto bytes_from = [&](typed &tensor) {
            return static_cast<const char *>(others[next++].data())
                    - static_cast<const char *>(tensor.data());
        };
        const bool ahead = p.prologue != fused_op::none;
        if (ahead) map.others.prologue = bytes_from(read);
        for (int e = 0; e < epilogues_of(p); ++e)
            map.others.epilogue[e] = bytes_from(written);
        typed &also_read = ahead ? others[0] : read;
        library.function<void(const void *, const void *, const void *,
                const void *, const void *, const void *)>("limit")(read.data(),
                read.end(), also_read.data(), also_read.end(),
                host.steps.data(), host.steps.data() + host.steps.size());
        if (of.specification.empty()) {
            constexpr const char *names[]
                    = {"any_f32", "any_f64", "any_bf16", "any_f16"};
            const int resident = static_cast<int>(number) % 3 * 100 + 1;
            library.function<void(const void *, void *, const void *,
                    const void *, int, bool)>(
                    names[static_cast<size_t>(p.type)])(
                    read.data(), written.data(), &map, &p, resident, false);
            return;
        }
        library.function<void(const void *, void *, const void *, bool)>(
                "run_" + std::to_string(number))(
                read.data(), written.data(), &map, number % 2 == 0);
    }
};

TEST_F(resample_emulated, random_problems_are_as_the_formula_in_the_same_bits) {
    const uint64_t seed = test_seed(20261129);
    SCOPED_TRACE("GRADNN_TEST_SEED=" + std::to_string(seed));
    random_source random(seed);
    const char *const count = std::getenv("GRADNN_TEST_COUNT");
    draw(random, count ? std::stoul(count) : 27, 3);
    const emulated::compiled library(source_of(jobs));
    ASSERT_TRUE(library.is_there());
    size_t number = 0;
    for (size_t i = 0; i < problems.size(); ++i) {
        const auto &[p, prologue, epilogue] = problems[i];
        const data_type type = p.diff_src.type;
        const auto random_values = [&](const tensor_view &of) {
            std::vector<double> values(elements_of(of));
            for (double &value : values)
                value = typed::rounded(random.value(), type);
            if (random.integer(0, 2) == 0)
                for (int left = 3; left > 0; --left)
                    values[static_cast<size_t>(random.integer(
                            0, static_cast<int64_t>(values.size()) - 1))]
                            = random.pick(std::vector {
                                    HUGE_VAL, -HUGE_VAL, double {NAN}});
            return values;
        };
        const std::vector<double> values = random_values(p.diff_dst);
        std::vector<std::vector<double>> others;
        for (size_t e = 0; e < prologue.size(); ++e)
            others.push_back(random_values(p.diff_dst));
        for (size_t e = 0; e < epilogue.size(); ++e)
            others.push_back(random_values(p.diff_src));
        const auto run_job = [&](const job &of, const std::vector<double> &from,
                                     std::vector<double> &to) {
            const int misplaced
                    = of.aligned ? 0 : static_cast<int>(detail::size_of(type));
            typed read(from, type, misplaced);
            typed written(
                    std::vector<double>(to.size(), -77.0), type, misplaced);
            std::vector<typed> tensors;
            // Each otherwise than the ones before.
            for (size_t e = 0; e < others.size(); ++e)
                tensors.emplace_back(
                        others[e], type, misplaced * (2 + static_cast<int>(e)));
            if (type == data_type::f64)
                run<double>(library, of, number, read, written, tensors);
            else
                run<float>(library, of, number, read, written, tensors);
            ASSERT_TRUE(written.kept_outside());
            written.read(to);
        };
        // The ops one by one.
        std::vector<double> taken = values;
        for (size_t e = 0; e < taken.size() && !prologue.empty(); ++e)
            taken[e] = computed_alone(
                    prologue[0], values[e], others[0][e], type);
        job alone = jobs[number];
        alone.specification.clear();
        alone.mapped.specification.prologue = fused_op::none;
        for (fused_op &op : alone.mapped.specification.epilogue)
            op = fused_op::none;
        std::vector<double> wanted(elements_of(p.diff_src));
        run_job(alone, taken, wanted);
        const expectation expected = expected_of(p, taken);
        for (size_t e = 0; e < wanted.size(); ++e) {
            const double sum = expected.sums[e], found = wanted[e];
            if (!expected.exists[e])
                ASSERT_EQ(found, typed::rounded(-77, type))
                        << "between elements, at " << e;
            else if (std::isfinite(sum))
                ASSERT_LE(std::abs(found - sum),
                        tolerance(type, sum, expected.magnitudes[e]))
                        << "element " << e << ", " << found << " for " << sum;
            else
                ASSERT_TRUE(std::isnan(sum) ? std::isnan(found) : found == sum)
                        << "element " << e << ", " << found << " for " << sum;
            for (size_t op = 0; op < epilogue.size() && expected.exists[e];
                    ++op)
                wanted[e] = computed_alone(epilogue[op], wanted[e],
                        others[prologue.size() + op][e], type);
        }
        for (; number < jobs.size() && jobs[number].problem == i; ++number) {
            SCOPED_TRACE("kernel " + std::to_string(number) + "\n"
                    + jobs[number].specification);
            std::vector<double> found(wanted.size());
            run_job(jobs[number], values, found);
            for (size_t e = 0; e < found.size(); ++e)
                ASSERT_TRUE(std::isnan(wanted[e])
                                ? std::isnan(found[e])
                                : std::bit_cast<uint64_t>(found[e])
                                        == std::bit_cast<uint64_t>(wanted[e]))
                        << "element " << e << ", " << found[e] << " for "
                        << wanted[e];
        }
    }
}

} // namespace
} // namespace gradnn::test
