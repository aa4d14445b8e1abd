#include <array>
#include <cstdint>

#include "base/text.hpp"
#include "gpu/convolution/facts.hpp"
#include "gpu/convolution/sliding/cuts.hpp"
#include "gpu/jit/specification_text.hpp"
#include "kernel/problem_text.hpp"

namespace gradnn::gpu::sliding {

using detail::convolution_direction;
using detail::convolution_problem;
using detail::given;
using detail::tensor_view;
using detail::text;

namespace {

constexpr int64_t most_positions = int64_t {1} << 28;
/// Of all that is read for a result and its neighbours: counted in 32 bits.
constexpr int64_t most_weights_met = 1 << 16;

pitches pitches_of(const tensor_view &tensor) {
    std::array<int64_t, 5> at = tensor.strides;
    for (size_t i = 0; i < 5; ++i)
        if (tensor.dims[i] == 1) at[i] = 0;
    return {at[0], at[1], at[2], at[3], at[4]};
}

/// Along one axis, as specification.hpp has it.
axis axis_of(const convolution_problem &p, size_t i) {
    const auto narrow = [](int64_t value) { return static_cast<int>(value); };
    const int taps = narrow(p.weights.dims[i + 3]),
              stride = narrow(p.strides[i]),
              gap = taps == 1 ? 1 : narrow(p.dilations[i]),
              pad = narrow(p.pads_begin[i]), src = narrow(p.src.dims[i + 2]),
              dst = narrow(p.dst.dims[i + 2]);
    if (is_to_src(p)) return {dst, src, taps, 1, stride, gap, pad};
    if (is_of_weights(p)) return {src, dst, taps, stride, 1, -gap, -pad};
    return {src, dst, taps, stride, 1, gap, (taps - 1) * gap - pad};
}

std::string refusal_of(const convolution_problem &p) {
    const auto &weights = p.weights.dims;
    const bool forward = p.direction == convolution_direction::forward;
    constexpr int64_t most_weights = 1024;
    if (weights[1] * weights[2] > most_weights)
        return text("takes groups of up to ", most_weights,
                " pairs of a channel of src and one of dst, given ", weights[2],
                " and ", weights[1]);

    for (size_t i = 0; i < 3; ++i) {
        const int64_t reach = (weights[i + 3] - 1) * p.dilations[i];
        if (std::max({p.src.dims[i + 2], p.dst.dims[i + 2], p.strides[i], reach,
                    std::abs(p.pads_begin[i])})
                >= most_positions)
            return "takes less than 2^28 points along an axis; " + given(p);
        if (weights[i + 3] > longest_chain)
            return "takes windows up to 4,096; " + given(p);
    }
    // Sums of weights have no terms of other channels; depthwise they are those of a thread.
    const int64_t multiples = weights[forward ? 2 : 1];
    const bool of_data = !is_of_weights(p)
            || (weights[2] == 1 && multiples <= most_multiples);
    int64_t all = of_data ? multiples : 1, terms = all;
    for (size_t i = 0; i < 3; ++i) {
        all *= weights[i + 3];
        terms *= taps_of_a_point(p, i);
    }
    if (terms > longest_chain || all > most_weights_met)
        return "takes sums of at most 4,096 terms, by 2^16 weights; "
                + given(p);
    if (p.src.dims[0] >= most_positions
            || std::max(p.src.dims[1], p.dst.dims[1]) >= int64_t {1} << 24)
        return "takes less than 2^28 images and 2^24 channels; " + given(p);
    return {};
}

/// Rows follow one another in the images: weights then stay in registers.
problem_specification along_images(problem_specification p) {
    const int dilation = p.row.dilation < 0 ? -1 : 1;
    p.row = axis::flat(p.images);
    p.row.dilation = dilation;
    p.read.row = p.read.image;
    p.written.row = p.written.image;
    p.images = 1;
    p.read.image = p.written.image = 0;
    return p;
}

std::string text_of(const axis &a) {
    return fields_text("read", a.read, "written", a.written, "taps", a.taps,
            "step", a.step, "up", a.up, "dilation", a.dilation, "base", a.base);
}
std::string text_of(const pitches &of) {
    return fields_text("image", of.image, "channel", of.channel, "depth",
            of.depth, "row", of.row, "column", of.column);
}
std::string text_of(const problem_specification &p) {
    const auto &w = p.weights;
    return fields_text("type", p.type, "channels_last", p.channels_last,
            "images", p.images, "channels", p.channels, "group", p.group,
            "multiplier", p.multiplier, "depth", text_of(p.depth), "row",
            text_of(p.row), "column", text_of(p.column), "read",
            text_of(p.read), "written", text_of(p.written), "weights",
            fields_text("group", w.group, "channel", w.channel, "multiple",
                    w.multiple, "depth", w.depth, "row", w.row, "column",
                    w.column),
            "reversed", p.reversed, "alignment", p.alignment, "bulk_copies",
            p.bulk_copies, "epilogue", p.epilogue);
}

} // namespace

std::vector<problem_specification> specifications_of(
        const detail::fused_convolution &whole, int alignment, bool bulk_copies,
        std::string &refusal) {
    const convolution_problem &p = whole.problem;
    refusal = refusal_of(p);
    if (!refusal.empty()) return {};
    const bool of_weights = is_of_weights(p);
    const bool forward = p.direction == convolution_direction::forward;
    const tensor_view &read = is_to_src(p) ? p.dst : p.src;
    const tensor_view &written = is_to_src(p) ? p.src : p.dst;
    const auto contiguous = [](const tensor_view &tensor, size_t i) {
        return tensor.dims[i] == 1 || tensor.strides[i] == 1;
    };
    problem_specification s {};
    s.type = element_of(p.src.type);
    std::ranges::transform(whole.epilogue, s.epilogue, fused_op_of);
    s.channels_last = std::max(read.dims[1], written.dims[1]) > 1
            && contiguous(read, 1) && contiguous(written, 1);
    if (!s.channels_last && !(contiguous(read, 4) && contiguous(written, 4))) {
        refusal = "takes src and dst both with contiguous channels or both "
                  "with contiguous columns; "
                + given(p);
        return {};
    }
    const auto &dims = p.weights.dims;
    const auto &strides = p.weights.strides;
    const size_t of_channel = forward ? 1 : 2, of_multiple = 3 - of_channel;
    s.images = static_cast<int>(read.dims[0]);
    s.channels = static_cast<int>(dims[0] * dims[of_channel]);
    s.group = static_cast<int>(dims[of_channel]);
    s.multiplier = static_cast<int>(dims[of_multiple]);
    s.depth = axis_of(p, 0);
    s.row = axis_of(p, 1);
    s.column = axis_of(p, 2);
    s.read = pitches_of(read);
    s.written = pitches_of(written);
    // Vectors and neighbours lie along these, of however few positions.
    if (s.channels_last)
        s.read.channel = s.written.channel = 1;
    else
        s.read.column = s.written.column = 1;
    // Kernels of weights write sums side by side.
    if (!of_weights)
        s.weights = {strides[0], strides[of_channel], strides[of_multiple],
                strides[3], strides[4], strides[5]};
    s.reversed = forward;
    s.alignment = alignment;
    s.bulk_copies = bulk_copies;

    std::vector<problem_specification> forms;
    const bool of_columns = s.depth.is_flat() && s.row.is_flat()
            && s.row.read == 1 && s.depth.read == 1;
    if (s.channels_last) {
        // Threads walk along the only axis of the window, unless registers hold too few sums;
        // of groups whose weights they cannot hold it is cut into columns, which share each
        // weight that is loaded.
        const bool too_long = !of_weights && s.type == element::f64
                && s.group * s.multiplier == 1 && s.column.taps > 32
                && s.column.taps <= most_taps;
        constexpr int registers = 256;
        const int weights_held = s.column.taps * s.multiplier
                * std::min(s.group, 8) * sum_bytes_of(s.type) / 4;
        if (!of_weights && is_grouped(s) && of_columns
                && weights_held > registers) {
            forms.push_back(along_images(s));
        } else if (s.depth.taps == 1 && s.row.taps == 1 && s.column.taps > 1
                && !too_long) {
            std::swap(s.row, s.column);
            std::swap(s.read.row, s.read.column);
            std::swap(s.written.row, s.written.column);
            std::swap(s.weights.row, s.weights.column);
        }
    } else if (of_columns) {
        forms.push_back(along_images(s));
        if (of_weights) return forms;
    }
    forms.push_back(s);
    return forms;
}

std::string text_of(const kernel_specification &s) {
    const work_cut &c = s.cut;
    return header_of("gpu/convolution/sliding/specification.hpp", "sliding",
            "kernel_specification",
            fields_text("of", text_of(s.of), "cut",
                    fields_text("vector", c.vector, "columns", c.columns,
                            "strip", c.strip, "ahead", c.ahead, "unroll",
                            c.unroll, "unchecked", c.unchecked, "copies",
                            c.copies, "lanes", c.lanes, "threads", c.threads,
                            "blocks", c.blocks, "depths", c.depths, "staged",
                            numbered("staging", c.staged), "planes", c.planes,
                            "band", c.band, "volumes", c.volumes, "row_by_row",
                            c.row_by_row, "chunk", c.chunk, "shared_weights",
                            c.shared_weights, "multiples", c.multiples, "run",
                            c.run, "row_taps", c.row_taps, "parts", c.parts,
                            "rounds", c.rounds, "staged_rows", c.staged_rows,
                            "piece", c.piece)));
}

} // namespace gradnn::gpu::sliding
