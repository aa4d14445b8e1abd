// InterpolateBackward: every shape x mode x coordinate mode x data type x
// layout x kernel, against the float64 reference.
//
// ctest: thousands of short tests, to be one test of ctest (WHOLE).
#include <gtest/gtest.h>

#include "support/op_builders.hpp"
#include "support/param_names.hpp"
#include "support/random.hpp"

namespace gradnn::test {
namespace {

/// Rows of more columns than a block has threads, at ratios that repeat and that do not
/// (at most 3 and 4 taps, a volume's odd rows), and whole ratios whose asymmetric taps
/// lie to the left: short rows, tiles, volumes.
const std::vector<interpolation_case> &wide_row_cases() {
    static const std::vector<interpolation_case> cases {
            {"rows_of_272", 1, 2, {5, 160}, {9, 272}},
            {"rows_of_342", 1, 8, {3, 149}, {7, 342}},
            {"rows_of_500", 1, 2, {4, 300}, {7, 500}},
            {"rows_of_2400", 1, 8, {2205}, {2400}},
            {"volume_rows_of_133", 2, 4, {3, 4, 60}, {6, 7, 133}},
            {"volume_rows_of_133_once", 1, 8, {5, 3, 60}, {6, 5, 133}},
            {"left_taps_2x", 3, 2, {5, 16}, {10, 32}},
            {"left_taps_2x_tiles", 1, 2, {3, 520}, {7, 1040}},
            {"left_taps_4x", 1, 2, {3, 70}, {12, 280}},
            // On the CPU, rows of which groups have several are not cut.
            {"rows_in_groups", 2, 2, {5, 70}, {5, 280}},
            {"rows_in_groups_1d", 1, 3, {150}, {1200}},
            {"rows_in_groups_odd", 1, 1, {4, 101}, {6, 300}},
            {"left_taps_2x_volume", 1, 2, {3, 4, 24}, {6, 7, 48}},
            {"left_taps_4x_volume", 2, 1, {2, 3, 16}, {5, 12, 64}}};
    return cases;
}

/// NXC with channels in no vectors: tiles of a row, several rows, rows and tensors
/// that end within 16 bytes; and in vectors that tiles do not divide.
const std::vector<interpolation_case> &odd_channel_cases() {
    static const std::vector<interpolation_case> cases {
            {"odd_channels_2x_tiles", 1, 3, {3, 1100}, {6, 2200}},
            {"odd_channels_rows_kept", 1, 33, {6, 9}, {6, 18}},
            {"odd_channels_fewer_rows", 1, 23, {9, 7}, {4, 14}},
            {"odd_channels_of_a_line", 2, 129, {70}, {140}},
            {"vectors_of_a_prime", 1, 536, {3, 4}, {5, 9}},
    };
    return cases;
}

std::vector<conformance_param> conformance(
        const std::vector<interpolation_case> &cases) {
    std::vector<conformance_param> params;
    for (const engine::kind kind : engine_kinds())
        for (const std::string &kernel : kernel_names(kind, "interpolation"))
            for (const interpolation_case &c : cases)
                for (const char *mode : {"nearest", "linear"})
                    for (const char *coordinates :
                            {"half_pixel", "align_corners", "asymmetric"})
                        for (const data_type type : float_types())
                            for (const layout &l : layouts()) {
                                const bool dense
                                        = l.name == "ncx" || l.name == "nxc";
                                if (!dense && !c.every_layout) continue;
                                if (dense ? thinned_out(&c - cases.data(), type)
                                          : thinned()
                                                        && type
                                                                != data_type::
                                                                        bf16)
                                    continue;
                                // Weights have no part in it.
                                if (l.name == "ncx_xio" || l.name == "nxc_oix")
                                    continue;
                                params.push_back({kind, kernel,
                                        c.name + "_" + mode + "_" + coordinates
                                                + "_" + to_string(type) + "_"
                                                + l.name,
                                        interpolation_op(c, {mode, coordinates},
                                                l, type)});
                            }
    return params;
}

class interpolation : public testing::TestWithParam<conformance_param> {};

TEST_P(interpolation, agrees_with_reference) {
    const conformance_param &p = GetParam();
    RecordProperty("ran",
            run_forced(
                    p.the_op, shared_engine(p.on), p.kernel, seed_of(p.op_name))
                    ? "yes"
                    : "refused");
}

INSTANTIATE_TEST_SUITE_P(conformance, interpolation,
        testing::ValuesIn(conformance(interpolation_cases())),
        [](const auto &each) { return conformance_name(each.param); });
INSTANTIATE_TEST_SUITE_P(wide_rows, interpolation,
        testing::ValuesIn(conformance(wide_row_cases())),
        [](const auto &each) { return conformance_name(each.param); });
INSTANTIATE_TEST_SUITE_P(odd_channels, interpolation,
        testing::ValuesIn(conformance(odd_channel_cases())),
        [](const auto &each) { return conformance_name(each.param); });

// Under a sanitizer and elsewhere: no kernel may come through the suite by
// refusing.
TEST(interpolation_kernels, each_accepts_many) {
    for (const engine::kind kind : engine_kinds())
        for (const std::string &kernel : kernel_names(kind, "interpolation")) {
            const forced_kernel forced(kernel);
            size_t accepted = 0;
            for (const interpolation_case &c : interpolation_cases())
                for (const data_type type : float_types())
                    for (const size_t which : {0U, 1U})
                        try {
                            compile(interpolation_op(
                                            c, {}, layouts()[which], type),
                                    shared_engine(kind));
                            ++accepted;
                        } catch (const error &refusal) {
                            EXPECT_EQ(refusal.status, status::unimplemented)
                                    << refusal.what();
                        }
            // The least have those that take one form of columns, or copies.
            EXPECT_GE(accepted, 8U) << kernel;
        }
}

} // namespace
} // namespace gradnn::test
