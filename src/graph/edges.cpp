#include "graph/edges.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "op/labels.hpp"
#include "tensor/layout.hpp"

namespace gradnn::detail {

producers::producers(const std::vector<checked_op> &ops) {
    for (size_t index = 0; index < ops.size(); ++index) {
        for (const logical_tensor &lt : ops[index].inputs)
            if (!lt.is_absent()) meet(ops[index], lt);
        for (const logical_tensor &lt : ops[index].outputs) {
            if (lt.is_absent()) continue;
            size_t &maker = meet(ops[index], lt).maker;
            if (maker != none)
                throw error(status::invalid_graph,
                        text(op_label(ops[index].identity()), ": tensor ",
                                lt.get_id(), " is also an output of ",
                                op_label(ops[maker].identity())));
            maker = index;
        }
    }
}

producers::tensor_entry &producers::meet(
        const checked_op &the_op, const logical_tensor &lt) {
    const auto [place, fresh]
            = seen_.try_emplace(lt.get_id(), tensor_entry {&lt});
    tensor_entry &entry = place->second;
    if (fresh) return entry;
    const logical_tensor &known = *entry.known;
    if (known.get_data_type() != lt.get_data_type())
        throw error(status::invalid_graph,
                text(op_label(the_op.identity()), ": tensor ", lt.get_id(),
                        " is ", to_string(lt.get_data_type()), " here and ",
                        to_string(known.get_data_type()), " elsewhere"));
    if (!dims_known(known))
        entry.known = &lt;
    else if (dims_known(lt) && !same_dims(lt, known))
        throw error(status::invalid_graph,
                text(op_label(the_op.identity()), ": tensor ", lt.get_id(),
                        " has dims ", text_of(dims_of(lt)), " here and ",
                        text_of(dims_of(known)), " elsewhere"));
    return entry;
}

std::vector<size_t> execution_order(const std::vector<checked_op> &ops) {
    const producers made_by(ops);
    std::vector<size_t> order = in_order(
            ops.size(), [&](size_t index, const std::vector<bool> &placed) {
                return std::all_of(ops[index].inputs.begin(),
                        ops[index].inputs.end(), [&](const logical_tensor &lt) {
                            const size_t maker = made_by.of(lt);
                            return maker == producers::none || placed[maker];
                        });
            });
    if (order.size() == ops.size()) return order;
    std::sort(order.begin(), order.end());
    size_t stuck = 0; // the first that is not in the order
    while (stuck < order.size() && order[stuck] == stuck)
        ++stuck;
    throw error(status::invalid_graph,
            op_label(ops[stuck].identity())
                    + ": is part of a cycle or waits for one");
}

} // namespace gradnn::detail
