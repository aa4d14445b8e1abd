// The benchmark's cases (bench/cases.json), cut down in size, against the
// float64 reference: what is timed is right.
//
// ctest: many short tests, to be one test of ctest (WHOLE).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <set>

#include "compile/kernel_choice.hpp"
#include "compile/lowering.hpp"
#include "cpu/convolution/onednn/version.hpp"
#include "op/op_check.hpp"
#include "op/shapes.hpp"
#include "support/bench_case_ops.hpp"
#include "support/param_names.hpp"

namespace gradnn::test {
namespace {

const bench::case_list &cases(bench::case_size size) {
    static const auto gpu
            = bench::load_cases(CASES_FILE, bench::case_size::gpu);
    static const auto cpu
            = bench::load_cases(CASES_FILE, bench::case_size::cpu);
    return size == bench::case_size::gpu ? gpu : cpu;
}

/// The first number from `least` on that `whole` and it leave the same of a
/// division by `divisor`; no more than `whole`.
int64_t cut(int64_t whole, int64_t least, int64_t divisor = 2) {
    int64_t result = std::min(whole, std::max<int64_t>(least, 1));
    while ((whole - result) % divisor != 0)
        ++result;
    return result;
}

int64_t few_channels(int64_t channels) {
    return cut(channels, 16);
}

/// The ratio stays (nearly, where it is not an integer), and what is odd; of one
/// element it is cut down too.
interpolation_case cut_down(const bench::interpolation_case &c) {
    interpolation_case result {c.name, 1, few_channels(c.channels), {}, {}};
    constexpr int64_t limits[] = {200, 36, 14};
    const int64_t limit = limits[c.src.size() - 1];
    for (size_t axis = 0; axis < c.src.size(); ++axis) {
        const int64_t src = c.src[axis];
        const int64_t dst = c.dst[axis];
        const int64_t large = std::max(src, dst);
        const double part = std::min(
                1.0, static_cast<double>(limit) / static_cast<double>(large));
        const auto scaled = [&](int64_t size, double by) {
            return std::max<int64_t>(
                    1, std::llround(static_cast<double>(size) * by));
        };
        int64_t small_src = cut(src, scaled(src, part));
        int64_t small_dst = 0;
        if (!c.scales.empty())
            small_dst = static_cast<int64_t>(
                    std::floor(static_cast<double>(small_src)
                            * static_cast<double>(c.scales[axis])));
        else if (src % dst == 0) {
            small_dst = cut(dst, scaled(dst, part));
            small_src = small_dst * (src / dst);
        } else if (src > 1 && dst % src == 0)
            small_dst = small_src * (dst / src);
        else if (src == 1)
            small_dst = cut(dst, scaled(dst, part));
        else
            small_dst = cut(dst,
                    scaled(small_src,
                            static_cast<double>(dst)
                                    / static_cast<double>(src)));
        result.src.push_back(small_src);
        result.dst.push_back(small_dst);
    }
    return result;
}

/// One image of few pixels and channels, in as many groups as they make.
convolution_case cut_down(const bench::convolution_case &c) {
    const int64_t groups = c.groups == c.in ? few_channels(c.groups)
                                            : std::min<int64_t>(c.groups, 4);
    const int64_t in = groups * few_channels(c.in / c.groups);
    const int64_t out = groups * few_channels(c.out / c.groups);
    const size_t rank = c.src.size();
    sizes large;
    for (size_t axis = 0; axis < rank; ++axis) {
        const int64_t size = c.src[axis];
        const int64_t stride = c.stride[axis];
        const int64_t reach = (c.kernel[axis] - 1) * c.dilation + 1;
        if (c.transposed) {
            constexpr int64_t limits[] = {24, 7, 4};
            large.push_back((cut(size, limits[rank - 1]) - 1) * stride + reach
                    - 2 * c.pad + c.output_padding);
        } else {
            constexpr int64_t limits[] = {48, 11, 7};
            const int64_t least
                    = std::max(limits[rank - 1], reach - 2 * c.pad + stride);
            large.push_back(cut(size, least, std::lcm(stride, 2)));
        }
    }
    const auto list = [&](int64_t value) { return sizes(rank, value); };
    return {c.name, 1, groups, c.transposed ? out : in, c.transposed ? in : out,
            large, c.kernel, c.stride, list(c.dilation), list(c.pad),
            list(c.pad)};
}

/// OIX and IOX weights with the channels last in memory, as PyTorch holds them
/// and bench/compare has them with NXC data.
op with_channels_last_weights(const op &from) {
    const auto changed = [](std::vector<logical_tensor> ports, size_t index) {
        const logical_tensor &lt = ports[index];
        const sizes dims = lt.get_dims();
        sizes strides(dims.size(), 1);
        int64_t stride = dims[1];
        for (size_t axis = dims.size(); axis-- > 2; stride *= dims[axis])
            strides[axis] = stride;
        strides[0] = stride;
        ports[index] = {lt.get_id(), lt.get_data_type(), dims, strides};
        return ports;
    };
    op result(from.get_id(), from.get_kind(), changed(from.get_inputs(), 2),
            changed(from.get_outputs(), 1), from.get_name());
    for (const auto &[name, value] : from.get_attrs())
        std::visit([&, key = name](const auto &v) { result.set_attr(key, v); },
                value);
    return result;
}

const layout &layout_named(const std::string &name) {
    return *std::find_if(layouts().begin(), layouts().end(),
            [&](const layout &l) { return l.name == name; });
}

std::vector<conformance_param> interpolations() {
    std::vector<conformance_param> params;
    for (const engine::kind kind : engine_kinds())
        for (const auto &c : cases(bench::case_size::gpu).interpolation)
            for (const data_type type : float_types())
                for (const char *l : {"ncx", "nxc"})
                    params.push_back({kind, "",
                            c.name + "_" + to_string(type) + "_" + l,
                            op_of(c, cut_down(c), layout_named(l), type)});
    return params;
}

std::vector<conformance_param> convolutions() {
    std::vector<conformance_param> params;
    for (const engine::kind kind : engine_kinds())
        for (const auto &c : cases(bench::case_size::gpu).convolution)
            for (const data_type type : {data_type::f32, data_type::bf16}) {
                const auto add = [&](const std::string &l, const op &the_op) {
                    params.push_back({kind, "",
                            c.name + "_" + to_string(type) + "_" + l, the_op});
                };
                const auto in = [&](const char *l) {
                    return op_of(c, cut_down(c), layout_named(l), type);
                };
                add("ncx", in("ncx"));
                // Both orders of channels-last weights, one with each type.
                if (type == data_type::f32)
                    add("nxc", in("nxc"));
                else
                    add("nxc_channels_last_weights",
                            with_channels_last_weights(in("nxc_oix")));
            }
    return params;
}

class bench_case : public testing::TestWithParam<conformance_param> {};

TEST_P(bench_case, agrees_with_reference) {
    const conformance_param &p = GetParam();
    EXPECT_TRUE(run_forced(
            p.the_op, shared_engine(p.on), p.kernel, seed_of(p.op_name)));
}

INSTANTIATE_TEST_SUITE_P(interpolation, bench_case,
        testing::ValuesIn(interpolations()),
        [](const auto &each) { return conformance_name(each.param); });

INSTANTIATE_TEST_SUITE_P(convolution, bench_case,
        testing::ValuesIn(convolutions()),
        [](const auto &each) { return conformance_name(each.param); });

// Figures and tests find a case by its name.
TEST(bench_cases, names_are_unique) {
    std::set<std::string> names;
    for (const auto &c : cases(bench::case_size::gpu).interpolation)
        EXPECT_TRUE(names.insert(c.name).second) << c.name;
    for (const auto &c : cases(bench::case_size::gpu).convolution)
        EXPECT_TRUE(names.insert(c.name).second) << c.name;
}

// The targets are for problems of 64 MB and more, in 16-bit types too, but
// those called small, of which the start is measured.
TEST(bench_cases, interpolations_move_64_megabytes_or_are_small) {
    const auto count = [](const std::vector<int64_t> &dims) {
        return std::accumulate(
                dims.begin(), dims.end(), int64_t {1}, std::multiplies<>());
    };
    for (const auto size : {bench::case_size::gpu, bench::case_size::cpu})
        for (const auto &c : cases(size).interpolation) {
            const int64_t bytes_of_16_bits
                    = 2 * c.batch * c.channels * (count(c.src) + count(c.dst));
            if (c.name.starts_with("small_"))
                EXPECT_LE(bytes_of_16_bits, 1'000'000) << c.name;
            else
                EXPECT_GE(bytes_of_16_bits, 64'000'000) << c.name;
        }
}

// A kernel that no case is for is one that nobody measures. The GPU's rows:
// gpu_choice_test.
TEST(bench_cases, each_row_of_the_cpu_is_the_choice_of_one) {
    std::set<std::string> chosen;
    const auto choose = [&](const op &the_op) {
        detail::checked_op checked = detail::checked(the_op);
        checked.outputs = detail::outputs_with_dims(checked, true);
        for (const auto &step : detail::lower(checked))
            chosen.insert(
                    detail::choose_kernel(step, engine::kind::cpu, {}, the_op)
                            .kernel);
    };
    const auto choose_all = [&](const auto &of_a_kind) {
        for (const auto &c : of_a_kind)
            for (const char *l : {"ncx", "nxc"})
                for (const data_type type : float_types())
                    choose(op_of(c, sizes_of(c), layout_named(l), type));
    };
    choose_all(cases(bench::case_size::cpu).interpolation);
    choose_all(cases(bench::case_size::cpu).convolution);
    if (cpu::onednn_version() == "none") chosen.insert("convolution.onednn");
    EXPECT_EQ(rows_without_case(engine::kind::cpu, chosen), "")
            << "is the choice of no case of " << CASES_FILE;
}

} // namespace
} // namespace gradnn::test
