// Files of the graphs that a program builds: set_graph_dump and the environment
// variable GRADNN_GRAPH_DUMP.
#pragma once

#include "compile/executable.hpp"
#include "compile/partition.hpp"

namespace gradnn::detail {

/// Writes a finalized graph where dumps are asked for. Failures go to the log.
void dump_graph(const graph_impl &graph) noexcept;

/// The same for a partition, with the shapes and layouts of a compilation: one
/// that was made without a graph, or any where those are asked for. The same
/// content is written once.
void dump_partition(const partition_impl &partition,
        const compiled_impl &compiled) noexcept;

} // namespace gradnn::detail
