// Convolutions with few channels to a group, depthwise ones among them, plane
// by plane:
//
//     written[o, x] = sum over i, t of weights[o, i, t] * read[i, x + t]
//     diff_weights[o, i, t] = sum over n, x of dst[o, x] * src[i, x + t]
//
// A task stages a tile of the planes of some groups' channels (and of dst, for
// the weights) in its scratch, widened to f32 or f64, with a border of zeros
// (geometry.hpp), runs the inner loops of
// kernels.cpp over it, and writes its own part of the
// output. Any layout is staged; where channels are contiguous, by transposing.
// Deterministic: tiles follow from the problem, and each sum is one thread's,
// in a fixed order; pieces of a weights gradient are added in their order.
//
// Where a border of zeros would meet Inf or NaN, terms outside are masked out
// instead, so that they contribute nothing.
#include "cpu/convolution/planes/planes.hpp"

#include <cstring>
#include <limits>

namespace gradnn::cpu {

using detail::convolution_direction;
using detail::size_of;
using detail::tensor_view;

namespace {

/// Elements of one staged plane that tiles aim at: few where channels are
/// contiguous, so that many channels are staged together and cache lines are
/// read once, and where a tile has several images.
constexpr int64_t plane_aim = 6144;
constexpr int64_t small_plane_aim = 768;
/// Bytes of contiguous channels that tiles of several images leave room for.
constexpr int64_t channels_aim = 1024;
/// Elements that are worth a start, and bytes of images beyond which a start costs
/// less than that memory waits while a tile is computed.
constexpr int64_t few_elements = 128;
constexpr int64_t images_bytes = int64_t {16} << 10;
/// What a plane may have.
constexpr int64_t plane_most = 65536;
/// With more channels to a group the matrix product is faster: of the written
/// tensor, or pairs of input and output channels of a weights gradient.
constexpr int64_t most_channels = 16;
constexpr int64_t most_pairs = 64;
/// Longer sums of f32 would lose digits; the matrix product sums in rounds.
constexpr int64_t most_terms = 12288;
constexpr int64_t most_phases = 4096;

} // namespace

std::string planes_plan::refusal(const convolution_problem &problem) {
    const auto &dims = problem.weights.dims;
    if (problem.direction == convolution_direction::backward_weights) {
        if (dims[1] * dims[2] > most_pairs)
            return "takes at most " + std::to_string(most_pairs)
                    + " pairs of channels a group, given "
                    + std::to_string(dims[1] * dims[2]);
    } else {
        const bool forward
                = problem.direction == convolution_direction::forward;
        const size_t o_axis = forward ? 1 : 2;
        const int64_t terms
                = dims[forward ? 2 : 1] * dims[3] * dims[4] * dims[5];
        if (dims[o_axis] > most_channels)
            return "takes at most " + std::to_string(most_channels)
                    + " output channels a group, given "
                    + std::to_string(dims[o_axis]);
        if (terms > most_terms)
            return "takes sums of at most " + std::to_string(most_terms)
                    + " terms, given " + std::to_string(terms);
    }
    if (gather_phase_list::count(problem) > most_phases)
        return "takes at most " + std::to_string(most_phases)
                + " phases of strides, given "
                + std::to_string(gather_phase_list::count(problem));
    return {};
}

planes_plan::planes_plan(const convolution_problem &problem)
    : problem_(problem),
      kernels_(plane_kernels_for(problem.dst.type, problem.weights.type)),
      phases_(problem),
      groups_(problem.weights.dims[0]),
      outs_(problem.weights.dims[o_axis()]),
      ins_(problem.weights.dims[i_axis()]),
      taps_(phases_.taps()) {
    for (size_t axis = 0; axis < 3; ++axis)
        for (const gather_axis &one : phases_.axis(axis))
            staged_axes_[axis].emplace_back(one);
    for (const staged_axis &d : staged_axes_[0])
        for (const staged_axis &h : staged_axes_[1])
            for (const staged_axis &w : staged_axes_[2])
                staged_.push_back({&d, &h, &w});
    decide_tiles();
}

/// Whole planes where they are small, several one behind the other where no tap
/// goes from one to the next; else axes are halved, the innermost last. From the
/// problem alone.
void planes_plan::decide_tiles() {
    std::array<int64_t, 3> size = phases_.positions();
    const auto measure = [&] {
        plane_pitch_ = 0;
        out_pitch_ = 0;
        for (const auto &axes : staged_) {
            const staged_tile tile(axes, tile_range {{}, size});
            plane_pitch_
                    = std::max(plane_pitch_, tile.plane_pitch(kernels_.lanes));
            out_pitch_ = std::max(out_pitch_, out_pitch(tile));
        }
        return std::max(plane_pitch_, out_pitch_);
    };
    const auto halve
            = [&](size_t axis) { size[axis] = ceil_divide(size[axis], 2); };
    const bool transposed = read().strides[4] != 1 && read().strides[1] == 1
            && groups_ * ins_ > 1;
    const int64_t aim = transposed ? small_plane_aim : plane_aim;
    int64_t images_aim = small_plane_aim;
    if (transposed)
        images_aim = std::min(images_aim,
                stage_aim / kernels_.wide_bytes
                        / std::min(groups_ * ins_,
                                channels_aim / size_of(read().type)));
    const auto image_bytes = [](const tensor_view &view) {
        return view.dims[1] * view.dims[3] * view.dims[4] * size_of(view.type);
    };
    const int64_t bytes = image_bytes(problem_.src) + image_bytes(problem_.dst);
    while (size[0] > 1 && staged_axes_[0][0].is_point
            && (measure() > images_aim
                    || (measure() > few_elements
                            && size[0] * bytes > images_bytes)))
        halve(0);
    while (measure() > aim) {
        if (size[0] > 1)
            halve(0);
        else if (size[1] > 8)
            halve(1);
        else if (size[2] > 256)
            halve(2);
        else
            break;
    }
    while (measure() > plane_most && size[1] * size[2] > 1)
        halve(size[1] > 1 ? 1 : 2);
    tiling_ = position_tiling(size, phases_.positions());
}

std::string planes_plan::refusal() const {
    if (std::max(plane_pitch_, out_pitch_) > plane_most)
        return "a tile of one position, with all that its taps span, has "
                + std::to_string(plane_pitch_) + " elements of at most "
                + std::to_string(plane_most);
    return {};
}

// Fitted to 900 random problems (README). Vectors are counted in 64 bytes, since
// narrower ones slow oneDNN down too, with which it is compared.
double planes_plan::copy_nanoseconds(const staged_run &run,
        const tensor_view &view, int64_t channels) const {
    constexpr double of_run = 15;
    constexpr double of_vector = 5;
    constexpr double of_transposed = 7;
    constexpr double of_element = 1.2; // one by one
    if (!run.inside) return 0;
    const double share
            = static_cast<double>(kernels_.lanes * kernels_.wide_bytes) / 64;
    const auto vectors
            = static_cast<double>(ceil_divide(run.length, kernels_.lanes));
    if (run.step == 1 && (run.stride == 1 || run.length == 1))
        return of_run
                + of_vector * share * vectors * static_cast<double>(channels);
    if (run.step == 1 && view.strides[1] == 1 && channels > 1)
        return of_run
                + of_transposed * share * vectors
                * static_cast<double>(round_up(channels, kernels_.lanes));
    return of_run + of_element * static_cast<double>(run.length * channels);
}

double planes_plan::nanoseconds() const {
    constexpr double of_product = 0.25; // of vectors
    constexpr double of_load = 0.6;
    constexpr double of_weight = 10;
    const double share
            = static_cast<double>(kernels_.lanes * kernels_.wide_bytes) / 64;
    const int64_t loads = ceil_divide(outs_, plane_kernels::most_outputs);
    double sum
            = of_weight * static_cast<double>(groups_ * outs_ * ins_ * taps_);
    for (size_t p = 0; p < phases_.all().size(); ++p) {
        const gather_phase &phase = phases_.all()[p];
        const staged_tile tile = tile_at(0, p);
        if (tile.range().empty()) continue;
        auto tiles = static_cast<double>(read().dims[0]);
        std::array<int64_t, 3> strides {};
        for (size_t axis = 0; axis < 3; ++axis) {
            tiles *= static_cast<double>(phase.axes[axis]->count)
                    / static_cast<double>(tile.range().count[axis]);
            strides[axis]
                    = phase.axes[axis]->pitch * written().strides[axis + 2];
        }
        double one = share
                * static_cast<double>(
                        groups_ * vectors(tile) * ins_ * phase.taps)
                * (of_product * static_cast<double>(outs_)
                        + of_load * static_cast<double>(loads));
        if (phase.taps > 0)
            tile.for_each_read(
                    read(), groups_ * ins_, [&](const staged_run &run) {
                        one += copy_nanoseconds(run, read(), groups_ * ins_);
                    });
        tile.for_each_position(
                0, strides, groups_ * outs_, [&](const staged_run &run) {
                    one += copy_nanoseconds(run, written(), groups_ * outs_);
                });
        sum += tiles * one;
    }
    return sum;
}

void planes_plan::stage(const staged_tile &tile, const void *data, int64_t n,
        int64_t channel, int64_t channels, std::byte *planes) const {
    const tensor_view &view = read();
    const int64_t wide = kernels_.wide_bytes;
    const int64_t pitch = tile.plane_pitch(kernels_.lanes);
    const int64_t base = n * view.strides[0] + channel * view.strides[1];
    tile.for_each_read(view, channels, [&](const staged_run &run) {
        if (run.inside) {
            kernels_.widen(static_cast<const std::byte *>(data)
                            + (base + run.offset) * size_of(view.type),
                    run.stride, view.strides[1], planes + run.at * wide,
                    run.step, pitch, run.length, channels);
            return;
        }
        for (int64_t c = 0; c < channels; ++c)
            fill(planes + c * pitch * wide, run, false);
    });
    const staged_run end = end_of(tile);
    for (int64_t c = 0; c < channels; ++c)
        fill(planes + c * pitch * wide, end, false);
}

staged_run planes_plan::end_of(const staged_tile &tile) const {
    staged_run end;
    end.at = tile.plane_elements();
    end.length = tile.plane_pitch(kernels_.lanes) - end.at;
    return end;
}

void planes_plan::fill(
        std::byte *plane, const staged_run &run, bool one) const {
    const auto fill_with = [&](auto value) {
        auto *to = reinterpret_cast<decltype(value) *>(plane) + run.at;
        if (run.step == 1)
            std::fill_n(to, run.length, value);
        else
            for (int64_t i = 0; i < run.length; ++i)
                to[i * run.step] = value;
    };
    if (kernels_.wide_bytes == 8)
        fill_with(one ? 1.0 : 0.0);
    else
        fill_with(one ? 1.0F : 0.0F);
}

void planes_plan::stage_mask(const staged_tile &tile, std::byte *mask) const {
    tile.for_each_read(read(), 1,
            [&](const staged_run &run) { fill(mask, run, run.inside); });
    fill(mask, end_of(tile), false);
}

namespace {

bool is_point(const convolution_problem &problem, size_t axis) {
    return problem.weights.dims[axis + 3] == 1 && problem.strides[axis] == 1
            && problem.pads_begin[axis] == 0
            && problem.src.dims[axis + 2] == problem.dst.dims[axis + 2];
}

/// Windows of one point do not care where a line of the image ends: axes that
/// follow one another in both tensors become one.
void merge_lines(convolution_problem &problem) {
    const auto follows = [](const detail::tensor_view &view, size_t axis) {
        return view.strides[axis] == view.strides[4] * view.dims[4];
    };
    for (size_t axis = 2; axis-- > 0 && is_point(problem, axis);) {
        if (problem.src.dims[axis + 2] == 1) continue;
        if (problem.src.dims[4] == 1 || !follows(problem.src, axis + 2)
                || !follows(problem.dst, axis + 2))
            break;
        for (detail::tensor_view *view : {&problem.src, &problem.dst}) {
            view->dims[4] *= view->dims[axis + 2];
            view->dims[axis + 2] = 1;
            view->strides[axis + 2] = 0;
        }
    }
}

/// Images without depth are the planes of one image, one behind the other.
void merge_images(convolution_problem &problem) {
    if (!is_point(problem, 0) || problem.src.dims[2] != 1) return;
    for (detail::tensor_view *view : {&problem.src, &problem.dst}) {
        std::swap(view->dims[0], view->dims[2]);
        view->strides[2] = view->strides[0];
    }
}

} // namespace

double planes_nanoseconds(const convolution_problem &problem) {
    const auto made = make_convolution_planes(problem, {});
    return made.plan
            ? static_cast<const planes_plan &>(*made.plan).nanoseconds()
            : std::numeric_limits<double>::infinity();
}

plan_or_refusal make_convolution_planes(
        const convolution_problem &given, const compile_options &options) {
    convolution_problem problem = given;
    if (is_point(problem, 2)) merge_lines(problem);
    merge_images(problem);
    std::string refusal = planes_plan::refusal(problem);
    if (!refusal.empty()) return plan_or_refusal::refuse(std::move(refusal));
    return problem.direction == convolution_direction::backward_weights
            ? make_planes_weights_plan(problem, options)
            : make_planes_data_plan(problem, options);
}

} // namespace gradnn::cpu
