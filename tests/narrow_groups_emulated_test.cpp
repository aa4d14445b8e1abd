// convolution.gpu_narrow_groups on the CPU: the launches of its plans, executed
// (emulated/simt.hpp) in random problems that it reads where they lie, against the
// formula. On the stand-in for the CUDA runtime; needs no GPU.
#include "gpu/convolution/operands.hpp" // ahead of what stands for gridDim
#include "gpu/convolution/weights_sum.hpp"
#include "gpu/runtime/launch.hpp"

#include "emulated/simt.hpp"

#include <gtest/gtest.h>

#include "emulated/typed.hpp"
#include "gpu_cuts/layout.hpp"
#include "support/plain_convolution.hpp"

namespace gradnn::gpu {
/// Executes a kernel in place of its launch.
template <typename... Parameters, typename... Arguments>
void execute_here(const char *, void (*kernel)(Parameters...), launch_size grid,
        launch_size block, size_t, const launch_stream &,
        Arguments &&...arguments) {
    const auto run = [&](Parameters... parameters) {
        emulated::grid_size = {grid.x, 1, 1};
        for (unsigned i = 0; i < grid.x; ++i)
            emulated::block::run(
                    i, block.x, i % 2 == 0, [&] { kernel(parameters...); });
    };
    run(std::forward<Arguments>(arguments)...);
}
} // namespace gradnn::gpu

// Arrays within kernels.
#undef __shared__
#define __shared__ static
#define launch_early execute_here
#include "gpu/convolution/narrow_groups/data.cu"
#include "gpu/convolution/narrow_groups/narrow_groups.cpp"
#include "gpu/convolution/narrow_groups/weights.cu"
#include "gpu/convolution/weights_sum.cu"

namespace gradnn::test {
namespace {

/// Channels of groups that fill their chunks in NXC, of any number in NCX.
convolution_problem draw(random_source &random) {
    convolution_problem p;
    p.direction = random.pick(
            std::vector<convolution_direction> {convolution_direction::forward,
                    convolution_direction::backward_data,
                    convolution_direction::backward_weights,
                    convolution_direction::backward_weights});
    const data_type type = random.pick(std::vector {
            data_type::f32, data_type::f64, data_type::bf16, data_type::f16});
    p.src.type = p.dst.type = p.weights.type = type;
    if (p.direction == convolution_direction::backward_weights
            && detail::size_of(type) == 2 && random.integer(0, 1) == 0)
        p.weights.type = data_type::f32;
    const bool nxc = random.integer(0, 1) == 0;
    const int64_t groups = random.integer(1, 4);
    const auto channels = [&] {
        return nxc ? 4 * random.integer(1, 2) : random.integer(1, 9);
    };
    p.weights.dims = {groups, channels(), channels(), 1, 1, 1};
    const int64_t images = random.integer(1, 3);
    p.src.dims = {images, groups * p.weights.dims[2], 1, 1, 1};
    p.dst.dims = {images, groups * p.weights.dims[1], 1, 1, 1};
    for (size_t axis = random.integer(0, 3) == 0 ? 0 : 1; axis < 3; ++axis) {
        const int64_t window = random.integer(1, axis == 0 ? 2 : 4);
        p.weights.dims[axis + 3] = window;
        p.strides[axis] = random.pick(std::vector<int64_t> {1, 1, 2, 3});
        p.dilations[axis] = random.pick(std::vector<int64_t> {1, 1, 1, 2, 3});
        p.pads_begin[axis] = random.integer(0, window);
        const int64_t reach = (window - 1) * p.dilations[axis] + 1;
        int64_t &src = p.src.dims[axis + 2];
        src = std::max<int64_t>(reach, random.integer(1, axis == 0 ? 3 : 20));
        p.dst.dims[axis + 2]
                = (src + 2 * p.pads_begin[axis] - reach) / p.strides[axis] + 1;
    }
    lay_out(p.src, nxc, {});
    lay_out(p.dst, nxc, {});
    int64_t stride = 1;
    for (size_t axis = 6; axis-- > 0; stride *= p.weights.dims[axis])
        p.weights.strides[axis] = stride;
    return p;
}

/// Whole numbers, whose sums f32 holds, and now and then an infinity.
void expect_formula(const convolution_problem &p, const detail::plan &plan,
        random_source &random, detail::stream_impl &stream) {
    const size_t output = gpu::output_of(p.direction);
    std::array<memory, 3> values = random_data(p, output, random);
    for (size_t tensor = 0; tensor < 3; ++tensor)
        for (double &value : values[tensor])
            value = tensor == output ? 0 : std::round(3 * value);
    if (random.integer(0, 3) == 0) {
        memory &of = values[(output + random.integer(1, 2)) % 3];
        of[static_cast<size_t>(
                random.integer(0, static_cast<int64_t>(of.size()) - 1))]
                = HUGE_VAL;
    }
    const data_type types[] = {p.src.type, p.weights.type, p.dst.type};
    std::vector<typed> tensors;
    for (size_t tensor = 0; tensor < 3; ++tensor)
        tensors.emplace_back(values[tensor], types[tensor], 0);
    std::vector<void *> args;
    for (typed &tensor : tensors)
        args.push_back(tensor.data());
    std::vector<uint4> workspace(plan.workspace_bytes() / 16 + 17);
    std::memset(
            static_cast<void *>(workspace.data()), 0xff, workspace.size() * 16);
    plan.execute(args, reinterpret_cast<std::byte *>(workspace.data()), stream);
    memory found(values[output].size());
    tensors[output].read(found);
    by_formula(p, output, values);
    for (double &value : values[output])
        value = typed::rounded(value, types[output]);
    EXPECT_TRUE(same(found, values[output]));
    EXPECT_TRUE(tensors[output].kept_outside());
}

TEST(narrow_groups_emulated, computes_the_problem) {
    random_source random(test_seed(1));
    gpu::gpu_stream stream(
            std::make_shared<gpu::gpu_engine>(
                    size_t {0}, allocator(), cuda_interop::device_allocator()),
            nullptr);
    std::array<int, 3> taken {};
    for (int left = thinned() ? 60 : 100; left > 0 && !HasFailure();) {
        const convolution_problem p = draw(random);
        const auto made = gpu::narrow_groups::make(p, {});
        if (!made.plan || made.plan->backend() != "CUDA") continue;
        SCOPED_TRACE(detail::text("direction ", static_cast<int>(p.direction),
                " type ", static_cast<int>(p.src.type), " src ",
                detail::text_of(p.src.dims), " ",
                detail::text_of(p.src.strides), " weights ",
                detail::text_of(p.weights.dims), " strides ",
                detail::text_of(p.strides), " dilations ",
                detail::text_of(p.dilations), " pads ",
                detail::text_of(p.pads_begin)));
        expect_formula(p, *made.plan, random, stream);
        ++taken[static_cast<size_t>(p.direction)];
        --left;
    }
    for (const int of_direction : taken)
        EXPECT_GE(of_direction, 5);
}

} // namespace
} // namespace gradnn::test
