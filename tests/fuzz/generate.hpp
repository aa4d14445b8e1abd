// Random problems.
#pragma once

#include <string>

#include "tensors.hpp"

namespace gradnn::fuzz {

/// What problems are drawn from.
struct generator_options {
    engine::kind device = engine::kind::cpu;
    /// A part of an op kind's name in lower case: such ops alone. Empty: all.
    std::string ops;
    /// Multiplies the work of the largest problems.
    double scale = 1;
};

/// The source of a problem's numbers, from seed and index alone.
random_source numbers_of(uint64_t seed, uint64_t index);

/// A graph of ops that the library must take (or may_refuse is set).
problem generate(random_source &numbers, const generator_options &options);

// The parts of generate().

/// Builds a graph: gives out tensor ids, and keeps the ops.
class graph_builder {
public:
    graph_builder(random_source &numbers, data_type type)
        : numbers_(numbers), type_(type) {}

    random_source &numbers() { return numbers_; }
    data_type type() const { return type_; }
    /// f32 at times, where data are in 16 bits.
    data_type gradient_type();
    const std::string &data_format() const { return data_format_; }
    void set_data_format(const std::string &name) { data_format_ = name; }

    logical_tensor input(const dims &shape);
    logical_tensor output(const dims &shape);
    logical_tensor output(const dims &shape, data_type type);
    logical_tensor shape_input(size_t count);
    op &add(op::kind kind, const std::vector<logical_tensor> &inputs,
            const std::vector<logical_tensor> &outputs);

    /// N, C and spatial dims in the order of the data format.
    dims data_dims(int64_t n, int64_t c, const dims &space) const;
    int64_t channels(const dims &shape) const;
    dims space(const dims &shape) const;

    problem result;

private:
    random_source &numbers_;
    data_type type_;
    std::string data_format_ = "NXC";
    size_t next_tensor_ = 0;
};

/// Each adds one op. `diff_dst` is a tensor that the op takes as its gradient,
/// or null where it makes its own; they return the gradient that goes on, or
/// an absent tensor where there is none. Kinds that do not go on (gradients of
/// weights alone) are drawn only without diff_dst.
logical_tensor add_convolution(graph_builder &graph, op::kind kind,
        const logical_tensor *diff_dst, int64_t most_work);
logical_tensor add_interpolation(graph_builder &graph,
        const logical_tensor *diff_dst, int64_t most_elements);
logical_tensor add_elementwise(
        graph_builder &graph, op::kind kind, const logical_tensor *diff_dst);
void add_bias(graph_builder &graph, const logical_tensor *diff_dst,
        int64_t most_elements);

/// Interpolate, ConvBackward and InterpolateBackward of one upsampling by whole
/// ratios, or what there is of them.
void add_upsampled_convolution(graph_builder &graph);

bool is_convolution(op::kind kind);
bool is_transposed(op::kind kind);

} // namespace gradnn::fuzz
