// convolution.gpu_depthwise_matrices and _lines on the CPU: their kernels executed
// (emulated/simt.hpp; what tensor cores do by plain loops) in random problems as they are
// cut, against the formula. Needs no GPU.
#include "gpu/convolution/depthwise/plan.hpp" // ahead of what stands for gridDim

#include "emulated/simt.hpp"

#include <map>

#include <gtest/gtest.h>

#include "emulated/typed.hpp"
#include "gpu_cuts/depthwise.hpp"
#include "support/plain_convolution.hpp"

namespace gradnn::gpu::depthwise::matrices {
namespace {
alignas(16) uint4 shared[default_block_shared_bytes / sizeof(uint4)];
}
} // namespace gradnn::gpu::depthwise::matrices

#include "gpu/convolution/depthwise/matrices/data.cu"
#include "gpu/convolution/depthwise/matrices/weights.cu"

// Arrays within kernels: addresses count from the one that a kernel asks for.
#undef __shared__
#define __shared__ static

namespace gradnn::gpu::depthwise::lines {
template <size_t count>
uint32_t shared_address(uint4 (&array)[count]) {
    emulated::shared_memory = reinterpret_cast<char *>(array);
    emulated::shared_bytes = sizeof array;
    return 0;
}
} // namespace gradnn::gpu::depthwise::lines

#include "gpu/convolution/depthwise/lines/data.cu"
#include "gpu/convolution/depthwise/lines/weights.cu"
#include "gpu/convolution/weights_sum.cuh"

