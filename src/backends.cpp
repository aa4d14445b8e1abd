// The engines of gradnn: the one place of the library that names them all.
#include "base/text.hpp"
#include "cpu/backend.hpp"
#include "gpu/backend.hpp"
#include "kernel/backend.hpp"

namespace gradnn::detail {

std::span<const backend *const> backends() {
    static constexpr const backend *rows[] = {&cpu::backend, &gpu::backend};
    return rows;
}

const backend *find_backend(engine::kind kind) {
    for (const backend *row : backends())
        if (row->kind == kind) return row;
    return nullptr;
}

std::string allowed_kinds() {
    std::string names;
    for (const backend *row : backends())
        names += text(names.empty() ? "" : " and ", row->name);
    return names + " are allowed";
}

} // namespace gradnn::detail
