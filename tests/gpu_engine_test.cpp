// The GPU engine beside the conformance suite: CUDA's streams and graphs,
// threads, devices, allocators, and what is refused.
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include <unistd.h>

#include "files/tensor_data.hpp"
#include "support/gpu.hpp"
#include "support/op_builders.hpp"
#include "support/random.hpp"

namespace gradnn::test {
namespace {

using bytes = std::vector<std::byte>;

/// Ops of every kind of problem, with workspace and without.
std::vector<op> some_ops(data_type type) {
    const convolution_case dense {"dense", 4, 1, 24, 32, {28, 30}, {3, 3},
            {1, 1}, {1, 1}, {1, 1}, {1, 1}};
    const convolution_case uneven {"uneven", 2, 2, 12, 16, {17, 20}, {3, 3},
            {2, 2}, {1, 1}, {0, 1}, {1, 0}};
    std::vector<op> ops;
    for (const layout &l : {layouts()[0], layouts()[1]}) {
        ops.push_back(interpolation_op(
                {"up", 4, 19, {23, 29}, {46, 58}}, {}, l, type));
        ops.push_back(interpolation_op({"down", 4, 19, {46, 58}, {17, 19}},
                {"nearest", "half_pixel"}, l, type));
        ops.push_back(convolution_op(op::kind::ConvBackward, dense, l, type));
        ops.push_back(convolution_op(
                op::kind::ConvTransposeBackward, uneven, l, type));
        ops.push_back(plane_op(op::kind::BiasAddBackward,
                {"bias", {16, 33, 29, 31}}, l, type));
        ops.push_back(plane_op(
                op::kind::ReLUBackward, {"relu", {16, 33, 29, 31}}, l, type));
        ops.push_back(
                plane_op(op::kind::Add, {"add", {16, 33, 29, 31}}, l, type));
    }
    return ops;
}

std::vector<std::unique_ptr<op_run>> runs_of(
        const std::vector<op> &ops, const engine &e, uint64_t seed) {
    std::vector<std::unique_ptr<op_run>> runs;
    for (const op &the_op : ops)
        runs.push_back(std::make_unique<op_run>(
                the_op, e, random_inputs(the_op, seed)));
    return runs;
}

/// Puts everything on the stream and does not wait.
void submit(const std::vector<std::unique_ptr<op_run>> &runs, stream &s) {
    for (const auto &run : runs)
        run->compiled().execute(s, run->input_tensors(), run->output_tensors());
}

bytes outputs_of(const std::vector<std::unique_ptr<op_run>> &runs) {
    bytes all;
    for (const auto &run : runs) {
        const bytes own = run->all_output_bytes();
        all.insert(all.end(), own.begin(), own.end());
    }
    return all;
}

void poison(const std::vector<std::unique_ptr<op_run>> &runs) {
    for (const auto &run : runs)
        for (size_t index = 0; index < run->completed_op().get_outputs().size();
                ++index)
            if (!run->completed_op().get_outputs()[index].is_absent())
                run->output_tensor(index).poison();
}

class gpu_engine : public gpu_fixture {
protected:
    static engine gpu() { return shared_engine(engine::kind::gpu); }
};

TEST_F(gpu_engine, describes_its_device) {
    const auto info = cuda_interop::get_device_info(0);
    EXPECT_FALSE(info.name.empty());
    EXPECT_GT(info.memory_bytes, 0U);
    EXPECT_GE(info.compute_capability_major, 8);
    EXPECT_GT(info.multiprocessors, 0);
    const auto versions = cuda_interop::get_versions();
    EXPECT_GT(versions.driver, 0);
    EXPECT_EQ(versions.runtime, CUDART_VERSION);
    EXPECT_EQ(versions.cudnn == 0, !versions.cudnn_missing.empty());
}

TEST_F(gpu_engine, refuses_an_index_out_of_range) {
    const size_t count = engine::get_count(engine::kind::gpu);
    try {
        engine(engine::kind::gpu, count);
        FAIL() << "made an engine that does not exist";
    } catch (const error &e) {
        EXPECT_EQ(e.status, status::invalid_arguments);
        EXPECT_NE(std::string(e.what()).find(std::to_string(count)),
                std::string::npos)
                << e.what();
    }
}

TEST_F(gpu_engine, runs_on_the_callers_stream) {
    const cuda_stream_owner native;
    stream s = cuda_interop::make_stream(gpu(), native.get());
    EXPECT_EQ(cuda_interop::get_native(s), native.get());
    const auto runs = runs_of(some_ops(data_type::f32), gpu(), 1);
    submit(runs, s);
    require(cudaStreamSynchronize(native.get()));
    for (const auto &run : runs)
        run->expect_right();
}

TEST_F(gpu_engine, runs_on_the_default_streams) {
    for (const cudaStream_t native :
            {cudaStream_t {nullptr}, cudaStreamLegacy, cudaStreamPerThread}) {
        stream s = cuda_interop::make_stream(gpu(), native);
        const auto runs = runs_of(some_ops(data_type::bf16), gpu(), 2);
        submit(runs, s);
        s.wait();
        for (const auto &run : runs)
            run->expect_right();
    }
}

// In the strictest capture mode, which no allocation, synchronisation or
// implicit use of another stream survives.
TEST_F(gpu_engine, is_captured_in_a_cuda_graph) {
    for (const data_type type : float_types()) {
        SCOPED_TRACE(to_string(type));
        const cuda_stream_owner native;
        stream s = cuda_interop::make_stream(gpu(), native.get());
        const auto runs = runs_of(some_ops(type), gpu(), 3);
        submit(runs, s);
        s.wait();
        const bytes expected = outputs_of(runs);

        cudaGraph_t graph = nullptr;
        require(cudaStreamBeginCapture(
                native.get(), cudaStreamCaptureModeGlobal));
        submit(runs, s);
        require(cudaStreamEndCapture(native.get(), &graph));
        cudaGraphExec_t executable = nullptr;
        require(cudaGraphInstantiate(&executable, graph, 0));
        for (int replay = 0; replay < 3; ++replay) {
            poison(runs);
            require(cudaGraphLaunch(executable, native.get()));
            require(cudaStreamSynchronize(native.get()));
            EXPECT_EQ(outputs_of(runs), expected) << "replay " << replay;
        }

        // Larger work on the stream must leave the graph what it refers to.
        const op larger = convolution_op(op::kind::ConvBackward,
                {"larger", 8, 1, 48, 64, {61, 63}, {3, 3}, {2, 2}, {1, 1},
                        {0, 1}, {1, 0}},
                {"xio", "NXC", "XIO"}, type);
        op_run(larger, gpu(), random_inputs(larger, 4)).execute(s);
        poison(runs);
        require(cudaGraphLaunch(executable, native.get()));
        require(cudaStreamSynchronize(native.get()));
        EXPECT_EQ(outputs_of(runs), expected) << "after larger work";
        require(cudaGraphExecDestroy(executable));
        require(cudaGraphDestroy(graph));
    }
}

// Compiling allocates, which a capture of the strictest mode forbids to all
// threads.
TEST_F(gpu_engine, compiles_while_another_thread_captures) {
    const cuda_stream_owner native;
    stream s = cuda_interop::make_stream(gpu(), native.get());
    const auto runs = runs_of(some_ops(data_type::f32), gpu(), 7);
    submit(runs, s);
    s.wait();
    const bytes expected = outputs_of(runs);
    cudaGraph_t graph = nullptr;
    require(cudaStreamBeginCapture(native.get(), cudaStreamCaptureModeGlobal));
    submit(runs, s);
    // Ops that no other test has compiled.
    std::vector<op> others;
    for (const layout &l : {layouts()[0], layouts()[1]}) {
        others.push_back(interpolation_op(
                {"small", 3, 19, {7, 7}, {14, 14}}, {}, l, data_type::f32));
        others.push_back(convolution_op(op::kind::ConvBackward,
                {"depthwise", 3, 20, 20, 20, {19, 23}, {3, 3}, {1, 1}, {1, 1},
                        {1, 1}, {1, 1}},
                l, data_type::f32));
        others.push_back(convolution_op(op::kind::ConvBackward,
                {"depthwise", 3, 24, 24, 24, {19, 23}, {5, 5}, {1, 1}, {1, 1},
                        {2, 2}, {2, 2}},
                l, data_type::bf16));
        others.push_back(convolution_op(op::kind::ConvBackward,
                {"other", 3, 1, 20, 28, {19, 23}, {3, 3}, {1, 1}, {1, 1},
                        {1, 1}, {1, 1}},
                l, data_type::f32));
        others.push_back(interpolation_op(
                {"other", 3, 20, {19, 23}, {41, 37}}, {}, l, data_type::f32));
    }
    std::string problem;
    std::thread([&] {
        try {
            for (const op &other : others)
                compile(other, gpu());
        } catch (const std::exception &e) {
            problem = e.what();
        }
    }).join();
    EXPECT_EQ(problem, "");
    submit(runs, s);
    require(cudaStreamEndCapture(native.get(), &graph));
    cudaGraphExec_t executable = nullptr;
    require(cudaGraphInstantiate(&executable, graph, 0));
    poison(runs);
    require(cudaGraphLaunch(executable, native.get()));
    require(cudaStreamSynchronize(native.get()));
    EXPECT_EQ(outputs_of(runs), expected);
    require(cudaGraphExecDestroy(executable));
    require(cudaGraphDestroy(graph));
}

TEST_F(gpu_engine, refuses_to_allocate_or_wait_during_a_capture) {
    const cuda_stream_owner native;
    stream s = cuda_interop::make_stream(gpu(), native.get());
    const op conv = convolution_op(op::kind::ConvBackward,
            {"conv", 2, 1, 16, 24, {30, 31}, {3, 3}, {1, 1}, {1, 1}, {1, 1},
                    {1, 1}},
            {"xio", "NXC", "XIO"}, data_type::f32);
    const op_run run(conv, gpu(), random_inputs(conv, 5));
    ASSERT_GT(run.compiled().get_workspace_size(), 0U);
    const auto refused = [&](const std::function<void()> &body) {
        try {
            body();
            ADD_FAILURE() << "not refused";
        } catch (const error &e) {
            EXPECT_EQ(e.status, status::invalid_arguments);
            EXPECT_NE(std::string(e.what()).find("captured"), std::string::npos)
                    << e.what();
        }
    };
    // The stream has workspace, but not enough.
    const op small = convolution_op(op::kind::ConvBackward,
            {"small", 1, 1, 16, 24, {5, 6}, {3, 3}, {1, 1}, {1, 1}, {1, 1},
                    {1, 1}},
            {"xio", "NXC", "XIO"}, data_type::f32);
    op_run before(small, gpu(), random_inputs(small, 6));
    ASSERT_GT(before.compiled().get_workspace_size(), 0U);
    before.execute(s);
    s.wait();
    require(cudaStreamBeginCapture(native.get(), cudaStreamCaptureModeGlobal));
    refused([&] {
        run.compiled().execute(s, run.input_tensors(), run.output_tensors());
    });
    refused([&] { s.wait(); });
    cudaGraph_t graph = nullptr;
    // The capture goes on: nothing forbidden was done.
    require(cudaStreamEndCapture(native.get(), &graph));
    require(cudaGraphDestroy(graph));
    run.compiled().execute(s, run.input_tensors(), run.output_tensors());
    s.wait();
    run.expect_right();
    before.expect_right();
}

TEST_F(gpu_engine, takes_the_callers_workspace) {
    for (const op &the_op : some_ops(data_type::f16)) {
        op_run run(the_op, gpu(), random_inputs(the_op, 6));
        run.execute();
        const bytes expected = run.all_output_bytes();
        const size_t size = run.compiled().get_workspace_size();
        // At a multiple of 64 and of nothing larger.
        const device_memory workspace(gpu(), size, 64);
        stream s(gpu());
        for (size_t index = 0; index < the_op.get_outputs().size(); ++index)
            if (!the_op.get_outputs()[index].is_absent())
                run.output_tensor(index).poison();
        run.compiled().execute(
                s, run.input_tensors(), run.output_tensors(), workspace.data());
        s.wait();
        EXPECT_EQ(run.all_output_bytes(), expected);
    }
}

TEST_F(gpu_engine, two_streams_at_once) {
    stream first(gpu());
    stream second(gpu());
    EXPECT_NE(
            cuda_interop::get_native(first), cuda_interop::get_native(second));
    const auto ops = some_ops(data_type::f32);
    const auto on_first = runs_of(ops, gpu(), 7);
    const auto on_second = runs_of(ops, gpu(), 8);
    for (int round = 0; round < 5; ++round) {
        submit(on_first, first);
        submit(on_second, second);
    }
    first.wait();
    second.wait();
    for (const auto &run : on_first)
        run->expect_right();
    for (const auto &run : on_second)
        run->expect_right();
}

TEST_F(gpu_engine, two_threads_on_two_streams) {
    const auto ops = some_ops(data_type::bf16);
    std::vector<bytes> found(2);
    std::vector<bytes> expected(2);
    for (size_t i = 0; i < 2; ++i) {
        stream s(gpu());
        const auto runs = runs_of(ops, gpu(), 9 + i);
        submit(runs, s);
        s.wait();
        expected[i] = outputs_of(runs);
    }
    std::atomic<int> failures {0};
    std::vector<std::thread> threads;
    for (size_t i = 0; i < 2; ++i)
        threads.emplace_back([&, i] {
            try {
                stream s(gpu());
                const auto runs = runs_of(ops, gpu(), 9 + i);
                for (int round = 0; round < 5; ++round)
                    submit(runs, s);
                s.wait();
                found[i] = outputs_of(runs);
            } catch (const std::exception &) {
                ++failures;
            }
        });
    for (std::thread &t : threads)
        t.join();
    EXPECT_EQ(failures, 0);
    EXPECT_EQ(found, expected);
}

TEST_F(gpu_engine, gives_the_same_bits_in_20_runs) {
    for (const data_type type : float_types())
        for (const op &the_op : some_ops(type)) {
            SCOPED_TRACE(std::string(to_string(type)) + " "
                    + to_string(the_op.get_kind()));
            op_run run(the_op, gpu(), random_inputs(the_op, 11));
            run.execute();
            const bytes expected = run.all_output_bytes();
            for (int i = 0; i < 20; ++i) {
                run.execute();
                ASSERT_EQ(run.all_output_bytes(), expected) << "run " << i;
            }
        }
}

class gpu_engine_measuring : public gpu_engine {
protected:
    void SetUp() override {
        gpu_engine::SetUp();
        if (IsSkipped()) return;
        if (cuda_interop::get_versions().cudnn == 0)
            GTEST_SKIP() << "wants cuDNN";
        file_ = std::filesystem::temp_directory_path()
                / ("gradnn_measured_" + std::to_string(::getpid()));
        std::filesystem::remove(file_);
        setenv("GRADNN_CUDNN_AUTOTUNE", "1", 1);
        setenv("GRADNN_CUDNN_PLAN_CACHE", file_.c_str(), 1);
    }
    void TearDown() override {
        unsetenv("GRADNN_CUDNN_AUTOTUNE");
        unsetenv("GRADNN_CUDNN_PLAN_CACHE");
        if (!file_.empty()) std::filesystem::remove(file_);
    }

