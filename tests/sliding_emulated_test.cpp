// convolution.gpu_sliding on the CPU: the kernels of random problems, by all ways to cut
// them, are compiled by the C++ compiler from the text that NVRTC would get, executed
// (emulated/simt.hpp) and compared with the formula. Needs no GPU.
#include <dlfcn.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "gpu/convolution/operands.hpp"
#include "gpu/convolution/sliding/cuts.hpp"
#include "gpu/convolution/sliding/problem_specification.hpp"
#include "gpu_cuts/sliding.hpp"

namespace gradnn::test {
namespace {

using namespace gpu::sliding;

struct job {
    convolution_problem problem;
    int alignment;
    std::string specification;
    std::string described;
    bool of_weights;
    weights_specification weights;
};

std::string numbered(const std::string &text, size_t number) {
    const std::string name = "_specification specification {";
    const size_t at = text.find(name);
    return text.substr(0, at) + "_specification specification_"
            + std::to_string(number) + " {" + text.substr(at + name.size());
}

/// A shared library of all jobs' kernels: run_<number>(read, weights, written).
class kernels {
public:
    explicit kernels(const std::vector<job> &jobs) {
        char pattern[] = "/tmp/gradnn_sliding_XXXXXX";
        folder_ = mkdtemp(pattern);
        std::ofstream source(folder_ / "kernels.cpp");
        const std::string launch
                = "template <typename Kernel> void launch(unsigned grid, "
                  "unsigned threads, size_t shared, bool descending, const "
                  "Kernel &kernel) {\n"
                  "std::vector<uint4> memory(shared / 16 + 1);\n"
                  "gradnn::emulated::shared_memory = (char *)memory.data();\n"
                  "gradnn::emulated::shared_bytes = shared;\n"
                  "for (unsigned i = 0; i < grid; ++i) "
                  "gradnn::emulated::block::run(i, threads, descending, "
                  "kernel);\n}\n";
        source << "#include \"emulated/simt.hpp\"\n"
                  "#include \"gpu/convolution/sliding/sliding.cuh\"\n"
               << launch;
        for (size_t i = 0; i < jobs.size(); ++i) {
            const std::string s = "gradnn::gpu::sliding::specification_"
                    + std::to_string(i);
            source << numbered(jobs[i].specification, i)
                   << "extern \"C\" void run_" << i
                   << "(void *read, void *weights, void *written, bool "
                      "descending) {\n"
                      "using namespace gradnn::gpu::sliding;\n"
                      "using type = storage<"
                   << s << ".of.type>;\nconstexpr auto g = geometry_of(" << s
                   << ");\n";
            if (jobs[i].of_weights)
                source << "std::vector<sum<" << s << ".of.type>> parts(" << s
                       << ".cut.parts * size_t(" << s << ".of.channels * " << s
                       << ".of.multiplier * " << s << ".of.depth.taps * " << s
                       << ".of.row.taps * " << s
                       << ".of.column.taps), NAN);\n"
                          "launch(g.grid, "
                       << s
                       << ".cut.threads, 0, descending, [&] { slide_weights<"
                       << s
                       << ">((const type *)read, (const type *)written, "
                          "parts.data()); });\n"
                          "launch((parts.size() / "
                       << s
                       << ".cut.parts + 31) / 32, 256, 0, descending, [&] { "
                          "add_parts<"
                       << s
                       << ">((const type *)read, (const type *)written, "
                          "parts.data(), (storage<"
                       << s << ".of.weights_type> *)weights); });\n}\n";
            else
                source << "launch(g.grid, " << s
                       << ".cut.threads, g.shared_bytes, descending, [&] { "
                          "slide_data<"
                       << s
                       << ">((const type *)read, (const type *)weights, (type "
                          "*)written); });\n}\n";
        }
        source.close();
        const std::string library = (folder_ / "kernels.so").string();
        const std::string command = std::string(GRADNN_TEST_CXX)
                + " -std=c++20 -O1 -w -fPIC -shared -ffp-contract=off "
                  "-fno-strict-aliasing -fsanitize=alignment "
                  "-fno-sanitize-recover=all "
                + GRADNN_TEST_INCLUDES + " -o " + library + " "
                + (folder_ / "kernels.cpp").string();
        if (std::system(command.c_str()) == 0)
            library_ = dlopen(library.c_str(), RTLD_NOW);
    }
    kernels(const kernels &) = delete;
    kernels &operator=(const kernels &) = delete;
    ~kernels() {
        if (library_ != nullptr) std::filesystem::remove_all(folder_);
    }

