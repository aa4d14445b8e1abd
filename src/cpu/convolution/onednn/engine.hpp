// The process's one oneDNN CPU engine.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>

namespace gradnn::cpu::onednn {

/// Throws dnnl::error where oneDNN has no CPU engine.
const dnnl::engine &cpu_engine();

} // namespace gradnn::cpu::onednn
