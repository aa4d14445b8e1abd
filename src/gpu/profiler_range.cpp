// Ranges for profilers, by NVTX. It is headers alone: they look for a profiler
// at their first use. Some packages of the CUDA toolkit leave them out.
#include "gpu/backend.hpp"

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>

namespace gradnn::gpu {

namespace {

/// Null where no profiler listens.
nvtxDomainHandle_t domain() {
    static const nvtxDomainHandle_t the_domain = nvtxDomainCreateA("gradnn");
    return the_domain;
}

} // namespace

bool profiler_listens() {
    return domain() != nullptr;
}

void begin_range(const char *name) {
    nvtxEventAttributes_t event {};
    event.version = NVTX_VERSION;
    event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    event.messageType = NVTX_MESSAGE_TYPE_ASCII;
    event.message.ascii = name;
    nvtxDomainRangePushEx(domain(), &event);
}

void end_range() {
    nvtxDomainRangePop(domain());
}

} // namespace gradnn::gpu

#else

namespace gradnn::gpu {

bool profiler_listens() {
    return false;
}

void begin_range(const char *) {}

void end_range() {}

} // namespace gradnn::gpu

#endif
