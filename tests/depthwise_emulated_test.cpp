// convolution.gpu_depthwise_matrices on the CPU: its kernels executed (emulated/simt.hpp;
// what tensor cores do by plain loops) in random problems as they are cut, against the
// formula. Needs no GPU.
// Of the host, ahead of what stands for gridDim.
#include "gpu/convolution/depthwise/shape.hpp"
#include "gpu/convolution/operands.hpp"
#include "gpu/kernels.hpp"
#include "gpu/runtime/launch.hpp"

#include "emulated/simt.hpp"

#include <map>

#include <gtest/gtest.h>

#include "emulated/typed.hpp"
#include "gpu/device/tensor_cores.cuh"
#include "gpu_cuts/depthwise.hpp"
#include "support/plain_convolution.hpp"

// Lines have arrays within kernels: addresses count from the one that a kernel asks for.
#undef __shared__
#define __shared__ static

namespace gradnn::gpu::depthwise {
using gpu::shared_address;
template <size_t count>
uint32_t shared_address(uint4 (&array)[count]) {
    emulated::shared_memory = reinterpret_cast<char *>(array);
    emulated::shared_bytes = sizeof array;
    return 0;
}
} // namespace gradnn::gpu::depthwise

#include "gpu/convolution/depthwise/lines.cuh"
#include "gpu/convolution/weights_sum.cuh"

// Planes have what the launch gives.
#undef __shared__
#define __shared__

namespace gradnn::gpu::depthwise {
alignas(16) uint4 shared[default_block_shared_bytes / sizeof(uint4)];
} // namespace gradnn::gpu::depthwise

#include "gpu/convolution/depthwise/depthwise.cu"

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

void carry_out(const convolution_problem &problem, const cut_problem &of,
        int alignment, bool descending, tensors_of_problem &tensors) {
    auto &[src, weights, dst] = tensors;
    const work_cut cut = of.cut.at(alignment);
    const auto threads = static_cast<unsigned>(cut.threads());
    emulated::tensors = {{src.data(), src.end()}, {dst.data(), dst.end()}};
    emulated::shared_memory = nullptr;
    if (!cut.of_lines()) {
        emulated::shared_memory
                = reinterpret_cast<char *>(gpu::depthwise::shared);
        emulated::shared_bytes = cut.shared_bytes;
        ASSERT_LE(cut.shared_bytes, sizeof gpu::depthwise::shared);
    }
    with_kernel(problem.src.type, of, alignment,
            [&]<typename Type, typename Written>(void (*kernel)(const Type *,
                    const Type *, Written *, problem_shape, work_cut)) {
                const auto at = [&](size_t tensor) {
                    return static_cast<Type *>(tensors[tensor].data());
                };
                const auto run = [&](const Type *first, const Type *second,
                                         Written *written) {
                    run_blocks(cut.blocks(), threads, descending, [&] {
                        kernel(first, second, written, of.shape, cut);
                    });
                };
                if constexpr (std::is_same_v<Type, Written>) {
                    const size_t read = of.shape.to_src ? 2 : 0;
                    run(at(read), at(1), at(2 - read));
                } else {
                    const gpu::partial_weights<int32_t> sums(
                            problem, cut.parts(), true);
                    std::vector<float> partials(
                            static_cast<size_t>(sums.count * sums.parts),
                            std::nanf(""));
                    run(at(0), at(2), partials.data());
                    emulated::shared_memory = nullptr;
                    run_blocks(1, gpu::weights_sum_threads, descending, [&] {
                        gpu::convolution_weights_sum_kernel<Type, Type,
                                int32_t>(
                                partials.data(), at(0), at(2), at(1), sums);
                    });
                }
            });
}

/// In whole numbers, whose sums f32 holds, and now and then an infinity.
void expect_formula(const convolution_problem &p, const cut_problem &of,
        int alignment, random_source &random) {
    const size_t output = of.of_weights ? 1 : of.shape.to_src ? 0 : 2;
    std::array<memory, 3> values = random_data(p, output, random);
    for (size_t tensor = 0; tensor < 3; ++tensor)
        for (double &value : values[tensor])
            value = tensor == output ? 0 : std::round(3 * value);
    if (one_in(random, 4)) {
        memory &input = values[output == 0 ? 2 : 0];
        input[static_cast<size_t>(
                random.integer(0, static_cast<int64_t>(input.size()) - 1))]
                = HUGE_VAL;
    }
    const int misplaced = alignment == 16 ? 0
            : alignment == 4 ? static_cast<int>(4 * random.integer(1, 3))
                             : static_cast<int>(4 * random.integer(0, 3) + 2);
    tensors_of_problem tensors {typed(values[0], p.src.type, misplaced),
            typed(values[1], p.weights.type, 0),
            typed(values[2], p.dst.type, misplaced)};
    const bool descending = one_in(random, 2);
    carry_out(p, of, alignment, descending, tensors);
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
void expect_formula_in_random_problems(
        uint64_t seed, int count, bool of_lines) {
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
        const auto alignment = static_cast<int>(one_of(random, {2, 4, 16}));
        int &of_kind = taken[{static_cast<int>(p.direction),
                static_cast<int>(p.src.type), alignment}];
        if (of_kind == count) continue;
        // With fewer multiprocessors a block has more than one part of the work.
        const auto of = cut_of(p, one_of(random, {1, 1, 4, 132}));
        if (!of || of->cut.of_lines() != of_lines) continue;
        if (++of_kind == count) ++full;
        SCOPED_TRACE(name_of(p));
        expect_formula(p, *of, alignment, random);
        if (testing::Test::HasFailure()) return;
    }
    EXPECT_EQ(full, 18U);
}

TEST(depthwise_emulated, planes_compute_the_problem) {
    expect_formula_in_random_problems(1, thinned() ? 1 : 2, false);
}

TEST(depthwise_emulated, lines_compute_the_problem) {
    expect_formula_in_random_problems(2, thinned() ? 1 : 2, true);
}

} // namespace
} // namespace gradnn::test
