// What partitions of several ops compute.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/text.hpp"
#include "support/op_chains.hpp"
#include "support/param_names.hpp"
#include "support/random.hpp"

namespace gradnn::test {
namespace {

using kind = op::kind;

struct values_param {
    engine::kind on;
    named_chain chain;
    layout l;
};

std::string name_of(const values_param &p) {
    return identifier(
            std::string(to_string(p.on)) + "_" + p.chain.name + "_" + p.l.name);
}

void PrintTo(const values_param &p, std::ostream *out) {
    *out << name_of(p);
}

std::vector<values_param> values_params() {
    std::vector<values_param> params;
    for (const engine::kind on : engine_kinds())
        for (const named_chain &chain : grouped_chains())
            for (const layout &l : layouts())
                params.push_back({on, chain, l});
    return params;
}

class grouped_ops : public testing::TestWithParam<values_param> {};

TEST_P(grouped_ops, give_the_bits_of_one_by_one) {
    const values_param &p = GetParam();
    for (const data_type type : float_types()) {
        if (thinned_out(std::ssize(name_of(p)), type)) continue;
        SCOPED_TRACE(to_string(type));
        expect_same_bits(
                chain_of(p.chain.links, p.l, type), shared_engine(p.on));
    }
}

INSTANTIATE_TEST_SUITE_P(conformance, grouped_ops,
        testing::ValuesIn(values_params()),
        [](const auto &each) { return name_of(each.param); });

// What is between two ops is too much for a thread's cache: on the CPU the ops take turns,
// image by image, and where these are planes some channels at a time.
TEST_P(grouped_ops, give_the_same_bits_in_slices) {
    const values_param &p = GetParam();
    const bool convolves = p.chain.name.find("Conv") != std::string::npos;
    if (p.on != engine::kind::cpu || convolves)
        GTEST_SKIP() << "only chains without a convolution on the CPU";
    if (thinned() && p.l.name != "ncx" && p.l.name != "nxc"
            && !p.l.name.starts_with("sliced"))
        GTEST_SKIP() << "some layouts are enough where tests are few";
    random_source random(test_seed(1));
    bool sliced = false, by_channels = false; // by those of an image
    // Numbers of channels that have few divisors or many, of pixels with any remainder.
    for (const int64_t images : {1, 3, 4, 6}) {
        if (thinned() && images == 6) continue;
        const data_type type
                = images % 4 == 3 ? data_type::bf16 : data_type::f32;
        const int64_t channels = random.integer(3, 12);
        const int64_t rows = 2 * random.integer(20, 90);
        const int64_t all = random.integer(600'000, 1'000'000);
        const chain_shape shape {images, channels,
                {rows, all / (images * channels * rows) / 2 * 2}};
        SCOPED_TRACE(detail::text(images, " images, ", channels, " channels, ",
                detail::text_of(shape.space), ' ', to_string(type)));
        const size_t slices
                = expect_same_bits(chain_of(p.chain.links, p.l, type, shape),
                        shared_engine(p.on), 1)
                          .slices;
        sliced = sliced || slices > 1;
        by_channels = by_channels || static_cast<int64_t>(slices) > images;
    }
    EXPECT_TRUE(sliced);
    if (p.l.name == "ncx" || p.l.name == "nxc") {
        EXPECT_EQ(by_channels, p.l.name == "ncx");
    }
}

// A convolution that gives the gradient of its data alone is cut by images, where that is
// estimated to be faster: as right as one by one, and with the form of ops their bits.
TEST_P(grouped_ops, are_as_right_in_slices) {
    const values_param &p = GetParam();
    const auto &links = p.chain.links;
    const std::set<std::string> some {"ncx", "nxc", "bacd", "sliced_nxc"};
    if (p.on != engine::kind::cpu || !p.chain.name.starts_with("Conv")
            || !p.chain.name.ends_with("_Add_ReLU") || !some.contains(p.l.name))
        GTEST_SKIP() << "only edges of residual blocks on the CPU";
    random_source random(test_seed(p.chain.name.size()));
    const data_type type
            = random.integer(0, 1) == 0 ? data_type::f32 : data_type::bf16;
    const chain_shape shape {4, 4 * random.integer(6, 7),
            {2 * random.integer(58, 62), 96}, true};
    SCOPED_TRACE(detail::text(shape.channels, " channels, ", shape.space[0],
            " rows, ", to_string(type)));
    std::vector<op> ops = chain_of(links, p.l, type, shape);
    const auto expect_whole = [&] {
        const auto info = expect_same_bits(ops, shared_engine(p.on), 1);
        EXPECT_EQ(info.slices, 1U);
        EXPECT_TRUE(info.bits_of_ops);
    };
    if (ops[0].get_outputs().size() > 1) {
        expect_whole(); // sums of all images are among the gradients
        ops[0] = with_ports(
                ops[0], 0, ops[0].get_inputs(), {ops[0].get_outputs()[0]});
    }
    // Where the elements of images lie between one another's, too.
    if (p.l.name == "bacd") return expect_whole();
    const auto info = expect_same_bits(ops, shared_engine(p.on), 1);
    EXPECT_GT(info.slices, 1U);
    EXPECT_EQ(shape.images % static_cast<int64_t>(info.slices), 0);
    EXPECT_FALSE(info.bits_of_ops);
    const forced_kernel of_ops("partition.ops");
    expect_whole();
}

// Behind many products slices would cost more than they save.
TEST_P(grouped_ops, stay_whole_behind_many_products) {
    const values_param &p = GetParam();
    if (p.on != engine::kind::cpu || p.l.name != "nxc"
            || p.chain.name != "ConvolutionBackwardData_Add_ReLU")
        GTEST_SKIP() << "one chain on the CPU";
    for (const bool depthwise : {false, true}) {
        const auto ops = chain_of(p.chain.links, p.l, data_type::f32,
                {4, 128, {40, 40}, depthwise});
        const graph_run run(
                ops, shared_engine(p.on), partition::policy::fusion, 1);
        EXPECT_EQ(run.compiled().at(0).get_info().slices, depthwise ? 4U : 1U);
    }
}

// On a GPU an interpolation may have the ops around it in its loads and stores, a depthwise
// convolution those behind its data.
TEST_P(grouped_ops, give_the_same_bits_in_one_kernel) {
    const values_param &p = GetParam();
    const auto &links = p.chain.links;
    const bool convolves = p.chain.name.find("Conv") != std::string::npos;
    const bool ahead = links[0].kind != kind::InterpolateBackward;
    const bool behind = links.back().kind == kind::Add
            || links.back().kind == kind::ReLUBackward;
    if (p.on != engine::kind::gpu || (convolves && !behind))
        GTEST_SKIP() << "only on a GPU, behind convolutions of data";
    // The rows that fuse; a single channel is no depthwise convolution.
    const forced_kernel forced(convolves
                    ? "convolution.gpu_sliding,convolution.gpu_direct"
                    : "interpolation.gpu_resample");
    random_source random(test_seed(31 * p.l.name.size() + p.chain.name.size()));
    for (const data_type type : float_types()) {
        const chain_shape shape {random.integer(1, 3),
                random.pick(std::vector<int64_t> {1, 3, 4, 20, 64}),
                {2 * random.integer(1, 40), 2 * random.integer(1, 40)},
                convolves};
        SCOPED_TRACE(detail::text(shape.channels, " channels, ",
                detail::text_of(shape.space), ' ', to_string(type)));
        const auto info = expect_same_bits(
                chain_of(links, p.l, type, shape), shared_engine(p.on));
        if (p.l.name != "ncx" && p.l.name != "nxc") continue;
        // Where rows are summed first there is no op ahead: resample_problem_test has which
        // those are, gpu_choice_test that others fuse.
        if (ahead && !convolves && info.steps.size() == 2) continue;
        // Other gradients of a convolution have steps of their own.
        const auto others
                = std::ranges::count(info.steps, 0U, &step_info::op_id);
        EXPECT_EQ(info.steps.size(),
                1U + (convolves ? static_cast<size_t>(others) : 0U));
        EXPECT_EQ(info.steps.back().op_id, links.size() - 1);
        EXPECT_TRUE(info.steps.back().kernel.ends_with(
                convolves ? "sliding" : "resample"));
        if (info.steps.size() == 1) {
            EXPECT_EQ(info.workspace_bytes, 0U);
        }
    }
}

/// Whether Add and ReLUBackward stand behind a convolution's data where a GPU's dense kernels
/// write it.
bool is_behind_products(const values_param &p) {
    return p.on == engine::kind::gpu && p.l.name == "nxc"
            && p.chain.name.starts_with("Conv")
            && p.chain.links.back().kind != kind::InterpolateBackward;
}

// CUTLASS's kernels of f32 and f64 have the ops in the stores of a tile, or of the sum of slices.
TEST_P(grouped_ops, give_the_same_bits_behind_products) {
    const values_param &p = GetParam();
    const auto &links = p.chain.links;
    if (!is_behind_products(p))
        GTEST_SKIP() << "only on a GPU, behind convolutions of data";
    const forced_kernel forced("convolution.gpu_tf32x3,convolution.gpu_f64");
    random_source random(test_seed(7 * p.chain.name.size()));
    const bool strides = p.chain.name.find("Transpose") == std::string::npos;
    for (const data_type type : {data_type::f32, data_type::f64})
        for (const int64_t most : {2, 48}) { // sums in slices, and tiles
            const chain_shape shape {random.integer(1, 3),
                    most == 2 ? 512 : 4 * random.integer(1, 40),
                    {2 * random.integer(1, most), 2 * random.integer(1, most)},
                    false,
                    strides && type == data_type::f32 ? random.integer(1, 2)
                                                      : 1};
            SCOPED_TRACE(detail::text(shape.channels, " channels, ",
                    detail::text_of(shape.space), ' ', to_string(type),
                    ", stride ", shape.stride));
            const auto info = expect_same_bits(
                    chain_of(links, p.l, type, shape), shared_engine(p.on));
            EXPECT_EQ(info.steps.back().op_id, links.size() - 1);
            EXPECT_EQ(info.steps.back().kernel,
                    type == data_type::f32 ? "convolution.gpu_tf32x3"
                                           : "convolution.gpu_f64");
        }
}

// cuDNN computes ops behind a convolution of many channels with it: as right as one by one,
// and what is not finite reaches the same elements.
TEST_P(grouped_ops, are_as_right_by_cudnn) {
    const values_param &p = GetParam();
    const auto &links = p.chain.links;
    if (!is_behind_products(p))
        GTEST_SKIP() << "only on a GPU, behind convolutions of data";
    const forced_kernel forced("convolution.cudnn");
    random_source random(test_seed(p.chain.name.size()));
    for (const data_type type : {data_type::bf16, data_type::f16}) {
        const chain_shape shape {random.integer(1, 3),
                8 * random.integer(1, 12),
                {random.integer(6, 40), random.integer(6, 40)}};
        SCOPED_TRACE(detail::text(shape.channels, " channels, ",
                detail::text_of(shape.space), ' ', to_string(type)));
        const auto ops = chain_of(links, p.l, type, shape);
        const auto info = expect_same_bits(ops, shared_engine(p.on));
        ASSERT_FALSE(info.bits_of_ops);
        EXPECT_TRUE(info.deterministic);
        std::set<size_t> infinite {ops[0].get_inputs()[0].get_id()};
        for (size_t i = 1; i < ops.size(); ++i)
            for (const logical_tensor &lt : ops[i].get_inputs())
                infinite.insert(lt.get_id());
        const auto run = [&](partition::policy policy) {
            return graph_run(ops, shared_engine(p.on), policy, 0, infinite);
        };
        const graph_run together = run(partition::policy::fusion);
        const graph_run again = run(partition::policy::fusion);
        const graph_run one_by_one = run(partition::policy::debug);
        for (const size_t id : together.outputs()) {
            EXPECT_EQ(together.bytes(id), again.bytes(id));
            const auto a = together.values(id), b = one_by_one.values(id);
            for (size_t i = 0; i < a.size(); ++i) {
                const bool same = std::isfinite(a[i])
                        ? std::isfinite(b[i]) && (a[i] == 0) == (b[i] == 0)
                        : a[i] == b[i]
                                || (std::isnan(a[i]) && std::isnan(b[i]));
                ASSERT_TRUE(same) << "tensor " << id << ", " << i << ": "
                                  << a[i] << " and " << b[i];
            }
        }
    }
}

// On a GPU the bias gradient has ReLU's ahead of it in its loads, wherever tensors lie and
// whatever is in them, with f32 gradients of 16-bit data too.
TEST_P(grouped_ops, give_the_same_bits_in_the_bias_gradient) {
    const values_param &p = GetParam();
    if (p.on != engine::kind::gpu || !p.chain.name.starts_with("ReLU_Conv"))
        GTEST_SKIP() << "only on a GPU, ahead of convolutions";
    random_source random(test_seed(31 * p.l.name.size() + p.chain.name.size()));
    for (const data_type type : float_types())
        for (const size_t offset : {0U, 8U}) {
            const chain_shape shape {random.integer(1, 9),
                    random.integer(1, 70),
                    {random.integer(3, 40), random.integer(3, 40)}};
            SCOPED_TRACE(detail::text(shape.images, " images, ", shape.channels,
                    " channels, ", detail::text_of(shape.space), ' ',
                    to_string(type), ", offset ", offset));
            auto ops = chain_of(p.chain.links, p.l, type, shape);
            if (detail::size_of(type) == 2 && offset == 0) {
                auto outputs = ops[1].get_outputs();
                for (const size_t port : {1U, 2U})
                    outputs[port] = {outputs[port].get_id(), data_type::f32,
                            outputs[port].get_dims(), layout_type::strided};
                ops[1] = with_ports(ops[1], 1, ops[1].get_inputs(), outputs);
            }
            const auto run = [&](const char *kernels) {
                const forced_kernel forced(kernels);
                return graph_run(ops, shared_engine(p.on),
                        partition::policy::fusion, 0,
                        {ops[0].get_inputs()[0].get_id(),
                                ops[0].get_inputs()[1].get_id()},
                        offset);
            };
            const graph_run together = run("convolution.gpu_direct");
            const graph_run by_ops
                    = run("convolution.gpu_direct,partition.ops");
            const auto steps_of = [](const graph_run &each) {
                return each.compiled().at(0).get_info().steps.size();
            };
            EXPECT_EQ(steps_of(by_ops), 4U);
            EXPECT_EQ(steps_of(together), p.l.name == "broadcast" ? 4U : 3U);
            for (const size_t id : together.outputs())
                EXPECT_EQ(together.bytes(id), by_ops.bytes(id))
                        << "tensor " << id;
            EXPECT_EQ(together.damage(), "");
        }
}

} // namespace
} // namespace gradnn::test
