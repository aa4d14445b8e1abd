#include <gradnn/op.hpp>

namespace gradnn {

op::op(size_t id, kind akind, const std::string &verbose_name)
    : id_(id), kind_(akind), name_(verbose_name) {}

op::op(size_t id, kind akind, const std::vector<logical_tensor> &inputs,
        const std::vector<logical_tensor> &outputs,
        const std::string &verbose_name)
    : id_(id),
      kind_(akind),
      name_(verbose_name),
      inputs_(inputs),
      outputs_(outputs) {}

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

} // namespace gradnn
