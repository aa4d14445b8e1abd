// A tensor of a test: memory on an engine, with what surrounds it watched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <gradnn/tensor.hpp>

#include "engines.hpp"

namespace gradnn::test {

/// Memory of one logical tensor. Every byte is 0xff at first, which is a NaN
/// in every float type: a kernel that reads what is not an element, or leaves
/// an element of its output unwritten, shows it.
class test_tensor {
public:
    enum class role { input, output };

    /// Outputs have guard zones on both sides. Inputs end where the memory
    /// ends, so that a sanitizer sees reads beyond. The first element lies
    /// `offset` bytes after a multiple of 64. Host memory serves `on_host`.
    test_tensor(const logical_tensor &lt, const engine &e, role r,
            size_t offset = 0, bool on_host = false);

    /// Rounds values (in row-major order of the dims) to the type.
    void store(std::span<const double> values);
    std::vector<double> load() const;
    /// The bits of all elements, in row-major order of the dims.
    std::vector<std::byte> element_bytes() const;
    /// Empty if nothing but elements has changed since the last poison();
    /// otherwise what has.
    std::string outside_damage() const;
    void poison();

    /// For execute.
    tensor get() const;
    void *data() const;
    const logical_tensor &lt() const { return lt_; }

private:
    std::vector<std::byte> read() const;
    std::vector<size_t> element_offsets() const;

    logical_tensor lt_;
    engine engine_;
    size_t guard_;
    device_memory memory_;
};

} // namespace gradnn::test
