#include "compile/cache_key.hpp"

#include <span>
#include <type_traits>

#include "compile/ports.hpp"
#include "tensor/layout.hpp"

namespace gradnn::detail {

namespace {

/// Appends the bytes of values; lists and strings after their lengths, so that
/// no two sequences of values have the same bytes.
class key_writer {
public:
    explicit key_writer(size_t expected_bytes) { key_.reserve(expected_bytes); }

    template <typename Value>
    requires(std::is_arithmetic_v<Value> || std::is_enum_v<Value>) void add(
            Value value) {
        add_bytes(&value, sizeof(value));
    }
    template <typename Value>
    void add(std::span<const Value> values) {
        add(values.size());
        add_bytes(values.data(), values.size_bytes());
    }
    void add(const std::string &words) {
        add(words.size());
        key_ += words;
    }
    void add(const std::optional<size_t> &value) {
        add(value.has_value());
        add(value.value_or(0));
    }

    template <typename... Values>
    void add_all(const Values &...values) {
        (add(values), ...);
    }

    std::string take() { return std::move(key_); }

private:
    void add_bytes(const void *bytes, size_t count) {
        key_.append(static_cast<const char *>(bytes), count);
    }

    std::string key_;
};

// The members by structured bindings: one that is new does not compile until it
// is a part of the key.

void add(key_writer &key, const compile_options &options) {
    const auto &[deterministic, fpmath, threads, device, kernels, autotune,
            plan_cache, workspace_limit, specialise, kernel_cache]
            = options;
    key.add_all(deterministic, fpmath, threads, device, kernels, autotune,
            plan_cache, workspace_limit, specialise, kernel_cache);
}

void add(key_writer &key, const op_attributes &attributes) {
    const auto &[mode, coordinates, arithmetic, scale_rule, sizes, scales,
            ratios, cubic_coeff_a, antialias, exclude_outside, strides,
            dilations, pads_begin, pads_end, output_padding, dst_shape,
            weights_shape, auto_pad, groups, data_format, weights_format,
            numpy_broadcast, use_dst]
            = attributes;
    key.add_all(mode, coordinates, arithmetic, scale_rule, sizes, scales,
            ratios, cubic_coeff_a, antialias, exclude_outside, strides,
            dilations, pads_begin, pads_end, output_padding, dst_shape,
            weights_shape, auto_pad, groups, data_format, weights_format,
            numpy_broadcast, use_dst);
}

/// A tensor that is laid out.
void add(key_writer &key, const logical_tensor &lt) {
    key.add(lt.get_data_type());
    key.add(dims_of(lt));
    key.add(strides_of(lt));
}

} // namespace

std::string cache_key(const std::vector<checked_op> &ops,
        const std::vector<logical_tensor> &tensors, engine::kind kind,
        size_t owner, const compile_options &options) {
    // Enough for an op with five ports of five dims.
    key_writer key(1024);
    key.add_all(kind, owner);
    add(key, options);
    key.add(ops.size());
    for (const checked_op &the_op : ops) {
        key.add(the_op.identity().get_kind());
        add(key, the_op.attributes());
        for_each_port(the_op, [&](port_reference port) {
            key.add(index_of(the_op.port(port), tensors));
        });
    }
    for (const logical_tensor &lt : tensors)
        add(key, lt);
    return key.take();
}

} // namespace gradnn::detail
