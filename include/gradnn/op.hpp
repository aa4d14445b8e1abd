// Operation descriptors.
#pragma once

#include <concepts>
#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include <gradnn/tensor.hpp>

namespace gradnn {

/// An operation: its kind, attributes, inputs and outputs. A value type. Ports
/// are positional; `logical_tensor()` holds the place of an optional port that
/// is absent. doc/ has a page for every kind. Nothing is checked before
/// graph::add_op.
class GRADNN_API op {
public:
    enum class kind {
        Add,
        BiasAddBackward,
        ConvBackward,
        ConvTransposeBackward,
        ConvTransposeBackwardData,
        ConvTransposeBackwardWeights,
        ConvolutionBackwardData,
        ConvolutionBackwardWeights,
        InterpolateBackward,
        ReLUBackward,
        // Sentinel
        LastSymbol,
    };

    enum class attr {
        undef,
        // f32 lists
        scales,
        // s64
        groups,
        // s64 lists
        dilations,
        dst_shape,
        output_padding,
        pads_begin,
        pads_end,
        sizes,
        strides,
        weights_shape,
        // bool
        use_dst,
        // strings, accepted without regard to case
        auto_pad,
        coordinate_transformation_mode,
        data_format,
        mode,
        scale_rule,
        weights_format,
    };

    /// The types that an attribute may have.
    using attr_value = std::variant<int64_t, float, bool, std::string,
            std::vector<int64_t>, std::vector<float>>;

    /// `id` is unique in a graph; `verbose_name` is used in messages.
    op(size_t id, kind akind, const std::string &verbose_name = "");
    op(size_t id, kind akind, const std::vector<logical_tensor> &inputs,
            const std::vector<logical_tensor> &outputs,
            const std::string &verbose_name = "");

    void add_input(const logical_tensor &t);
    void add_inputs(const std::vector<logical_tensor> &ts);
    void add_output(const logical_tensor &t);
    void add_outputs(const std::vector<logical_tensor> &ts);

    /// Sets an attribute, replacing an earlier value.
    template <typename Type>
        requires(std::same_as<Type, int64_t> || std::same_as<Type, float>
                || std::same_as<Type, bool> || std::same_as<Type, std::string>
                || std::same_as<Type, std::vector<int64_t>>
                || std::same_as<Type, std::vector<float>>)
    op &set_attr(attr name, const Type &value) {
        attrs_.insert_or_assign(name, attr_value(value));
        return *this;
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