    /// Lines of the file that keeps what was measured, without its first.
    size_t measured() const {
        std::ifstream file(file_);
        size_t lines = 0;
        for (std::string line; std::getline(file, line);)
            ++lines;
        return lines == 0 ? 0 : lines - 1;
    }

    std::filesystem::path file_;
};

// The choice may differ from run to run, what it computes does not.
TEST_F(gpu_engine_measuring, takes_kernels_that_are_right) {
    const convolution_case c {
            "", 2, 1, 24, 32, {28, 30}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}};
    size_t by_cudnn = 0;
    for (const layout &l : {layouts()[0], layouts()[1]})
        for (const data_type type : float_types()) {
            SCOPED_TRACE(std::string(to_string(type)) + " " + l.name);
            const op the_op
                    = convolution_op(op::kind::ConvBackward, c, l, type);
            op_run run(the_op, gpu(), random_inputs(the_op, 13));
            run.execute();
            run.expect_right();
            for (const auto &step : run.compiled().get_info().steps)
                by_cudnn += step.kernel == "convolution.cudnn";
        }
    EXPECT_GT(by_cudnn, 0U);
    // Copied to NXC, what NCX asks of cuDNN is measured already.
    EXPECT_GE(measured(), by_cudnn / 2);
}

// convolution.gpu_direct, which takes everything, alone may need more.
TEST_F(gpu_engine, keeps_the_workspace_limit) {
    constexpr const char *variable = "GRADNN_CONVOLUTION_WORKSPACE_LIMIT";
    size_t bounded = 0;
    const auto try_limit = [&](const op &the_op, size_t limit) {
        setenv(variable, std::to_string(limit).c_str(), 1);
        const compiled_partition compiled = compile(the_op, gpu());
        unsetenv(variable);
        const auto info = compiled.get_info();
        if (info.steps[0].kernel == "convolution.gpu_direct") return;
        ++bounded;
        // A partition's workspace is whole 64 bytes.
        EXPECT_LE(compiled.get_workspace_size(), (limit + 63) / 64 * 64)
                << info.steps[0].kernel;
    };
    for (const char *name : {"sixteen_channels", "grouped_wide", "patches",
                 "narrow_groups", "depthwise_wide", "first_layer", "plain_3d"})
        for (const op::kind kind : {op::kind::ConvolutionBackwardData,
                     op::kind::ConvolutionBackwardWeights})
            for (const layout &l : {layouts()[0], layouts()[1]})
                for (const data_type type : float_types()) {
                    SCOPED_TRACE(std::string(name) + " " + to_string(kind) + " "
                            + l.name + " " + to_string(type));
                    const op the_op = convolution_op(
                            kind, convolution_named(name), l, type);
                    const size_t wanted
                            = compile(the_op, gpu()).get_workspace_size();
                    for (const size_t limit :
                            {size_t {0}, size_t {500}, wanted / 2, wanted})
                        try_limit(the_op, limit);
                }
    EXPECT_GT(bounded, 100U);
}

// Many images, rows or columns for a block: sums of whole numbers are exact in
// whatever order, and tell of one that is missing or taken twice.
TEST_F(gpu_engine, depthwise_adds_whole_numbers_exactly) {
    const auto check = [&](const op &the_op) {
        values_list inputs = random_inputs(the_op, 14);
        random_source numbers(15);
        for (values_list::value_type &values : inputs)
            for (double &value : values)
                value = static_cast<double>(numbers.integer(-2, 2));
        op_run run(the_op, gpu(), inputs);
        run.execute();
        const auto expected = run.reference();
        for (size_t output = 0; output < expected.size(); ++output) {
            const auto out = run.output(output);
            for (size_t i = 0; i < out.size(); ++i)
                ASSERT_EQ(out[i],
                        detail::rounded_to(
                                data_type::f16, expected[output].values[i]))
                        << "output " << output << " element " << i;
        }
    };
    const forced_kernel forced(kernels_that_begin(
            engine::kind::gpu, "convolution", "convolution.gpu_depthwise"));
    for (const int64_t size : {3, 5, 7})
        for (const auto &[images, channels, space] : {
                     std::tuple<int64_t, int64_t, sizes> {4500, 8, {3, 4}},
                     {300, 8, {13, 12}}, {12, 136, {13, 14}}, {1, 8, {600, 40}},
                     {2, 16, {9, 333}}, {1, 8, {2, 16400}}})
            for (const op::kind kind :
                    {op::kind::ConvBackward, op::kind::ConvTransposeBackward})
                for (const layout &l : {layouts()[0], layouts()[1]}) {
                    const int64_t pad = size / 2;
                    const convolution_case c {"integers", images, channels,
                            channels, channels, space, {size, size}, {1, 1},
                            {1, 1}, {pad, pad}, {pad, pad}};
                    SCOPED_TRACE(std::to_string(size) + " of "
                            + std::to_string(images) + " images "
                            + to_string(kind) + " " + l.name);
                    wanted_outputs wanted;
                    wanted.diff_bias = false;
                    check(convolution_op(kind, c, l, data_type::f16, wanted));
                }
}

// Under relaxed modes too, but for gradients that fill the device.
TEST_F(gpu_engine, weights_in_f32_of_16_bit_data_are_its_own) {
    const auto kernel_of = [&](int64_t channels, fpmath_mode mode) {
        const convolution_case c {"", 2, 1, channels, channels, {9, 8}, {3, 3},
                {1, 1}, {1, 1}, {1, 1}, {1, 1}};
        const op the_op = convolution_op(op::kind::ConvolutionBackwardWeights,
                c, layouts()[1], data_type::bf16, {true, true, true, true});
        return partition_of(the_op, engine::kind::gpu, mode)
                .compile(the_op.get_inputs(), the_op.get_outputs(), gpu())
                .get_info()
                .steps[0]
                .kernel;
    };
    constexpr int64_t many = 2048;
    for (const fpmath_mode mode : {fpmath_mode::strict, fpmath_mode::any})
        EXPECT_EQ(kernel_of(64, mode), "convolution.gpu_wide_weights");
    EXPECT_EQ(kernel_of(many, fpmath_mode::strict),
            "convolution.gpu_wide_weights");
    if (cuda_interop::get_versions().cudnn == 0) return;
    EXPECT_EQ(kernel_of(many, fpmath_mode::any), "convolution.cudnn");
}

// doc/notes/cudnn_faults.md.
TEST_F(gpu_engine, what_cudnn_makes_nan_of_is_not_its) {
    if (cuda_interop::get_versions().cudnn == 0) return;
    const forced_kernel forced("convolution.cudnn");
    // Others it may refuse for other reasons.
    const auto is_refused = [](int64_t src, int64_t groups, int64_t dilation,
                                    data_type type) {
        const convolution_case c {"", 1, groups, groups, 4 * groups, {src}, {4},
                {1}, {dilation}, {1}, {1}};
        try {
            compile(convolution_op(op::kind::ConvolutionBackwardData, c,
                            layouts()[0], type),
                    gpu());
        } catch (const error &refusal) {
            return std::string(refusal.what()).find("gives NaN")
                    != std::string::npos;
        }
        return false;
    };
    for (const data_type type : {data_type::f16, data_type::bf16}) {
        EXPECT_TRUE(is_refused(11, 5, 4, type));
        EXPECT_FALSE(is_refused(12, 5, 4, type)) << "two positions";
        EXPECT_FALSE(is_refused(11, 1, 4, type)) << "one group";
        EXPECT_FALSE(is_refused(2, 5, 1, type)) << "no dilation";
    }
    EXPECT_FALSE(is_refused(11, 5, 4, data_type::f32));
}

// The gradients of src and of weights copy diff_dst to another layout once, and
// give the bits that each of them gives alone.
TEST_F(gpu_engine, gradients_of_an_op_share_a_copy) {
    const convolution_case c {
            "", 4, 1, 24, 32, {28, 30}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}};
    const layout &ncx = layouts()[0];
    for (const op::kind kind :
            {op::kind::ConvBackward, op::kind::ConvTransposeBackward})
        for (const data_type type : float_types()) {
            SCOPED_TRACE(std::string(to_string(type)) + " " + to_string(kind));
            const op both = convolution_op(kind, c, ncx, type);
            const values_list inputs = random_inputs(both, 12);
            op_run run(both, gpu(), inputs);
            run.execute();
            run.expect_right();
            const auto steps = run.compiled().get_info().steps;
            ASSERT_EQ(steps.size(), 3U);
            const std::string shared = kind == op::kind::ConvBackward
                    ? "(dst by the step before)"
                    : "(src by the step before)";
            EXPECT_NE(steps[1].backend.find(shared), std::string::npos)
                    << steps[1].backend;
            op_run alone(
                    convolution_op(kind, c, ncx, type, {false, true, false}),
                    gpu(), inputs);
            alone.execute();
            EXPECT_EQ(alone.output_bytes(1), run.output_bytes(1));
        }
}

