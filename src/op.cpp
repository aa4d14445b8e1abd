#include <gradnn/op.hpp>

#include "op_schema.hpp"

namespace gradnn {

op::op(size_t id, kind akind, const std::string &verbose_name)
    : id_(id), kind_(akind), name_(verbose_name) {}

op::op(size_t id, kind akind, const std::vector<logical_tensor> &inputs,
        const std::vector<logical_tensor> &outputs,
        const std::string &verbose_name)
    : id_(id)
    , kind_(akind)
    , name_(verbose_name)
    , inputs_(inputs)
    , outputs_(outputs) {}

void op::add_input(const logical_tensor &t) {
    inputs_.push_back(t);
}

void op::add_inputs(const std::vector<logical_tensor> &ts) {
    inputs_.insert(inputs_.end(), ts.begin(), ts.end());
}

void op::add_output(const logical_tensor &t) {
    outputs_.push_back(t);
}

void op::add_outputs(const std::vector<logical_tensor> &ts) {
    outputs_.insert(outputs_.end(), ts.begin(), ts.end());
}

const char *to_string(op::kind akind) {
    const detail::op_schema *schema = detail::find_schema(akind);
    return schema ? schema->name : "unknown op kind";
}

const char *to_string(op::attr name) {
    switch (name) {
        case op::attr::undef: return "undef";
        case op::attr::scales: return "scales";
        case op::attr::groups: return "groups";
        case op::attr::dilations: return "dilations";
        case op::attr::dst_shape: return "dst_shape";
        case op::attr::output_padding: return "output_padding";
        case op::attr::pads_begin: return "pads_begin";
        case op::attr::pads_end: return "pads_end";
        case op::attr::sizes: return "sizes";
        case op::attr::strides: return "strides";
        case op::attr::weights_shape: return "weights_shape";
        case op::attr::use_dst: return "use_dst";
        case op::attr::auto_pad: return "auto_pad";
        case op::attr::coordinate_transformation_mode:
            return "coordinate_transformation_mode";
        case op::attr::data_format: return "data_format";
        case op::attr::mode: return "mode";
        case op::attr::scale_rule: return "scale_rule";
        case op::attr::weights_format: return "weights_format";
    }
    return "unknown attribute";
}

} // namespace gradnn
