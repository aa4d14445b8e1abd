// An op after its check: what shapes, lowering, the cache's key and the
// program read.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include <gradnn/op.hpp>

#include "kernel/problem.hpp"
#include "op/op_schema.hpp"

namespace gradnn::detail {

enum class data_format { ncx, nxc };

/// OIX and IOX are channels_first, XIO and XOI spatial_first.
enum class weights_format { channels_first, spatial_first };

enum class padding_rule { none, same_upper, same_lower, valid };

enum class scale_rule { shape_ratio, given, ratios };

/// The attributes of all op kinds. Those that a kind does not have keep their
/// defaults. A list is empty where the attribute is absent; its values are
/// those of op_description::identity.
struct op_attributes {
    interpolation_mode mode = interpolation_mode::linear;
    coordinate_mode coordinates = coordinate_mode::half_pixel;
    coordinate_arithmetic arithmetic = coordinate_arithmetic::exact;
    detail::scale_rule scale_rule = detail::scale_rule::shape_ratio;
    std::span<const int64_t> sizes;
    std::span<const float> scales;
    std::span<const double> ratios;
    float cubic_coeff_a = -0.75F;
    bool antialias = false;
    bool exclude_outside = false;

    std::span<const int64_t> strides;
    std::span<const int64_t> dilations;
    std::span<const int64_t> pads_begin;
    std::span<const int64_t> pads_end;
    std::span<const int64_t> output_padding;
    std::span<const int64_t> dst_shape;
    std::span<const int64_t> weights_shape;
    padding_rule auto_pad = padding_rule::none;
    int64_t groups = 1;
    detail::data_format data_format = detail::data_format::nxc;
    detail::weights_format weights_format
            = detail::weights_format::spatial_first;

    bool numpy_broadcast = false;
    bool use_dst = true;
};

/// What an op is, whatever its tensors: made once by the check, shared by the
/// graph, its partitions and what they are compiled to, and never changed.
struct op_description {
    op_description(op the_op, const op_schema *its_schema)
        : identity(std::move(the_op)), schema(its_schema) {}
    // The lists of attributes are those of identity.
    op_description(const op_description &) = delete;
    op_description &operator=(const op_description &) = delete;
    ~op_description() = default;

    /// Id, kind, name and attributes, defaults filled in and strings in the
    /// schema's case; no ports.
    op identity;
    /// Null for an op that gradnn cannot compute.
    const op_schema *schema;
    op_attributes attributes;
};

/// A port: the index-th input or output.
struct port_reference {
    bool output = false;
    size_t index = 0;
};

/// An op with its tensors. There is a port for each row of the schema; optional
/// ones that are absent are logical_tensor().
struct checked_op {
    std::shared_ptr<const op_description> what;
    std::vector<logical_tensor> inputs;
    std::vector<logical_tensor> outputs;

    const op &identity() const { return what->identity; }
    const op_schema &schema() const { return *what->schema; }
    const op_attributes &attributes() const { return what->attributes; }

    const logical_tensor &port(port_reference which) const {
        return (which.output ? outputs : inputs)[which.index];
    }
    const port_row &row(port_reference which) const {
        return (which.output ? schema().outputs : schema().inputs)[which.index];
    }
};

/// Calls body(port_reference) for each row of the schema, inputs first.
template <typename Body>
void for_each_port(const checked_op &the_op, const Body &body) {
    for (size_t index = 0; index < the_op.inputs.size(); ++index)
        body(port_reference {false, index});
    for (size_t index = 0; index < the_op.outputs.size(); ++index)
        body(port_reference {true, index});
}

/// The op with its ports as a dump writes it.
op op_of(const checked_op &the_op);

/// An op that cannot be compiled, for the log: as it is given, its attributes
/// not read.
checked_op unchecked(const op &the_op);

} // namespace gradnn::detail