TEST_F(gpu_engine, leaves_the_current_device_alone) {
    int count = 0;
    require(cudaGetDeviceCount(&count));
    int before = 0;
    require(cudaGetDevice(&before));
    for (int current = 0; current < count; ++current)
        for (int device = 0; device < count; ++device) {
            SCOPED_TRACE(testing::Message()
                    << "current " << current << ", engine " << device);
            require(cudaSetDevice(current));
            const engine e(engine::kind::gpu, static_cast<size_t>(device));
            {
                stream s(e);
                const auto runs = runs_of(some_ops(data_type::f32), e, 12);
                int now = -1;
                require(cudaGetDevice(&now));
                EXPECT_EQ(now, current) << "after compile";
                submit(runs, s);
                require(cudaGetDevice(&now));
                EXPECT_EQ(now, current) << "after execute";
                s.wait();
                for (const auto &run : runs)
                    run->expect_right();
            }
            int now = -1;
            require(cudaGetDevice(&now));
            EXPECT_EQ(now, current) << "after all";
        }
    require(cudaSetDevice(before));
}

/// Counts what a device allocator is asked for, and fails at will.
struct counted_memory {
    std::atomic<size_t> allocations {0};
    std::atomic<size_t> deallocations {0};
    std::atomic<int> device {-1};
    std::atomic<bool> exhausted {false};

