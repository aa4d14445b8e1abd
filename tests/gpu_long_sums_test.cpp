// Sums of very many terms on the GPU: every element within half an ulp and
// c u S, by every kernel that takes them, and refusals of those that would add
// them up one after the other (doc/numerics.md, Accuracy).
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "reference/accuracy.hpp"
#include "support/gpu.hpp"
#include "support/op_builders.hpp"

namespace gradnn::test {
namespace {

class gpu_long_sums : public gpu_fixture {
protected:
    static engine gpu() { return shared_engine(engine::kind::gpu); }

    /// Of an op, what two sets of inputs give: random terms, and terms that are
    /// all alike, whose roundings all fall the same way. The references, which
    /// take most of the time, are computed once for all kernels.
    class long_sums {
    public:
        explicit long_sums(const op &the_op) : op_(the_op) {
            inputs_[0] = random_inputs(op_, 41);
            inputs_[1] = inputs_[0];
            for (size_t index = 0; index < inputs_[1].size(); ++index)
                if (!is_shape_input(op_, index))
                    std::fill(inputs_[1][index].begin(),
                            inputs_[1][index].end(), index == 0 ? 0.1 : 0.3);
        }

        /// By a kernel of this name, or of the library's choice. False where it
        /// refuses the op.
        bool are_right(const std::string &kernel = "") {
            SCOPED_TRACE(op_.get_name() + " by " + kernel);
            const forced_kernel forced(kernel);
            compiled_partition compiled;
            try {
                compiled = compile(op_, gpu());
            } catch (const error &refusal) {
                EXPECT_EQ(refusal.status, status::unimplemented)
                        << refusal.what();
                EXPECT_NE(kernel, "") << refusal.what();
                return false;
            }
            run(0, compiled).expect_right(wanted_[0]);
            run(1, compiled).expect_sums_right(wanted_[1]);
            return true;
        }

    private:
        op_run run(size_t which, const compiled_partition &compiled) {
            op_run made(op_, compiled, gpu(), inputs_[which], {});
            made.execute();
            expectation &wanted = wanted_[which];
            if (wanted.exact.empty()) {
                // Of terms that are alike, all positive, S is the sum.
                if (which == 0)
                    wanted = made.expected();
                else
                    wanted.exact = wanted.magnitudes = made.reference();
            }
            return made;
        }

        op op_;
        values_list inputs_[2];
        expectation wanted_[2];
    };

    static void expect_right(const op &the_op, const std::string &kernel = "") {
        EXPECT_TRUE(long_sums(the_op).are_right(kernel));
    }

