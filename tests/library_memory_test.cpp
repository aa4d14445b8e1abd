// Tensors whose memory the library allocates, by the engine's allocator.
#include <atomic>
#include <cstdlib>
#include <utility>

#include <gtest/gtest.h>

#include <gradnn/gradnn.hpp>

#include "support/op_samples.hpp"

namespace gradnn::test {
namespace {

using namespace samples;

std::atomic<int> held {0};
std::atomic<size_t> last_size {0};

void *counted_allocate(size_t size, size_t alignment) {
    ++held;
    last_size = size;
    return std::aligned_alloc(
            alignment, (size + alignment - 1) / alignment * alignment);
}
void counted_free(void *pointer) {
    --held;
    std::free(pointer);
}
void *no_memory(size_t, size_t) {
    return nullptr;
}

TEST(library_memory, lives_with_the_last_copy) {
    ASSERT_EQ(held, 0);
    tensor kept;
    {
        const engine cpu = make_engine_with_allocator(engine::kind::cpu, 0,
                allocator(counted_allocate, counted_free));
        const tensor made(f32(0, {3, 5}), cpu);
        EXPECT_EQ(held, 1);
        EXPECT_EQ(last_size, 60U);
        EXPECT_NE(made.get_data_handle(), nullptr);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(made.get_data_handle()) % 64, 0U);
        kept = made;
        EXPECT_EQ(kept.get_data_handle(), made.get_data_handle());
        tensor moved = std::move(kept);
        kept = moved;
    }
    // The engine's handle is gone, its memory is not.
    EXPECT_EQ(held, 1);
    static_cast<float *>(kept.get_data_handle())[14] = 1;
    float mine = 0;
    kept.set_data_handle(&mine);
    EXPECT_EQ(held, 0);
    EXPECT_EQ(kept.get_data_handle(), &mine);
}

TEST(library_memory, holds_strides_and_nothing) {
    const engine cpu = make_engine_with_allocator(
            engine::kind::cpu, 0, allocator(counted_allocate, counted_free));
    const tensor strided(
            lt(0, data_type::f16, sizes {2, 3}, sizes {10, 2}), cpu);
    EXPECT_EQ(last_size, 2U * (10 + 4 + 1));
    const tensor empty(f32(0, {3, 0}), cpu);
    EXPECT_EQ(empty.get_data_handle(), nullptr);
    EXPECT_EQ(held, 1);
}

TEST(library_memory, refusals) {
    const engine cpu = make_engine_with_allocator(
            engine::kind::cpu, 0, allocator(no_memory, counted_free));
    const auto status_of = [](const auto &body) {
        try {
            body();
        } catch (const error &failure) {
            return failure.status;
        }
        return status::success;
    };
    EXPECT_EQ(status_of([&] { tensor(f32(0, {4}), cpu); }),
            status::out_of_memory);
    EXPECT_EQ(status_of([&] {
        tensor(lt(0, data_type::f32, 2, layout_type::strided), cpu);
    }),
            status::invalid_arguments);
    EXPECT_EQ(status_of([&] { tensor(f32(0, {4}), engine()); }),
            status::invalid_arguments);
}

TEST(library_memory, executes) {
    const engine cpu(engine::kind::cpu, 0);
    const op the_op = relu(0, 0, 1, 2);
    const auto compiled
            = partition(the_op, engine::kind::cpu)
                      .compile(the_op.get_inputs(), the_op.get_outputs(), cpu);
    std::vector<tensor> in;
    for (const auto &port : the_op.get_inputs()) {
        in.emplace_back(port, cpu);
        std::fill_n(static_cast<float *>(in.back().get_data_handle()), 24,
                2.0F + static_cast<float>(in.size()));
    }
    const tensor out(the_op.get_outputs()[0], cpu);
    stream queue(cpu);
    compiled.execute(queue, in, {out});
    queue.wait();
    for (int i = 0; i < 24; ++i)
        EXPECT_EQ(static_cast<float *>(out.get_data_handle())[i], 4.0F);
}

} // namespace
} // namespace gradnn::test