    static void *allocate(size_t size, int on, cudaStream_t, void *context) {
        auto &self = *static_cast<counted_memory *>(context);
        if (self.exhausted) return nullptr;
        ++self.allocations;
        self.device = on;
        void *pointer = nullptr;
        return cudaMalloc(&pointer, size) == cudaSuccess ? pointer : nullptr;
    }
    static void deallocate(void *pointer, int, cudaStream_t, void *context) {
        ++static_cast<counted_memory *>(context)->deallocations;
        cudaFree(pointer);
    }
    cuda_interop::device_allocator functions() {
        return {allocate, deallocate, this};
    }
};

op op_with_workspace(data_type type) {
    return convolution_op(op::kind::ConvBackward,
            {"conv", 2, 1, 16, 24, {30, 31}, {3, 3}, {1, 1}, {1, 1}, {1, 1},
                    {1, 1}},
            {"xio", "NXC", "XIO"}, type);
}

TEST_F(gpu_engine, uses_the_callers_allocator) {
    counted_memory memory;
    const engine e
            = cuda_interop::make_engine_with_allocator(0, memory.functions());
    const op conv = op_with_workspace(data_type::f32);
    op_run run(conv, e, random_inputs(conv, 13));
    ASSERT_GT(run.compiled().get_workspace_size(), 0U);
    {
        stream s(e);
        for (int i = 0; i < 3; ++i)
            run.execute(s);
        EXPECT_EQ(memory.allocations, 1U);
        EXPECT_EQ(memory.device, 0);
    }
    EXPECT_EQ(memory.deallocations, 1U);
    run.expect_right();
}

