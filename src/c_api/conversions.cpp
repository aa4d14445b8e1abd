#include "c_api/conversions.hpp"

#include <cstring>
#include <vector>

#include "base/text.hpp"
#include "c_api/fence.hpp"
#include "compile/compile_settings.hpp"
#include "kernel/engine_impl.hpp"
#include "op/op_names.hpp"

namespace gradnn::c_api {

using detail::access;
using detail::text;

static_assert(gradnn_invalid_data_type
        == static_cast<int>(status::invalid_data_type));
static_assert(
        gradnn_boolean == static_cast<int>(logical_tensor::data_type::boolean));
static_assert(gradnn_layout_strided
        == static_cast<int>(logical_tensor::layout_type::strided));
static_assert(gradnn_fpmath_tf32 == static_cast<int>(fpmath_mode::tf32));
static_assert(gradnn_gpu == static_cast<int>(engine::kind::gpu));
static_assert(GRADNN_UNKNOWN_DIM == logical_tensor::unknown_dim);
static_assert(GRADNN_MAX_NDIMS == logical_tensor::max_ndims);

logical_tensor tensor_of(
        const gradnn_tensor &given, size_t id, const char *list, size_t index) {
    if (given.data_type == gradnn_undef) return {};
    const auto name
            = [&] { return text("gradnn_compile: ", list, " ", index); };
    if (given.data_type < 0 || given.data_type > gradnn_boolean)
        refuse(text(name(), ": its data_type is ", given.data_type, "; 0 to ",
                static_cast<int>(gradnn_boolean), " are allowed"));
    if (given.ndims < -1 || given.ndims > GRADNN_MAX_NDIMS)
        refuse(text(name(), ": its ndims is ", given.ndims, "; -1 to ",
                GRADNN_MAX_NDIMS, " are allowed"));
    if (given.layout < gradnn_layout_undef
            || given.layout > gradnn_layout_strided)
        refuse(text(name(), ": its layout is ", given.layout, "; 0 to ",
                static_cast<int>(gradnn_layout_strided), " are allowed"));
    const auto type = static_cast<logical_tensor::data_type>(given.data_type);
    const auto layout = static_cast<logical_tensor::layout_type>(given.layout);
    if (given.ndims < 0) return {id, type, layout};
    const logical_tensor::dims dims(given.dims, given.dims + given.ndims);
    if (layout != logical_tensor::layout_type::strided)
        return {id, type, dims, layout};
    return {id, type, dims,
            logical_tensor::dims(given.strides, given.strides + given.ndims)};
}

gradnn_tensor description_of(const logical_tensor &lt) {
    gradnn_tensor result {};
    result.data_type = static_cast<int32_t>(lt.get_data_type());
    result.layout = static_cast<int32_t>(lt.get_layout_type());
    result.ndims = access::ndims(lt);
    for (size_t axis = 0; axis < static_cast<size_t>(result.ndims); ++axis) {
        result.dims[axis] = access::dims(lt)[axis];
        result.strides[axis] = access::strides(lt)[axis];
    }
    return result;
}

namespace {

template <typename Element>
std::vector<Element> list_of(const gradnn_attr &attr) {
    const auto *values = static_cast<const Element *>(attr.value);
    return {values, values + attr.count};
}

/// A copy in which members that the caller's header does not have yet hold
/// their defaults.
gradnn_settings settings_of(const gradnn_settings *given) {
    gradnn_settings result;
    gradnn_settings_init(&result);
    if (!given) return result;
    if (given->struct_size < sizeof(size_t)
            || given->struct_size > sizeof(gradnn_settings))
        refuse(text("gradnn_settings: struct_size is ", given->struct_size,
                "; this library's is ", sizeof(gradnn_settings),
                ": call gradnn_settings_init first"));
    std::memcpy(&result, given, given->struct_size);
    return result;
}

} // namespace

void set_attribute(op &the_op, const gradnn_attr &attr) {
    const auto name = detail::attr_named(
            &given(attr.name, "gradnn_op_create", "an attribute's name"));
    if (!name)
        throw error(status::invalid_graph_op,
                text(to_string(the_op.get_kind()), ": attribute \"", attr.name,
                        "\" is unknown"));
    const bool list = attr.type == gradnn_attr_s64_list
            || attr.type == gradnn_attr_f32_list
            || attr.type == gradnn_attr_f64_list;
    if (!attr.value && !(list && attr.count == 0))
        refuse(text("gradnn_op_create: the value of attribute ", attr.name,
                " is null"));
    switch (attr.type) {
        case gradnn_attr_s64:
            the_op.set_attr(*name, *static_cast<const int64_t *>(attr.value));
            return;
        case gradnn_attr_f32:
            the_op.set_attr(*name, *static_cast<const float *>(attr.value));
            return;
        case gradnn_attr_bool:
            the_op.set_attr(
                    *name, *static_cast<const int32_t *>(attr.value) != 0);
            return;
        case gradnn_attr_string:
            the_op.set_attr(*name, static_cast<const char *>(attr.value));
            return;
        case gradnn_attr_s64_list:
            the_op.set_attr(*name, list_of<int64_t>(attr));
            return;
        case gradnn_attr_f32_list:
            the_op.set_attr(*name, list_of<float>(attr));
            return;
        case gradnn_attr_f64_list:
            the_op.set_attr(*name, list_of<double>(attr));
            return;
        default: break;
    }
    refuse(text("gradnn_op_create: attribute ", attr.name, " has type ",
            attr.type, "; 0 to ", static_cast<int>(gradnn_attr_f64_list),
            " are allowed"));
}

void apply_settings(
        detail::partition_impl &partition, const gradnn_settings *callers) {
    const gradnn_settings given = settings_of(callers);
    if (given.fpmath < gradnn_fpmath_strict
            || given.fpmath > gradnn_fpmath_tf32)
        refuse(text("gradnn_settings: fpmath is ", given.fpmath, "; 0 to ",
                static_cast<int>(gradnn_fpmath_tf32), " are allowed"));
    partition.fpmath = static_cast<fpmath_mode>(given.fpmath);
    partition.deterministic = given.deterministic != 0;
    compile_settings &settings = partition.settings;
    settings.threads = given.threads;
    if (given.kernels) settings.kernels = given.kernels;
    if (given.autotune >= 0) settings.autotune = given.autotune != 0;
    if (given.plan_cache) settings.plan_cache = given.plan_cache;
    if (given.convolution_workspace_limit >= 0)
        settings.convolution_workspace_limit
                = static_cast<size_t>(given.convolution_workspace_limit);
    if (given.specialise >= 0) settings.specialise = given.specialise != 0;
    if (given.kernel_cache) settings.kernel_cache = given.kernel_cache;
    detail::check_settings(settings);
}

} // namespace gradnn::c_api
