// Op kinds and attributes by name.
#pragma once

#include <optional>
#include <string_view>

#include <gradnn/op.hpp>

namespace gradnn::detail {

/// As to_string writes it; nothing for other names.
std::optional<op::kind> kind_named(std::string_view name);
std::optional<op::attr> attr_named(std::string_view name);

} // namespace gradnn::detail
