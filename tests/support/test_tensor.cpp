#include "test_tensor.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "files/tensor_data.hpp"
#include "kernel/problem.hpp"

namespace gradnn::test {

namespace {

constexpr size_t guard_bytes = 256;
constexpr std::byte pattern {0xff};

engine memory_engine(const engine &e, bool on_host) {
    return on_host ? shared_engine(engine::kind::cpu) : e;
}

} // namespace

test_tensor::test_tensor(const logical_tensor &lt, const engine &e, role r,
        size_t offset, bool on_host)
    : lt_(lt),
      engine_(e),
      guard_(r == role::output ? guard_bytes : 0),
      memory_(memory_engine(e, on_host), lt.get_mem_size() + 2 * guard_,
              offset) {
    poison();
}

void test_tensor::poison() {
    const std::vector<std::byte> bytes(memory_.size(), pattern);
    memory_.write(bytes.data());
}

std::vector<std::byte> test_tensor::read() const {
    std::vector<std::byte> bytes(memory_.size());
    memory_.read(bytes.data());
    return bytes;
}

void test_tensor::store(std::span<const double> values) {
    std::vector<std::byte> bytes = read();
    detail::store(lt_, values, bytes.data() + guard_);
    memory_.write(bytes.data());
}

std::vector<double> test_tensor::load() const {
    const std::vector<std::byte> bytes = read();
    return detail::load(lt_, bytes.data() + guard_);
}

std::vector<size_t> test_tensor::element_offsets() const {
    const auto dims = lt_.get_dims();
    const auto strides = lt_.get_strides();
    std::vector<size_t> offsets {guard_};
    const auto size = static_cast<size_t>(detail::size_of(lt_.get_data_type()));
    for (size_t axis = 0; axis < dims.size(); ++axis) {
        std::vector<size_t> next;
        next.reserve(offsets.size() * static_cast<size_t>(dims[axis]));
        for (const size_t offset : offsets)
            for (int64_t i = 0; i < dims[axis]; ++i)
                next.push_back(
                        offset + static_cast<size_t>(i * strides[axis]) * size);
        offsets = std::move(next);
    }
    return offsets;
}

std::vector<std::byte> test_tensor::element_bytes() const {
    const std::vector<std::byte> bytes = read();
    const auto size = static_cast<size_t>(detail::size_of(lt_.get_data_type()));
    const std::vector<size_t> offsets = element_offsets();
    std::vector<std::byte> elements(offsets.size() * size);
    std::byte *to = elements.data();
    for (const size_t offset : offsets) {
        std::memcpy(to, &bytes.at(offset), size);
        to += size;
    }
    return elements;
}

std::string test_tensor::outside_damage() const {
    std::vector<std::byte> bytes = read();
    const auto size = static_cast<size_t>(detail::size_of(lt_.get_data_type()));
    for (const size_t offset : element_offsets())
        std::fill_n(bytes.begin() + static_cast<long>(offset), size, pattern);
    for (size_t at = 0; at < bytes.size(); ++at)
        if (bytes[at] != pattern)
            return "byte "
                    + std::to_string(
                            static_cast<long>(at) - static_cast<long>(guard_))
                    + " of tensor " + std::to_string(lt_.get_id())
                    + " was written; it is not an element's";
    return {};
}

tensor test_tensor::get() const {
    return {lt_, engine_, data()};
}

void *test_tensor::data() const {
    return static_cast<std::byte *>(memory_.data()) + guard_;
}

} // namespace gradnn::test