TEST_F(gpu_engine, takes_tables_from_the_callers_allocator) {
    counted_memory memory;
    const op up = interpolation_op({"up", 2, 19, {23, 29}, {46, 61}}, {},
            layouts()[0], data_type::f32);
    size_t of_one = 0;
    {
        const engine e = cuda_interop::make_engine_with_allocator(
                0, memory.functions());
        op_run run(up, e, random_inputs(up, 16));
        of_one = memory.allocations;
        EXPECT_GT(of_one, 0U) << "the tables are not the allocator's";
        EXPECT_EQ(memory.device, 0);
        stream s(e);
        run.execute(s);
        run.expect_right();
        // Again: from the cache.
        op_run(up, e, random_inputs(up, 16)).execute(s);
        EXPECT_EQ(memory.allocations, of_one);
        // Another engine of the same allocator has tables of its own.
        const engine other = cuda_interop::make_engine_with_allocator(
                0, memory.functions());
        op_run(up, other, random_inputs(up, 16)).execute();
        EXPECT_EQ(memory.allocations, 2 * of_one);
    }
    EXPECT_EQ(memory.deallocations, memory.allocations);
}

TEST_F(gpu_engine, has_tables_that_outlive_their_engine) {
    counted_memory memory;
    const op up = interpolation_op({"up", 2, 19, {23, 29}, {46, 63}}, {},
            layouts()[0], data_type::f32);
    {
        op_run run(up, gpu(), random_inputs(up, 17));
        const compiled_partition compiled = compile(up,
                cuda_interop::make_engine_with_allocator(
                        0, memory.functions()));
        EXPECT_GT(memory.allocations, 0U);
        EXPECT_EQ(memory.deallocations, 0U);
        stream s(gpu());
        compiled.execute(s, run.input_tensors(), run.output_tensors());
        s.wait();
        run.expect_right();
    }
    EXPECT_EQ(memory.deallocations, memory.allocations);
}

