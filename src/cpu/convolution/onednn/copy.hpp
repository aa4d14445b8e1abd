// How a tensor of the caller gets into a layout of oneDNN's, or out of it.
#pragma once

#include <optional>

#include <oneapi/dnnl/dnnl.hpp>

#include "cpu/convolution/onednn/geometry.hpp"
#include "cpu/copies/channel_blocks.hpp"
#include "cpu/copies/convert.hpp"

namespace gradnn::cpu::onednn {

/// The way between the caller's tensor and a layout: exactly one of `blocking`,
/// `conversion` and `reorder`, or the last two, which then meet in the dense
/// layout `between`. Conversion and blocking are written as if from the caller.
struct copy_route {
    std::optional<channel_blocking> blocking;
    std::optional<cpu::conversion> conversion;
    std::optional<dnnl::reorder::primitive_desc> reorder;
    dnnl::memory::desc between;
};

/// The fastest way that was measured: channel_blocks for 16-bit activations
/// that go into blocks, convert between dense layouts and where types change,
/// oneDNN's reorder for everything else that it has jitted code for. For
/// activations `layout` has their axes; `is_weights` tells.
copy_route find_route(const operand &tensor, const dnnl::memory::desc &layout,
        bool is_weights, bool to_caller);

/// What a copy costs, in bytes moved at the rate of a plain copy: 0 where the
/// tensor lies as the layout says.
double copy_bytes(const operand &tensor, const dnnl::memory::desc &layout,
        bool is_weights);

} // namespace gradnn::cpu::onednn