    bool are_there() const { return library_ != nullptr; }
    void run(size_t number, void *read, void *weights, void *written,
            bool descending) const {
        const auto function
                = reinterpret_cast<void (*)(void *, void *, void *, bool)>(
                        dlsym(library_,
                                ("run_" + std::to_string(number)).c_str()));
        function(read, weights, written, descending);
    }

private:
    std::filesystem::path folder_;
    void *library_ = nullptr;
};

float to_float(uint16_t bits, bool f16) {
    if (!f16) {
        const uint32_t wide = uint32_t {bits} << 16;
        float value = 0;
        std::memcpy(&value, &wide, 4);
        return value;
    }
    const int exponent = bits >> 10 & 31;
    const double fraction = (bits & 1023) / 1024.0;
    double value = exponent == 0 ? std::ldexp(fraction, -14)
            : exponent == 31     ? HUGE_VAL
                                 : std::ldexp(1 + fraction, exponent - 15);
    if (exponent == 31 && fraction != 0) value = std::nan("");
    return static_cast<float>(bits >> 15 ? -value : value);
}

/// Whole numbers and what lies beyond both sides of a tensor, in a type.
class typed {
public:
    typed(const memory &values, data_type type, int misplaced)
        : type_(type), bytes_(static_cast<size_t>(detail::size_of(type))) {
        storage_.resize(values.size() * bytes_ + 96);
        std::fill(storage_.begin(), storage_.end(), char {0x7f});
        const auto past = reinterpret_cast<uintptr_t>(storage_.data()) % 16;
        begin_ = storage_.data() + (16 - past) % 16 + 32 + misplaced;
        for (size_t i = 0; i < values.size(); ++i)
            set(i, values[i]);
        count_ = values.size();
        outside_ = storage_;
    }
    void *data() { return begin_; }
    void read(memory &values) const {
        for (size_t i = 0; i < values.size(); ++i)
            values[i] = get(i);
    }
    bool kept_outside() const {
        const auto before = static_cast<size_t>(begin_ - storage_.data());
        const size_t behind = before + count_ * bytes_;
        return std::equal(storage_.begin(), storage_.begin() + before,
                       outside_.begin())
                && std::equal(storage_.begin() + behind, storage_.end(),
                        outside_.begin() + behind);
    }
    double rounded(double value) const {
        typed one({value}, type_, 0);
        return one.get(0);
    }

private:
    void set(size_t i, double value) {
        char *const at = begin_ + i * bytes_;
        if (type_ == data_type::f64) {
            std::memcpy(at, &value, 8);
        } else if (type_ == data_type::f32) {
            const auto narrow = static_cast<float>(value);
            std::memcpy(at, &narrow, 4);
        } else {
            // To the nearest of all, ties to even.
            const auto narrow = static_cast<float>(value);
            uint16_t best = 0;
            if (type_ == data_type::bf16) {
                uint32_t bits = 0;
                std::memcpy(&bits, &narrow, 4);
                bits += 0x7fffU + (bits >> 16 & 1U);
                best = static_cast<uint16_t>(bits >> 16);
            } else {
                int exponent = 0;
                std::frexp(std::abs(value), &exponent);
                const double step
                        = std::ldexp(1.0, std::max(exponent, -13) - 11);
                const double whole = std::nearbyint(value / step) * step;
                if (whole != 0) {
                    std::frexp(std::abs(whole), &exponent);
                    const double unit = std::ldexp(1.0, exponent - 11);
                    best = static_cast<uint16_t>((exponent + 14) << 10
                            | (static_cast<int>(std::abs(whole) / unit) & 1023)
                            | (whole < 0 ? 0x8000 : 0));
                }
            }
            std::memcpy(at, &best, 2);
        }
    }
    double get(size_t i) const {
        const char *const at = begin_ + i * bytes_;
        if (type_ == data_type::f64) {
            double value = 0;
            std::memcpy(&value, at, 8);
            return value;
        }
        if (type_ == data_type::f32) {
            float value = 0;
            std::memcpy(&value, at, 4);
            return value;
        }
        uint16_t bits = 0;
        std::memcpy(&bits, at, 2);
        return to_float(bits, type_ == data_type::f16);
    }

