// The same inputs give the same bits: run after run, on any number of threads,
// at any alignment of the memory, from inside a parallel region and from many
// threads at once.
//
// Sizes here are large enough that work is shared among threads.
#include <algorithm>
#include <atomic>
#include <limits>
#include <thread>

#include <gtest/gtest.h>
#include <omp.h>

#include "support/op_builders.hpp"
#include "support/param_names.hpp"
#include "support/random.hpp"

namespace gradnn::test {
namespace {

struct named_op {
    std::string name;
    op the_op;
    std::string problem;
};

std::vector<named_op> ops_of(data_type type) {
    const layout &ncx = layouts()[0];
    const layout &nxc = layouts()[1];
    const convolution_case dense {"dense", 5, 1, 19, 24, {14, 15}, {3, 3},
            {1, 1}, {1, 1}, {1, 1}, {1, 1}};
    const convolution_case depthwise {"depthwise", 4, 32, 32, 32, {15, 14},
            {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}};
    const convolution_case long_rows {"long_rows", 3, 8, 8, 8, {21, 32}, {7, 7},
            {1, 1}, {1, 1}, {3, 3}, {3, 3}};
    const convolution_case bands {"bands", 1, 2, 2, 2, {61, 96}, {7, 7}, {1, 1},
            {1, 1}, {3, 3}, {3, 3}};
    const convolution_case eights {"eights", 5, 24, 24, 24, {13, 18}, {5, 5},
            {1, 1}, {1, 1}, {2, 2}, {2, 2}};
    const convolution_case lines {
            "lines", 3, 4, 4, 4, {523}, {31}, {1}, {1}, {15}, {15}};
    const convolution_case even_lines {
            "even_lines", 3, 4, 4, 4, {514}, {16}, {1}, {1}, {8}, {7}};
    const convolution_case volume_window {"volume_window", 3, 6, 6, 6,
            {5, 11, 12}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}};
    const convolution_case grouped {"grouped", 3, 2, 12, 16, {13, 11}, {3, 3},
            {2, 2}, {1, 1}, {1, 1}, {1, 1}};
    const convolution_case tall {"tall_reduction", 8, 1, 4, 4, {40, 40}, {3, 3},
            {1, 1}, {1, 1}, {1, 1}, {1, 1}};
    const bool common = type == data_type::f32 || type == data_type::bf16;
    std::vector<named_op> ops;
    for (const layout &l : {ncx, nxc}) {
        if (thinned() && !common && l.name == "ncx") continue;
        for (const char *mode : {"linear", "nearest"}) {
            const interpolation_case up {"up", 4, 19, {23, 29}, {46, 58}};
            const interpolation_case down {"down", 4, 19, {46, 58}, {17, 19}};
            const interpolation_case volume {
                    "volume", 2, 8, {7, 9, 8}, {14, 18, 16}};
            const interpolation_case deep {
                    "deep", 1, 8, {5, 6, 8}, {31, 24, 32}};
            const interpolation_case small {"small", 4, 19, {7, 5}, {14, 11}};
            const interpolation_case pixels {
                    "pixels", 4, 3, {23, 32}, {46, 64}};
            for (const interpolation_case &c :
                    {up, down, volume, deep, small, pixels})
                ops.push_back({c.name + "_" + mode + "_" + l.name,
                        interpolation_op(c, {mode, "half_pixel"}, l, type),
                        "interpolation"});
        }
        for (const convolution_case &c : {dense, depthwise, long_rows, bands,
                     eights, lines, even_lines, volume_window, grouped, tall})
            for (const op::kind kind :
                    {op::kind::ConvBackward, op::kind::ConvTransposeBackward})
                ops.push_back({c.name + "_" + to_string(kind) + "_" + l.name,
                        convolution_op(kind, c, l, type), "convolution"});
        ops.push_back({"bias_" + l.name,
                plane_op(op::kind::BiasAddBackward, {"p", {16, 33, 29, 31}}, l,
                        type),
                "bias"});
        ops.push_back({"relu_" + l.name,
                plane_op(op::kind::ReLUBackward, {"p", {16, 33, 29, 31}}, l,
                        type),
                "elementwise"});
    }
    return ops;
}

/// Sets the number of OpenMP threads while it lives.
class thread_count {
public:
    explicit thread_count(int threads) : before_(omp_get_max_threads()) {
        omp_set_num_threads(threads);
    }
    thread_count(const thread_count &) = delete;
    thread_count &operator=(const thread_count &) = delete;
    ~thread_count() { omp_set_num_threads(before_); }

private:
    int before_;
};

/// Turns the cache off while it lives, so that compile compiles.
class no_cache {
public:
    no_cache() : before_(get_compiled_partition_cache_capacity()) {
        set_compiled_partition_cache_capacity(0);
    }
    no_cache(const no_cache &) = delete;
    no_cache &operator=(const no_cache &) = delete;
    ~no_cache() { set_compiled_partition_cache_capacity(before_); }

private:
    int before_;
};

using param = std::tuple<engine::kind, data_type>;

class determinism : public testing::TestWithParam<param> {
protected:
    void SetUp() override {
        const data_type type = std::get<1>(GetParam());
        if (thinned() && type != data_type::f32 && type != data_type::bf16)
            GTEST_SKIP() << "two types are enough where tests are few";
    }
    engine the_engine() const { return shared_engine(std::get<0>(GetParam())); }

