// Operation descriptors.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include <gradnn/tensor.hpp>

namespace gradnn {

/// An operation: its kind, attributes, inputs and outputs. A value type. Ports
/// are positional; `logical_tensor()` holds the place of an optional port that
/// is absent. doc/ops has a page for every kind that gradnn computes. Nothing is
/// checked before graph::add_op.
class GRADNN_API op {
public:
    /// Every kind that oneDNN Graph has, with its name and value there, and
    /// gradnn's own. Values never change; new kinds get new ones. Ops that
    /// gradnn cannot compute (all but the eleven that doc/ops describes) may be in
    /// a graph: each of them gives a partition whose is_supported() is false.
    enum class kind {
        Abs = 0,
        AbsBackward = 1,
        Add = 2,
        AvgPool = 3,
        AvgPoolBackward = 4,
        BatchNormTrainingBackward = 5,
        BatchNormForwardTraining = 6,
        BatchNormInference = 7,
        BiasAdd = 8,
        BiasAddBackward = 9,
        Clamp = 10,
        ClampBackward = 11,
        Concat = 12,
        Convolution = 13,
        ConvolutionBackwardData = 14,
        ConvolutionBackwardWeights = 15,
        ConvTranspose = 16,
        ConvTransposeBackwardData = 17,
        ConvTransposeBackwardWeights = 18,
        Dequantize = 19,
        Divide = 20,
        DynamicDequantize = 21,
        DynamicQuantize = 22,
        Elu = 23,
        EluBackward = 24,
        End = 25,
        Exp = 26,
        GELU = 27,
        GELUBackward = 28,
        HardSwish = 29,
        HardSwishBackward = 30,
        Interpolate = 31,
        InterpolateBackward = 32,
        LayerNorm = 33,
        LayerNormBackward = 34,
        LeakyReLU = 35,
        Log = 36,
        LogSoftmax = 37,
        LogSoftmaxBackward = 38,
        MatMul = 39,
        Maximum = 40,
        MaxPool = 41,
        MaxPoolBackward = 42,
        Minimum = 43,
        Mish = 44,
        MishBackward = 45,
        Multiply = 46,
        PReLU = 47,
        PReLUBackward = 48,
        Quantize = 49,
        Reciprocal = 50,
        ReduceL1 = 51,
        ReduceL2 = 52,
        ReduceMax = 53,
        ReduceMean = 54,
        ReduceMin = 55,
        ReduceProd = 56,
        ReduceSum = 57,
        ReLU = 58,
        ReLUBackward = 59,
        Reorder = 60,
        Round = 61,
        Sigmoid = 62,
        SigmoidBackward = 63,
        SoftMax = 64,
        SoftMaxBackward = 65,
        SoftPlus = 66,
        SoftPlusBackward = 67,
        Sqrt = 68,
        SqrtBackward = 69,
        Square = 70,
        SquaredDifference = 71,
        StaticReshape = 72,
        StaticTranspose = 73,
        Subtract = 74,
        Tanh = 75,
        TanhBackward = 76,
        TypeCast = 77,
        Wildcard = 78,
        HardSigmoid = 79,
        HardSigmoidBackward = 80,
        Select = 81,
        Pow = 82,
        GroupNorm = 83,
        GenIndex = 84,
        GreaterEqual = 85,
        RMSNorm = 86,
        Dropout = 87,
        // gradnn's own.
        ConvBackward = 0x10000,
        ConvTransposeBackward = 0x10001,
        // No kind. Not the largest value.
        LastSymbol = 0x7fff,
    };

