// A graph with memory for its tensors: what run and check execute.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "loaded_graph.hpp"
#include "tensor_memory.hpp"

namespace gradnn::driver {

/// "ID=FILE.npy" of an option, or "ID=FILE.png".
struct file_option {
    size_t id = 0;
    std::string file;
};

/// Reads the values of an option that may be repeated. Throws usage_error for
/// what is not ID=FILE and for an id or a file that occurs twice.
std::vector<file_option> parse_file_options(
        const std::string &option, const std::vector<std::string> &values);

/// The options of run and check.
struct session_options {
    std::string graph;
    engine_options engine;
    std::vector<std::string> inputs;
    std::vector<std::string> outputs;
    std::vector<std::string> images;
    uint64_t seed = 0;
};

/// What one execution of a step gave.
struct step_result {
    double milliseconds = 0;
    /// Of the bits of all outputs of the step.
    uint64_t checksum = 0;
};

class session {
public:
    /// Loads the graph, checks the files that the options name, and fills the
    /// inputs. What the options name, and `expected`, is not inside a partition.
    /// `extra_bytes` says how much more memory the caller will need.
    using memory_estimate = std::function<int64_t(const loaded_graph &)>;
    explicit session(const session_options &options,
            const std::vector<file_option> &expected = {},
            const memory_estimate &extra_bytes = {});

    const loaded_graph &graph() const { return graph_; }
    step_result execute(const graph_step &step);

    /// The values of a tensor in row-major order of its dims.
    std::vector<double> values_of(size_t id) const;
    /// Whether the tensor has memory: all but inputs whose data no op reads and
    /// what is inside a partition.
    bool has_values(size_t id) const { return memory_.contains(id); }

    /// Writes the files of --output and --image: all, or none where one fails.
    void write_outputs() const;

    /// Throws unless the file holds the shape of tensor `id`; `option` is the
    /// one that named it.
    void check_shape(const std::string &option, const file_option &given) const;

private:
    void check_options() const;
    void allocate();
    void fill(size_t id, const graph_tensor &tensor);
    void fill_from_file(const graph_tensor &tensor, const file_option &given);
    const graph_tensor &tensor_of(
            const std::string &option, const file_option &given) const;

    std::vector<file_option> inputs_;
    std::vector<file_option> outputs_;
    std::vector<file_option> images_;
    loaded_graph graph_;
    uint64_t seed_;
    stream stream_;
    std::map<size_t, tensor_memory> memory_;
};

} // namespace gradnn::driver
