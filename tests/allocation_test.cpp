// After the first execute on a stream no execute allocates.
//
// Counts malloc and its relatives by defining them here, so this program is
// its own executable and is not built with AddressSanitizer or ThreadSanitizer
// in mind: under those it skips, visibly.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>

#include <gtest/gtest.h>
#include <omp.h>

#include "support/c_api.hpp"
#include "support/op_builders.hpp"
#include "support/random.hpp"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) \
        || !defined(__GLIBC__)
constexpr bool counts = false;
#else
constexpr bool counts = true;
#endif

namespace {

std::atomic<bool> counting {false};
std::atomic<size_t> allocations {0};
std::atomic<size_t> largest {0};

[[maybe_unused]] void note(size_t bytes) {
    if (!counting.load(std::memory_order_relaxed)) return;
    ++allocations;
    size_t seen = largest;
    while (bytes > seen && !largest.compare_exchange_weak(seen, bytes)) {}
}

} // namespace

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) \
        && defined(__GLIBC__)
// glibc's own names of its allocator; operator new comes here as well.
extern "C" {
void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);

void *malloc(size_t bytes) {
    note(bytes);
    return __libc_malloc(bytes);
}
void *calloc(size_t count, size_t bytes) {
    note(count * bytes);
    return __libc_calloc(count, bytes);
}
void *realloc(void *old, size_t bytes) {
    note(bytes);
    return __libc_realloc(old, bytes);
}
void *memalign(size_t alignment, size_t bytes) {
    note(bytes);
    return __libc_memalign(alignment, bytes);
}
void *aligned_alloc(size_t alignment, size_t bytes) {
    note(bytes);
    return __libc_memalign(alignment, bytes);
}
int posix_memalign(void **result, size_t alignment, size_t bytes) {
    note(bytes);
    void *const memory = __libc_memalign(alignment, bytes);
    if (!memory) return ENOMEM;
    *result = memory;
    return 0;
}
}
#endif

namespace gradnn::test {
namespace {

struct counted_case {
    std::string problem;
    op the_op;
};

std::vector<counted_case> ops(data_type type, const layout &l) {
    return {{"interpolation",
                    interpolation_op(
                            {"up", 2, 16, {32, 33}, {64, 66}}, {}, l, type)},
            {"convolution",
                    convolution_op(op::kind::ConvBackward,
                            {"conv", 2, 1, 16, 24, {30, 31}, {3, 3}, {1, 1},
                                    {1, 1}, {1, 1}, {1, 1}},
                            l, type)},
            {"convolution",
                    convolution_op(op::kind::ConvTransposeBackward,
                            {"deconv", 2, 2, 8, 12, {20, 21}, {4, 4}, {2, 2},
                                    {1, 1}, {1, 1}, {1, 1}},
                            l, type)},
            {"bias",
                    plane_op(op::kind::BiasAddBackward,
                            {"bias", {8, 40, 30, 31}}, l, type)},
            {"elementwise",
                    plane_op(op::kind::ReLUBackward, {"relu", {8, 40, 30, 31}},
                            l, type)}};
}

TEST(allocation, the_counter_counts) {
    if (!counts) GTEST_SKIP() << "a sanitizer owns malloc";
    allocations = 0;
    largest = 0;
    counting = true;
    auto *const kept = new std::vector<int>(100);
    counting = false;
    delete kept;
    EXPECT_EQ(allocations, 2U);
    EXPECT_EQ(largest, 400U);
}

// oneDNN 3.2 allocates in every execution: a few small containers for its own
// arguments, and where it convolves by a matrix product the memory in which it
// packs blocks of an operand. Nothing of gradnn's does.
TEST(allocation, no_execute_after_the_first_allocates) {
    if (!counts) GTEST_SKIP() << "a sanitizer owns malloc";
    // GNU's OpenMP allocates where a team has another size than the last one.
    omp_set_num_threads(std::min(2, omp_get_max_threads()));
    const engine e = shared_engine(engine::kind::cpu);
    for (const data_type type : float_types())
        for (const layout &l : {layouts()[0], layouts()[1], layouts()[7]})
            for (const counted_case &c : ops(type, l))
                for (const std::string &kernel :
                        kernel_names(engine::kind::cpu, c.problem)) {
                    SCOPED_TRACE(std::string(to_string(c.the_op.get_kind()))
                            + " " + to_string(type) + " " + l.name + " "
                            + kernel);
                    const forced_kernel forced(kernel);
                    std::optional<op_run> r;
                    try {
                        r.emplace(c.the_op, e, random_inputs(c.the_op, 81));
                    } catch (const error &) {
                        continue; // refused
                    }
                    stream s(e);
                    r->execute(s);
                    const auto inputs = r->input_tensors();
                    const auto outputs = r->output_tensors();
                    const compiled_partition &compiled = r->compiled();
                    allocations = 0;
                    largest = 0;
                    counting = true;
                    for (int i = 0; i < 3; ++i)
                        compiled.execute(s, inputs, outputs);
                    counting = false;
                    if (kernel == "convolution.onednn")
                        EXPECT_LE(largest, 1U << 20);
                    else
                        EXPECT_EQ(allocations, 0U) << "largest " << largest;
                    r->expect_right();
                }
}

// A lookup and an execution, with an engine of the CPU, where bindings make a
// call of each.
TEST_F(c_api, looks_up_and_executes_without_allocating) {
    if (!counts) GTEST_SKIP() << "a sanitizer owns malloc";
    gradnn_op *const the_op = interpolation();
    const std::vector<gradnn_tensor> inputs {
            tensor_of({1, 2, 3, 3}), tensor_of({1, 2, 6, 6})};
    const std::vector<gradnn_tensor> outputs {tensor_of({1, 2, 3, 3})};
    gradnn_compiled *const compiled = compile(the_op, inputs, outputs);
    const std::vector<float> diff_dst(72, 1.0F);
    std::vector<float> diff_src(18);
    struct alignas(64) line {
        std::byte bytes[64];
    };
    std::vector<line> workspace(
            gradnn_compiled_workspace_size(compiled) / sizeof(line) + 1);
    const void *sources[] {nullptr, diff_dst.data()};
    void *results[] {diff_src.data()};
    const auto call = [&] {
        gradnn_compiled *found = nullptr;
        gradnn_status status = gradnn_compile(the_op, engine, inputs.data(),
                inputs.size(), outputs.data(), outputs.size(), &found);
        if (status == gradnn_success)
            status = gradnn_execute(
                    found, nullptr, sources, 2, results, 1, workspace.data());
        gradnn_compiled_release(found);
        return status;
    };
    ASSERT_EQ(call(), gradnn_success) << gradnn_last_error();
    allocations = 0;
    counting = true;
    const gradnn_status second = call();
    counting = false;
    EXPECT_EQ(second, gradnn_success);
    EXPECT_EQ(allocations, 0U) << "largest " << largest;
    gradnn_compiled_release(compiled);
}

} // namespace
} // namespace gradnn::test
