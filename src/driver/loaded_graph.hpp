// A graph file, compiled: what run, check and bench start from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gradnn/graph.hpp>

#include "files/json_graph.hpp"

namespace gradnn::driver {

/// The options that run, check and bench share.
struct engine_options {
    std::string engine; ///< "", "cpu", "gpu" or "gpu:N"
    int threads = 0; ///< 0: as compile_settings has it
    bool nondeterministic = false;
    bool ungrouped = false; ///< each op is a partition of its own
};

/// A tensor of the graph. Its layout is known.
struct graph_tensor {
    logical_tensor lt;
    std::string path; ///< its first place in the file
    bool computed = false; ///< an op makes it
    bool consumed = false; ///< an op takes it
    bool read = false; ///< an op reads its data, not only its shape
    bool inner = false; ///< inside a partition, in its workspace
    /// For sizes, dst_shape and weights_shape: the only right values.
    std::vector<int64_t> shape_values;
};

/// A partition, compiled for the layouts of the graph's tensors.
struct graph_step {
    gradnn::partition partition;
    compiled_partition compiled;
    double compile_ms = 0; ///< of the host
    std::vector<size_t> ops; ///< indices in the file's "graph"
    std::vector<size_t> inputs; ///< tensor ids
    std::vector<size_t> outputs;

    /// "interpolation.separable"; of several steps, one after the other,
    /// "convolution.onednn+convolution.onednn+bias.reduce".
    std::string kernels() const;
    /// "oneDNN 3.2.0 (jit:avx512_core) + reorder, Highway AVX3": each once.
    std::string backends() const;
};

struct loaded_graph {
    detail::json_graph file;
    engine device;
    /// In the order of execution.
    std::vector<graph_step> steps;
    std::map<size_t, graph_tensor> tensors;
    /// A line for each op that gradnn cannot compute, End excepted.
    std::vector<std::string> skipped;

    /// An op of the file with the layouts of `tensors`.
    op known_op(size_t index) const;
    /// "ConvBackward+ReLUBackward".
    std::string op_kinds(const graph_step &step) const;
    /// The engine whose memory a tensor is in: shape inputs are in the host's.
    engine memory_engine(const graph_tensor &tensor) const;
    /// "cpu" or "gpu:0".
    std::string device_name() const;
    /// Bytes of all tensors outside of partitions and of the largest workspace.
    int64_t memory_need() const;
};

/// Reads, checks and compiles a graph; sets the number of threads. Ops that
/// gradnn cannot compute are skipped, with a line on stderr: their outputs are
/// inputs of the graph then, and their inputs its outputs. Memory for
/// tensors is not allocated, but a graph whose tensors need more than there is
/// is refused. The tensors that `wanted` names, and those that the file calls its
/// outputs, are not inside a partition. Throws input_error or usage_error.
loaded_graph load_graph(const std::string &file, const engine_options &options,
        std::set<size_t> wanted = {});

/// Throws input_error where `need` bytes are not available.
void want_memory(const loaded_graph &graph, int64_t need);

} // namespace gradnn::driver
