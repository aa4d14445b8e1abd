// Memory for tensors, and reproducible values to fill it with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include <gradnn/tensor.hpp>

namespace gradnn::driver {

/// An aligned block of host memory. Throws std::bad_alloc.
class host_memory {
public:
    explicit host_memory(size_t bytes);

    std::byte *data() const { return data_.get(); }
    size_t size() const { return size_; }
    /// Every byte 0xff: NaN in all float types, so that elements which nobody
    /// writes are seen.
    void poison();

private:
    struct release {
        void operator()(std::byte *data) const;
    };
    std::unique_ptr<std::byte, release> data_;
    size_t size_;
};

/// Fills a tensor with values of about a standard normal distribution, rounded
/// to its type. They depend on the seed, the tensor's id and the place of the
/// element in logical order alone.
void fill_randomly(const logical_tensor &lt, void *memory, uint64_t seed);

} // namespace gradnn::driver
