// From the tensors that compile is given to ops whose every port has dims and
// strides.
#pragma once

#include <vector>

#include "op/checked_op.hpp"

namespace gradnn::detail {

/// What the caller says of the tensors, by id.
class given_tensors {
public:
    given_tensors(const std::vector<logical_tensor> &inputs,
            const std::vector<logical_tensor> &outputs);

    /// A tensor within the partition, of which the caller says nothing: throws
    /// invalid_arguments where he does.
    void add_inner(const logical_tensor &lt, const op &first);

    /// What is said of a port. Throws invalid_arguments where that is nothing,
    /// and invalid_data_type or invalid_shape where it is something else than
    /// the op was built with.
    const logical_tensor &find(
            const checked_op &the_op, const logical_tensor &declared);

    /// Whether the caller leaves the layout of an op's output to the library.
    bool leaves_layout_open(const logical_tensor &port);

    /// What an op makes, for those that read it.
    void replace(const logical_tensor &lt);

    /// Throws invalid_arguments where a tensor is none of the ports.
    void check_all_used() const;

private:
    struct tensor_entry {
        logical_tensor lt;
        bool used = false;
    };
    tensor_entry *entry(size_t id);

    std::vector<tensor_entry> entries_; ///< one an id
};

/// The op with every port's dims and strides. Checks what the op was not
/// checked with when it was declared.
checked_op completed(const checked_op &declared, given_tensors &given);

} // namespace gradnn::detail