TEST_F(gpu_engine, says_when_there_is_no_memory_for_tables) {
    counted_memory memory;
    memory.exhausted = true;
    const engine e
            = cuda_interop::make_engine_with_allocator(0, memory.functions());
    const op up = interpolation_op({"up", 2, 19, {23, 29}, {46, 65}}, {},
            layouts()[0], data_type::f32);
    try {
        static_cast<void>(compile(up, e));
        FAIL() << "compiled without tables";
    } catch (const error &failure) {
        EXPECT_EQ(failure.status, status::out_of_memory);
        EXPECT_NE(std::string(failure.what()).find("for a table"),
                std::string::npos)
                << failure.what();
    }
    memory.exhausted = false;
    op_run run(up, e, random_inputs(up, 18));
    run.execute();
    run.expect_right();
}

TEST_F(gpu_engine, refuses_allocators_that_cannot_serve) {
    EXPECT_THROW(cuda_interop::make_engine_with_allocator(
                         0, {counted_memory::allocate, nullptr, nullptr}),
            error);
    const allocator host(
            [](size_t, size_t) -> void * { return nullptr; }, [](void *) {});
    EXPECT_THROW(make_engine_with_allocator(engine::kind::gpu, 0, host), error);
}

TEST_F(gpu_engine, survives_an_allocator_without_memory) {
    counted_memory memory;
    const engine e
            = cuda_interop::make_engine_with_allocator(0, memory.functions());
    const op conv = op_with_workspace(data_type::f32);
    op_run run(conv, e, random_inputs(conv, 14));
    stream s(e);
    memory.exhausted = true;
    try {
        run.execute(s);
        FAIL() << "executed without workspace";
    } catch (const error &failure) {
        EXPECT_EQ(failure.status, status::out_of_memory);
        EXPECT_NE(std::string(failure.what())
                          .find(std::to_string(
                                  run.compiled().get_workspace_size())),
                std::string::npos)
                << failure.what();
    }
    memory.exhausted = false;
    run.execute(s);
    run.expect_right();
}

