#include "compile/ports.hpp"

#include <algorithm>

#include "tensor/layout.hpp"

namespace gradnn::detail {

size_t index_of(
        const logical_tensor &lt, const std::vector<logical_tensor> &tensors) {
    const auto found = std::find_if(
            tensors.begin(), tensors.end(), [&](const logical_tensor &each) {
                return each.get_id() == lt.get_id();
            });
    return static_cast<size_t>(found - tensors.begin());
}

std::vector<logical_tensor> inner_tensors(const std::vector<checked_op> &ops) {
    std::vector<logical_tensor> inner;
    const auto is_laid_out = [](const logical_tensor &lt) {
        return dims_known(lt)
                && lt.get_layout_type() == logical_tensor::layout_type::strided;
    };
    for (size_t maker = 0; maker + 1 < ops.size(); ++maker)
        for (const logical_tensor &made : ops[maker].outputs)
            for (size_t reader = maker + 1; reader < ops.size(); ++reader)
                for (const logical_tensor &read : ops[reader].inputs)
                    if (!made.is_absent() && read.get_id() == made.get_id())
                        inner.push_back(is_laid_out(read) ? read : made);
    return inner;
}

std::vector<logical_tensor> output_ports(const std::vector<checked_op> &ops) {
    std::vector<logical_tensor> ports;
    const std::vector<logical_tensor> inner = inner_tensors(ops);
    for (const checked_op &the_op : ops)
        for (const logical_tensor &lt : the_op.outputs)
            if (!lt.is_absent() && index_of(lt, inner) == inner.size())
                ports.push_back(lt);
    return ports;
}

std::vector<logical_tensor> input_ports(const std::vector<checked_op> &ops) {
    std::vector<logical_tensor> ports;
    const std::vector<logical_tensor> inner = inner_tensors(ops);
    const auto is_new = [&](const logical_tensor &lt) {
        return index_of(lt, inner) == inner.size()
                && index_of(lt, ports) == ports.size();
    };
    for (const checked_op &the_op : ops)
        for (const logical_tensor &lt : the_op.inputs)
            if (!lt.is_absent() && is_new(lt)) ports.push_back(lt);
    return ports;
}

} // namespace gradnn::detail