    /// Attributes with their names and values in oneDNN Graph, and gradnn's
    /// own. Values never change. Those of ops that gradnn cannot compute are
    /// kept and not looked at.
    enum class attr {
        undef = 0,
        alpha = 0x1,
        beta = 0x2,
        epsilon = 0x3,
        max = 0x4,
        min = 0x5,
        momentum = 0x6,
        scales = 0x20,
        axis = 0x30,
        begin_norm_axis = 0x31,
        groups = 0x32,
        axes = 0x40,
        dilations = 0x41,
        dst_shape = 0x42,
        kernel = 0x43,
        order = 0x44,
        output_padding = 0x45,
        pads_begin = 0x46,
        pads_end = 0x47,
        shape = 0x48,
        sizes = 0x49,
        src_shape = 0x4a,
        strides = 0x4b,
        weights_shape = 0x4c,
        zps = 0x4d,
        group_shape = 0x4e,
        exclude_pad = 0x60,
        keep_dims = 0x61,
        keep_stats = 0x62,
        per_channel_broadcast = 0x63,
        special_zero = 0x64,
        transpose_a = 0x65,
        transpose_b = 0x66,
        use_affine = 0x67,
        use_dst = 0x68,
        auto_broadcast = 0x80,
        auto_pad = 0x81,
        coordinate_transformation_mode = 0x82,
        data_format = 0x83,
        mode = 0x84,
        qtype = 0x85,
        rounding_type = 0x86,
        weights_format = 0x87,
        accumulation_mode = 0x88,
        // gradnn's own.
        scale_rule = 0x10000,
        ratios = 0x10001,
        coordinate_arithmetic = 0x10002,
        cubic_coeff_a = 0x10003,
        antialias = 0x10004,
        exclude_outside = 0x10005,
    };

    /// The types that an attribute may have.
    using attr_value = std::variant<int64_t, float, bool, std::string,
            std::vector<int64_t>, std::vector<float>, std::vector<double>>;
    /// Whether a type is one of them.
    template <typename Type>
    struct is_attr_type
        : std::disjunction<std::is_same<Type, int64_t>,
                  std::is_same<Type, float>, std::is_same<Type, bool>,
                  std::is_same<Type, std::string>,
                  std::is_same<Type, std::vector<int64_t>>,
                  std::is_same<Type, std::vector<float>>,
                  std::is_same<Type, std::vector<double>>> {};

    /// `id` is unique in a graph; `verbose_name` is used in messages.
    op(size_t id, kind akind, const std::string &verbose_name = "");
    op(size_t id, kind akind, const std::vector<logical_tensor> &inputs,
            const std::vector<logical_tensor> &outputs,
            const std::string &verbose_name = "");

    void add_input(const logical_tensor &t);
    void add_inputs(const std::vector<logical_tensor> &ts);
    void add_output(const logical_tensor &t);
    void add_outputs(const std::vector<logical_tensor> &ts);

    /// Sets an attribute, replacing an earlier value. The type is one of
    /// attr_value, and decides what the attribute is: 1.0F is an f32, not an
    /// s64. An int is taken as an s64 and a const char * as a string.
    template <typename Type,
            typename = std::enable_if_t<is_attr_type<Type>::value>>
    op &set_attr(attr name, const Type &value) {
        attrs_.insert_or_assign(name, attr_value(value));
        return *this;
    }
    template <typename Int,
            std::enable_if_t<std::is_same<Int, int>::value, bool> = true>
    op &set_attr(attr name, Int value) {
        return set_attr<int64_t>(name, value);
    }
    op &set_attr(attr name, const char *value) {
        return set_attr<std::string>(name, value);
    }

    size_t get_id() const { return id_; }
    kind get_kind() const { return kind_; }
    const std::string &get_name() const { return name_; }
    const std::vector<logical_tensor> &get_inputs() const { return inputs_; }
    const std::vector<logical_tensor> &get_outputs() const { return outputs_; }
    const std::map<attr, attr_value> &get_attrs() const { return attrs_; }

private:
    size_t id_;
    kind kind_;
    std::string name_;
    std::vector<logical_tensor> inputs_;
    std::vector<logical_tensor> outputs_;
    std::map<attr, attr_value> attrs_;
};

/// The names of an op kind and of an attribute as JSON files write them.
GRADNN_API const char *to_string(op::kind akind);
GRADNN_API const char *to_string(op::attr name);

} // namespace gradnn