TEST_F(gpu_engine, survives_a_full_device) {
    const op conv = op_with_workspace(data_type::f32);
    op_run run(conv, gpu(), random_inputs(conv, 15));
    // Takes all there is, in ever smaller pieces.
    std::vector<void *> taken;
    for (size_t size = size_t {1} << 36; size >= size_t {1} << 12;) {
        void *pointer = nullptr;
        if (cudaMalloc(&pointer, size) == cudaSuccess)
            taken.push_back(pointer);
        else
            size /= 2;
    }
    static_cast<void>(cudaGetLastError());
    bool refused = false;
    try {
        stream s(gpu());
        for (int i = 0; i < 200 && !refused; ++i) {
            // Pieces that are left over may serve some streams.
            run.compiled().execute(
                    s, run.input_tensors(), run.output_tensors());
            s.wait();
            s = stream(gpu());
        }
    } catch (const error &failure) {
        refused = true;
        EXPECT_EQ(failure.status, status::out_of_memory) << failure.what();
    }
    EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "a failure was left behind";
    for (void *pointer : taken)
        cudaFree(pointer);
    if (!refused) GTEST_SKIP() << "the device could not be filled";
    run.execute();
    run.expect_right();
}

/// What execute says when one input's pointer is replaced.
std::string refusal_of(const op_run &run, stream &s, void *data) {
    auto inputs = run.input_tensors();
    inputs.at(0).set_data_handle(data);
    try {
        run.compiled().execute(s, inputs, run.output_tensors());
    } catch (const error &e) {
        EXPECT_EQ(e.status, status::invalid_arguments) << e.what();
        return e.what();
    }
    return {};
}

