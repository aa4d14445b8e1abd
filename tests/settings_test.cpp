// compile_settings: threads that are obeyed, the kernels that may be tried, and
// that settings are part of what is compiled.
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <optional>
#include <thread>

#include <gtest/gtest.h>
#include <omp.h>

#include "compile/compile_settings.hpp"
#include "compile/executable.hpp"
#include "kernel/engine_impl.hpp"
#include "support/expect_error.hpp"
#include "support/op_builders.hpp"

namespace gradnn::test {
namespace {

op dense_convolution() {
    return convolution_op(op::kind::ConvBackward,
            {"dense", 5, 1, 19, 24, {30, 31}, {3, 3}, {1, 1}, {1, 1}, {1, 1},
                    {1, 1}},
            layouts()[1], data_type::f32);
}

op large_upsample() {
    return interpolation_op({"up", 4, 19, {64, 64}, {128, 128}},
            {"linear", "half_pixel"}, layouts()[0], data_type::f32);
}

engine cpu() {
    return shared_engine(engine::kind::cpu);
}

compiled_partition compile_with(
        const op &the_op, const compile_settings &settings) {
    graph g(engine::kind::cpu);
    g.set_compile_settings(settings);
    g.add_op(the_op);
    g.finalize();
    return g.get_partitions().at(0).compile(
            present(the_op.get_inputs()), present(the_op.get_outputs()), cpu());
}

compile_settings with_threads(int threads) {
    compile_settings settings;
    settings.threads = threads;
    return settings;
}

std::vector<std::byte> bits_of(
        const op &the_op, const compiled_partition &compiled) {
    op_run run(the_op, compiled, cpu(), random_inputs(the_op, 81), {});
    run.execute();
    run.expect_right();
    return run.all_output_bytes();
}

long threads_of_process() {
    const std::filesystem::directory_iterator tasks("/proc/self/task");
    return std::distance(begin(tasks), end(tasks));
}

/// How many threads an execution starts and leaves in OpenMP's pool. It runs on
/// a thread of its own, which has no OpenMP threads yet.
long threads_started(const op &the_op, const compiled_partition &compiled) {
    op_run run(the_op, compiled, cpu(), random_inputs(the_op, 82), {});
    long started = -1;
    std::thread([&] {
        // More than any plan here, so that a plan that does not obey shows.
        omp_set_num_threads(6);
        const long before = threads_of_process();
        run.execute();
        started = threads_of_process() - before;
    }).join();
    return started;
}

class number_of_threads : public testing::TestWithParam<int> {};

// ThreadSanitizer's builds use std::thread, which ends with the region.
#ifndef __SANITIZE_THREAD__
TEST_P(number_of_threads, is_what_a_plan_runs_on) {
    for (const op &the_op : {dense_convolution(), large_upsample()}) {
        SCOPED_TRACE(to_string(the_op.get_kind()));
        const auto compiled = compile_with(the_op, with_threads(GetParam()));
        EXPECT_EQ(compiled.get_info().threads, GetParam());
        // The last parallel region of a plan may be a small one.
        const long started = threads_started(the_op, compiled);
        EXPECT_LE(started, GetParam() - 1);
        EXPECT_EQ(started > 0, GetParam() > 1);
    }
}
#endif

TEST_P(number_of_threads, decides_the_bits_alone) {
    const op the_op = dense_convolution();
    const int before = omp_get_max_threads();
    std::vector<std::byte> first;
    const int capacity = get_compiled_partition_cache_capacity();
    for (const int set : {1, 2, 5}) {
        omp_set_num_threads(set);
        set_compiled_partition_cache_capacity(0); // compiles again
        const auto compiled = compile_with(the_op, with_threads(GetParam()));
        for (const int run_with : {1, 3}) {
            omp_set_num_threads(run_with);
            const auto bits = bits_of(the_op, compiled);
            if (first.empty()) first = bits;
            EXPECT_EQ(bits, first)
                    << "compiled under " << set << ", run under " << run_with;
        }
    }
    set_compiled_partition_cache_capacity(capacity);
    omp_set_num_threads(before);
}

INSTANTIATE_TEST_SUITE_P(settings, number_of_threads, testing::Values(1, 2, 3),
        [](const auto &each) { return "of_" + std::to_string(each.param); });

// What OpenMP said at the first compile of the process stays the default.
TEST(settings, default_threads_do_not_change) {
    const op the_op = dense_convolution();
    const int before = omp_get_max_threads();
    const auto first = compile_with(the_op, {});
    omp_set_num_threads(before + 2);
    const auto later = compile_with(the_op, {});
    omp_set_num_threads(before);
    EXPECT_EQ(later.get_info().threads, first.get_info().threads);
}

TEST(settings, are_part_of_the_key) {
    const op the_op = large_upsample();
    const auto program_of = [&](const compile_settings &settings) {
        const auto compiled = compile_with(the_op, settings);
        return detail::access::impl(compiled)->program;
    };
    const auto two = program_of(with_threads(2));
    EXPECT_EQ(program_of(with_threads(2)), two);
    EXPECT_NE(program_of(with_threads(3)), two);
    compile_settings strided = with_threads(2);
    strided.kernels = "interpolation.strided";
    EXPECT_NE(program_of(strided), two);
}

TEST(settings, name_the_kernels_that_may_be_tried) {
    const op the_op = large_upsample();
    compile_settings settings;
    settings.kernels = "interpolation.strided";
    const auto kernel = [&] {
        return compile_with(the_op, settings).get_info().steps.at(0).kernel;
    };
    EXPECT_EQ(kernel(), "interpolation.strided");
    // They go before the environment.
    const forced_kernel forced("interpolation.separable");
    EXPECT_EQ(kernel(), "interpolation.strided");
    settings.kernels.clear();
    EXPECT_EQ(kernel(), "interpolation.separable");
}

TEST(settings, of_a_partition_without_a_graph) {
    const op the_op = large_upsample();
    compile_settings settings = with_threads(1);
    settings.kernels = "interpolation.strided";
    const partition alone(the_op, engine::kind::cpu, settings);
    const auto info = alone.compile(present(the_op.get_inputs()),
                                   present(the_op.get_outputs()), cpu())
                              .get_info();
    EXPECT_EQ(info.threads, 1);
    EXPECT_EQ(info.steps.at(0).kernel, "interpolation.strided");
}

TEST(settings, that_are_wrong_are_named) {
    expect_error({"threads",
            [] { compile_with(large_upsample(), with_threads(-1)); },
            status::invalid_arguments, {"threads", "-1"}});
    expect_error({"too many threads",
            [] { compile_with(large_upsample(), with_threads(1 << 20)); },
            status::invalid_arguments, {"threads", "1048576", "4096"}});
    expect_error({"partition",
            [] {
                const partition wrong(
                        large_upsample(), engine::kind::cpu, with_threads(-2));
            },
            status::invalid_arguments, {"threads", "-2"}});
    expect_error({"kernels",
            [] {
                compile_settings settings;
                settings.kernels = "no.such";
                compile_with(large_upsample(), settings);
            },
            status::invalid_arguments,
            {"compile_settings::kernels", "no.such",
                    "interpolation.separable"}});
}

/// Sets a variable (null: removes it) and puts back what it was.
class environment {
public:
    environment(const char *name, const char *value) : name_(name) {
        const char *const before = std::getenv(name);
        if (before != nullptr) before_ = before;
        set(value);
    }
    environment(const environment &) = delete;
    environment &operator=(const environment &) = delete;
    ~environment() { set(before_ ? before_->c_str() : nullptr); }

private:
    void set(const char *value) {
        if (value != nullptr)
            setenv(name_, value, 1);
        else
            unsetenv(name_);
    }

