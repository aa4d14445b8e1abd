// Chains of ops in which each takes what the one before it made, and graphs
// executed partition by partition.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <gradnn/graph.hpp>

#include "op_builders.hpp"

namespace gradnn::test {

/// The op with another id and other tensors.
op with_ports(const op &like, size_t id, std::vector<logical_tensor> inputs,
        std::vector<logical_tensor> outputs);

/// An op of the chain; Add may take the gradient as either operand.
struct link {
    op::kind kind;
    size_t add_port = 0;
};

/// Of the first op's tensors.
struct chain_shape {
    int64_t images = 2;
    int64_t channels = 4;
    sizes space {8, 12};
    bool depthwise = false; ///< whether convolutions are
    int64_t stride = 1; ///< of convolutions
};

/// Ops 0, 1, ..., tensors numbered from 0: convolutions and elementwise ops keep the size,
/// interpolations halve it. The tensor between two ops is the first one's output 0.
std::vector<op> chain_of(const std::vector<link> &links, const layout &l,
        data_type type, chain_shape shape = {});

/// The chains of the table in src/graph/grouping.cpp, each with its name.
struct named_chain {
    std::string name;
    std::vector<link> links;
};
const std::vector<named_chain> &grouped_chains();

/// A finalized graph; `threads` as compile_settings has it.
graph graph_of(const std::vector<op> &ops, engine::kind kind, int threads = 0);

/// A graph compiled and executed once, partition after partition.
class graph_run {
public:
    /// `infinite`: inputs that have some infinite elements. Tensors lie `offset` bytes
    /// after a multiple of 64.
    graph_run(const std::vector<op> &ops, const engine &e,
            partition::policy policy, int threads = 0,
            std::set<size_t> infinite = {}, size_t offset = 0);

    /// The bits of a tensor that a partition gave.
    std::vector<std::byte> bytes(size_t id) const;
    std::vector<double> values(size_t id) const;
    /// What was written outside of elements; empty if nothing was.
    std::string damage() const;
    /// Tensors that partitions gave.
    std::vector<size_t> outputs() const;
    const std::vector<partition> &partitions() const { return partitions_; }
    const std::vector<compiled_partition> &compiled() const {
        return compiled_;
    }
    /// A partition's tensors, for another execution.
    std::vector<tensor> inputs_of(size_t index) const;
    std::vector<tensor> outputs_of(size_t index) const;

private:
    test_tensor &tensor_of(const logical_tensor &lt, bool computed);
    std::vector<tensor> tensors(const std::vector<logical_tensor> &ports) const;

    engine engine_;
    std::set<size_t> infinite_;
    size_t offset_;
    std::vector<partition> partitions_;
    std::vector<compiled_partition> compiled_;
    std::map<size_t, std::unique_ptr<test_tensor>> tensors_;
    std::vector<size_t> outputs_;
};

/// All that one partition gives is as right as its ops one by one are.
void expect_right(const graph_run &run, const std::vector<op> &ops);

/// The bits of all that a partition of several ops gives are those of its ops one by one,
/// or where it does not say so are as right.
compiled_partition_info expect_same_bits(
        const std::vector<op> &ops, const engine &e, int threads = 0);

} // namespace gradnn::test