TEST_F(gpu_engine, refuses_host_pointers_by_name) {
    const op relu = plane_op(op::kind::ReLUBackward, {"p", {2, 3, 4, 5}},
            layouts()[0], data_type::f32);
    op_run run(relu, gpu(), random_inputs(relu, 16));
    stream s(gpu());
    std::vector<float> host(2 * 3 * 4 * 5);
    float *pinned = nullptr;
    require(cudaMallocHost(
            reinterpret_cast<void **>(&pinned), host.size() * sizeof(float)));
    for (void *data :
            {static_cast<void *>(host.data()), static_cast<void *>(pinned)}) {
        const std::string message = refusal_of(run, s, data);
        EXPECT_NE(message.find("host memory"), std::string::npos) << message;
        EXPECT_NE(message.find("ReLUBackward"), std::string::npos) << message;
        EXPECT_NE(message.find("input 0"), std::string::npos) << message;
    }
    require(cudaFreeHost(pinned));
    // Also as workspace.
    const op conv = op_with_workspace(data_type::f32);
    const op_run other(conv, gpu(), random_inputs(conv, 17));
    alignas(64) static std::byte not_workspace[64];
    EXPECT_THROW(other.compiled().execute(s, other.input_tensors(),
                         other.output_tensors(), not_workspace),
            error);
    run.execute(s);
    run.expect_right();
}

TEST_F(gpu_engine, takes_managed_memory) {
    const op relu = plane_op(op::kind::ReLUBackward, {"p", {2, 3, 4, 5}},
            layouts()[0], data_type::f32);
    const op_run run(relu, gpu(), random_inputs(relu, 18));
    stream s(gpu());
    float *managed = nullptr;
    require(cudaMallocManaged(reinterpret_cast<void **>(&managed),
            2 * 3 * 4 * 5 * sizeof(float)));
    for (int i = 0; i < 2 * 3 * 4 * 5; ++i)
        managed[i] = 1.0F;
    EXPECT_EQ(refusal_of(run, s, managed), "");
    s.wait();
    require(cudaFree(managed));
}

TEST_F(gpu_engine, refuses_memory_and_streams_of_another_device) {
    if (engine::get_count(engine::kind::gpu) < 2)
        GTEST_SKIP() << "wants two GPUs";
    const op relu = plane_op(op::kind::ReLUBackward, {"p", {2, 3, 4, 5}},
            layouts()[0], data_type::f32);
    op_run run(relu, gpu(), random_inputs(relu, 19));
    const engine other(engine::kind::gpu, 1);
    const device_memory elsewhere(other, 2 * 3 * 4 * 5 * sizeof(float));
    stream s(gpu());
    const std::string message = refusal_of(run, s, elsewhere.data());
    EXPECT_NE(message.find("GPU 1"), std::string::npos) << message;
    EXPECT_NE(message.find("input 0"), std::string::npos) << message;
    stream of_other(other);
    EXPECT_THROW(run.compiled().execute(
                         of_other, run.input_tensors(), run.output_tensors()),
            error);
    EXPECT_THROW(cuda_interop::make_stream(
                         gpu(), cuda_interop::get_native(of_other)),
            error);
    run.execute(s);
    run.expect_right();
}

TEST_F(gpu_engine, refuses_cpu_engines_and_streams) {
    const engine cpu = shared_engine(engine::kind::cpu);
    EXPECT_THROW(cuda_interop::make_stream(cpu, nullptr), error);
    EXPECT_THROW(cuda_interop::get_native(stream(cpu)), error);
}

} // namespace
} // namespace gradnn::test
