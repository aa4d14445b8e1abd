#include "op/op_names.hpp"

namespace gradnn {

namespace detail {

namespace {

template <typename Value>
struct named {
    Value value;
    const char *name;
};

constexpr named<op::kind> kinds[] = {
        {op::kind::Abs, "Abs"},
        {op::kind::AbsBackward, "AbsBackward"},
        {op::kind::Add, "Add"},
        {op::kind::AvgPool, "AvgPool"},
        {op::kind::AvgPoolBackward, "AvgPoolBackward"},
        {op::kind::BatchNormTrainingBackward, "BatchNormTrainingBackward"},
        {op::kind::BatchNormForwardTraining, "BatchNormForwardTraining"},
        {op::kind::BatchNormInference, "BatchNormInference"},
        {op::kind::BiasAdd, "BiasAdd"},
        {op::kind::BiasAddBackward, "BiasAddBackward"},
        {op::kind::Clamp, "Clamp"},
        {op::kind::ClampBackward, "ClampBackward"},
        {op::kind::Concat, "Concat"},
        {op::kind::Convolution, "Convolution"},
        {op::kind::ConvolutionBackwardData, "ConvolutionBackwardData"},
        {op::kind::ConvolutionBackwardWeights, "ConvolutionBackwardWeights"},
        {op::kind::ConvTranspose, "ConvTranspose"},
        {op::kind::ConvTransposeBackwardData, "ConvTransposeBackwardData"},
        {op::kind::ConvTransposeBackwardWeights,
                "ConvTransposeBackwardWeights"},
        {op::kind::Dequantize, "Dequantize"},
        {op::kind::Divide, "Divide"},
        {op::kind::DynamicDequantize, "DynamicDequantize"},
        {op::kind::DynamicQuantize, "DynamicQuantize"},
        {op::kind::Elu, "Elu"},
        {op::kind::EluBackward, "EluBackward"},
        {op::kind::End, "End"},
        {op::kind::Exp, "Exp"},
        {op::kind::GELU, "GELU"},
        {op::kind::GELUBackward, "GELUBackward"},
        {op::kind::HardSwish, "HardSwish"},
        {op::kind::HardSwishBackward, "HardSwishBackward"},
        {op::kind::Interpolate, "Interpolate"},
        {op::kind::InterpolateBackward, "InterpolateBackward"},
        {op::kind::LayerNorm, "LayerNorm"},
        {op::kind::LayerNormBackward, "LayerNormBackward"},
        {op::kind::LeakyReLU, "LeakyReLU"},
        {op::kind::Log, "Log"},
        {op::kind::LogSoftmax, "LogSoftmax"},
        {op::kind::LogSoftmaxBackward, "LogSoftmaxBackward"},
        {op::kind::MatMul, "MatMul"},
        {op::kind::Maximum, "Maximum"},
        {op::kind::MaxPool, "MaxPool"},
        {op::kind::MaxPoolBackward, "MaxPoolBackward"},
        {op::kind::Minimum, "Minimum"},
        {op::kind::Mish, "Mish"},
        {op::kind::MishBackward, "MishBackward"},
        {op::kind::Multiply, "Multiply"},
        {op::kind::PReLU, "PReLU"},
        {op::kind::PReLUBackward, "PReLUBackward"},
        {op::kind::Quantize, "Quantize"},
        {op::kind::Reciprocal, "Reciprocal"},
        {op::kind::ReduceL1, "ReduceL1"},
        {op::kind::ReduceL2, "ReduceL2"},
        {op::kind::ReduceMax, "ReduceMax"},
        {op::kind::ReduceMean, "ReduceMean"},
        {op::kind::ReduceMin, "ReduceMin"},
        {op::kind::ReduceProd, "ReduceProd"},
        {op::kind::ReduceSum, "ReduceSum"},
        {op::kind::ReLU, "ReLU"},
        {op::kind::ReLUBackward, "ReLUBackward"},
        {op::kind::Reorder, "Reorder"},
        {op::kind::Round, "Round"},
        {op::kind::Sigmoid, "Sigmoid"},
        {op::kind::SigmoidBackward, "SigmoidBackward"},
        {op::kind::SoftMax, "SoftMax"},
        {op::kind::SoftMaxBackward, "SoftMaxBackward"},
        {op::kind::SoftPlus, "SoftPlus"},
        {op::kind::SoftPlusBackward, "SoftPlusBackward"},
        {op::kind::Sqrt, "Sqrt"},
        {op::kind::SqrtBackward, "SqrtBackward"},
        {op::kind::Square, "Square"},
        {op::kind::SquaredDifference, "SquaredDifference"},
        {op::kind::StaticReshape, "StaticReshape"},
        {op::kind::StaticTranspose, "StaticTranspose"},
        {op::kind::Subtract, "Subtract"},
        {op::kind::Tanh, "Tanh"},
        {op::kind::TanhBackward, "TanhBackward"},
        {op::kind::TypeCast, "TypeCast"},
        {op::kind::Wildcard, "Wildcard"},
        {op::kind::HardSigmoid, "HardSigmoid"},
        {op::kind::HardSigmoidBackward, "HardSigmoidBackward"},
        {op::kind::Select, "Select"},
        {op::kind::Pow, "Pow"},
        {op::kind::GroupNorm, "GroupNorm"},
        {op::kind::GenIndex, "GenIndex"},
        {op::kind::GreaterEqual, "GreaterEqual"},
        {op::kind::RMSNorm, "RMSNorm"},
        {op::kind::Dropout, "Dropout"},
        {op::kind::ConvBackward, "ConvBackward"},
        {op::kind::ConvTransposeBackward, "ConvTransposeBackward"},
};

constexpr named<op::attr> attrs[] = {
        {op::attr::undef, "undef"},
        {op::attr::alpha, "alpha"},
        {op::attr::beta, "beta"},
        {op::attr::epsilon, "epsilon"},
        {op::attr::max, "max"},
        {op::attr::min, "min"},
        {op::attr::momentum, "momentum"},
        {op::attr::scales, "scales"},
        {op::attr::axis, "axis"},
        {op::attr::begin_norm_axis, "begin_norm_axis"},
        {op::attr::groups, "groups"},
        {op::attr::axes, "axes"},
        {op::attr::dilations, "dilations"},
        {op::attr::dst_shape, "dst_shape"},
        {op::attr::kernel, "kernel"},
        {op::attr::order, "order"},
        {op::attr::output_padding, "output_padding"},
        {op::attr::pads_begin, "pads_begin"},
        {op::attr::pads_end, "pads_end"},
        {op::attr::shape, "shape"},
        {op::attr::sizes, "sizes"},
        {op::attr::src_shape, "src_shape"},
        {op::attr::strides, "strides"},
        {op::attr::weights_shape, "weights_shape"},
        {op::attr::zps, "zps"},
        {op::attr::group_shape, "group_shape"},
        {op::attr::exclude_pad, "exclude_pad"},
        {op::attr::keep_dims, "keep_dims"},
        {op::attr::keep_stats, "keep_stats"},
        {op::attr::per_channel_broadcast, "per_channel_broadcast"},
        {op::attr::special_zero, "special_zero"},
        {op::attr::transpose_a, "transpose_a"},
        {op::attr::transpose_b, "transpose_b"},
        {op::attr::use_affine, "use_affine"},
        {op::attr::use_dst, "use_dst"},
        {op::attr::auto_broadcast, "auto_broadcast"},
        {op::attr::auto_pad, "auto_pad"},
        {op::attr::coordinate_transformation_mode,
                "coordinate_transformation_mode"},
        {op::attr::data_format, "data_format"},
        {op::attr::mode, "mode"},
        {op::attr::qtype, "qtype"},
        {op::attr::rounding_type, "rounding_type"},
        {op::attr::weights_format, "weights_format"},
        {op::attr::accumulation_mode, "accumulation_mode"},
        {op::attr::scale_rule, "scale_rule"},
        {op::attr::ratios, "ratios"},
        {op::attr::coordinate_arithmetic, "coordinate_arithmetic"},
        {op::attr::cubic_coeff_a, "cubic_coeff_a"},
        {op::attr::antialias, "antialias"},
        {op::attr::exclude_outside, "exclude_outside"},
};

template <typename Value, size_t count>
const char *name_in(const named<Value> (&table)[count], Value value) {
    for (const auto &row : table)
        if (row.value == value) return row.name;
    return nullptr;
}

template <typename Value, size_t count>
std::optional<Value> find_in(
        const named<Value> (&table)[count], std::string_view name) {
    for (const auto &row : table)
        if (row.name == name) return row.value;
    return {};
}

} // namespace

std::optional<op::kind> kind_named(std::string_view name) {
    return find_in(kinds, name);
}

std::optional<op::attr> attr_named(std::string_view name) {
    return find_in(attrs, name);
}

} // namespace detail

const char *to_string(op::kind akind) {
    const char *const name = detail::name_in(detail::kinds, akind);
    return name ? name : "unknown op kind";
}

const char *to_string(op::attr name) {
    const char *const found = detail::name_in(detail::attrs, name);
    return found ? found : "unknown attribute";
}

} // namespace gradnn
