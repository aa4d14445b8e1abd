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

std::vector<conformance_param> conformance() {
    std::vector<conformance_param> params;
    for (const engine::kind kind : engine_kinds())
        for (const std::string &kernel : kernel_names(kind, "interpolation"))
            for (const interpolation_case &c : interpolation_cases())
                for (const char *mode : {"nearest", "linear"})
                    for (const char *coordinates :
                            {"half_pixel", "align_corners", "asymmetric"})
                        for (const data_type type : float_types())
                            for (const layout &l : layouts()) {
                                const bool dense
                                        = l.name == "ncx" || l.name == "nxc";
                                if (!dense && !c.every_layout) continue;
                                if (thinned() && !dense
                                        && type != data_type::bf16)
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
        testing::ValuesIn(conformance()),
        [](const auto &each) { return conformance_name(each.param); });

// Under a sanitizer and elsewhere: no kernel may come through the suite by
// refusing.
TEST(interpolation_kernels, each_accepts_many) {
    for (const engine::kind kind : engine_kinds())
        for (const std::string &kernel : kernel_names(kind, "interpolation")) {
            const forced_kernel forced(kernel);
            size_t accepted = 0;
            size_t offered = 0;
            for (const interpolation_case &c : interpolation_cases())
                for (const data_type type : float_types())
                    for (const size_t which : {0U, 1U}) {
                        ++offered;
                        try {
                            compile(interpolation_op(
                                            c, {}, layouts()[which], type),
                                    shared_engine(kind));
                            ++accepted;
                        } catch (const error &refusal) {
                            EXPECT_EQ(refusal.status, status::unimplemented)
                                    << refusal.what();
                        }
                    }
            EXPECT_GE(accepted, offered / 4) << kernel;
        }
}

} // namespace
} // namespace gradnn::test
