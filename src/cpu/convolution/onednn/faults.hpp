// Which of oneDNN's implementations are wrong, and for which convolutions.
#pragma once

#include "cpu/convolution/onednn/geometry.hpp"
#include "cpu/convolution/onednn/implementation.hpp"

namespace gradnn::cpu::onednn {

/// Whether the implementation, in its layouts, is known to compute wrong values
/// for the problem, to write outside of its memory, or to end the process.
bool is_faulty(const geometry &problem, const implementation &found);

} // namespace gradnn::cpu::onednn