    static std::string only_kernel_of(const op &the_op) {
        const auto names = kernels_of(compile(the_op, gpu()));
        return names.size() == 1 ? names.front() : std::string();
    }
};

struct long_interpolation {
    interpolation_case shape;
    interpolation_choice choice;
};

const std::vector<long_interpolation> &long_interpolations() {
    static const std::vector<long_interpolation> all {
            {{"row", 1, 1, {1, 1}, {1, 131072}}, {"nearest", "asymmetric"}},
            {{"column", 2, 3, {3}, {70001}}, {"linear", "align_corners"}},
            {{"channels", 1, 40, {2}, {65537}}, {"linear", "asymmetric"}},
            {{"depth", 1, 2, {1, 1, 1}, {70001, 3, 3}},
                    {"linear", "half_pixel"}},
            {{"plane", 3, 5, {1, 2}, {1, 3000}}, {"linear", "half_pixel"}},
            {{"images", 33, 1, {2, 1}, {4099, 2}}, {"linear", "half_pixel"}},
    };
    return all;
}

TEST_F(gpu_long_sums, interpolation) {
    for (const data_type type : float_types())
        for (const auto &[shape, choice] : long_interpolations())
            for (const size_t which : {0U, 1U, 7U}) {
                const op the_op = interpolation_op(
                        shape, choice, layouts()[which], type);
                SCOPED_TRACE(shape.name + " " + layouts()[which].name + " "
                        + to_string(type));
                EXPECT_EQ(only_kernel_of(the_op), "interpolation.gpu_strided");
                expect_right(the_op);
            }
}

TEST_F(gpu_long_sums, interpolation_in_one_chain_refuses_them) {
    for (const auto &[shape, choice] : long_interpolations())
        for (const size_t which : {0U, 1U}) {
            const op the_op = interpolation_op(
                    shape, choice, layouts()[which], data_type::f32);
            for (const auto &row : gpu::backend.kernels().interpolation) {
                const std::string name = row.name;
                EXPECT_EQ(accepts(the_op, gpu(), name),
                        name == "interpolation.gpu_strided")
                        << shape.name << " " << name;
            }
        }
    // Sums as long as ordinary gradients have stay where they are. An input at an edge has 1.5
    // times as many outputs as the ratio: here 510; 512 are a chain's most.
    const op ordinary = interpolation_op({"up", 1, 5, {2, 2}, {680, 2}},
            {"linear", "half_pixel"}, layouts()[0], data_type::f32);
    EXPECT_EQ(only_kernel_of(ordinary), "interpolation.gpu_resample");
    expect_right(ordinary);
    // 513 rows; and so many terms that threads share them.
    for (const sizes &dst : {sizes {684, 2}, sizes {680, 340}}) {
        const op longer = interpolation_op({"up", 1, 5, {2, 2}, dst},
                {"linear", "half_pixel"}, layouts()[0], data_type::f32);
        EXPECT_EQ(only_kernel_of(longer), "interpolation.gpu_strided");
        expect_right(longer);
    }
}

TEST_F(gpu_long_sums, bias) {
    const std::vector<plane_case> shapes {{"rows", {2, 3, 700, 1000}},
            {"one_channel", {131071, 1, 3}}, {"broad", {1, 5, 2, 200000}},
            {"columns", {70001, 33, 3}}};
    for (const data_type type : float_types())
        for (const plane_case &shape : shapes)
            for (const size_t which : {0U, 1U, 7U}) {
                SCOPED_TRACE(shape.name + " " + layouts()[which].name + " "
                        + to_string(type));
                // In f32: f16 does not reach so far.
                expect_right(plane_op(op::kind::BiasAddBackward, shape,
                        layouts()[which], type, type != data_type::f64));
            }
}

// The general kernel: windows of thousands of taps, and thousands of channels
// that are summed over (dst's), with few of src's, for the reference's sake.
TEST_F(gpu_long_sums, gathered_by_the_general_kernel) {
    const auto channels = [](int64_t large, int64_t small) {
        return convolution_case {"channels", 1, 1, large, small, {3, 2}, {1, 1},
                {1, 1}, {1, 1}, {0, 0}, {0, 0}};
    };
    const convolution_case taps {
            "taps", 1, 1, 1, 2, {9000}, {3001}, {1}, {1}, {0}, {0}};
    for (const data_type type : float_types()) {
        SCOPED_TRACE(to_string(type));
        const auto expect = [&](op::kind kind, const convolution_case &shape) {
            expect_right(convolution_op(kind, shape, layouts()[0], type),
                    "convolution.gpu_direct");
        };
        expect(op::kind::ConvolutionBackwardData, taps);
        expect(op::kind::ConvTransposeBackwardData, taps);
        expect(op::kind::ConvolutionBackwardData, channels(40, 5003));
        expect(op::kind::ConvTransposeBackwardData, channels(5000, 40));
    }
}

// Gradients of weights over as many terms as first layers have.
TEST_F(gpu_long_sums, gradients_of_weights) {
    const std::vector<convolution_case> shapes {
            {"few_weights", 1, 1, 1, 1, {300001}, {2}, {1}, {1}, {0}, {0}},
            {"few_in_groups", 3, 2, 4, 6, {100, 700}, {3, 1}, {1, 1}, {1, 1},
                    {1, 0}, {1, 0}},
            {"first_layer", 1, 1, 3, 8, {224, 224}, {3, 3}, {1, 1}, {1, 1},
                    {1, 1}, {1, 1}},
            {"depthwise", 1, 8, 8, 8, {256, 300}, {3, 3}, {1, 1}, {1, 1},
                    {1, 1}, {1, 1}},
            {"narrow", 1, 2, 8, 8, {256, 300}, {3, 3}, {1, 1}, {1, 1}, {1, 1},
                    {1, 1}},
            {"wide", 1, 1, 16, 32, {150, 300}, {1, 2}, {1, 1}, {1, 1}, {0, 1},
                    {0, 1}}};
    for (const data_type type : {data_type::f32, data_type::f64})
        for (const convolution_case &shape : shapes)
            for (const size_t which : {0U, 1U}) {
                const op the_op
                        = convolution_op(op::kind::ConvolutionBackwardWeights,
                                shape, layouts()[which], type);
                SCOPED_TRACE(shape.name + " " + layouts()[which].name + " "
                        + to_string(type));
                long_sums sums(the_op);
                EXPECT_TRUE(sums.are_right());
                for (const auto &row : gpu::backend.kernels().convolution)
                    sums.are_right(row.name);
            }
}

TEST_F(gpu_long_sums, few_weights_are_not_left_to_cudnn) {
    const op the_op = convolution_op(op::kind::ConvolutionBackwardWeights,
            {"few_weights", 1, 1, 1, 1, {300001}, {2}, {1}, {1}, {0}, {0}},
            layouts()[0], data_type::f32);
    EXPECT_FALSE(accepts(the_op, gpu(), "convolution.cudnn"));
}

// More images than CUDA's grids have blocks along their minor axes: cuDNN built
// a plan that it then refused to run.
TEST_F(gpu_long_sums, what_compiles_with_very_many_images_runs) {
    const convolution_case grouped {"grouped", 70000, 2, 2, 4, {2, 1, 1},
            {2, 1, 1}, {1, 3, 1}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}};
    const convolution_case one_group {"one_group", 70000, 1, 8, 8, {3, 2},
            {2, 2}, {2, 1}, {1, 1}, {0, 0}, {1, 0}};
    const auto expect = [](const convolution_case &shape, const layout &l,
                                data_type type) {
        SCOPED_TRACE(shape.name + " " + l.name + " " + to_string(type));
        for (const op::kind kind :
                {op::kind::ConvBackward, op::kind::ConvTransposeBackward}) {
            // Biases would be beyond f16.
            const op the_op
                    = convolution_op(kind, shape, l, type, {true, true, false});
            op_run run(the_op, gpu(), random_inputs(the_op, 42));
            run.execute();
            run.expect_right();
        }
    };
    for (const data_type type : float_types())
        for (const size_t which : {0U, 1U, 6U, 7U})
            expect(grouped, layouts()[which], type);
    // Whose references take two seconds each.
    for (const data_type type : {data_type::f32, data_type::f16})
        for (const size_t which : {0U, 1U})
            expect(one_group, layouts()[which], type);
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

} // namespace
} // namespace gradnn::test