    data_type type_;
    size_t bytes_, count_ = 0;
    std::vector<char> storage_, outside_;
    char *begin_ = nullptr;
};

problem_specification cut_for(problem_specification form) {
    form.alignment = 16;
    return form;
}

std::vector<job> random_jobs(random_source &random, size_t count) {
    std::vector<job> jobs;
    std::set<std::string> seen;
    while (jobs.size() < count) {
        const convolution_problem p = random_depthwise(random);
        const bool aligned = random.integer(0, 3) != 0;
        const auto bytes = static_cast<int>(detail::size_of(p.src.type));
        std::string refusal;
        const auto forms = specifications_of(
                p, aligned ? 16 : bytes, random.integer(0, 2) != 0, refusal);
        const bool of_weights
                = p.direction == convolution_direction::backward_weights;
        for (const problem_specification &form : forms) {
            std::vector<job> made;
            if (of_weights)
                for (auto each : weights_choices(cut_for(form), h100)) {
                    // As plans do where tensors begin anywhere.
                    each.specification.of.alignment = form.alignment;
                    if (!geometry_of(each.specification).fits) continue;
                    made.push_back(
                            {p, form.alignment, text_of(each.specification), "",
                                    true, each.specification});
                }
            else
                for (const auto &each : data_choices(form, h100))
                    made.push_back({p, form.alignment,
                            text_of(each.specification), "", false, {}});
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
    const kernels compiled(jobs);
    ASSERT_TRUE(compiled.are_there());
    for (size_t i = 0; i < jobs.size(); ++i) {
        const convolution_problem &p = jobs[i].problem;
        SCOPED_TRACE(jobs[i].specification);
        const size_t output = gpu::output_of(p.direction);
        std::array<memory, 3> data = random_data(p, output, random);
        for (size_t input = 0; input < 3; ++input)
            if (input != output)
                for (double &value : data[input])
                    value = std::round(4 * value);
        std::array<memory, 3> expected = data;
        by_formula(p, output, expected);
        const int misplaced = jobs[i].alignment == 16
                ? 0
                : static_cast<int>(detail::size_of(p.src.type));
        std::vector<typed> tensors;
        const data_type types[] = {p.src.type, p.weights.type, p.dst.type};
        for (size_t t = 0; t < 3; ++t)
            tensors.emplace_back(data[t], types[t], t == 1 ? 0 : misplaced);
        const bool to_src = p.direction == convolution_direction::backward_data;
        compiled.run(i, tensors[to_src ? 2 : 0].data(), tensors[1].data(),
                tensors[to_src ? 0 : 2].data(), i % 2 == 0);
        tensors[output].read(data[output]);
        for (double &value : expected[output])
            value = tensors[output].rounded(value);
        ASSERT_TRUE(same(data[output], expected[output])) << "kernel " << i;
        ASSERT_TRUE(tensors[output].kept_outside()) << "kernel " << i;
    }
}

} // namespace
} // namespace gradnn::test
