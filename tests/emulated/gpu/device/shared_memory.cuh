// In place of src/gpu/device/shared_memory.cuh: addresses are checked.
#pragma once

#include <cstdint>
#include <stdexcept>

#include "emulated/simt.hpp"

namespace gradnn::gpu {

inline uint32_t shared_address(const void *pointer) {
    return static_cast<uint32_t>(
            static_cast<const char *>(pointer) - emulated::shared_memory);
}

inline char *shared_word(uint32_t address, size_t bytes) {
    if (address % bytes != 0 || address + bytes > emulated::shared_bytes)
        throw std::out_of_range("shared address " + std::to_string(address)
                + " of " + std::to_string(emulated::shared_bytes) + ", "
                + std::to_string(bytes) + " bytes");
    return emulated::shared_memory + address;
}

inline uint32_t load_shared(uint32_t address) {
    uint32_t word = 0;
    std::memcpy(&word, shared_word(address, sizeof word), sizeof word);
    return word;
}
inline void store_shared(uint32_t address, uint32_t word) {
    std::memcpy(shared_word(address, sizeof word), &word, sizeof word);
}
inline void store_shared_half(uint32_t address, unsigned short half) {
    std::memcpy(shared_word(address, sizeof half), &half, sizeof half);
}

} // namespace gradnn::gpu
