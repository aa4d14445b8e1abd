// What is told of oneDNN Graph's constant tensor cache, which gradnn lacks.
#include <atomic>
#include <vector>

#include <gradnn/graph.hpp>

#include "base/text.hpp"
#include "kernel/backend.hpp"

namespace gradnn {

namespace {

std::atomic<int> &flag_of_cache() {
    static std::atomic<int> flag {0};
    return flag;
}

std::atomic<size_t> &capacity_of(engine::kind kind) {
    const auto rows = detail::backends();
    static std::vector<std::atomic<size_t>> capacities(rows.size());
    for (size_t index = 0; index < rows.size(); ++index)
        if (rows[index]->kind == kind) return capacities[index];
    throw error(status::invalid_arguments,
            detail::text("constant tensor cache: engine kind ", to_string(kind),
                    "; ", detail::allowed_kinds()));
}

} // namespace

void set_constant_tensor_cache(int flag) {
    if (flag < 0)
        throw error(status::invalid_arguments,
                detail::text("constant tensor cache: flag ", flag,
                        "; 0 (off) and positive values are allowed"));
    flag_of_cache() = flag;
}

int get_constant_tensor_cache() {
    return flag_of_cache();
}

void set_constant_tensor_cache_capacity(engine::kind kind, size_t megabytes) {
    capacity_of(kind) = megabytes;
}

size_t get_constant_tensor_cache_capacity(engine::kind kind) {
    return capacity_of(kind);
}

} // namespace gradnn
