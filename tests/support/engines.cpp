#include "engines.hpp"

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <new>

#include "cpu/kernels.hpp"

namespace gradnn::test {

namespace {

std::map<engine::kind, backend> &registry() {
    static std::map<engine::kind, backend> backends {{engine::kind::cpu,
            {[](size_t bytes, size_t) -> void * {
                 // The size as it is, so that a sanitizer sees its end.
                 return ::operator new (bytes, std::align_val_t {64});
             },
                    [](void *pointer, size_t) {
                        ::operator delete (pointer, std::align_val_t {64});
                    },
                    [](void *to, const void *from, size_t bytes, size_t) {
                        std::memcpy(to, from, bytes);
                    },
                    [](void *to, const void *from, size_t bytes, size_t) {
                        std::memcpy(to, from, bytes);
                    },
                    cpu::kernels}}};
    return backends;
}

} // namespace

bool register_backend(engine::kind kind, const backend &functions) {
    registry()[kind] = functions;
    return true;
}

const backend &backend_of(engine::kind kind) {
    return registry().at(kind);
}

std::vector<engine::kind> engine_kinds() {
    std::vector<engine::kind> kinds;
    for (const auto &[kind, functions] : registry())
        if (engine::get_count(kind) > 0) kinds.push_back(kind);
    return kinds;
}

engine shared_engine(engine::kind kind) {
    static std::mutex mutex;
    static std::map<engine::kind, engine> engines;
    const std::lock_guard lock(mutex);
    engine &e = engines[kind];
    if (!e) e = engine(kind, 0);
    return e;
}

std::vector<std::string> kernel_names(
        engine::kind kind, const std::string &problem, bool last_resorts) {
    const detail::kernel_lists &lists = backend_of(kind).kernels();
    std::vector<std::string> names;
    const auto add = [&](const char *of, const auto &list) {
        if (problem != of) return;
        for (const auto &kernel : list)
            if (last_resorts || !kernel.last_resort)
                names.emplace_back(kernel.name);
    };
    add("interpolation", lists.interpolation);
    add("convolution", lists.convolution);
    add("bias", lists.bias);
    add("elementwise", lists.elementwise);
    return names;
}

std::string kernels_that_begin(engine::kind kind, const std::string &problem,
        const std::string &beginning) {
    std::string names;
    for (const std::string &name : kernel_names(kind, problem))
        if (name.starts_with(beginning))
            names += (names.empty() ? "" : ",") + name;
    return names;
}

device_memory::device_memory(const engine &e, size_t bytes, size_t offset)
    : engine_(e), bytes_(bytes), offset_(offset) {
    const backend &functions = backend_of(e.get_kind());
    memory_ = std::shared_ptr<void>(
            functions.allocate(bytes + offset, e.get_index()),
            [free = functions.deallocate, device = e.get_index()](
                    void *pointer) { free(pointer, device); });
}

void *device_memory::data() const {
    return static_cast<std::byte *>(memory_.get()) + offset_;
}

void device_memory::write(const void *from_host) {
    if (bytes_ == 0) return;
    backend_of(engine_.get_kind())
            .copy_in(data(), from_host, bytes_, engine_.get_index());
}

void device_memory::read(void *to_host) const {
    if (bytes_ == 0) return;
    backend_of(engine_.get_kind())
            .copy_out(to_host, data(), bytes_, engine_.get_index());
}

} // namespace gradnn::test
