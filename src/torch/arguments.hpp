// The arguments of a call by PyTorch's dispatcher: ownership and the key.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "torch/gradnn_torch.h"
#include "torch/shim.hpp"

namespace gradnn::torch_kernels {

/// A tensor that this code owns.
class tensor {
public:
    tensor() = default;
    explicit tensor(tensor_handle handle) : handle_(handle) {}
    tensor(tensor &&other) noexcept : handle_(other.release()) {}
    tensor &operator=(tensor &&) = delete;
    ~tensor() { free(); }

    explicit operator bool() const { return handle_ != nullptr; }
    tensor_handle get() const { return handle_; }
    /// For functions that write a handle. The tensor must be empty.
    tensor_handle *put() { return &handle_; }
    void free() {
        if (handle_) torch.delete_tensor(release());
    }
    tensor_handle release() {
        const tensor_handle handle = handle_;
        handle_ = nullptr;
        return handle;
    }

private:
    tensor_handle handle_ = nullptr;
};

enum argument_kind : char {
    a_tensor = 'T',
    an_integer = 'I',
    a_boolean = 'B',
    a_list = 'L', ///< of integers
    a_mask = 'M', ///< a list of booleans
    an_optional_list = 'O',
    an_optional_number = 'D' ///< float64
};

/// An ATen op that is overridden.
struct op_description {
    const char *name; ///< "upsample_nearest1d_backward"
    const char *slow; ///< "gradnn::slow_upsample_nearest1d_backward"
    std::string_view arguments; ///< a letter each; see argument_kind

    /// Else it is one of upsampling.
    bool is_convolution() const { return arguments.back() == a_mask; }
    size_t outputs() const { return is_convolution() ? 3 : 1; }
    /// Of an op of upsampling: it has a scale for each.
    size_t spatial_axes() const {
        return arguments.size() - arguments.find(an_optional_number);
    }
};

extern const std::array<op_description, op_count> ops;

inline constexpr size_t max_arguments = 11;
inline constexpr size_t max_tensors = 3;

/// What a kernel was called with. Owns the values on the stack until the
/// kernel's results take their place, or until they are given away.
class arguments {
public:
    arguments(size_t op, gradnn_torch_device device, bool enabled,
            stable_value *stack);
    ~arguments() { free(); }
    arguments(const arguments &) = delete;
    arguments &operator=(const arguments &) = delete;

    size_t op_index() const { return op_; }
    const op_description &op() const { return ops[op_]; }
    gradnn_torch_device device() const { return device_; }
    bool enabled() const { return enabled_; }
    int32_t device_index() const { return device_index_; }
    tensor_handle tensor_at(size_t argument) const;

    /// All that a way to compute the call depends on; empty where the call is
    /// not to be remembered.
    std::span<const int64_t> key() const {
        return {words_.data(), keyed_ ? count_ : 0};
    }
    /// Where an argument's words begin in the key.
    const int64_t *words(size_t argument) const {
        return words_.data() + begins_[argument];
    }

    /// Frees the values.
    void free();
    /// The caller of this owns the values now.
    const stable_value *give_away() {
        owned_ = false;
        return stack_;
    }

private:
    void add(int64_t word) {
        if (count_ < words_.size())
            words_[count_++] = word;
        else
            keyed_ = false;
    }
    void add_switches();
    void add(char kind, stable_value value);
    void add_tensor(tensor_handle handle);
    void add_list(list_handle list, bool of_booleans);

    size_t op_;
    gradnn_torch_device device_;
    bool enabled_;
    stable_value *stack_;
    bool owned_ = true;
    bool keyed_ = true;
    int32_t device_index_ = -1;
    size_t count_ = 0;
    std::array<uint16_t, max_arguments> begins_ {};
    // A convolution over volumes has about 90.
    std::array<int64_t, 160> words_;
};

} // namespace gradnn::torch_kernels
