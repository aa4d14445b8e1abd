// From the structs of the C API to the library's types and back.
#pragma once

#include <gradnn/c_api.h>
#include <gradnn/op.hpp>

#include "compile/partition.hpp"

namespace gradnn::c_api {

/// A tensor of gradnn_compile; `list` and `index` name it in messages.
logical_tensor tensor_of(
        const gradnn_tensor &given, size_t id, const char *list, size_t index);
gradnn_tensor description_of(const logical_tensor &lt);

void set_attribute(op &the_op, const gradnn_attr &attr);

/// Takes over what `given` says, which may be null.
void apply_settings(
        detail::partition_impl &partition, const gradnn_settings *given);

} // namespace gradnn::c_api