    /// Calls body(op, kernel) for every op and every kernel that takes it.
    template <typename Body>
    void for_each_kernel(const Body &body) const {
        for (const named_op &each : ops_of(std::get<1>(GetParam())))
            for (const std::string &kernel :
                    kernel_names(std::get<0>(GetParam()), each.problem)) {
                SCOPED_TRACE(each.name + " " + kernel);
                const forced_kernel forced(kernel);
                try {
                    compile(each.the_op, the_engine());
                } catch (const error &) {
                    continue; // refused
                }
                body(each.the_op);
            }
    }
    /// Executes with all tensors so many elements off a multiple of 64 bytes. The
    /// even ones keep pairs of elements whole, but not vectors.
    void expect_same_at_any_alignment(const op &the_op,
            const values_list &inputs,
            const std::vector<size_t> &offsets = {0, 1, 2, 4, 7, 8}) const {
        const auto size
                = static_cast<size_t>(detail::size_of(std::get<1>(GetParam())));
        std::vector<std::byte> first;
        for (const size_t elements : offsets) {
            op_run r(the_op, the_engine(), inputs, {elements * size});
            r.execute();
            if (first.empty()) first = r.all_output_bytes();
            ASSERT_EQ(r.all_output_bytes(), first)
                    << elements << " elements off";
            for (size_t index = 0; index < the_op.get_outputs().size(); ++index)
                EXPECT_EQ(r.output_tensor(index).outside_damage(), "");
        }
    }
};

TEST_P(determinism, is_promised) {
    for_each_kernel([&](const op &the_op) {
        const auto info = compile(the_op, the_engine()).get_info();
        EXPECT_TRUE(info.deterministic);
        for (const step_info &step : info.steps)
            EXPECT_TRUE(step.deterministic) << step.kernel;
    });
}

TEST_P(determinism, repeated_runs) {
    if (thinned() && std::get<1>(GetParam()) != data_type::f32)
        GTEST_SKIP() << "any_number_of_threads has the other type";
    for_each_kernel([&](const op &the_op) {
        const values_list inputs = random_inputs(the_op, 51);
        op_run r(the_op, the_engine(), inputs);
        r.execute();
        r.expect_right();
        const auto first = r.all_output_bytes();
        for (int i = 0; i < (thinned() ? 2 : 5); ++i) {
            r.execute();
            ASSERT_EQ(r.all_output_bytes(), first) << "run " << i;
        }
        const no_cache fresh;
        op_run again(the_op, the_engine(), inputs);
        again.execute();
        EXPECT_EQ(again.all_output_bytes(), first) << "compiled again";
    });
}

// Compiled and executed with 1, 2 and 5 threads, and compiled with one number
// and executed with another. Thinned out without 2, which other tests have on a
// machine of two processors.
TEST_P(determinism, any_number_of_threads) {
    if (thinned() && std::get<1>(GetParam()) != data_type::bf16)
        GTEST_SKIP() << "repeated_runs has the other type";
    for_each_kernel([&](const op &the_op) {
        const values_list inputs = random_inputs(the_op, 52);
        const no_cache fresh;
        std::vector<std::byte> first;
        const auto numbers = thinned() ? std::vector<int> {1, 5}
                                       : std::vector<int> {1, 2, 5};
        for (const int compiled_with : numbers) {
            std::optional<op_run> r;
            {
                const thread_count threads(compiled_with);
                r.emplace(the_op, the_engine(), inputs);
            }
            for (const int run_with : numbers) {
                const thread_count threads(run_with);
                r->execute();
                if (first.empty()) {
                    first = r->all_output_bytes();
                    r->expect_right();
                }
                ASSERT_EQ(r->all_output_bytes(), first)
                        << "compiled with " << compiled_with
                        << " threads, run with " << run_with;
            }
        }
    });
}

TEST_P(determinism, any_alignment) {
    if (thinned())
        GTEST_SKIP() << "beside an infinite element the same memory is touched";
    for_each_kernel([&](const op &the_op) {
        expect_same_at_any_alignment(the_op, random_inputs(the_op, 53));
    });
}

// An infinite element makes kernels take sums again from the definition; the
// finite ones beside those keep their bits.
TEST_P(determinism, any_alignment_beside_an_infinite_element) {
    for_each_kernel([&](const op &the_op) {
        values_list inputs = random_inputs(the_op, 57);
        for (std::vector<double> &values : inputs)
            values[values.size() / 2] = std::numeric_limits<double>::infinity();
        if (thinned() && std::get<1>(GetParam()) == data_type::f32)
            expect_same_at_any_alignment(the_op, inputs, {0, 1});
        else if (thinned())
            expect_same_at_any_alignment(the_op, inputs, {0, 1, 2});
        else
            expect_same_at_any_alignment(the_op, inputs);
    });
}

// In f16 the sum of the first channel rounds to infinity or not, as the order has
// it; that of the second is infinite, at some alignments by the same thread.
TEST_P(determinism, any_alignment_of_a_sum_that_rounds_to_infinity) {
    constexpr size_t channels = 2;
    const auto place = [](size_t d, size_t h, size_t w) {
        return ((d * 3 + h) * 3 + w) * channels;
    };
    // The gradient of src of a transposed convolution: one forward.
    const op the_op = convolution_op(op::kind::ConvTransposeBackwardData,
            {"edge", 1, channels, channels, channels, {3, 3, 3}, {3, 3, 3},
                    {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}},
            layouts()[1], std::get<1>(GetParam()));
    values_list inputs = random_inputs(the_op, 1);
    for (std::vector<double> &values : inputs)
        std::fill(values.begin(), values.end(), 0.);
    const auto multiply = [&](size_t at, double data, double weight) {
        inputs[0][at] = data;
        inputs[1][at] = weight;
    };
    multiply(place(0, 1, 0), 65504, 1);
    multiply(place(0, 1, 1), 63. / 16, 65. / 16);
    for (const size_t at :
            {place(1, 0, 0), place(1, 0, 1), place(1, 0, 2), place(2, 0, 0)})
        multiply(at, 0x1p-5, 0x1p-5);
    multiply(place(1, 1, 1) + 1, std::numeric_limits<double>::infinity(), 1);
    for (const std::string &kernel :
            kernel_names(std::get<0>(GetParam()), "convolution")) {
        SCOPED_TRACE(kernel);
        const forced_kernel forced(kernel);
        if (accepts(the_op, the_engine(), kernel))
            expect_same_at_any_alignment(the_op, inputs);
    }
}

INSTANTIATE_TEST_SUITE_P(types, determinism,
        testing::Combine(testing::ValuesIn(engine_kinds()),
                testing::ValuesIn(float_types())),
        [](const auto &each) {
            return std::string(to_string(std::get<0>(each.param))) + "_"
                    + to_string(std::get<1>(each.param));
        });

class concurrency : public testing::TestWithParam<engine::kind> {};

// libgomp's regions are not known to ThreadSanitizer; it would report them.
#ifndef __SANITIZE_THREAD__
TEST_P(concurrency, inside_a_parallel_region) {
    const engine e = shared_engine(GetParam());
    for (const data_type type : {data_type::f32, data_type::f64})
        for (const named_op &each : ops_of(type)) {
            SCOPED_TRACE(each.name + " " + to_string(type));
            const values_list inputs = random_inputs(each.the_op, 54);
            op_run alone(each.the_op, e, inputs);
            alone.execute();
            const auto expected = alone.all_output_bytes();
            constexpr int threads = 3;
            std::vector<std::unique_ptr<op_run>> runs;
            for (int i = 0; i < threads; ++i)
                runs.push_back(std::make_unique<op_run>(each.the_op,
                        alone.compiled(), e, inputs, op_run::options {}));
#pragma omp parallel for num_threads(threads)
            for (int i = 0; i < threads; ++i)
                runs[static_cast<size_t>(i)]->execute();
            for (const auto &run : runs)
                EXPECT_EQ(run->all_output_bytes(), expected);
        }
}
#endif

// 8 threads compile and execute, the same and different ops, with a cache
// that is too small for them all.
TEST_P(concurrency, eight_threads_compile_and_execute) {
    const engine e = shared_engine(GetParam());
    const int capacity = get_compiled_partition_cache_capacity();
    set_compiled_partition_cache_capacity(5);
    const std::vector<named_op> ops = ops_of(data_type::f32);
    std::vector<std::vector<std::byte>> expected;
    for (const named_op &each : ops) {
        op_run r(each.the_op, e, random_inputs(each.the_op, 55));
        r.execute();
        expected.push_back(r.all_output_bytes());
    }
    std::atomic<int> wrong {0};
    std::vector<std::thread> threads;
    for (size_t t = 0; t < 8; ++t)
        threads.emplace_back([&, t] {
            try {
                for (size_t i = 0; i < ops.size(); ++i) {
                    const size_t which = (i + t * 3) % ops.size();
                    const op &the_op = ops[which].the_op;
                    op_run r(the_op, e, random_inputs(the_op, 55));
                    r.execute();
                    if (r.all_output_bytes() != expected[which]) ++wrong;
                }
            } catch (const std::exception &) {
                ++wrong;
            }
        });
    for (std::thread &t : threads)
        t.join();
    EXPECT_EQ(wrong, 0);
    set_compiled_partition_cache_capacity(capacity);
}

// One compiled partition and one stream, shared by 8 threads.
TEST_P(concurrency, eight_threads_share_a_compiled_partition_and_a_stream) {
    const engine e = shared_engine(GetParam());
    for (const named_op &each : ops_of(data_type::bf16)) {
        SCOPED_TRACE(each.name);
        const values_list inputs = random_inputs(each.the_op, 56);
        op_run alone(each.the_op, e, inputs);
        alone.execute();
        const auto expected = alone.all_output_bytes();
        stream shared(e);
        std::vector<std::unique_ptr<op_run>> runs;
        std::vector<std::thread> threads;
        for (int i = 0; i < 8; ++i)
            runs.push_back(std::make_unique<op_run>(each.the_op,
                    alone.compiled(), e, inputs, op_run::options {}));
        for (auto &run : runs)
            threads.emplace_back([&] { run->execute(shared); });
        for (std::thread &t : threads)
            t.join();
        for (const auto &run : runs)
            EXPECT_EQ(run->all_output_bytes(), expected);
    }
}

INSTANTIATE_TEST_SUITE_P(engines, concurrency,
        testing::ValuesIn(engine_kinds()),
        [](const auto &each) { return to_string(each.param); });

} // namespace
} // namespace gradnn::test
