// Tensors of random layouts.
#pragma once

#include "fuzz_problem.hpp"
#include "support/random.hpp"

namespace gradnn::fuzz {

using test::random_source;

/// True in `percent` of a hundred cases.
bool happens(random_source &numbers, int64_t percent);

/// Dense, permuted, with gaps, along axes of size 1 with any stride; inputs
/// also with strides of 0 and overlapping rows, outputs also of layout `any`.
logical_tensor tensor_of(random_source &numbers, size_t id, data_type type,
        const dims &shape, bool output);

/// An s32 tensor of `count` values, with a gap after each at times.
logical_tensor shape_tensor(random_source &numbers, size_t id, size_t count);

/// The product of the dims, as far as it fits in 2^62.
int64_t count_of(const dims &shape);

} // namespace gradnn::fuzz
