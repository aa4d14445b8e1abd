// The GPU engine while a CUDA graph is captured.
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "support/gpu.hpp"
#include "support/gpu_runs.hpp"
#include "support/op_builders.hpp"

namespace gradnn::test {
namespace {

using gpu_capture = gpu_engine;

// In the strictest capture mode, which no allocation, synchronisation or
// implicit use of another stream survives.
TEST_F(gpu_capture, is_captured_in_a_cuda_graph) {
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

// Frameworks wrap their current stream for each call, under capture too.
TEST_F(gpu_capture, takes_a_stream_that_is_being_captured) {
    const cuda_stream_owner native;
    require(cudaStreamBeginCapture(native.get(), cudaStreamCaptureModeGlobal));
    EXPECT_EQ(cuda_interop::get_native(
                      cuda_interop::make_stream(gpu(), native.get())),
            native.get());
    cudaGraph_t graph = nullptr;
    require(cudaStreamEndCapture(native.get(), &graph));
    require(cudaGraphDestroy(graph));
}

// Compiling allocates, which a capture of the strictest mode forbids to all
// threads.
TEST_F(gpu_capture, compiles_while_another_thread_captures) {
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

TEST_F(gpu_capture, refuses_to_allocate_or_wait_during_a_capture) {
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

} // namespace
} // namespace gradnn::test
