#include "gpu/convolution/pointwise/shape.hpp"

#include <algorithm>
#include <bit>
#include <initializer_list>
#include <string_view>

#include "gpu/convolution/facts.hpp"
#include "kernel/problem_text.hpp"

namespace gradnn::gpu::pointwise {

namespace {

operand operand_of(const detail::tensor_view &tensor, bool planes) {
    operand of;
    of.channels = static_cast<int>(tensor.dims[1]);
    if (!planes) return of;
    const auto stride = [&](size_t axis) {
        return tensor.dims[axis] == 1 ? 0 : tensor.strides[axis];
    };
    of.image = stride(0);
    of.channel = stride(1);
    of.elements = (tensor.dims[0] - 1) * of.image
            + (tensor.dims[1] - 1) * of.channel + positions_of(tensor);
    return of;
}

} // namespace

int products_of(const problem_shape &shape) {
    return static_cast<int>(std::bit_ceil(static_cast<unsigned>(
            ceil_div(shape.first.channels, product_terms))));
}

int64_t shared_bytes_of(const problem_shape &shape, bool of_weights) {
    const auto staged = [&](int channels, int positions) {
        return staged_elements(shape.planes, channels, positions);
    };
    const int first = shape.first.channels;
    const int second = shape.second.channels;
    if (of_weights) {
        const int64_t tile = staged(first, weights_positions)
                + staged(second, weights_positions);
        return std::max(2 * 2 * tile, 4 * int64_t {first} * second);
    }
    const int steps = products_of(shape);
    const int positions = data_positions(shape.planes, steps);
    const int read = staged(first, positions);
    const int written = staged(shape.planes ? product_rows : second, positions);
    const int factors = round_up(second, product_rows) * steps * product_terms;
    return int64_t {2} * (factors + warps * (2 * read + written));
}

int64_t parts_of(const problem_shape &shape, int64_t blocks) {
    // Tensor cores truncate: a sum leaves them after at most so many products.
    constexpr int64_t longest_chain = 512;
    const int64_t shares = warps
            / column_shares_of(shape.second.channels, products_of(shape));
    constexpr int64_t products = weights_positions / product_terms;
    const int64_t least
            = ceil_div(shape.tiles, longest_chain / ceil_div(products, shares));
    // The partial sums, written and read, are to be a quarter of the data.
    const int64_t channels
            = int64_t {shape.first.channels} + shape.second.channels;
    const int64_t sums = int64_t {shape.first.channels} * shape.second.channels;
    const int64_t data = shape.tiles * weights_positions * channels * 2;
    const int64_t most = std::max<int64_t>(1, data / (4 * 2 * 4 * sums));
    return std::clamp(
            std::min(blocks, most), std::min(least, shape.tiles), shape.tiles);
}

std::optional<problem_shape> describe(
        const convolution_problem &problem, std::string &why) {
    const auto refuse
            = [&](std::string_view takes) -> std::optional<problem_shape> {
        why = detail::refuse(takes, problem).refusal;
        return std::nullopt;
    };
    const auto &[direction, src, weights, dst, strides, dilations, pads]
            = problem;
    if (detail::size_of(src.type) != 2 || weights.type != src.type)
        return refuse("bf16 and f16, with weights of the same type");
    if (!is_matrix_product(problem))
        return refuse(
                "windows of one point, one group, no strides and no pads");
    if (std::min(src.dims[1], dst.dims[1]) > 64
            || std::max(src.dims[1], dst.dims[1]) > 256)
        return refuse("at most 64 channels of one tensor and 256 of the other");
    problem_shape shape;
    const auto both_are = [&](std::initializer_list<size_t> axes) {
        return are_dense(src, axes) && are_dense(dst, axes);
    };
    shape.planes = !both_are({1, 4, 3, 2, 0}); // else pixels
    if (shape.planes && !both_are({4, 3, 2}))
        return refuse("src and dst both dense NXC, or both NCX with dense "
                      "planes");

    const bool of_weights = is_of_weights(problem);
    shape.first_is_dst
            = of_weights ? dst.dims[1] <= src.dims[1] : is_to_src(problem);
    shape.first = operand_of(shape.first_is_dst ? dst : src, shape.planes);
    shape.second = operand_of(shape.first_is_dst ? src : dst, shape.planes);
    if (of_weights
            && column_shares_of(shape.second.channels, products_of(shape))
                    > warps)
        return refuse("in gradients of weights, at most 128 channels of one "
                      "tensor where the other has more than 32");
    shape.weights_strides[0] = weights.strides[shape.first_is_dst ? 2 : 1];
    shape.weights_strides[1] = weights.strides[shape.first_is_dst ? 1 : 2];
    int64_t images = src.dims[0];
    shape.positions = positions_of(src);
    // With fewer positions most of a tile would be empty.
    constexpr int64_t fewest_positions = 16;
    if (shape.planes && shape.positions < fewest_positions)
        return refuse("in NCX, planes of at least 16 positions");
    if (!shape.planes) {
        shape.positions *= images;
        images = 1;
    }
    const int64_t of_tile = of_weights
            ? weights_positions
            : data_positions(shape.planes, products_of(shape));
    shape.tiles_of_image = ceil_div(shape.positions, of_tile);
    shape.tiles = images * shape.tiles_of_image;
    constexpr int64_t most_tiles = int64_t {1} << 30;
    if (shape.tiles > most_tiles) return refuse("at most 2^30 tiles");
    return shape;
}

} // namespace gradnn::gpu::pointwise
