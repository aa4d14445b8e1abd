// The layout that the library chooses for the output of a convolution on the
// GPU: channels last where the kernel would else copy it.
#include <array>
#include <string>

#include "gpu/kernels.hpp"
#include "support/gpu.hpp"
#include "support/op_builders.hpp"

namespace gradnn::test {
namespace {

using detail::convolution_direction;
using detail::convolution_problem;

/// A gradient of src of dense NCX, or NXC, of 2-D tensors; in float type `type`.
convolution_problem gradient_of_src(data_type type, bool channels_last,
        int64_t inputs, int64_t outputs, int64_t kernel, int64_t groups = 1) {
    const int64_t n = 4;
    const int64_t side = 14;
    const auto data = [&](int64_t channels) {
        detail::tensor_view view;
        view.type = type;
        view.dims = {n, channels, 1, side, side};
        const int64_t plane = side * side;
        view.strides = channels_last
                ? std::array<int64_t, 5> {plane * channels, 1, 0,
                        side * channels, channels}
                : std::array<int64_t, 5> {plane * channels, plane, 0, side, 1};
        return view;
    };
    convolution_problem problem;
    problem.direction = convolution_direction::backward_data;
    problem.src = data(inputs);
    problem.dst = data(outputs);
    const int64_t in = inputs / groups;
    const int64_t out = outputs / groups;
    problem.weights.type = type;
    problem.weights.dims = {groups, out, in, 1, kernel, kernel};
    problem.weights.strides = {out * in * kernel * kernel, in * kernel * kernel,
            kernel * kernel, 0, kernel, 1};
    problem.pads_begin = {0, kernel / 2, kernel / 2};
    return problem;
}

TEST(gpu_output_layout_rule,
        is_channels_last_where_the_output_would_be_copied) {
    const detail::compile_options strict;
    for (const data_type type :
            {data_type::f16, data_type::bf16, data_type::f32, data_type::f64}) {
        SCOPED_TRACE(to_string(type));
        auto problem = gradient_of_src(type, false, 32, 48, 3);
        EXPECT_TRUE(gpu::writes_channels_last(problem, strict));
        problem.direction = convolution_direction::forward;
        EXPECT_TRUE(gpu::writes_channels_last(problem, strict));
        problem.direction = convolution_direction::backward_weights;
        EXPECT_FALSE(gpu::writes_channels_last(problem, strict));
    }
}

TEST(gpu_output_layout_rule, stays_where_nothing_is_gained) {
    const detail::compile_options strict;
    for (const data_type type : float_types()) {
        SCOPED_TRACE(to_string(type));
        const auto asked = [&](const convolution_problem &problem) {
            return gpu::writes_channels_last(problem, strict);
        };
        EXPECT_FALSE(asked(gradient_of_src(type, true, 32, 48, 3))) << "NXC";
        EXPECT_FALSE(asked(gradient_of_src(type, false, 32, 32, 3, 32)))
                << "depthwise";
        EXPECT_FALSE(asked(gradient_of_src(type, false, 32, 32, 3, 4)))
                << "groups";
        EXPECT_FALSE(asked(gradient_of_src(type, false, 3, 48, 3)))
                << "few channels";
        EXPECT_FALSE(asked(gradient_of_src(type, false, 35, 48, 3)))
                << "channels that are no vectors";
    }
    for (const data_type type : {data_type::f16, data_type::bf16})
        EXPECT_FALSE(gpu::writes_channels_last(
                gradient_of_src(type, false, 32, 48, 1), strict))
                << "windows of one point, read where they lie";
    detail::compile_options relaxed;
    relaxed.fpmath = fpmath_mode::tf32;
    EXPECT_FALSE(gpu::writes_channels_last(
            gradient_of_src(data_type::f32, false, 32, 48, 3), relaxed));
    EXPECT_FALSE(gpu::writes_channels_last(
            gradient_of_src(data_type::f64, false, 32, 48, 1), strict));
}

class gpu_output_layout : public gpu_fixture {
protected:
    static engine gpu() { return shared_engine(engine::kind::gpu); }
};

/// Whether a step of a kernel says that it copies this operand.
bool copies(const compiled_partition &compiled, const std::string &operand) {
    for (const step_info &step : compiled.get_info().steps)
        if (step.backend.find(operand) < step.backend.find("copied")
                && step.backend.find("copied") != std::string::npos)
            return true;
    return false;
}

// Two convolutions in NCX: the gradient between them is `any`, and nobody copies
// it.
TEST_F(gpu_output_layout, spares_the_copies_between_convolutions) {
    const convolution_case second {"second", 4, 1, 64, 64, {28, 28}, {3, 3},
            {1, 1}, {1, 1}, {1, 1}, {1, 1}};
    for (const data_type type : float_types()) {
        SCOPED_TRACE(to_string(type));
        const op ncx = convolution_op(
                op::kind::ConvolutionBackwardData, second, layouts()[0], type);
        const op open = convolution_op(op::kind::ConvolutionBackwardData,
                second, layouts()[11], type); // any_ncx
        const op_run last(open, gpu(), random_inputs(open, 51));
        const logical_tensor inner = last.compiled().query_logical_tensor(
                open.get_outputs()[0].get_id());
        ASSERT_EQ(inner.get_dims(), ncx.get_outputs()[0].get_dims());
        EXPECT_EQ(inner.get_strides()[1], 1) << "not channels last";
        EXPECT_FALSE(copies(last.compiled(), "src"));
        op_run run(open, gpu(), random_inputs(open, 52));
        run.execute();
        run.expect_right();

        // The first convolution reads it as it lies.
        auto inputs = ncx.get_inputs();
        inputs[0] = logical_tensor(inputs[0].get_id(), type, inner.get_dims(),
                inner.get_strides());
        op first(7, op::kind::ConvolutionBackwardData, inputs,
                open.get_outputs());
        for (const auto &[name, value] : ncx.get_attrs())
            std::visit(
                    [&, key = name](const auto &v) { first.set_attr(key, v); },
                    value);
        op_run then(first, gpu(), random_inputs(first, 53));
        EXPECT_FALSE(copies(then.compiled(), "dst"));
        then.execute();
        then.expect_right();
    }
}

} // namespace
} // namespace gradnn::test
