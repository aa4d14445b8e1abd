#include "tensor_memory.hpp"

#include <algorithm>

#include "machine.hpp"

namespace gradnn::driver {

namespace {

std::variant<host_memory, tensor> make(const engine &e, size_t bytes) {
    if (e.get_kind() == engine::kind::gpu) return memory_block(e, bytes);
    return host_memory(bytes);
}

} // namespace

tensor_memory::tensor_memory(const engine &e, size_t bytes)
    : size_(bytes), memory_(make(e, bytes)) {}

std::byte *tensor_memory::data() const {
    if (const auto *host = std::get_if<host_memory>(&memory_))
        return host->data();
    return static_cast<std::byte *>(
            std::get<tensor>(memory_).get_data_handle());
}

void tensor_memory::poison() {
    if (auto *host = std::get_if<host_memory>(&memory_))
        host->poison();
    else
        gpu::tools.fill_blocking(
                std::get<tensor>(memory_).get_engine(), data(), 0xff, size_);
}

tensor memory_block(const engine &e, size_t bytes) {
    using lt = logical_tensor;
    return {lt(0, lt::data_type::u8, lt::dims {static_cast<int64_t>(bytes)},
                    lt::layout_type::strided),
            e};
}

int64_t available_memory(const engine &e) {
    // Tensors on a GPU are filled and looked at in host memory.
    if (e.get_kind() == engine::kind::gpu)
        return std::min(available_memory(),
                static_cast<int64_t>(gpu::tools.available_memory(e)));
    return available_memory();
}

} // namespace gradnn::driver
