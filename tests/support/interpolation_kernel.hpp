// A row of an engine's list of interpolation kernels, forced: what the tests of
// values and of coordinates share.
#pragma once

#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "support/op_builders.hpp"
#include "support/param_names.hpp"
#include "support/random.hpp"

namespace gradnn::test {

/// An engine, and one of its rows.
using kernel_param = std::tuple<engine::kind, std::string>;

inline std::vector<kernel_param> interpolation_rows() {
    std::vector<kernel_param> all;
    for (const engine::kind kind : engine_kinds())
        for (const std::string &kernel : kernel_names(kind, "interpolation"))
            if (kernel
                    != "interpolation.copy") // takes no axis that is resampled
                all.emplace_back(kind, kernel);
    return all;
}

class interpolation_kernel : public testing::TestWithParam<kernel_param> {
protected:
    engine the_engine() const { return shared_engine(std::get<0>(GetParam())); }
    std::string kernel() const { return std::get<1>(GetParam()); }

    /// Some kernels take certain ratios and layouts alone.
    bool refuses(const op &the_op) const {
        return !accepts(the_op, the_engine(), kernel());
    }

    std::vector<double> run(
            const op &the_op, const std::vector<double> &diff_dst) const {
        const forced_kernel forced(kernel());
        values_list inputs = random_inputs(the_op, 1);
        inputs[1] = diff_dst;
        op_run r(the_op, the_engine(), inputs);
        r.execute();
        EXPECT_EQ(r.output_tensor(0).outside_damage(), "");
        return r.output(0);
    }
};

inline op line(int64_t src, int64_t dst, const interpolation_choice &choice,
        data_type type = data_type::f32) {
    return interpolation_op(
            {"line", 1, 1, {src}, {dst}}, choice, layouts()[0], type);
}

struct coordinates_case {
    const char *mode;
    const char *coordinates;
};
inline constexpr coordinates_case all_coordinates[] = {
        {"nearest", "half_pixel"},
        {"nearest", "align_corners"},
        {"nearest", "asymmetric"},
        {"linear", "half_pixel"},
        {"linear", "align_corners"},
        {"linear", "asymmetric"},
};

inline std::string name_of(const testing::TestParamInfo<kernel_param> &each) {
    return identifier(std::string(to_string(std::get<0>(each.param))) + "_"
            + std::get<1>(each.param));
}

} // namespace gradnn::test
