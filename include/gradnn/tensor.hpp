// Logical tensors (descriptions) and tensors (a description and the memory).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include <gradnn/engine.hpp>

namespace gradnn {

/// Describes a tensor: an id that is unique in its graph, a data type, dims
/// and a layout. A value type.
///
/// Dims are in the order that the op's data_format or weights_format names;
/// strides are in elements, in the same order, and never negative. An input
/// may have strides of 0 (broadcast); on an output no two elements may share
/// an address.
class GRADNN_API logical_tensor {
public:
    using dim = int64_t;
    using dims = std::vector<dim>;

    enum class data_type {
        undef = 0,
        f16 = 1,
        bf16 = 2,
        f32 = 3,
        s32 = 4,
        s8 = 5,
        u8 = 6,
        f64 = 7,
        boolean = 8,
        // Of oneDNN Graph 3.5 and later: names and sizes for tensors of other
        // libraries' ops. No op of gradnn takes them.
        f8_e5m2 = 9,
        f8_e4m3 = 10,
        s4 = 11, ///< two in a byte
        u4 = 12,
        s64 = 16,
    };

    enum class layout_type {
        /// Not known yet; must be known at compile.
        undef = 0,
        /// On an output: the library chooses, see
        /// compiled_partition::query_logical_tensor.
        any = 1,
        /// Described by strides.
        strided = 2,
        /// oneDNN Graph's private layouts. gradnn makes none and refuses them.
        opaque = 3,
    };

    enum class property_type {
        undef = 0,
        variable = 1,
        constant = 2,
        /// A scalar in host memory, of other libraries' ops.
        host_scalar = 3,
    };

    /// A dimension that is not known yet.
    static constexpr dim unknown_dim = std::numeric_limits<int64_t>::min();
    /// The most dimensions a tensor may have.
    static constexpr int32_t max_ndims = 12;

    /// No tensor: stands in a list of ports for an optional one that is absent.
    logical_tensor() = default;

    /// `ndims` dimensions of unknown size; -1 where even the number is unknown.
    logical_tensor(size_t tid, data_type dtype, int32_t ndims,
            layout_type ltype, property_type ptype = property_type::undef);
    /// Dimensions unknown altogether.
    logical_tensor(size_t tid, data_type dtype,
            layout_type ltype = layout_type::undef);
    /// Known dims; with layout_type::strided the strides are dense row-major.
    /// Empty `adims` is a scalar.
    logical_tensor(size_t tid, data_type dtype, const dims &adims,
            layout_type ltype, property_type ptype = property_type::undef);
    /// Known dims and strides (in elements).
    logical_tensor(size_t tid, data_type dtype, const dims &adims,
            const dims &strides, property_type ptype = property_type::undef);
    /// An opaque layout, by the id that oneDNN Graph would use. Exists so that
    /// programs compile; every partition refuses it.
    logical_tensor(size_t tid, data_type dtype, const dims &adims, size_t lid,
            property_type ptype = property_type::undef);

    size_t get_id() const { return id_; }
    data_type get_data_type() const { return data_type_; }
    layout_type get_layout_type() const { return layout_type_; }
    property_type get_property_type() const { return property_type_; }
    /// Throws invalid_arguments unless the layout is opaque.
    size_t get_layout_id() const;
    /// Throws invalid_arguments where the number of dims is unknown.
    dims get_dims() const;
    /// In elements. Throws invalid_arguments unless the layout is strided.
    dims get_strides() const;
    /// Bytes from the first element to the end of the last; 0 for an empty
    /// tensor. Throws invalid_arguments where a dim or the layout is unknown.
    size_t get_mem_size() const;
    /// Equal in all that is set: id, data type, dims, layout, property.
    bool is_equal(const logical_tensor &lt) const;
    /// True for a default-constructed one, which stands for no tensor.
    bool is_absent() const { return absent_; }

private:
    friend struct detail::access;

    size_t id_ = std::numeric_limits<size_t>::max();
    bool absent_ = true;
    data_type data_type_ = data_type::undef;
    layout_type layout_type_ = layout_type::undef;
    property_type property_type_ = property_type::undef;
    int32_t ndims_ = -1;
    size_t layout_id_ = 0;
    std::array<dim, max_ndims> dims_ {};
    std::array<dim, max_ndims> strides_ {};
};

/// The name of a data type as JSON files write it ("f32", ...).
GRADNN_API const char *to_string(logical_tensor::data_type type);

/// Memory with a description: the caller's, which must outlive every execution
/// that uses it, or the library's, which the last copy of the tensor frees.
class GRADNN_API tensor {
public:
    tensor() = default;
    /// `handle` points at the first element, on the device of `aengine`; the
    /// `sizes`, `dst_shape` and `weights_shape` inputs are host memory on every
    /// engine. Null is accepted for empty tensors and for inputs whose data no
    /// formula reads (InterpolateBackward's src).
    tensor(const logical_tensor &lt, const engine &aengine, void *handle);
    /// The library allocates get_mem_size() bytes at a multiple of 64 by the
    /// engine's allocator, without setting them; none for an empty tensor. On a
    /// GPU this, and the freeing with the last copy, wait for the device: keep
    /// such tensors rather than make them for each execution. Shape inputs take
    /// a CPU engine. Throws out_of_memory, and invalid_arguments where dims are
    /// not known.
    tensor(const logical_tensor &lt, const engine &aengine);

    /// A copy of the value at `scalar`, of lt's data type, in host memory, for
    /// other libraries' ops: no op of gradnn takes one. `lt` has no dims and
    /// property_type::host_scalar, or else this throws invalid_arguments.
    static tensor make_scalar_tensor(const logical_tensor &lt, void *scalar);

    void *get_data_handle() const { return handle_; }
    /// Memory of the caller from now on.
    void set_data_handle(void *handle) {
        handle_ = handle;
        owned_.reset();
    }
    /// Empty for a scalar.
    engine get_engine() const { return engine_; }
    const logical_tensor &get_logical_tensor() const { return lt_; }

    explicit operator bool() const { return !lt_.is_absent(); }

private:
    friend struct detail::access;
    logical_tensor lt_;
    engine engine_;
    void *handle_ = nullptr;
    std::shared_ptr<void> owned_; ///< handle_, where the library allocated it
};

} // namespace gradnn
