#include "files/json_tensors.hpp"

#include <algorithm>
#include <optional>

#include "base/text.hpp"
#include "files/json_values.hpp"
#include "op/op_names.hpp"
#include "tensor/layout.hpp"

namespace gradnn::detail {

namespace {

using data_type = logical_tensor::data_type;
using layout_type = logical_tensor::layout_type;
using property_type = logical_tensor::property_type;
using dims = logical_tensor::dims;

constexpr named<data_type> data_types[] = {{"f32", data_type::f32},
        {"bf16", data_type::bf16}, {"f16", data_type::f16},
        {"f64", data_type::f64}, {"s32", data_type::s32}, {"s8", data_type::s8},
        {"u8", data_type::u8}, {"boolean", data_type::boolean},
        {"f8_e5m2", data_type::f8_e5m2}, {"f8_e4m3", data_type::f8_e4m3},
        {"s4", data_type::s4}, {"u4", data_type::u4}, {"s64", data_type::s64}};
constexpr named<layout_type> layout_types[] = {{"undef", layout_type::undef},
        {"any", layout_type::any}, {"strided", layout_type::strided},
        {"opaque", layout_type::opaque}};
constexpr named<property_type> property_types[] = {
        {"undef", property_type::undef}, {"variable", property_type::variable},
        {"constant", property_type::constant},
        {"host_scalar", property_type::host_scalar}};

/// Absent, "" and [UNKNOWN] (what oneDNN writes for a tensor whose dims it
/// does not know) mean that nothing is said.
bool says_nothing(const std::optional<json_node> &node) {
    if (!node || node->value().is_null()) return true;
    if (node->value().is_string()) return node->as_string().empty();
    return node->array_size() == 1
            && node->element(0).value().is_number_integer()
            && node->element(0).value() == logical_tensor::unknown_dim;
}

dims read_dims(const json_node &node) {
    const dims shape = read_int64s(node);
    if (shape.size() > size_t {logical_tensor::max_ndims})
        node.fail(text("has ", shape.size(), " dims; at most ",
                logical_tensor::max_ndims, " are allowed"));
    for (size_t axis = 0; axis < shape.size(); ++axis)
        if (shape[axis] < 0 && shape[axis] != logical_tensor::unknown_dim)
            node.element(axis).fail(text("given ", shape[axis],
                    "; no dim may be negative (an unknown one is written ",
                    logical_tensor::unknown_dim, ")"));
    return shape;
}

dims read_strides(const json_node &node, const dims &shape) {
    const dims strides = read_int64s(node);
    if (strides.size() != shape.size())
        node.fail(text("has ", strides.size(), " strides for ", shape.size(),
                " dims"));
    for (size_t axis = 0; axis < strides.size(); ++axis)
        if (strides[axis] < 0)
            node.element(axis).fail(text(
                    "given ", strides[axis], "; no stride may be negative"));
    return strides;
}

} // namespace

logical_tensor read_tensor(const json_node &node) {
    if (node.value().is_null()) return {};
    node.want_object();
    const size_t id = node.at("id").as_id();
    const data_type type = chosen(node.at("dtype"), data_types);
    const auto layout_node = node.find("layout_type");
    const auto property_node = node.find("property_type");
    const layout_type layout = layout_node ? chosen(*layout_node, layout_types)
                                           : layout_type::strided;
    const property_type property = property_node
            ? chosen(*property_node, property_types)
            : property_type::undef;
    if (layout == layout_type::opaque)
        layout_node->fail("gradnn has no opaque layouts; allowed are strided, "
                          "any, undef");

    const json_node shape_node = node.at("shape");
    // What is not known yet is left to the library, layout included.
    const layout_type open
            = layout == layout_type::strided ? layout_type::any : layout;
    if (says_nothing(shape_node)) return {id, type, -1, open, property};
    const dims shape = read_dims(shape_node);
    if (std::find(shape.begin(), shape.end(), logical_tensor::unknown_dim)
            != shape.end())
        return {id, type, shape, open, property};

    const auto stride_node = node.find("stride");
    const bool given
            = layout == layout_type::strided && !says_nothing(stride_node);
    const dims strides
            = given ? read_strides(*stride_node, shape) : dense_strides(shape);
    const bool dense_fits = std::find(strides.begin(), strides.end(),
                                    logical_tensor::unknown_dim)
            == strides.end();
    if (!dense_fits || !extent_bytes(type, shape, strides))
        (given ? *stride_node : shape_node)
                .fail(text(given ? text_of(strides) : text_of(shape),
                        " reaches beyond 2^63 bytes"));
    if (layout != layout_type::strided)
        return {id, type, shape, layout, property};
    return {id, type, shape, strides, property};
}

void tensor_register::add(
        const logical_tensor &lt, const json_node &node, bool output) {
    if (lt.is_absent()) return;
    if (output) {
        const auto [known, fresh]
                = producers_.emplace(lt.get_id(), node.path());
        if (!fresh)
            node.at("id").fail(text("tensor ", lt.get_id(),
                    " is an output already, at ", known->second));
    }
    const auto [known, fresh]
            = tensors_.emplace(lt.get_id(), entry {lt, node.path()});
    if (fresh) return;
    entry &before = known->second;
    if (lt.get_data_type() != before.lt.get_data_type())
        node.at("dtype").fail(text("tensor ", lt.get_id(), " is ",
                to_string(lt.get_data_type()), " here and ",
                to_string(before.lt.get_data_type()), " at ", before.path));
    compare_shapes(lt, before, node);
    // Keep the description that says more.
    if (!dims_known(before.lt)
            || before.lt.get_layout_type() != layout_type::strided)
        if (dims_known(lt)) before = {lt, node.path()};
}

void tensor_register::compare_shapes(
        const logical_tensor &lt, const entry &before, const json_node &node) {
    if (!dims_known(lt) || !dims_known(before.lt)) return;
    const dims shape = lt.get_dims();
    if (shape != before.lt.get_dims())
        node.at("shape").fail(text("tensor ", lt.get_id(), " has shape ",
                text_of(shape), " here and ", text_of(before.lt.get_dims()),
                " at ", before.path));
    if (lt.get_layout_type() != layout_type::strided
            || before.lt.get_layout_type() != layout_type::strided)
        return;
    const dims strides = lt.get_strides();
    for (size_t axis = 0; axis < shape.size(); ++axis)
        if (shape[axis] > 1 && strides[axis] != before.lt.get_strides()[axis])
            node.fail(text("tensor ", lt.get_id(), " has strides ",
                    text_of(strides), " here and ",
                    text_of(before.lt.get_strides()), " at ", before.path));
}

} // namespace gradnn::detail
