// Which oneDNN this build runs on, for `gradnn info`.
#pragma once

#include <string>

namespace gradnn::cpu {

/// The version of the oneDNN library that is loaded ("3.2.0"); "none" in a
/// build without oneDNN.
std::string onednn_version();

} // namespace gradnn::cpu
