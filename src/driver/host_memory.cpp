#include "host_memory.hpp"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <new>

#include "files/tensor_data.hpp"

namespace gradnn::driver {

namespace {

constexpr size_t alignment = 64;

/// The finalizer of SplitMix64: every bit of the input moves half the output's.
uint64_t mixed(uint64_t bits) {
    bits = (bits ^ bits >> 30U) * 0xbf58476d1ce4e5b9U;
    bits = (bits ^ bits >> 27U) * 0x94d049bb133111ebU;
    return bits ^ bits >> 31U;
}

} // namespace

host_memory::host_memory(size_t bytes) : size_(bytes) {
    // One block more than asked for keeps an empty tensor's pointer valid.
    const size_t whole = (bytes / alignment + 1) * alignment;
    if (whole < bytes) throw std::bad_alloc();
    data_.reset(static_cast<std::byte *>(std::aligned_alloc(alignment, whole)));
    if (!data_) throw std::bad_alloc();
}

void host_memory::release::operator()(std::byte *data) const {
    std::free(data);
}

void host_memory::poison() {
    std::memset(data_.get(), 0xff, size_);
}

void fill_randomly(const logical_tensor &lt, void *memory, uint64_t seed) {
    const uint64_t key = mixed(mixed(seed) + lt.get_id());
    detail::generate(lt, memory, [key](int64_t index) {
        constexpr uint64_t step = 0x9e3779b97f4a7c15U;
        const uint64_t bits
                = mixed(key + (static_cast<uint64_t>(index) + 1) * step);
        // The sum of four uniform numbers is nearly normal.
        const auto sum
                = static_cast<double>((bits & 0xffffU) + (bits >> 16U & 0xffffU)
                        + (bits >> 32U & 0xffffU) + (bits >> 48U));
        constexpr double mean = 2.0 * 0xffff;
        constexpr double deviation = 37837.2; // 65536 / sqrt(3)
        return (sum - mean) / deviation;
    });
}

} // namespace gradnn::driver
