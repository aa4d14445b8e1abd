// A convolution problem and its tensors in oneDNN's terms.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <oneapi/dnnl/dnnl.hpp>

#include "kernel/problem.hpp"

namespace gradnn::cpu::onednn {

using dims = dnnl::memory::dims;
using detail::data_type;

/// A tensor of the caller with the axes that oneDNN needs: N, C, space; or
/// groups (where there are several), O, I, space. Strides are in elements;
/// that of an axis of size 1 means nothing.
struct operand {
    data_type type = data_type::undef;
    dims sizes;
    dims strides;

    int64_t elements() const;
};

/// The problem without the spatial axes on which nothing happens, so that
/// oneDNN's kernels of low rank apply.
struct geometry {
    detail::convolution_direction direction {};
    operand src;
    operand weights;
    operand dst;
    bool grouped = false;
    dims strides;
    dims dilates; ///< oneDNN's: 0 where neighbouring taps are neighbours
    dims pads_begin;
    dims pads_end; ///< negative where the last elements of src are not used

    bool has_contiguous_channels() const {
        return src.strides[1] == 1 && dst.strides[1] == 1;
    }
};

/// Empty, with the reason, for what oneDNN's descriptors cannot say.
std::optional<geometry> make_geometry(
        const detail::convolution_problem &problem, std::string &refusal);

/// A part of an axis of a dense layout: the values of index / step % extent,
/// `stride` elements apart in memory.
struct sub_axis {
    size_t axis = 0;
    int64_t extent = 1;
    int64_t step = 1;
    int64_t stride = 1;
};

/// A descriptor as strided parts of its axes, those of extent 1 left out;
/// empty where it pads an axis or is no plain blocking.
std::optional<std::vector<sub_axis>> split_axes(
        const dnnl::memory::desc &layout);

/// Whether the tensor lies in memory as the descriptor says, type included.
bool same_layout(const operand &tensor, const dnnl::memory::desc &layout);

/// oneDNN's descriptor of the tensor; a zero descriptor where oneDNN has none
/// (strides of 0, axes that interleave).
dnnl::memory::desc describe(const operand &tensor);

/// Row-major strides; those of a dense NCX or OIX tensor.
dims dense_strides(const dims &sizes);
/// Strides of a dense NXC tensor whose sizes are N, C, space.
dims channels_last_strides(const dims &sizes);

dnnl::memory::data_type to_onednn(data_type type);
data_type from_onednn(dnnl::memory::data_type type);

} // namespace gradnn::cpu::onednn
