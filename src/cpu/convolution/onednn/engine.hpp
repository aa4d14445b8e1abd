// The process's one oneDNN CPU engine.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>

namespace gradnn::cpu::onednn {

/// Throws dnnl::error where oneDNN has no CPU engine.
inline const dnnl::engine &cpu_engine() {
    static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    return engine;
}

} // namespace gradnn::cpu::onednn
