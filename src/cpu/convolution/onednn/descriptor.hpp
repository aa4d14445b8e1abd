// oneDNN's implementation of a convolution in certain layouts.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>

#include <gradnn/engine.hpp>

#include "cpu/convolution/onednn/geometry.hpp"
#include "cpu/convolution/onednn/implementation.hpp"

namespace gradnn::cpu::onednn {

/// The implementation that oneDNN takes for these layouts, or an empty
/// descriptor. Never another one of its list: those further down are not what
/// its users run, and not all of them are right (3.2's jit_bf16_1x1 in NXC
/// with 41 channels).
dnnl::primitive_desc make_descriptor(const geometry &problem,
        const dnnl::memory::desc &src, const dnnl::memory::desc &weights,
        const dnnl::memory::desc &dst, fpmath_mode mode);

implementation query(
        const geometry &problem, const dnnl::primitive_desc &descriptor);

/// jit_bf16_1x1 is wrong where channels leave a block partly empty (faults.cpp).
/// Gives it the whole blocks, which lie in the same memory: what is copied into
/// them is followed by zeros, and what the primitive writes there nobody reads.
void fill_up(const geometry &problem, fpmath_mode mode, implementation &found);

} // namespace gradnn::cpu::onednn
