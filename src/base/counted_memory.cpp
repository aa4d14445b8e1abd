#include "base/counted_memory.hpp"

#include <algorithm>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace gradnn::detail {

namespace {

constexpr size_t large_page = size_t {2} << 20;

std::align_val_t aligned_to(size_t bytes, size_t alignment) {
    return std::align_val_t {bytes < 2 * large_page
                    ? std::max(alignment, sizeof(void *))
                    : large_page};
}

} // namespace

void *table_memory(size_t bytes, size_t alignment) {
    void *const memory = ::operator new(bytes, aligned_to(bytes, alignment));
#ifdef MADV_HUGEPAGE
    // A hint: what it returns does not matter. The last page may have other data.
    if (bytes >= 2 * large_page)
        madvise(memory, bytes / large_page * large_page, MADV_HUGEPAGE);
#endif
    return memory;
}

void give_table_back(void *memory, size_t bytes, size_t alignment) {
    ::operator delete(memory, aligned_to(bytes, alignment));
}

} // namespace gradnn::detail
