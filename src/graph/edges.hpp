// The edges of a graph: who makes which tensor, and the order that follows.
#pragma once

#include <limits>
#include <unordered_map>
#include <vector>

#include "op/checked_op.hpp"

namespace gradnn::detail {

/// Which op makes a tensor, by the tensor's id.
class producers {
public:
    static constexpr size_t none = std::numeric_limits<size_t>::max();

    /// Checks the edges: every tensor has one producer, and one type and shape
    /// wherever it appears.
    explicit producers(const std::vector<checked_op> &ops);

    size_t of(const logical_tensor &lt) const {
        return lt.is_absent() ? none : seen_.at(lt.get_id()).maker;
    }

private:
    struct tensor_entry {
        const logical_tensor *known; ///< with its dims, where any port has them
        size_t maker = none;
    };

    tensor_entry &meet(const checked_op &the_op, const logical_tensor &lt);

    std::unordered_map<size_t, tensor_entry> seen_;
};

/// The numbers below `count`, each once `ready(number, placed)` says so, otherwise
/// in their own order. Those that never are ready are left out.
template <typename Ready>
std::vector<size_t> in_order(size_t count, const Ready &ready) {
    std::vector<size_t> order;
    std::vector<bool> placed(count, false);
    for (bool progress = true; progress;) {
        progress = false;
        for (size_t index = 0; index < count; ++index) {
            if (placed[index] || !ready(index, placed)) continue;
            placed[index] = true;
            progress = true;
            order.push_back(index);
        }
    }
    return order;
}

/// Producers before consumers, otherwise in the order of adding. Throws
/// invalid_graph where there is a cycle.
std::vector<size_t> execution_order(const std::vector<checked_op> &ops);

} // namespace gradnn::detail
