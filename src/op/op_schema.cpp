#include "op/op_schema.hpp"

namespace gradnn::detail {

namespace {

using attr = op::attr;
using role = port_role;

constexpr attr_row data_format
        = {attr::data_format, attr_type::string, false, "NCX|NXC", "NXC"};

// Ports, named as messages and the doc pages name them.

constexpr port_row interpolate_in[]
        = {{"src", role::source}, {"sizes", role::shape, false}};
constexpr port_row interpolate_out[] = {{"dst", role::resampled}};
constexpr port_row interpolate_backward_in[] = {{"src", role::source},
        {"diff_dst", role::resampled}, {"sizes", role::shape, false}};
constexpr port_row interpolate_backward_out[] = {{"diff_src", role::source}};

constexpr port_row conv_in[] = {{"diff_dst", role::small}, {"src", role::large},
        {"weights", role::weights}};
constexpr port_row conv_out[] = {{"diff_src", role::large, false},
        {"diff_weights", role::weights, false},
        {"diff_bias", role::bias, false}};
constexpr port_row conv_data_in[] = {{"diff_dst", role::small},
        {"weights", role::weights}, {"dst_shape", role::shape, false}};
constexpr port_row conv_data_out[] = {{"diff_src", role::large}};
constexpr port_row conv_weights_in[] = {{"src", role::large},
        {"diff_dst", role::small}, {"weights_shape", role::shape, false}};
constexpr port_row conv_weights_out[] = {{"diff_weights", role::weights}};

constexpr port_row transposed_in[] = {{"diff_dst", role::large},
        {"src", role::small}, {"weights", role::weights}};
constexpr port_row transposed_out[] = {{"diff_src", role::small, false},
        {"diff_weights", role::weights, false},
        {"diff_bias", role::bias, false}};
constexpr port_row transposed_data_in[]
        = {{"diff_dst", role::large}, {"weights", role::weights}};
constexpr port_row transposed_data_out[] = {{"diff_src", role::small}};
constexpr port_row transposed_weights_in[] = {{"src", role::small},
        {"diff_dst", role::large}, {"weights_shape", role::shape, false}};
constexpr port_row transposed_weights_out[] = {{"diff_weights", role::weights}};

constexpr port_row bias_in[] = {{"diff_dst", role::element}};
constexpr port_row bias_out[] = {{"diff_bias", role::bias}};
constexpr port_row relu_in[]
        = {{"src or dst", role::element}, {"diff_dst", role::element}};
constexpr port_row relu_out[] = {{"diff_src", role::element}};
constexpr port_row add_in[]
        = {{"src_0", role::element}, {"src_1", role::element}};
constexpr port_row add_out[] = {{"dst", role::element}};

// Attributes.

constexpr attr_row interpolate_attrs[] = {
        {attr::mode, attr_type::string, true,
                "nearest|linear|bilinear|trilinear|cubic|bicubic"},
        {attr::coordinate_transformation_mode, attr_type::string, false,
                "half_pixel|align_corners|asymmetric", "half_pixel"},
        {attr::sizes, attr_type::s64_list},
        {attr::scales, attr_type::f32_list},
        {attr::scale_rule, attr_type::string, false, "shape_ratio|given|ratios",
                "shape_ratio"},
        {attr::ratios, attr_type::f64_list},
        {attr::coordinate_arithmetic, attr_type::string, false,
                "exact|float32|float32_fma|float64", "exact"},
        {attr::cubic_coeff_a, attr_type::f32, false, nullptr, "-0.75"},
        {attr::antialias, attr_type::boolean, false, nullptr, "false"},
        {attr::exclude_outside, attr_type::boolean, false, nullptr, "false"},
        data_format,
};

constexpr attr_row strides = {attr::strides, attr_type::s64_list, true};
constexpr attr_row pads_begin = {attr::pads_begin, attr_type::s64_list, true};
constexpr attr_row pads_end = {attr::pads_end, attr_type::s64_list, true};
constexpr attr_row dilations = {attr::dilations, attr_type::s64_list, true};
constexpr attr_row auto_pad = {attr::auto_pad, attr_type::string, false,
        "none|same_upper|same_lower|valid", "none"};
constexpr attr_row groups = {attr::groups, attr_type::s64, false, nullptr, "1"};
constexpr attr_row output_padding = {attr::output_padding, attr_type::s64_list};
constexpr attr_row dst_shape = {attr::dst_shape, attr_type::s64_list};
constexpr attr_row weights_shape = {attr::weights_shape, attr_type::s64_list};
constexpr attr_row oix
        = {attr::weights_format, attr_type::string, false, "OIX|XIO", "XIO"};
constexpr attr_row iox
        = {attr::weights_format, attr_type::string, false, "IOX|XOI", "XOI"};

constexpr attr_row conv_weights_attrs[] = {strides, pads_begin, pads_end,
        dilations, auto_pad, groups, data_format, oix, weights_shape};
constexpr attr_row conv_data_attrs[]
        = {strides, pads_begin, pads_end, dilations, auto_pad, output_padding,
                groups, data_format, oix, dst_shape};
constexpr attr_row transposed_data_attrs[] = {strides, pads_begin, pads_end,
        dilations, auto_pad, output_padding, groups, data_format, iox};
constexpr attr_row transposed_weights_attrs[]
        = {strides, pads_begin, pads_end, dilations, auto_pad, output_padding,
                groups, data_format, iox, weights_shape};
constexpr attr_row bias_attrs[] = {data_format};
constexpr attr_row add_attrs[] = {{attr::auto_broadcast, attr_type::string,
        false, "none|numpy", "numpy"}};
constexpr attr_row relu_attrs[]
        = {{attr::use_dst, attr_type::boolean, false, nullptr, "true"}};

using kind = op::kind;
using family = op_family;

// The table. Spatial rank 1 to 3 is rank 3 to 5; a bias gradient may also
// have no spatial axis, and elementwise ops take any rank.
constexpr op_schema schemas[] = {
        {kind::Add, "Add", family::elementwise, add_in, add_out, add_attrs, 0,
                logical_tensor::max_ndims},
        {kind::BiasAddBackward, "BiasAddBackward", family::bias, bias_in,
                bias_out, bias_attrs, 2, 5},
        {kind::ConvBackward, "ConvBackward", family::convolution, conv_in,
                conv_out, conv_weights_attrs, 3, 5},
        {kind::ConvTransposeBackward, "ConvTransposeBackward",
                family::transposed, transposed_in, transposed_out,
                transposed_weights_attrs, 3, 5},
        {kind::ConvTransposeBackwardData, "ConvTransposeBackwardData",
                family::transposed, transposed_data_in, transposed_data_out,
                transposed_data_attrs, 3, 5},
        {kind::ConvTransposeBackwardWeights, "ConvTransposeBackwardWeights",
                family::transposed, transposed_weights_in,
                transposed_weights_out, transposed_weights_attrs, 3, 5},
        {kind::ConvolutionBackwardData, "ConvolutionBackwardData",
                family::convolution, conv_data_in, conv_data_out,
                conv_data_attrs, 3, 5},
        {kind::ConvolutionBackwardWeights, "ConvolutionBackwardWeights",
                family::convolution, conv_weights_in, conv_weights_out,
                conv_weights_attrs, 3, 5},
        {kind::Interpolate, "Interpolate", family::interpolation,
                interpolate_in, interpolate_out, interpolate_attrs, 3, 5},
        {kind::InterpolateBackward, "InterpolateBackward",
                family::interpolation, interpolate_backward_in,
                interpolate_backward_out, interpolate_attrs, 3, 5},
        {kind::ReLUBackward, "ReLUBackward", family::elementwise, relu_in,
                relu_out, relu_attrs, 0, logical_tensor::max_ndims},
};

} // namespace

std::span<const op_schema> all_schemas() {
    return schemas;
}

const op_schema *find_schema(op::kind kind) {
    for (const op_schema &schema : schemas)
        if (schema.kind == kind) return &schema;
    return nullptr;
}

int port_index(std::span<const port_row> ports, port_role role) {
    for (size_t index = 0; index < ports.size(); ++index)
        if (ports[index].role == role) return static_cast<int>(index);
    return -1;
}

} // namespace gradnn::detail
