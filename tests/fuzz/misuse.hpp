// Misuse of the API: every mistake must end in a gradnn::error that says what
// is wrong, with the outputs as they were.
#pragma once

#include <string>

#include "tensors.hpp"

namespace gradnn::fuzz {

/// One random mistake, or several threads at once without one. What went
/// wrong, or an empty text.
std::string check_misuse(random_source &numbers, const engine &e);

} // namespace gradnn::fuzz