    const char *name_;
    std::optional<std::string> before_;
};

TEST(settings, specialise_is_on_unless_it_is_set_off) {
    compile_settings settings;
    const auto with = [&](const char *value) {
        const environment variable("GRADNN_SPECIALISE", value);
        return detail::specialises(settings);
    };
    EXPECT_TRUE(with(nullptr));
    EXPECT_TRUE(with(""));
    EXPECT_TRUE(with("1"));
    EXPECT_FALSE(with("0"));
    settings.specialise = true;
    EXPECT_TRUE(with("0"));
    settings.specialise = false;
    EXPECT_FALSE(with("1"));
}

TEST(settings, kernels_are_kept_in_the_folder_that_is_named) {
    compile_settings settings;
    const environment home("HOME", "/home/somebody");
    const auto with = [&](const char *cache, const char *xdg) {
        const environment variable("GRADNN_KERNEL_CACHE", cache);
        const environment standard("XDG_CACHE_HOME", xdg);
        return detail::kernel_cache_of(settings);
    };
    EXPECT_EQ(with(nullptr, nullptr), "/home/somebody/.cache/gradnn/kernels");
    EXPECT_EQ(with(nullptr, "/tmp/c"), "/tmp/c/gradnn/kernels");
    EXPECT_EQ(with("/tmp/k", "/tmp/c"), "/tmp/k");
    for (const char *none : {"", "0", "OFF"})
        EXPECT_EQ(with(none, "/tmp/c"), "");
    settings.kernel_cache = "/tmp/mine";
    EXPECT_EQ(with("0", "/tmp/c"), "/tmp/mine");
    settings.kernel_cache = "";
    EXPECT_EQ(with("/tmp/k", "/tmp/c"), "");
    const environment homeless("HOME", nullptr);
    settings.kernel_cache.reset();
    EXPECT_EQ(with(nullptr, nullptr), "");
}

TEST(settings, are_kept_by_the_graph) {
    graph g(engine::kind::cpu);
    EXPECT_EQ(g.get_compile_settings().threads, 0);
    compile_settings settings = with_threads(7);
    settings.autotune = true;
    settings.convolution_workspace_limit = 12;
    g.set_compile_settings(settings);
    EXPECT_EQ(g.get_compile_settings().threads, 7);
    EXPECT_EQ(g.get_compile_settings().autotune, true);
    EXPECT_EQ(g.get_compile_settings().convolution_workspace_limit, 12U);
}

} // namespace
} // namespace gradnn::test
