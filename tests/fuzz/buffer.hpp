// Memory of one tensor on an engine, with what surrounds it watched.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <gradnn/tensor.hpp>

#include "support/engines.hpp"

namespace gradnn::fuzz {

/// The bytes of a tensor on the host: 0xff, a NaN in every float type,
/// wherever there is no element. Of elements that share an address the last
/// one counts.
std::vector<std::byte> image_of(
        const logical_tensor &lt, const std::vector<double> &values);

/// The same tensor with a dim of 1 wherever the stride is 0: an element an
/// address.
logical_tensor without_broadcast(const logical_tensor &lt);

/// Memory with guard zones of 0xff on both sides. Under AddressSanitizer the
/// memory of inputs ends where the tensor ends, so that it sees reads beyond.
class buffer {
public:
    enum class role { input, output };

    /// The first byte lies `offset` bytes beyond a multiple of 64.
    buffer(const engine &e, size_t bytes, size_t offset, role r);

    void *data() const;
    void write(const std::vector<std::byte> &bytes);
    /// 0xff everywhere.
    void poison();
    /// Guard zones and what lies between them.
    std::vector<std::byte> read_all() const;
    /// What lies between the guard zones, of what read_all() returned.
    std::vector<std::byte> inner(const std::vector<std::byte> &all) const;
    size_t size() const { return bytes_; }
    size_t front() const { return front_; }

private:
    size_t bytes_;
    size_t front_;
    test::device_memory memory_;
};

/// Empty where nothing but elements of the tensor differs from 0xff in what
/// read_all() returned; else which byte does.
std::string damage_outside(
        const logical_tensor &lt, const buffer &of, std::vector<std::byte> all);

} // namespace gradnn::fuzz
