// Questions about dims and strides that several parts ask.
#pragma once

#include <optional>
#include <span>

#include <gradnn/tensor.hpp>

namespace gradnn::detail {

/// Row-major strides. Where they do not fit in 63 bits or a dim is unknown,
/// unknown_dim stands for them.
logical_tensor::dims dense_strides(const logical_tensor::dims &dims);

/// Whether the number of dims is known; the dims, without a copy, where it is, and
/// the strides of a strided tensor.
bool rank_known(const logical_tensor &lt);
std::span<const int64_t> dims_of(const logical_tensor &lt);
std::span<const int64_t> strides_of(const logical_tensor &lt);

/// Whether both have as many dims, each the same. Their ranks are known.
bool same_dims(const logical_tensor &a, const logical_tensor &b);

/// True where the number of dims and each of them is known.
bool dims_known(const logical_tensor &lt);

/// The product of the dims; nothing where it does not fit in 63 bits.
std::optional<int64_t> element_count(const logical_tensor::dims &dims);

/// Bytes from the first element to the end of the last; nothing where that
/// does not fit in 63 bits.
std::optional<int64_t> extent_bytes(logical_tensor::data_type type,
        const logical_tensor::dims &dims, const logical_tensor::dims &strides);

/// Whether two elements of a tensor share an address. Exact; tensors whose
/// strides do not nest are enumerated up to a million elements and taken to
/// overlap beyond.
bool elements_overlap(
        const logical_tensor::dims &dims, const logical_tensor::dims &strides);

/// Strides of a dense tensor of `dims` whose axes are nested as those of the
/// tensor `like`, which has as many; row-major where `like` does not tell.
logical_tensor::dims strides_like(
        const logical_tensor::dims &dims, const logical_tensor::dims &like);

} // namespace gradnn::detail
