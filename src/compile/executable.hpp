// What a partition becomes when it is compiled.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <gradnn/graph.hpp>

#include "compile/log_text.hpp"
#include "kernel/kernel.hpp"
#include "op/checked_op.hpp"

namespace gradnn::detail {

/// A port of an executable; the ids of the caller's tensors are not in it, so
/// that equal partitions share one executable.
struct executable_port {
    /// With its shape and layout complete; its id is the first caller's.
    logical_tensor lt;
    bool output = false;
    /// Whether a step reads or writes its data.
    bool used = false;
    /// Bytes from the first element to the end of the last.
    size_t extent = 0;
    /// An s32 shape input in host memory, which must hold these values.
    bool is_shape = false;
    std::vector<int64_t> expected;
};

/// What is said of a kernel of the list.
struct kernel_remark {
    const char *kernel;
    std::string text;
};

/// In how many slices a partition's ops are computed (slices.hpp): of images, axis
/// 0, and of channels of each.
struct slicing {
    int64_t images = 1;
    int64_t channels = 1;
    size_t channel_axis = 0;
    /// Whether a convolution is cut: oneDNN's bits of an image depend on how many it
    /// computes at once.
    bool convolves = false;

    int64_t count() const { return images * channels; }
};

/// Bytes from a slice of an argument to the next.
struct slice_stride {
    int64_t image = 0;
    int64_t channel = 0;
};

/// A plan, of the first slice, and where its arguments come from. Steps run one
/// after the other, for each slice in turn, and share their scratch.
struct executable_step {
    const char *kernel = nullptr;
    std::unique_ptr<detail::plan> plan;
    /// Indices of ports, then of inner tensors, then of those that are made.
    std::vector<size_t> arguments;
    std::vector<slice_stride> strides; ///< of the arguments
    size_t op = 0; ///< index of the op that it belongs to
    size_t output = 0; ///< index of the op's output that it computes
    /// What it makes where that is none of them.
    const char *makes = nullptr;
    std::vector<kernel_remark> refusals; ///< of other kernels, with the reasons
    std::vector<kernel_remark> timings; ///< of this and others, where measured
};

/// Immutable; shared by compiled partitions and by the cache.
struct executable {
    std::vector<executable_port> ports; ///< inputs, then outputs
    std::vector<executable_step> steps;
    slicing slices;
    /// Pairs of ports (input, output) that may be the same memory.
    std::vector<std::pair<size_t, size_t>> inplace;
    /// The workspace begins with the inner tensors and those that a composition
    /// makes, whose offsets these are; the steps' scratch is behind them.
    std::vector<size_t> inner;
    std::vector<logical_tensor> made; ///< by a composition (composed.hpp)
    bool composed = false; ///< no inner tensor is made
    bool fused = false; ///< one step computes several ops (fused.hpp)
    size_t inner_bytes = 0;
    size_t workspace_bytes = 0; ///< with inner_bytes
    /// Of host and device memory that the steps' plans keep in tables.
    size_t table_bytes = 0;
    engine::kind engine_kind = engine::kind::any;
    size_t engine_index = 0;
    int threads = 1; ///< of an engine on the host
};

/// An executable and the caller's names for its ports.
struct compiled_impl {
    std::shared_ptr<const executable> program;
    std::vector<logical_tensor> ports; ///< with ids; inputs, then outputs
    std::vector<logical_tensor> inner; ///< with ids; those within the partition
    std::vector<checked_op> ops; ///< for messages and the log
    size_t partition_id = 0;
    size_t id = 0; ///< unique in the process
    /// What a profiler calls each step; empty where none listens.
    std::vector<std::string> range_names;
    /// Of a step of the program; null where none listens.
    const char *range_name(const executable_step &step) const {
        if (range_names.empty()) return nullptr;
        return range_names[static_cast<size_t>(&step - program->steps.data())]
                .c_str();
    }

    /// The tensor of a step's argument.
    const logical_tensor &tensor_of(size_t argument) const {
        if (argument < ports.size()) return ports[argument];
        argument -= ports.size();
        return argument < inner.size() ? inner[argument]
                                       : program->made[argument - inner.size()];
    }

    /// What log lines have in common, made when the first one is written.
    const log_line &common_line() const {
        std::call_once(line_made_, [this] { line_ = compiled_line(*this); });
        return line_;
    }

private:
    mutable std::once_flag line_made_;
    mutable log_line line_;
};

} // namespace gradnn::detail
