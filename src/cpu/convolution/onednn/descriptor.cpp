#include "cpu/convolution/onednn/descriptor.hpp"

#include <utility>

#include "cpu/convolution/onednn/engine.hpp"

namespace gradnn::cpu::onednn {

using detail::convolution_direction;
using dnnl::memory;

namespace {

dnnl::primitive_attr attributes(fpmath_mode mode) {
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (mode == fpmath_mode::bf16)
        attributes.set_fpmath_mode(dnnl::fpmath_mode::bf16);
    if (mode == fpmath_mode::any)
        attributes.set_fpmath_mode(dnnl::fpmath_mode::any);
    return attributes;
}

} // namespace

const dnnl::engine &cpu_engine() {
    static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    return engine;
}

dnnl::primitive_desc make_descriptor(const geometry &problem,
        const memory::desc &src, const memory::desc &weights,
        const memory::desc &dst, fpmath_mode mode) {
    constexpr auto algorithm = dnnl::algorithm::convolution_direct;
    constexpr auto training = dnnl::prop_kind::forward_training;
    const dnnl::engine &engine = cpu_engine();
    const auto attr = attributes(mode);
    const auto &p = problem;
    if (p.direction == convolution_direction::forward)
        return dnnl::convolution_forward::primitive_desc(engine, training,
                algorithm, src, weights, dst, p.strides, p.dilates,
                p.pads_begin, p.pads_end, attr, true);
    // Backward descriptors need a forward one as a hint; its layouts, and the
    // type of its weights, are of no consequence.
    const auto free = [](const memory::desc &desc, memory::data_type type) {
        return memory::desc(desc.get_dims(), type, memory::format_tag::any);
    };
    const auto type = src.get_data_type();
    const dnnl::convolution_forward::primitive_desc hint(engine, training,
            algorithm, free(src, type), free(weights, type), free(dst, type),
            p.strides, p.dilates, p.pads_begin, p.pads_end, attr, true);
    if (!hint) return {};
    if (p.direction == convolution_direction::backward_data)
        return dnnl::convolution_backward_data::primitive_desc(engine,
                algorithm, src, weights, dst, p.strides, p.dilates,
                p.pads_begin, p.pads_end, hint, attr, true);
    return dnnl::convolution_backward_weights::primitive_desc(engine, algorithm,
            src, weights, dst, p.strides, p.dilates, p.pads_begin, p.pads_end,
            hint, attr, true);
}

implementation query(
        const geometry &problem, const dnnl::primitive_desc &descriptor) {
    implementation found;
    found.descriptor = descriptor;
    found.name = descriptor.impl_info_str();
    const auto get
            = [&](dnnl::query what) { return descriptor.query_md(what, 0); };
    const auto direction = problem.direction;
    found.src = get(direction == convolution_direction::backward_data
                    ? dnnl::query::diff_src_md
                    : dnnl::query::src_md);
    found.weights = get(direction == convolution_direction::backward_weights
                    ? dnnl::query::diff_weights_md
                    : dnnl::query::weights_md);
    found.dst = get(direction == convolution_direction::forward
                    ? dnnl::query::dst_md
                    : dnnl::query::diff_dst_md);
    return found;
}

namespace {

/// A 1x1 convolution with the channels of src and dst rounded up.
geometry with_whole_blocks(geometry problem, int64_t block) {
    const auto round = [&](int64_t &channels) {
        channels = (channels + block - 1) / block * block;
    };
    round(problem.src.sizes[1]);
    round(problem.dst.sizes[1]);
    round(problem.weights.sizes[0]);
    round(problem.weights.sizes[1]);
    return problem;
}

/// Whether `filled` is the memory of `layout` with the elements that pad it made
/// elements of their own.
bool is_same_memory(const memory::desc &layout, const memory::desc &filled) {
    return layout.get_padded_dims() == filled.get_dims()
            && layout.get_inner_blks() == filled.get_inner_blks()
            && layout.get_inner_idxs() == filled.get_inner_idxs()
            && layout.get_strides() == filled.get_strides()
            && layout.get_size() == filled.get_size()
            && layout.get_data_type() == filled.get_data_type();
}

} // namespace

void fill_up(const geometry &problem, fpmath_mode mode, implementation &found) {
    constexpr int64_t block = 16;
    const auto is_partial = [](const memory::desc &layout) {
        return layout.get_dims()[1] % block != 0;
    };
    if (!contains(found.name, "jit_bf16_1x1") || contains(found.name, "brg")
            || problem.grouped || is_plain(found.src) || is_plain(found.dst)
            || is_plain(found.weights)
            || (!is_partial(found.src) && !is_partial(found.dst)))
        return;
    const geometry whole = with_whole_blocks(problem, block);
    const auto filled = [&](const memory::desc &layout) {
        return memory::desc(layout.get_padded_dims(), layout.get_data_type(),
                memory::format_tag::any);
    };
    const auto blocked = [&](const memory::desc &layout) {
        using tag = memory::format_tag;
        constexpr tag tags[] = {tag::nCw16c, tag::nChw16c, tag::nCdhw16c};
        return memory::desc(layout.get_padded_dims(), layout.get_data_type(),
                tags[problem.strides.size() - 1]);
    };
    const auto descriptor = make_descriptor(whole, blocked(found.src),
            filled(found.weights), blocked(found.dst), mode);
    if (!descriptor) return;
    const implementation other = query(whole, descriptor);
    if (other.name != found.name || !is_same_memory(found.src, other.src)
            || !is_same_memory(found.weights, other.weights)
            || !is_same_memory(found.dst, other.dst))
        return;
    found.descriptor = descriptor;
    found.filled = true;
}

} // namespace gradnn::cpu::onednn
