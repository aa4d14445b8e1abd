// Breaks files.
#pragma once

#include <string>

#include "support/random.hpp"

namespace gradnn::fuzz {

/// Changes a few places: bytes flipped, ranges removed or repeated, numbers
/// replaced by awkward ones, the end cut off.
std::string broken_text(test::random_source &numbers, std::string text);

} // namespace gradnn::fuzz
