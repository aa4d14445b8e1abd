// Ranges for profilers, by NVTX. It is headers alone: they look for a profiler
// at their first use. Some packages of the CUDA toolkit leave them out.
#include "base/profiler_range.hpp"

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>

namespace gradnn::detail {

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

profiler_range::profiler_range(const char *name) : open_(name != nullptr) {
    if (!open_) return;
    nvtxEventAttributes_t event {};
    event.version = NVTX_VERSION;
    event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    event.messageType = NVTX_MESSAGE_TYPE_ASCII;
    event.message.ascii = name;
    nvtxDomainRangePushEx(domain(), &event);
}

profiler_range::~profiler_range() {
    if (open_) nvtxDomainRangePop(domain());
}

} // namespace gradnn::detail

#else

namespace gradnn::detail {

bool profiler_listens() {
    return false;
}

profiler_range::profiler_range(const char *) : open_(false) {}

profiler_range::~profiler_range() = default;

} // namespace gradnn::detail

#endif
