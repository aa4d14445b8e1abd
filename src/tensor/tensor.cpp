#include <gradnn/tensor.hpp>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "base/text.hpp"
#include "kernel/engine_impl.hpp"
#include "kernel/problem.hpp"
#include "tensor/layout.hpp"

namespace gradnn {

using detail::text;
using detail::text_of;

const char *to_string(logical_tensor::data_type type) {
    switch (type) {
        case logical_tensor::data_type::undef: return "undef";
        case logical_tensor::data_type::f16: return "f16";
        case logical_tensor::data_type::bf16: return "bf16";
        case logical_tensor::data_type::f32: return "f32";
        case logical_tensor::data_type::s32: return "s32";
        case logical_tensor::data_type::s8: return "s8";
        case logical_tensor::data_type::u8: return "u8";
        case logical_tensor::data_type::f64: return "f64";
        case logical_tensor::data_type::boolean: return "boolean";
        case logical_tensor::data_type::f8_e5m2: return "f8_e5m2";
        case logical_tensor::data_type::f8_e4m3: return "f8_e4m3";
        case logical_tensor::data_type::s4: return "s4";
        case logical_tensor::data_type::u4: return "u4";
        case logical_tensor::data_type::s64: return "s64";
    }
    return "unknown";
}

namespace {

[[noreturn]] void fail(size_t id, const std::string &what) {
    throw error(
            status::invalid_arguments, text("logical_tensor ", id, ": ", what));
}

void check_rank(size_t id, size_t rank) {
    if (rank > static_cast<size_t>(logical_tensor::max_ndims))
        fail(id,
                text("has ", rank, " dims; at most ", logical_tensor::max_ndims,
                        " are allowed"));
}

} // namespace

logical_tensor::logical_tensor(size_t tid, data_type dtype, int32_t ndims,
        layout_type ltype, property_type ptype)
    : id_(tid),
      absent_(false),
      data_type_(dtype),
      layout_type_(ltype),
      property_type_(ptype),
      ndims_(ndims) {
    if (ndims < -1 || ndims > max_ndims)
        fail(tid,
                text("ndims is ", ndims, "; -1 to ", max_ndims,
                        " are allowed"));
    dims_.fill(unknown_dim);
    strides_.fill(unknown_dim);
    if (ndims == 0) return;
    if (ltype == layout_type::opaque) fail(tid, "an opaque layout needs dims");
}

logical_tensor::logical_tensor(size_t tid, data_type dtype, layout_type ltype)
    : logical_tensor(tid, dtype, -1, ltype) {}

logical_tensor::logical_tensor(size_t tid, data_type dtype, const dims &adims,
        layout_type ltype, property_type ptype)
    : id_(tid),
      absent_(false),
      data_type_(dtype),
      layout_type_(ltype),
      property_type_(ptype) {
    check_rank(tid, adims.size());
    ndims_ = static_cast<int32_t>(adims.size());
    std::copy(adims.begin(), adims.end(), dims_.begin());
    strides_.fill(unknown_dim);
    if (ltype == layout_type::strided) {
        const auto dense = detail::dense_strides(adims);
        std::copy(dense.begin(), dense.end(), strides_.begin());
    }
}

logical_tensor::logical_tensor(size_t tid, data_type dtype, const dims &adims,
        const dims &strides, property_type ptype)
    : logical_tensor(tid, dtype, adims, layout_type::undef, ptype) {
    if (strides.size() != adims.size())
        fail(tid,
                text("has ", adims.size(), " dims ", text_of(adims), " and ",
                        strides.size(), " strides ", text_of(strides)));
    layout_type_ = layout_type::strided;
    std::copy(strides.begin(), strides.end(), strides_.begin());
}

logical_tensor::logical_tensor(size_t tid, data_type dtype, const dims &adims,
        size_t lid, property_type ptype)
    : logical_tensor(tid, dtype, adims, layout_type::opaque, ptype) {
    layout_id_ = lid;
}

size_t logical_tensor::get_layout_id() const {
    if (layout_type_ != layout_type::opaque)
        fail(id_, "has no layout id: its layout is not opaque");
    return layout_id_;
}

logical_tensor::dims logical_tensor::get_dims() const {
    if (ndims_ < 0) fail(id_, "its number of dims is unknown");
    return {dims_.begin(), dims_.begin() + ndims_};
}

logical_tensor::dims logical_tensor::get_strides() const {
    if (layout_type_ != layout_type::strided)
        fail(id_, "has no strides: its layout is not strided");
    if (ndims_ < 0) fail(id_, "its number of dims is unknown");
    return {strides_.begin(), strides_.begin() + ndims_};
}

size_t logical_tensor::get_mem_size() const {
    if (!detail::dims_known(*this))
        fail(id_, "its size in bytes is unknown: so are its dims");
    const dims shape = get_dims();
    const dims strides = layout_type_ == layout_type::strided
            ? get_strides()
            : detail::dense_strides(shape);
    const auto bytes = detail::extent_bytes(data_type_, shape, strides);
    if (!bytes)
        fail(id_,
                text("dims ", text_of(shape), " and strides ", text_of(strides),
                        " do not fit in 63 bits"));
    return static_cast<size_t>(*bytes);
}

bool logical_tensor::is_equal(const logical_tensor &lt) const {
    if (absent_ || lt.absent_) return absent_ == lt.absent_;
    const auto same = [&](const auto &a, const auto &b) {
        return ndims_ <= 0
                || std::equal(a.begin(), a.begin() + ndims_, b.begin());
    };
    return id_ == lt.id_ && data_type_ == lt.data_type_
            && layout_type_ == lt.layout_type_
            && property_type_ == lt.property_type_ && ndims_ == lt.ndims_
            && same(dims_, lt.dims_)
            && (layout_type_ != layout_type::strided
                    || same(strides_, lt.strides_))
            && (layout_type_ != layout_type::opaque
                    || layout_id_ == lt.layout_id_);
}

tensor::tensor(const logical_tensor &lt, const engine &aengine, void *handle)
    : lt_(lt), engine_(aengine), handle_(handle) {
    if (!aengine)
        throw error(status::invalid_arguments,
                text("tensor ", lt.get_id(), ": its engine is empty"));
    if (lt.is_absent())
        throw error(status::invalid_arguments,
                "tensor: its logical_tensor stands for no tensor");
}

tensor::tensor(const logical_tensor &lt, const engine &aengine)
    : tensor(lt, aengine, nullptr) {
    const size_t bytes = lt.get_mem_size();
    if (bytes == 0) return;
    const auto &device = detail::access::impl(aengine);
    owned_ = std::shared_ptr<void>(device->allocate_tensor(bytes),
            [device](void *memory) { device->deallocate_tensor(memory); });
    handle_ = owned_.get();
}

tensor tensor::make_scalar_tensor(const logical_tensor &lt, void *scalar) {
    const auto refuse = [&](const char *what) {
        throw error(status::invalid_arguments,
                text("make_scalar_tensor: tensor ", lt.get_id(), what));
    };
    if (lt.get_property_type() != logical_tensor::property_type::host_scalar)
        refuse(": its property is not host_scalar");
    if (!detail::rank_known(lt) || !lt.get_dims().empty())
        refuse(": it has dims");
    if (scalar == nullptr) refuse(": the pointer to the value is null");
    const size_t bytes = lt.get_mem_size();
    const auto copy = std::make_shared<std::vector<std::byte>>(bytes);
    std::memcpy(copy->data(), scalar, bytes);
    tensor made;
    made.lt_ = lt;
    made.owned_ = std::shared_ptr<void>(copy, copy->data());
    made.handle_ = made.owned_.get();
    return made;
}

} // namespace gradnn
