// In place of src/gpu/device/tensor_cores.cuh: what the lanes of a warp multiply
// together, by plain loops; addresses of shared memory are checked.
#pragma once

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "emulated/simt.hpp"
#include "gpu/device/dtype.cuh"
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

/// Four matrices of 8x8, transposed, as ldmatrix does: the i-th of their 32 rows lies at
/// the address of lane i.
inline void load_turned_matrices(uint32_t (&words)[4], uint32_t address) {
    if (address % 16 != 0) throw std::out_of_range("a row of a matrix");
    for (int matrix = 0; matrix < 4; ++matrix) {
        const auto lane = static_cast<int>(emulated::thread_index.x % 32);
        unsigned short halves[2];
        for (int i = 0; i < 2; ++i) {
            const uint32_t row = __shfl_sync(
                    0xffffffffU, address, 8 * matrix + lane % 4 * 2 + i);
            const uint32_t column = static_cast<uint32_t>(lane / 4) * 2;
            std::memcpy(&halves[i], shared_word(row + column, 2), 2);
        }
        std::memcpy(&words[matrix], halves, sizeof halves);
    }
    __syncwarp();
}

/// sums += a * b, dealt out as mma.m16n8k16 does.
template <typename Type>
void multiply_matrices(float (&sums)[4], const uint32_t (&left)[2],
        const uint32_t (&right)[2], uint32_t b0, uint32_t b1) {
    struct operands {
        uint32_t words[6];
    };
    static std::vector<operands> all;
    const size_t thread = emulated::thread_index.x;
    if (all.size() <= thread) all.resize(thread + 1);
    all[thread] = {{left[0], left[1], right[0], right[1], b0, b1}};
    __syncwarp();
    const auto element = [&](size_t lane, size_t word, size_t which) {
        Type value;
        std::memcpy(static_cast<void *>(&value),
                reinterpret_cast<const char *>(
                        &all[thread / 32 * 32 + lane].words[word])
                        + 2 * which,
                sizeof value);
        return widen(value);
    };
    const size_t g = thread % 32 / 4;
    const size_t t = thread % 4;
    for (size_t i = 0; i < 4; ++i) {
        const size_t column = 2 * t + i % 2;
        for (size_t k = 0; k < 16; ++k) {
            const size_t owner = k % 8 / 2;
            sums[i] += element(g * 4 + owner, i / 2 + k / 8 * 2, k % 2)
                    * element(column * 4 + owner, 4 + k / 8, k % 2);
        }
    }
    __syncwarp();
}

} // namespace gradnn::gpu
