// Where the GPU engine's memory comes from: the caller's allocator, tables that
// outlive their engine, devices without memory.
#include <atomic>
#include <string>
#include <vector>

#include "support/gpu.hpp"
#include "support/op_builders.hpp"

namespace gradnn::test {
namespace {

class gpu_allocator : public gpu_fixture {
protected:
    static engine gpu() { return shared_engine(engine::kind::gpu); }
};

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

TEST_F(gpu_allocator, uses_the_callers_allocator) {
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

TEST_F(gpu_allocator, takes_tables_from_the_callers_allocator) {
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

TEST_F(gpu_allocator, has_tables_that_outlive_their_engine) {
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

TEST_F(gpu_allocator, says_when_there_is_no_memory_for_tables) {
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

TEST_F(gpu_allocator, refuses_allocators_that_cannot_serve) {
    EXPECT_THROW(cuda_interop::make_engine_with_allocator(
                         0, {counted_memory::allocate, nullptr, nullptr}),
            error);
    const allocator host(
            [](size_t, size_t) -> void * { return nullptr; }, [](void *) {});
    EXPECT_THROW(make_engine_with_allocator(engine::kind::gpu, 0, host), error);
}

TEST_F(gpu_allocator, survives_an_allocator_without_memory) {
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

TEST_F(gpu_allocator, survives_a_full_device) {
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

} // namespace
} // namespace gradnn::test
