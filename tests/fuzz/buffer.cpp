#include "buffer.hpp"

#include <algorithm>

#include "files/tensor_data.hpp"
#include "fuzz_problem.hpp"
#include "kernel/problem.hpp"

namespace gradnn::fuzz {

namespace {

constexpr std::byte pattern {0xff};
constexpr size_t guard_bytes = 192;
#ifdef __SANITIZE_ADDRESS__
constexpr bool exact_inputs = true;
#else
constexpr bool exact_inputs = false;
#endif

} // namespace

logical_tensor without_broadcast(const logical_tensor &lt) {
    dims shape = lt.get_dims();
    const dims strides = lt.get_strides();
    for (size_t axis = 0; axis < shape.size(); ++axis)
        if (strides[axis] == 0) shape[axis] = std::min<int64_t>(shape[axis], 1);
    return {lt.get_id(), lt.get_data_type(), shape, strides};
}

std::vector<std::byte> image_of(
        const logical_tensor &lt, const std::vector<double> &values) {
    std::vector<std::byte> bytes(lt.get_mem_size(), pattern);
    detail::store(lt, values, bytes.data());
    return bytes;
}

buffer::buffer(const engine &e, size_t bytes, size_t offset, role r)
    : bytes_(bytes),
      front_(r == role::input && exact_inputs ? 0 : guard_bytes),
      memory_(e, bytes + 2 * front_, offset) {
    poison();
}

void *buffer::data() const {
    return static_cast<std::byte *>(memory_.data()) + front_;
}

void buffer::write(const std::vector<std::byte> &bytes) {
    std::vector<std::byte> all(memory_.size(), pattern);
    std::copy(bytes.begin(), bytes.end(),
            all.begin() + static_cast<long>(front_));
    memory_.write(all.data());
}

void buffer::poison() {
    const std::vector<std::byte> all(memory_.size(), pattern);
    memory_.write(all.data());
}

std::vector<std::byte> buffer::read_all() const {
    std::vector<std::byte> all(memory_.size());
    memory_.read(all.data());
    return all;
}

std::vector<std::byte> buffer::inner(const std::vector<std::byte> &all) const {
    const auto begin = all.begin() + static_cast<long>(front_);
    return {begin, begin + static_cast<long>(bytes_)};
}

std::string damage_outside(const logical_tensor &lt, const buffer &of,
        std::vector<std::byte> all) {
    const dims shape = lt.get_dims();
    const dims strides = lt.get_strides();
    const auto size = static_cast<size_t>(detail::size_of(lt.get_data_type()));
    // Elements become 0xff, so that any other byte is no element's.
    if (detail::element_count(lt) * static_cast<int64_t>(size)
            == static_cast<int64_t>(of.size())) {
        std::fill_n(all.begin() + static_cast<long>(of.front()), of.size(),
                pattern);
    } else {
        dims index(shape.size());
        const int64_t count = detail::element_count(lt);
        for (int64_t element = 0; element < count; ++element) {
            int64_t at = 0;
            for (size_t axis = 0; axis < shape.size(); ++axis)
                at += index[axis] * strides[axis];
            std::fill_n(all.begin()
                            + static_cast<long>(of.front()
                                    + static_cast<size_t>(at) * size),
                    size, pattern);
            for (size_t axis = shape.size(); axis-- > 0;) {
                if (++index[axis] < shape[axis]) break;
                index[axis] = 0;
            }
        }
    }
    const auto found = std::find_if(all.begin(), all.end(),
            [](std::byte each) { return each != pattern; });
    if (found == all.end()) return {};
    return "byte "
            + std::to_string(
                    found - all.begin() - static_cast<long>(of.front()))
            + " of tensor " + std::to_string(lt.get_id())
            + " was written; no element is there";
}

} // namespace gradnn::fuzz
