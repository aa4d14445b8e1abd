// The GPU engine beside the conformance suite: streams, threads, devices, and what
// is refused.
#include <atomic>
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
        GTEST_SKIP() << "needs two GPUs";
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
