#include "op/op_check.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "kernel/problem.hpp"
#include "op/labels.hpp"
#include "op/op_attributes.hpp"
#include "op/op_names.hpp"
#include "op/shapes.hpp"
#include "tensor/layout.hpp"

namespace gradnn::detail {

namespace {

using layout_type = logical_tensor::layout_type;

void check_port_count(const op &the_op, const char *what, size_t given,
        std::span<const port_row> rows) {
    if (given > rows.size())
        fail_op(the_op,
                text("has ", given, " ", what, "s; at most ", rows.size(),
                        " are allowed"));
}

bool is_float(data_type type) {
    return type == data_type::f32 || type == data_type::bf16
            || type == data_type::f16 || type == data_type::f64;
}

/// `common` is the type of input 0.
void check_type(
        const checked_op &the_op, port_reference port, data_type common) {
    const data_type given = the_op.port(port).get_data_type();
    const port_role role = the_op.row(port).role;
    if (!port.output && port.index == 0 && !is_float(common))
        fail_type(the_op,
                text(port_label(the_op, port), " is ", to_string(common),
                        "; f32, bf16, f16, f64 are allowed"));
    if (role == port_role::shape) {
        if (given != data_type::s32)
            fail_type(the_op,
                    text(port_label(the_op, port), " is ", to_string(given),
                            "; s32 is allowed"));
        return;
    }
    const bool half = common == data_type::bf16 || common == data_type::f16;
    const bool master = port.output
            && (role == port_role::weights || role == port_role::bias);
    if (given == common || (half && master && given == data_type::f32)) return;
    fail_type(the_op,
            text(port_label(the_op, port), " is ", to_string(given), "; ",
                    to_string(common), half && master ? " or f32" : "",
                    " is allowed, as input 0 is ", to_string(common)));
}

void check_dims(const checked_op &the_op, port_reference port) {
    const logical_tensor &lt = the_op.port(port);
    const port_role role = the_op.row(port).role;
    const std::span<const int64_t> dims = dims_of(lt);
    const auto rank = static_cast<int>(dims.size());
    const bool flat = role == port_role::shape || role == port_role::bias;
    const int least = flat ? 1 : the_op.schema().min_rank;
    const int most = flat ? 1 : the_op.schema().max_rank;
    if (rank < least || rank > most)
        fail_shape(the_op,
                text(port_label(the_op, port), " has ", rank, " dims ",
                        text_of(dims), "; ",
                        least == most ? text(least) : text(least, " to ", most),
                        " are allowed"));
    for (const int64_t dim : dims)
        if (dim < 0 && dim != logical_tensor::unknown_dim)
            fail_shape(the_op,
                    text(port_label(the_op, port), " has dims ", text_of(dims),
                            "; none may be negative"));
}

/// Strides of a tensor whose dims are known, dense ones where it has none.
void check_extent(const checked_op &the_op, port_reference port) {
    const logical_tensor &lt = the_op.port(port);
    const logical_tensor::dims dims = lt.get_dims();
    if (lt.get_layout_type() != layout_type::strided) {
        if (!extent_bytes(lt.get_data_type(), dims, dense_strides(dims)))
            fail_shape(the_op,
                    text(port_label(the_op, port), " has dims ", text_of(dims),
                            ", more bytes than 63 bits can count"));
        return;
    }
    const logical_tensor::dims strides = lt.get_strides();
    for (const int64_t stride : strides)
        if (stride < 0)
            fail_shape(the_op,
                    text(port_label(the_op, port), " has strides ",
                            text_of(strides),
                            "; none may be negative or unknown"));
    if (!extent_bytes(lt.get_data_type(), dims, strides))
        fail_shape(the_op,
                text(port_label(the_op, port), " has dims ", text_of(dims),
                        " and strides ", text_of(strides),
                        ", more bytes than 63 bits can count"));
    if (port.output && elements_overlap(dims, strides))
        fail_shape(the_op,
                text(port_label(the_op, port), " has dims ", text_of(dims),
                        " and strides ", text_of(strides),
                        ": elements overlap, an output must not"));
}

/// Rank, dims and layout, as far as they are known.
void check_tensor(const checked_op &the_op, port_reference port) {
    const logical_tensor &lt = the_op.port(port);
    if (lt.get_layout_type() == layout_type::opaque)
        fail_op(the_op,
                port_label(the_op, port)
                        + " has an opaque layout; gradnn has none, only "
                          "strided tensors are allowed");
    if (!rank_known(lt)) return; // compile will know
    check_dims(the_op, port);
    if (dims_known(lt)) check_extent(the_op, port);
}

/// The rank of the data ports, which must agree; -1 where none is known.
int common_rank(const checked_op &the_op) {
    int rank = -1;
    port_reference from;
    for_each_port(the_op, [&](port_reference port) {
        const logical_tensor &lt = the_op.port(port);
        const port_role role = the_op.row(port).role;
        if (lt.is_absent() || !rank_known(lt) || role == port_role::shape
                || role == port_role::bias || broadcasts(the_op))
            return;
        const int given = static_cast<int>(dims_of(lt).size());
        if (rank >= 0 && given != rank)
            fail_shape(the_op,
                    text(port_label(the_op, port), " has ", given, " dims and ",
                            port_label(the_op, from), " ", rank,
                            ": they must agree"));
        rank = given;
        from = port;
    });
    return rank;
}

size_t length_of(const op::attr_value &value, attr_type type) {
    switch (type) {
        case attr_type::s64_list:
            return std::get<std::vector<int64_t>>(value).size();
        case attr_type::f32_list:
            return std::get<std::vector<float>>(value).size();
        case attr_type::f64_list:
            return std::get<std::vector<double>>(value).size();
        default: return 0;
    }
}

bool is_list(attr_type type) {
    return type == attr_type::s64_list || type == attr_type::f32_list
            || type == attr_type::f64_list;
}

/// Each list attribute has a value for each axis, or each spatial axis, of data
/// of `rank` dims.
void check_list_lengths(const checked_op &the_op, int rank) {
    const auto &attrs = the_op.identity().get_attrs();
    for (const attr_row &row : the_op.schema().attrs) {
        if (!is_list(row.type)) continue;
        const auto found = attrs.find(row.name);
        if (found == attrs.end()) continue;
        const bool all_axes = row.name == op::attr::dst_shape
                || row.name == op::attr::weights_shape;
        const auto needed = static_cast<size_t>(all_axes ? rank : rank - 2);
        const size_t given = length_of(found->second, row.type);
        if (given == needed) continue;
        // Real files carry longer lists of zeros.
        const auto list = the_op.attributes().output_padding;
        if (row.name == op::attr::output_padding && given > needed
                && std::all_of(list.begin(), list.end(),
                        [](int64_t value) { return value == 0; }))
            continue;
        fail_op(the_op,
                text("attribute ", to_string(row.name), " has ", given,
                        " values; ", needed, " are allowed for data of ", rank,
                        " dims"));
    }
}

} // namespace

void check_output(const checked_op &the_op, size_t index) {
    check_tensor(the_op, {true, index});
}

void check_ports(const checked_op &the_op) {
    for_each_port(the_op, [&](port_reference port) {
        if (the_op.port(port).is_absent()) {
            if (the_op.row(port).required)
                fail_op(the_op, port_label(the_op, port) + " is missing");
            return;
        }
        check_type(the_op, port, the_op.inputs[0].get_data_type());
        check_tensor(the_op, port);
    });
    if (std::all_of(the_op.outputs.begin(), the_op.outputs.end(),
                [](const logical_tensor &lt) { return lt.is_absent(); }))
        fail_op(the_op, "all outputs are absent; at least one must be present");
    const int rank = common_rank(the_op);
    if (rank >= 0) check_list_lengths(the_op, rank);
}

checked_op checked(const op &the_op) {
    return checked(the_op, the_op.get_inputs(), the_op.get_outputs());
}

checked_op checked(const op &the_op, std::vector<logical_tensor> inputs,
        std::vector<logical_tensor> outputs) {
    const op_schema *schema = find_schema(the_op.get_kind());
    if (!schema && kind_named(to_string(the_op.get_kind())))
        return {unchecked(the_op).what, std::move(inputs), std::move(outputs)};
    if (!schema)
        throw error(status::invalid_graph_op,
                text("op ", the_op.get_id(), ": its kind ",
                        static_cast<int>(the_op.get_kind()),
                        " is none of op::kind"));
    check_port_count(the_op, "input", inputs.size(), schema->inputs);
    check_port_count(the_op, "output", outputs.size(), schema->outputs);
    inputs.resize(schema->inputs.size());
    outputs.resize(schema->outputs.size());
    checked_op result {
            described(the_op, *schema), std::move(inputs), std::move(outputs)};
    check_ports(result);
    if (std::all_of(result.inputs.begin(), result.inputs.end(),
                [](const logical_tensor &lt) {
                    return lt.is_absent() || dims_known(lt);
                }))
        outputs_with_dims(result, false); // throws where they disagree
    return result;
}

} // namespace gradnn::detail
