// Vectors whose memory is counted, for tables that plans keep: caches of plans
// are bounded by bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace gradnn::detail {

/// Bytes that counted memory of this thread took and did not give back. What a
/// plan keeps is the difference of two readings around its making.
inline int64_t &counted_bytes() {
    thread_local int64_t bytes = 0;
    return bytes;
}

/// Memory of a table: where it is large, of pages of 2 MiB if the system gives them,
/// since first touching the usual ones takes longer than filling the table.
void *table_memory(size_t bytes, size_t alignment);
void give_table_back(void *memory, size_t bytes, size_t alignment);

template <typename Type>
class counted_allocator : public std::allocator<Type> {
public:
    using value_type = Type;
    template <typename Other>
    struct rebind {
        using other = counted_allocator<Other>;
    };

    counted_allocator() = default;
    template <typename Other>
    counted_allocator(const counted_allocator<Other> &) {}

    /// Elements that are made without a value have none: tables are written
    /// once.
    template <typename Other>
    void construct(Other *at) {
        ::new (static_cast<void *>(at)) Other;
    }
    template <typename Other, typename... Values>
    void construct(Other *at, Values &&...values) {
        ::new (static_cast<void *>(at)) Other(std::forward<Values>(values)...);
    }

    Type *allocate(size_t count) {
        Type *const memory = static_cast<Type *>(
                table_memory(count * sizeof(Type), alignof(Type)));
        counted_bytes() += static_cast<int64_t>(count * sizeof(Type));
        return memory;
    }
    void deallocate(Type *memory, size_t count) {
        counted_bytes() -= static_cast<int64_t>(count * sizeof(Type));
        give_table_back(memory, count * sizeof(Type), alignof(Type));
    }
};

template <typename Type>
using counted_vector = std::vector<Type, counted_allocator<Type>>;

} // namespace gradnn::detail
