// The named shapes of the conformance suite: tests/data/conformance.json.
//
// Small, and chosen to be awkward: 1-wide axes, ratios below 1, odd and prime
// sizes, windows that miss. Shapes only; op_builders.hpp crosses them with
// modes, layouts and data types.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gradnn::test {

using sizes = std::vector<int64_t>;

struct interpolation_case {
    std::string name;
    int64_t n;
    int64_t c;
    sizes src; ///< spatial
    sizes dst;
    /// Run in all layouts, not in the dense two alone.
    bool every_layout = false;
};

/// Element y of small meets element y * stride - pad + k * dilation of large:
/// large is src of a convolution and dst of a transposed one. The size of
/// small follows.
struct convolution_case {
    std::string name;
    int64_t n;
    int64_t groups;
    int64_t large_channels;
    int64_t small_channels;
    sizes large;
    sizes kernel;
    sizes strides;
    sizes dilations;
    sizes pads_begin;
    sizes pads_end;
    std::string auto_pad = "none";
    bool every_layout = false;

    sizes small() const;
    /// What large has beyond the least that gives small.
    sizes output_padding() const;
};

/// Shapes in N, C, spatial order, for the bias gradient and element by element
/// ops.
struct plane_case {
    std::string name;
    sizes dims;
};

const std::vector<interpolation_case> &interpolation_cases();
const std::vector<convolution_case> &convolution_cases();
const std::vector<plane_case> &plane_cases();

/// The case of this name; throws std::out_of_range where there is none.
const interpolation_case &interpolation_named(const std::string &name);
const convolution_case &convolution_named(const std::string &name);

} // namespace gradnn::test
