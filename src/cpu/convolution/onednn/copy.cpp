#include "cpu/convolution/onednn/copy.hpp"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "cpu/convolution/onednn/engine.hpp"

namespace gradnn::cpu::onednn {

namespace {

using dnnl::memory;

/// The layouts of activations that are worth telling apart.
enum class arrangement { ncx, nxc, blocks, other_blocks, other };

/// Whether axes of more than one element have these strides.
bool has_strides(const operand &tensor, const dims &strides) {
    for (size_t axis = 0; axis < strides.size(); ++axis)
        if (tensor.sizes[axis] > 1 && tensor.strides[axis] != strides[axis])
            return false;
    return true;
}

arrangement arrangement_of(const operand &tensor) {
    if (has_strides(tensor, dense_strides(tensor.sizes)))
        return arrangement::ncx;
    if (has_strides(tensor, channels_last_strides(tensor.sizes)))
        return arrangement::nxc;
    return arrangement::other;
}

/// The channels of a block where that is 8 or 16 and nothing else is blocked;
/// otherwise 0.
int64_t block_of(const memory::desc &layout) {
    if (layout.get_inner_idxs() != dims {1}) return 0;
    const int64_t block = layout.get_inner_blks()[0];
    return block == 8 || block == 16 ? block : 0;
}

arrangement arrangement_of(const memory::desc &layout) {
    if (layout.get_inner_nblks() == 0)
        return arrangement_of(operand {from_onednn(layout.get_data_type()),
                layout.get_dims(), layout.get_strides()});
    if (block_of(layout) > 0) return arrangement::blocks;
    return arrangement::other_blocks;
}

bool is_narrow(data_type type) {
    return type == data_type::bf16 || type == data_type::f16;
}

/// The conversion of a tensor into a dense layout; empty where the layout pads
/// or takes more axes than a conversion has.
std::optional<conversion> describe_conversion(
        const operand &tensor, const memory::desc &layout) {
    auto parts = split_axes(layout);
    if (!parts) return {};
    std::stable_sort(parts->begin(), parts->end(),
            [](const auto &a, const auto &b) { return a.stride > b.stride; });
    conversion result;
    result.src_type = tensor.type;
    result.dst_type = from_onednn(layout.get_data_type());
    size_t rank = 0;
    for (const auto &part : *parts) {
        const int64_t stride = part.step * tensor.strides[part.axis];
        const bool merges = rank > 0
                && result.src_strides[rank - 1] == stride * part.extent
                && result.dst_strides[rank - 1] == part.stride * part.extent;
        if (!merges && rank == result.dims.size()) return {};
        if (!merges) result.dims[rank++] = 1;
        result.dims[rank - 1] *= part.extent;
        result.src_strides[rank - 1] = stride;
        result.dst_strides[rank - 1] = part.stride;
    }
    if (rank == 0) result.dims[rank++] = 1; // one element
    result.rank = static_cast<int>(rank);
    return result;
}

/// The copy of activations into blocks; empty where it is no such thing or they
/// are not contiguous either way.
std::optional<channel_blocking> describe_blocking(
        const operand &tensor, const memory::desc &layout) {
    channel_blocking result;
    result.block = block_of(layout);
    if (result.block == 0) return {};
    result.plain_type = tensor.type;
    result.blocked_type = from_onednn(layout.get_data_type());
    if (result.blocked_type != result.plain_type
            && result.blocked_type != data_type::f32)
        return {};
    result.images = tensor.sizes[0];
    result.channels = tensor.sizes[1];
    result.image_stride = tensor.strides[0];
    result.channel_stride = tensor.strides[1];
    result.point_stride = 1;
    // Space as one axis, on both sides.
    int64_t blocked_stride = result.block;
    const dims blocked_strides = layout.get_strides();
    for (size_t axis = tensor.sizes.size(); axis-- > 2;) {
        if (tensor.sizes[axis] == 1) continue;
        if (result.points == 1) result.point_stride = tensor.strides[axis];
        if (tensor.strides[axis] != result.point_stride * result.points
                || blocked_strides[axis] != blocked_stride)
            return {};
        blocked_stride *= tensor.sizes[axis];
        result.points *= tensor.sizes[axis];
    }
    const int64_t blocks = (result.channels + result.block - 1) / result.block;
    if ((blocks > 1 && blocked_strides[1] != blocked_stride)
            || (result.images > 1
                    && blocked_strides[0] != blocked_stride * blocks))
        return {};
    if (result.point_stride != 1 && result.channel_stride != 1) return {};
    // A single point is copied as a row of channels.
    if (result.points == 1 && result.channel_stride == 1)
        result.point_stride = result.channels;
    return result;
}

dnnl::primitive_attr reorder_attributes() {
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    return attributes;
}

/// oneDNN's own copy; empty where it has slow reference code or none.
std::optional<dnnl::reorder::primitive_desc> make_reorder(
        const memory::desc &from, const memory::desc &to) {
    if (!from || !to) return {};
    const dnnl::reorder::primitive_desc descriptor(
            cpu_engine(), from, cpu_engine(), to, reorder_attributes(), true);
    if (!descriptor) return {};
    const std::string name = descriptor.impl_info_str();
    if (name.find("ref") != std::string::npos) return {};
    return descriptor;
}

/// Whether elements lie side by side along some axis. oneDNN 3.2 leaves elements
/// out where it copies to others (2178 rows of 7 elements, each 8 apart).
bool has_neighbours(const operand &tensor) {
    for (size_t axis = 0; axis < tensor.sizes.size(); ++axis)
        if (tensor.sizes[axis] > 1 && tensor.strides[axis] == 1) return true;
    return tensor.elements() == 1;
}

/// A dense layout with the axes in the order of the tensor, so that the
/// conversion into it goes along rows.
dims dense_strides_like(const operand &tensor) {
    std::vector<size_t> order(tensor.sizes.size());
    std::iota(order.begin(), order.end(), size_t {0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
        return tensor.strides[a] > tensor.strides[b];
    });
    dims strides(tensor.sizes.size());
    int64_t stride = 1;
    for (size_t index = order.size(); index-- > 0;) {
        strides[order[index]] = stride;
        stride *= tensor.sizes[order[index]];
    }
    return strides;
}

} // namespace

copy_route find_route(const operand &tensor, const memory::desc &layout,
        bool is_weights, bool to_caller) {
    copy_route route;
    if (!is_weights) {
        route.blocking = describe_blocking(tensor, layout);
        if (route.blocking) return route;
    }
    const bool blocked = layout.get_inner_nblks() > 0;
    const bool plain_activations = !is_weights && !blocked;
    if (plain_activations) {
        route.conversion = describe_conversion(tensor, layout);
        if (route.conversion) return route;
    }
    // oneDNN's reorders of f16 are reference code on most CPUs.
    if (tensor.type != data_type::f16 && has_neighbours(tensor)) {
        const auto caller = describe(tensor);
        route.reorder = to_caller ? make_reorder(layout, caller)
                                  : make_reorder(caller, layout);
        if (route.reorder) return route;
    }
    if (!blocked) {
        route.conversion = describe_conversion(tensor, layout);
        if (route.conversion) return route;
    }
    route.between = memory::desc(
            tensor.sizes, layout.get_data_type(), dense_strides_like(tensor));
    route.conversion = describe_conversion(tensor, route.between);
    if (to_caller)
        route.reorder.emplace(cpu_engine(), layout, cpu_engine(), route.between,
                reorder_attributes());
    else
        route.reorder.emplace(cpu_engine(), route.between, cpu_engine(), layout,
                reorder_attributes());
    return route;
}

double copy_bytes(
        const operand &tensor, const memory::desc &layout, bool is_weights) {
    if (same_layout(tensor, layout)) return 0;
    const double bytes = static_cast<double>(tensor.elements()
                                 * detail::size_of(tensor.type))
            + static_cast<double>(layout.get_size());
    // How much longer than a plain copy, as measured.
    constexpr double weights = 3;
    constexpr double into_blocks = 1.3;
    constexpr double into_other_blocks = 5;
    constexpr double transposed = 2;
    constexpr double transposed_narrow = 2.5;
    constexpr double anything = 8;
    if (is_weights) return bytes * weights;
    const auto theirs = arrangement_of(tensor);
    const auto ours = arrangement_of(layout);
    if (theirs == arrangement::other) return bytes * anything;
    if (theirs == ours) return bytes;
    if (ours == arrangement::blocks) return bytes * into_blocks;
    const bool narrow = is_narrow(tensor.type);
    if (ours == arrangement::other_blocks)
        return bytes
                * (tensor.type == data_type::f16 ? anything
                                : narrow         ? into_other_blocks
                                                 : into_blocks);
    return bytes * (narrow ? transposed_narrow : transposed);
}

} // namespace gradnn::cpu::onednn