namespace gradnn::test {
namespace {

using namespace gpu::depthwise;

/// src, weights and dst, as they lie in memory.
using tensors_of_problem = std::array<typed, 3>;

template <typename Kernel>
void run_blocks(
        int64_t blocks, unsigned threads, bool descending, const Kernel &run) {
    emulated::grid_size = {static_cast<unsigned>(blocks), 1, 1};
    for (int64_t i = 0; i < blocks; ++i) {
        if (emulated::shared_memory != nullptr)
            std::memset(emulated::shared_memory, 0xff, emulated::shared_bytes);
        emulated::block::run(
                static_cast<unsigned>(i), threads, descending, run);
    }
}

/// What a family's kernels are called with, given their template arguments:
/// with_kernels(facts, cut, alignment, run).
template <typename Type, typename Run>
void with_data_kernel(const problem_facts &facts, const matrices::work_cut &,
        bool pairs, const Run &run) {
    gpu::with_chosen(
            [&]<int wide>() {
                run(matrices::depthwise_matrices_data_kernel<Type, wide>);
            },
            gpu::one_of<1, 2> {pairs && rows_are_wide(facts.shape) ? 2 : 1});
}
template <typename Type, typename Run>
void with_data_kernel(const problem_facts &facts, const lines::work_cut &cut,
        bool pairs, const Run &run) {
    gpu::with_chosen(
            [&]<int steps, int wide>() {
                run(lines::depthwise_lines_data_kernel<Type, steps, wide>);
            },
            lines::steps_of(facts.shape, cut),
            gpu::one_of<1, 2> {pairs && rows_are_wide(facts.shape) ? 2 : 1});
}
template <typename Type, typename Run>
void with_weights_kernel(const problem_facts &facts, const matrices::work_cut &,
        bool pairs, const Run &run) {
    gpu::with_chosen(
            [&]<int wide>() {
                run(matrices::depthwise_matrices_weights_kernel<Type, wide>);
            },
            gpu::one_of<1, 2> {pairs && rows_are_wide(facts.shape, 2) ? 2 : 1});
}
template <typename Type, typename Run>
void with_weights_kernel(const problem_facts &facts, const lines::work_cut &cut,
        bool, const Run &run) {
    gpu::with_chosen(
            [&]<int steps>() {
                run(lines::depthwise_lines_weights_kernel<Type, steps>);
            },
            lines::steps_of(facts.shape, cut));
}

int64_t blocks_of(const problem_facts &, const matrices::work_cut &cut) {
    return cut.blocks();
}
int64_t blocks_of(const problem_facts &facts, const lines::work_cut &cut) {
    return facts.shape.channels * cut.parts;
}
int64_t parts_of(const matrices::work_cut &cut) {
    return cut.parts();
}
int64_t parts_of(const lines::work_cut &cut) {
    return cut.parts;
}
constexpr unsigned threads_of(const matrices::work_cut &) {
    return matrices::block_warps * 32;
}
constexpr unsigned threads_of(const lines::work_cut &) {
    return lines::block_warps * 32;
}

template <typename Type, typename Cut>
void carry_out(const problem_facts &facts, const Cut &cut, bool pairs,
        bool descending, tensors_of_problem &tensors) {
    const auto at = [&](size_t tensor) {
        return static_cast<Type *>(tensors[tensor].data());
    };
    const size_t read = facts.shape.to_src ? 2 : 0;
    const size_t written = 2 - read;
    emulated::tensors = {{at(0), tensors[0].end()}, {at(2), tensors[2].end()}};
    emulated::shared_memory = nullptr;
    if constexpr (std::is_same_v<Cut, matrices::work_cut>) {
        emulated::shared_memory = reinterpret_cast<char *>(matrices::shared);
        emulated::shared_bytes = cut.shared_bytes;
        ASSERT_LE(cut.shared_bytes, sizeof matrices::shared);
    }
    const int64_t blocks = blocks_of(facts, cut);
    if (!facts.of_weights()) {
        with_data_kernel<Type>(facts, cut, pairs, [&](auto kernel) {
            run_blocks(blocks, threads_of(cut), descending, [&] {
                kernel(at(read), at(1), at(written), facts.shape, cut);
            });
        });
        return;
    }
    const gpu::partial_weights<int32_t> sums(
            facts.problem, parts_of(cut), true);
    std::vector<float> partials(
            static_cast<size_t>(sums.count * sums.parts), std::nanf(""));
    with_weights_kernel<Type>(facts, cut, pairs, [&](auto kernel) {
        run_blocks(blocks, threads_of(cut), descending, [&] {
            kernel(at(0), at(2), partials.data(), facts.shape, cut);
        });
    });
    emulated::shared_memory = nullptr;
    run_blocks(1, gpu::weights_sum_threads, descending, [&] {
        gpu::convolution_weights_sum_kernel<Type, Type, int32_t>(
                partials.data(), at(0), at(2), at(1), sums);
    });
}

/// In whole numbers, whose sums f32 holds, and now and then an infinity.
template <typename Cut>
void expect_formula(const problem_facts &facts, const Cut &cut, int misplaced,
        random_source &random) {
    const convolution_problem &p = facts.problem;
    const size_t output = facts.of_weights() ? 1 : facts.shape.to_src ? 0 : 2;
    std::array<memory, 3> values = random_data(p, output, random);
    for (size_t tensor = 0; tensor < 3; ++tensor)
        for (double &value : values[tensor])
            value = tensor == output ? 0 : std::round(3 * value);
    if (one_in(random, 4)) {
        memory &of = values[output == 0 ? 2 : 0];
        of[static_cast<size_t>(
                random.integer(0, static_cast<int64_t>(of.size()) - 1))]
                = HUGE_VAL;
    }
    tensors_of_problem tensors {typed(values[0], p.src.type, misplaced),
            typed(values[1], p.weights.type, 0),
            typed(values[2], p.dst.type, misplaced)};
    const bool descending = one_in(random, 2);
    const bool pairs = misplaced % 4 == 0;
    if (p.src.type == data_type::f16)
        carry_out<__half>(facts, cut, pairs, descending, tensors);
    else
        carry_out<__nv_bfloat16>(facts, cut, pairs, descending, tensors);
    memory found(values[output].size());
    tensors[output].read(found);
    by_formula(p, output, values);
    for (size_t i = 0; i < found.size(); ++i) {
        const double expected = typed::rounded(values[output][i], p.src.type);
        if (std::isnan(expected) ? !std::isnan(found[i])
                                 : found[i] != expected) {
            ADD_FAILURE() << "element " << i << " is " << found[i] << ", not "
                          << expected;
            break;
        }
    }
    for (const typed &tensor : tensors)
        EXPECT_TRUE(tensor.kept_outside());
}

/// Until there were `count` problems of each direction, type and alignment.
template <typename Cut>
void expect_formula_in_random_problems(uint64_t seed, int count) {
    random_source random(test_seed(seed));
    std::map<std::array<int, 3>, int> taken;
    size_t full = 0;
    for (int left = 3'000'000; left > 0 && full < 18; --left) {
        const auto p = draw_depthwise(random, problem_size::few);
        if (detail::size_of(p.src.type) != 2 || p.weights.type != p.src.type
                || p.src.strides[4] != 1 || p.dst.strides[4] != 1)
            continue;
        double elements = 0;
        for (const detail::tensor_view *tensor : {&p.src, &p.dst})
            elements += static_cast<double>(tensor->dims[2])
                    * static_cast<double>(tensor->dims[3])
                    * static_cast<double>(tensor->dims[4] * tensor->dims[0]
                            * tensor->dims[1]);
        if (elements > 2e4) continue;
        const auto alignment = static_cast<int>(random.integer(0, 2));
        int &of_kind = taken[{static_cast<int>(p.direction),
                static_cast<int>(p.src.type), alignment}];
        if (of_kind == count) continue;
        // With fewer a block has more than one part of the work.
        const auto facts = facts_of(p, one_of(random, {1, 1, 4, 132}));
        if (!facts) continue;
        Cut work;
        if (!cut(work, *facts, alignment == 2)) continue;
        if (++of_kind == count) ++full;
        SCOPED_TRACE(name_of(p));
        // Of one element, of two, and of 16 bytes.
        const int misplaced = alignment == 2 ? 0
                : alignment == 1
                ? static_cast<int>(4 * random.integer(1, 3))
                : static_cast<int>(4 * random.integer(0, 3) + 2);
        expect_formula(*facts, work, misplaced, random);
        if (testing::Test::HasFailure()) return;
    }
    EXPECT_EQ(full, 18U);
}

TEST(depthwise_emulated, matrices_compute_the_problem) {
    expect_formula_in_random_problems<matrices::work_cut>(1, thinned() ? 1 : 2);
}

TEST(depthwise_emulated, lines_compute_the_problem) {
    expect_formula_in_random_problems<lines::work_cut>(2, thinned() ? 1 : 2);
}

} // namespace
} // namespace gradnn::test
