// Which problems convolution.gpu_col2im takes, in which portions, and where the products
// of a position lie. Plain host arithmetic.
#include "gpu/convolution/col2im/cut.hpp"

#include "base/text.hpp"
#include "gpu/convolution/facts.hpp"
#include "gpu/runtime/device.hpp"
#include "kernel/problem_text.hpp"

namespace gradnn::gpu::col2im {

namespace {

using detail::convolution_problem;
using detail::data_type;
using detail::text;
using implicit_gemm::dense_problem;

std::string reason_against(const convolution_problem &problem) {
    constexpr int64_t longest_axis = 1 << 20; // a table has 8 bytes a point
    constexpr int64_t longest_stride = 1 << 15;
    if (axes_exceed(problem, longest_axis))
        return text("takes axes, windows, strides and pads of at most 2^20; ",
                detail::given(problem));
    int64_t taps = 1; // of a sum, at most
    for (size_t axis = 0; axis < 3; ++axis) {
        if (problem.strides[axis] > longest_stride)
            return text("takes strides of at most 2^15, given ",
                    problem.strides[axis]);
        taps *= std::min(
                problem.dst.dims[axis + 2], taps_of_a_point(problem, axis));
    }
    if (elements_of(problem.src) >= 0x1p31)
        return text("takes fewer than 2^31 elements of src; ",
                detail::given(problem));
    // After 12,288 terms of a product, so that a sum has 13,107 additions at most.
    constexpr int64_t most_f64_taps = 800;
    if (problem.src.type == data_type::f64 && taps > most_f64_taps)
        return text("takes f64 sums over at most ", most_f64_taps,
                " positions of the window, given ", taps);
    return {};
}

/// Of a portion of the products, in bytes. Smaller ones that the second-level cache
/// keeps are no faster: 150 gradients took 1.19 times as long, 0.96 at best.
constexpr int64_t most_products = int64_t {256} << 20;
/// Of dst, for a portion: CUTLASS reads less than 2^31 bytes.
constexpr int64_t most_read = int64_t {1} << 30;

/// The instructions of a thread that adds are counted. The other constants are fitted to
/// the times of 300 gradients on an H100, within 12 % (root mean square).
double cycles_of(const convolution_problem &problem, const work_cut &cut,
        int multiprocessors) {
    constexpr double further_launches = 8e3; // of a portion
    constexpr double products_passes = 1.22; // but the tile's write
    constexpr double copies_of_src = 2.5;
    constexpr double copies_of_dst = 3.1;
    constexpr double instructions = 110.0;
    constexpr double lanes = 128.0; // of a multiprocessor
    const auto &operands = cut.mapping.operands;
    const double src = elements_of(problem.src);
    const double element = detail::size_of(problem.src.type);
    double bytes = products_passes * cut.mapping.problem.sums_bytes();
    if (operands[0].staged) bytes += copies_of_src * element * src;
    if (operands[2].staged) bytes += copies_of_dst * operands[2].bytes;
    const double portions = 1.0 * (cut.mapping.problem.n / cut.images);
    const double launches = first_launches + further_launches * (portions - 1);
    const double threads = src
            / held_channels(problem.src.dims[1],
                    detail::size_of(cut.mapping.problem.types.sums()));
    return launches + portions * cut.choice.cycles + cut.last_choice.cycles
            + bytes / memory_rate
            + threads * instructions / lanes / multiprocessors;
}

} // namespace

bool writes_in_place(const detail::tensor_view &src) {
    constexpr int64_t few = 4;
    return src.strides[1] == 1 || src.dims[1] <= few;
}

problem_shape shape_of(const convolution_problem &problem, int64_t pitch,
        const detail::tensor_view &out, std::vector<product_taps> &taps) {
    problem_shape shape;
    const auto &dims = problem.src.dims;
    const int64_t sum_bytes = problem.src.type == data_type::f64 ? 8 : 4;
    const int64_t groups = dims[1] / held_channels(dims[1], sum_bytes);
    shape.channels = static_cast<int>(dims[1]);
    shape.threads_of_image = groups * dims[2] * dims[3] * dims[4];
    shape.groups = exact_divider(groups);
    std::copy(out.strides.begin(), out.strides.end(), shape.strides);
    // Of a position of dst and of the window, the innermost axis first.
    int64_t dst_pitch = pitch;
    int64_t window_pitch = dims[1];
    for (size_t axis = 3; axis-- > 0;) {
        const window_axis along(problem, axis);
        shape.src[axis] = exact_divider(along.src);
        shape.next[axis] = static_cast<int32_t>(
                along.step * window_pitch - along.back * dst_pitch);
        shape.table[axis] = static_cast<int>(taps.size());
        for (int64_t x = 0; x < along.src; ++x) {
            const axis_taps of = along.taps_of(x);
            taps.push_back({static_cast<int32_t>(of.position * dst_pitch
                                    + of.first * window_pitch),
                    static_cast<int32_t>(of.count)});
        }
        dst_pitch *= along.dst;
        window_pitch *= along.window;
    }
    shape.image = dst_pitch;
    return shape;
}

std::optional<work_cut> cut_of(const convolution_problem &problem,
        const detail::compile_options &options, std::string &refusal) {
    const implicit_gemm::tile_set *const set
            = implicit_gemm::products_of(problem.src.type, options.fpmath);
    if (problem.direction != detail::convolution_direction::backward_data)
        refusal = text("takes gradients of src; ", detail::given(problem));
    else if (set == nullptr)
        refusal = "takes f32 under fpmath_mode strict, given a relaxed one";
    else
        refusal = reason_against(problem);
    if (!refusal.empty()) return std::nullopt;
    auto mapping = implicit_gemm::products_mapping_of(problem,
            {problem.src.type, set->types.sums()}, writes_in_place(problem.src),
            refusal);
    if (!mapping) return std::nullopt;
    const device_properties &device = properties_of(options.device);
    const auto left = convolution_workspace_left(
            options, staged_bytes_of(mapping->operands), refusal);
    if (!left) return std::nullopt;

    work_cut made;
    made.mapping = std::move(*mapping);
    const int64_t all = made.mapping.problem.n;
    const dense_problem image = made.product_of(1);
    const auto image_sums = static_cast<int64_t>(image.sums_bytes());
    const int64_t most = std::min({static_cast<int64_t>(*left) / image_sums,
            most_products / image_sums,
            most_read
                    / (image.src_elements()
                            * detail::size_of(problem.src.type))});
    made.images
            = ceil_div(all, ceil_div(all, std::clamp<int64_t>(most, 1, all)));
    // No tile where the products and their partial sums do not fit.
    const auto choose_for = [&](int64_t images) -> implicit_gemm::tile_choice {
        const dense_problem product = made.product_of(images);
        const size_t products = products_bytes(product);
        if (images == 0 || products > *left) return {};
        return implicit_gemm::choose_tile(
                *set, product, device.multiprocessors, *left - products);
    };
    // Long sums are cut into slices, which need room too.
    for (;; made.images = ceil_div(made.images, 2)) {
        made.choice = choose_for(made.images);
        made.last_choice = choose_for(made.last_images());
        const bool fits = made.choice.tile != nullptr
                && (made.last_images() == 0
                        || made.last_choice.tile != nullptr);
        if (fits) break;
        if (made.images > 1) continue;
        refusal = text("takes an image's products, ", image.sums_bytes(),
                " bytes, and the slices of long sums in at most ", *left,
                " bytes of workspace");
        return std::nullopt;
    }
    made.cycles = cycles_of(problem, made, device.multiprocessors);
    return made;
}

} // namespace gradnn::gpu::col2im
