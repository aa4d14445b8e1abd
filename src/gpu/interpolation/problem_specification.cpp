#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/text.hpp"
#include "gpu/interpolation/cuts.hpp"
#include "gpu/jit/specification_text.hpp"
#include "gpu/runtime/copy_shape.hpp"
#include "kernel/problem_text.hpp"

namespace gradnn::gpu::resample {

using detail::axis_map;
using detail::given;
using detail::interpolation_problem;
using detail::text;

namespace {

constexpr int64_t most_positions = int64_t {1} << 29;
constexpr int64_t most_weights = int64_t {1} << 26;
/// Of one axis: sums of more lose digits where they are added one after the other.
constexpr int64_t longest_chain = 512;
/// Of all axes. A thread has a sum, so that of longer ones an image must have many, whose taps
/// along an axis are unrolled; not all images, on whose number no bits depend.
constexpr int64_t longest_sum = 2048;
constexpr int64_t many_sums = 8192;
/// Of channels side by side, each of whose terms is a load of its own.
constexpr int64_t longest_of_channels = 512;
constexpr int64_t longest_row = 1 << 20; ///< of axes that are made one

axis axis_of(const axis_map &map, int64_t write_pitch, int64_t read_pitch) {
    const detail::axis_shape shape = shape_of(map);
    return {static_cast<int>(map.src), static_cast<int>(map.dst),
            shape.least_taps, shape.most_taps, shape.two, write_pitch,
            read_pitch};
}

pattern pattern_of(const axis_map &map, element type) {
    const auto found
            = repetition_of(map, most_period, most_taps, type != element::f64);
    pattern made {found.inputs, found.outputs, found.odd_first, found.odd_last,
            {}, {}, {}};
    for (size_t k = 0; k < found.positions.size(); ++k) {
        const auto &[first, weights] = found.positions[k];
        made.first[k] = first;
        made.taps[k] = static_cast<int>(weights.size());
        std::ranges::copy(weights, made.weight[k]);
    }
    return made;
}

std::string refusal_of(const interpolation_problem &p,
        const std::vector<axis_map> &maps, bool any) {
    if (std::max(std::ranges::max(p.diff_src.dims),
                std::ranges::max(p.diff_dst.dims))
            >= (any ? 4 : 1) * most_positions)
        return text("takes less than 2^", any ? 31 : 29,
                " positions along an axis; ", given(p));
    if (any) return {};
    if (maps.empty())
        return "takes an axis that is resampled, given equal sizes";
    int64_t terms = 1, longest = 0;
    bool unrolled = true;
    for (const axis_map &map : maps) {
        unrolled = unrolled && map.two_taps && map.max_count <= most_taps;
        longest = std::max(longest, map.max_count);
        terms = std::min(
                terms * std::max<int64_t>(1, map.max_count), int64_t {1} << 32);
        if (map.src * map.max_count > most_weights)
            return "takes axes whose tables are small; " + given(p);
    }
    const auto &dims = p.diff_src.dims;
    const int64_t sums = dims[1] * dims[2] * dims[3] * dims[4];
    const int64_t most_terms = sums < many_sums && p.diff_dst.strides[1] == 1
            ? longest_of_channels
            : longest_sum;
    if (longest > longest_chain
            || (terms > most_terms && !(unrolled && sums >= many_sums)))
        return text("takes sums of at most ", longest_chain,
                " terms along an axis and, of less than ", many_sums,
                " sums an image, ", most_terms, " in all; given ", sums,
                " sums of ", terms, ", ", longest, " along an axis");
    return {};
}

std::string text_of(const axis &a) {
    return fields_text("written", a.written, "read", a.read, "least_taps",
            a.least_taps, "most_taps", a.most_taps, "two", a.two, "write_pitch",
            a.write_pitch, "read_pitch", a.read_pitch);
}
std::string text_of(const pattern &of) {
    if (of.written == 0) return "{}";
    const auto count = static_cast<size_t>(of.written);
    std::string weights = "{";
    for (size_t k = 0; k < count; ++k)
        weights += list_of(of.weight[k], static_cast<size_t>(of.taps[k]))
                + ", ";
    return fields_text("written", of.written, "read", of.read, "odd_first",
            of.odd_first, "odd_last", of.odd_last, "first",
            list_of(of.first, count), "taps", list_of(of.taps, count), "weight",
            weights + "}");
}

} // namespace

bool can_walk_first(const mapped_problem &of) {
    constexpr int most_inner[] = {1, 3, 64, 64}; // more f32 was not measured
    const problem_specification &p = of.specification;
    if (p.walk.read <= p.walk.written || p.walk.read_pitch <= 0
            || !p.column.is_there() || p.column.read_pitch != p.inner
            || p.inner > most_inner[static_cast<int>(p.type)])
        return false;
    const axis_map &walk = of.maps[0];
    if (!walk.two_taps) return false;
    // Rows add to the first position, and each to the last one's or the next.
    for (size_t row = 0; row < static_cast<size_t>(walk.dst); ++row)
        if (walk.low(row) > (row == 0 ? 0 : walk.low(row - 1) + 1))
            return false;
    return true;
}

std::optional<mapped_problem> specification_of(
        const detail::fused_interpolation &whole, int alignment,
        std::string &refusal, bool any) {
    const interpolation_problem &p = whole.problem;
    problem_specification s {};
    s.type = element_of(p.diff_src.type);
    s.alignment = alignment;
    if (!whole.prologue.empty())
        s.prologue = fused_op_of(whole.prologue.front());
    std::ranges::transform(whole.epilogue, s.epilogue, fused_op_of);

    std::vector<axis_map> maps;
    std::vector<axis> axes;
    strided_copy kept; // of the other axes
    for (size_t i = 0; i < 5; ++i) {
        const int64_t write_pitch = p.diff_src.strides[i];
        int64_t read_pitch = p.diff_dst.strides[i];
        if (i >= 2) {
            axis_map map = make_axis_map(p.mode, p.coordinates, p.axes[i - 2]);
            if (!map.identity || (any && i == 4 && axes.empty())) {
                if (p.mode == detail::interpolation_mode::box)
                    read_pitch = -read_pitch;
                // A point that has all of dense axes has one row.
                if (any && !axes.empty() && has_all(map) && has_all(maps.back())
                        && axes.back().read_pitch == map.dst * read_pitch
                        && maps.back().dst * map.dst <= longest_row) {
                    map = make_axis_map(detail::interpolation_mode::nearest,
                            detail::coordinate_mode::half_pixel,
                            {1, maps.back().dst * map.dst});
                    axes.pop_back();
                    maps.pop_back();
                }
                axes.push_back(axis_of(map, write_pitch, read_pitch));
                maps.push_back(std::move(map));
                continue;
            }
        }
        const auto at = static_cast<size_t>(kept.rank++);
        kept.dims[at] = p.diff_src.dims[i];
        kept.dst_strides[at] = write_pitch;
        kept.src_strides[at] = read_pitch;
    }
    refusal = refusal_of(p, maps, any);
    if (!refusal.empty()) return {};
    const copies::shape others = copies::arrange(kept);
    constexpr int64_t too_long = 4 * most_positions;
    const bool side_by_side = others.dst_strides[0] == 1
            && others.src_strides[0] == 1 && others.dims[0] < too_long;
    s.inner = side_by_side ? static_cast<int>(others.dims[0]) : 1;
    for (int i = 0; i < most_outer; ++i) {
        const int from = i + (side_by_side ? 1 : 0);
        int64_t dim = std::max<int64_t>(1, others.dims[from]);
        // Axes that are too long as one were merged, and left the last place.
        for (const int64_t part : p.diff_src.dims)
            if (dim >= too_long && dim % part == 0 && dim / part < too_long) {
                dim /= part;
                s.outer[most_outer - 1] = static_cast<int>(part);
                s.outer_write[most_outer - 1] = others.dst_strides[from] * dim;
                s.outer_read[most_outer - 1] = others.src_strides[from] * dim;
            }
        if (s.outer[i] > 0) break;
        s.outer[i] = static_cast<int>(dim);
        s.outer_write[i] = others.dst_strides[from];
        s.outer_read[i] = others.src_strides[from];
    }
    if (!any
            && (others.count >= too_long
                    || axes.back().read * axes.back().read_pitch >= too_long)) {
        refusal = "takes fewer elements that are not resampled; " + given(p);
        return {};
    }
    // No order of sums follows from how one position lies.
    for (size_t a = axes.size(); a-- > 0;) {
        const bool last = a + 1 == axes.size();
        if (axes[a].written == 1)
            axes[a].write_pitch = last
                    ? s.inner
                    : axes[a + 1].written * axes[a + 1].write_pitch;
        if (axes[a].read == 1)
            axes[a].read_pitch = last
                    ? s.inner
                    : axes[a + 1].read * axes[a + 1].read_pitch;
    }
    // A walk takes rows that add to two positions at most.
    const bool walks = maps[0].two_taps && !any;
    const size_t none = axes.size();
    maps.push_back(make_axis_map(p.mode, p.coordinates, {}));
    axes.push_back(axis_of(maps.back(), 0, 0));
    const size_t column = none - 1;
    if (!any) s.columns = pattern_of(maps[column], s.type);
    const auto form_of = [&](size_t walk, size_t middle) {
        mapped_problem form {s, {maps[walk], maps[middle], maps[column]}, any};
        problem_specification &of = form.specification;
        of.walk = axes[walk];
        of.middle = axes[middle];
        of.column = axes[column];
        return form;
    };
    mapped_problem made = none == 3 ? form_of(0, 1)
            : none == 2 ? form_of(walks ? 0 : none, walks ? none : 0)
                        : form_of(none, none);
    std::vector<mapped_problem> walked_first;
    if (!any) walked_first.push_back(made);
    if (!any && none == 3) walked_first.push_back(form_of(1, 0));
    std::erase_if(walked_first,
            [](const mapped_problem &form) { return !can_walk_first(form); });
    if (walked_first.empty()) return made;
    // In the order of sums that is expected to be fastest; the walk first, which takes no op ahead,
    // where it saves 7 % of the time (costs are times to the power of 1.5).
    double least_cost = 0.9 * cost_in_order(made, false);
    for (mapped_problem &form : walked_first) {
        const double cost = cost_in_order(form, true, least_cost);
        if (cost >= least_cost) continue;
        least_cost = cost;
        form.specification.walk_first = true;
        made = std::move(form);
    }
    if (s.prologue != fused_op::none && made.specification.walk_first) {
        refusal = "takes no op ahead where the walk comes first";
        return {};
    }
    return made;
}

template <typename Sum>
host_tables<Sum>::host_tables(const mapped_problem &of) {
    const problem_specification &p = of.specification;
    const axis *const axes[] = {&p.walk, &p.middle, &p.column};
    for (size_t a = 0; a < 3; ++a) {
        const axis_map &map = of.maps[a];
        const bool descends = axes[a]->read_pitch < 0; // all weights are 1
        const detail::axis_spans spans(map);
        for (const auto &[first, end] : spans.taps())
            places[a].push_back({descends ? 1 - end : first, end - first});
        // Of long sums rows have their own lengths, and begin at multiples of 16 bytes.
        if (of.any && a == 2 && is_of_ones(map)) {
            rows[a].assign(places[a].size(), 0);
            continue;
        }
        const auto most = static_cast<size_t>(axes[a]->most_taps);
        for (size_t i = 0; i < places[a].size(); ++i) {
            const size_t row = weights[a].size(),
                         count = static_cast<size_t>(map.count(i));
            if (of.any) rows[a].push_back(static_cast<long long>(row));
            weights[a].resize(
                    row + (of.any ? round_up(count, size_t {4}) : most));
            for (size_t t = 0; t < count; ++t)
                weights[a][row + t]
                        = static_cast<Sum>(map.weight(map.offset(i) + t));
        }
    }
    const axis_map &walk = of.maps[0];
    if (!walk.two_taps || of.any) return;
    steps.resize(static_cast<size_t>(walk.dst) + 1); // and one that is not used
    // Behind the members too: uploads are compared byte by byte.
    std::memset(static_cast<void *>(steps.data()), 0,
            steps.size() * sizeof(step<Sum>));
    for (size_t o = 0; o + 1 < steps.size(); ++o) {
        steps[o].low_weight = static_cast<Sum>(walk.low_weight(o));
        steps[o].high_weight = static_cast<Sum>(walk.high_weight(o));
        steps[o].low = static_cast<int>(walk.low(o));
    }
}

template struct host_tables<float>;
template struct host_tables<double>;

std::string text_of(const specification_of_kernel &s) {
    const auto &[p, c] = s;
    return header_of("gpu/interpolation/specification.hpp", "resample",
            "specification_of_kernel",
            fields_text("of",
                    fields_text("type", p.type, "inner", p.inner, "outer",
                            p.outer, "outer_write", p.outer_write, "outer_read",
                            p.outer_read, "walk", text_of(p.walk), "middle",
                            text_of(p.middle), "column", text_of(p.column),
                            "columns", text_of(p.columns), "reads_sums", false,
                            "walk_first", p.walk_first, "alignment",
                            p.alignment, "prologue", p.prologue, "epilogue",
                            p.epilogue),
                    "cut_by",
                    fields_text("vector", c.vector, "columns", c.columns,
                            "repeated", c.repeated, "read_vector",
                            c.read_vector, "exchanged", c.exchanged, "apart",
                            c.apart, "strip", c.strip, "ahead", c.ahead,
                            "threads", c.threads, "blocks", c.blocks, "stages",
                            c.stages, "planes", c.planes, "parts", c.parts,
                            "tile_read", c.tile_read, "middle_part",
                            c.middle_part, "middle_read", c.middle_read,
                            "words", c.words, "line_vector", c.line_vector,
                            "gathers", c.gathers)));
}

} // namespace gradnn::gpu::resample
