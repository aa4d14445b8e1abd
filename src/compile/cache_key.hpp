// What tells compiled partitions apart.
#pragma once

#include <string>
#include <vector>

#include <gradnn/engine.hpp>

#include "kernel/kernel.hpp"
#include "op/checked_op.hpp"

namespace gradnn::detail {

/// The bytes of all that decides what is compiled, and no names. `owner` is
/// engine_impl::cache_owner; `tensors` are those of `ops`, laid out.
std::string cache_key(const std::vector<checked_op> &ops,
        const std::vector<logical_tensor> &tensors, engine::kind kind,
        size_t owner, const compile_options &options);

} // namespace gradnn::detail
