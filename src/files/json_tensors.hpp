// The tensors of a JSON graph, and whether its ops agree on them.
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include <gradnn/tensor.hpp>

#include "files/json_text.hpp"

namespace gradnn::detail {

/// A port of an op; absent where the file has null.
logical_tensor read_tensor(const json_node &node);

/// All that the file says of each tensor id, to find disagreement.
class tensor_register {
public:
    /// A port that was read from `node`; throws where it disagrees with another.
    void add(const logical_tensor &lt, const json_node &node, bool output);
    bool contains(size_t id) const { return tensors_.contains(id); }

private:
    struct entry {
        logical_tensor lt;
        std::string path;
    };

    static void compare_shapes(const logical_tensor &lt, const entry &before,
            const json_node &node);

    std::map<size_t, entry> tensors_;
    std::map<size_t, std::string> producers_;
};

} // namespace gradnn::detail
