// Copies of a partition's tensors that take turns, so that every execution finds
// cold caches.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "loaded_graph.hpp"
#include "tensor_memory.hpp"

namespace gradnn::driver {

/// Rotates over copies of a step's tensors.
class rotating_tensors {
public:
    rotating_tensors(
            const loaded_graph &graph, const graph_step &step, size_t copies);

    /// Bytes that a copy of a tensor takes.
    static size_t slot_bytes(const logical_tensor &lt);

    /// Makes inputs and outputs those of this copy.
    void choose(size_t copy);

    std::vector<tensor> inputs;
    std::vector<tensor> outputs;

private:
    struct slots {
        tensor first;
        std::unique_ptr<tensor_memory> memory; ///< null where no op reads it
        size_t bytes;
    };

    static void add(std::vector<slots> &to, const loaded_graph &graph,
            size_t id, size_t copies);
    static void fill(const graph_tensor &from, void *data, size_t seed);
    static void point(std::vector<tensor> &tensors,
            const std::vector<slots> &memory, size_t copy);

    std::vector<slots> inputs_;
    std::vector<slots> outputs_;
};

} // namespace gradnn::driver
