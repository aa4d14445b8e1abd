// Times plans of one problem, to take the fastest.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "kernel/kernel.hpp"

namespace gradnn::gpu {

/// Of the GPU's kernel lists.
extern const detail::plan_timer plans_timer;

/// The fastest of so many ways that one row has for a problem: the first, without measuring,
/// where there is one, and where there is no memory to measure. Each is made by a thread of its
/// own, as NVRTC takes long, and so without device memory, whose allocator is the caller's
/// thread's. Refuses, for the first reason, where all of them do.
detail::plan_or_refusal fastest_of(size_t ways,
        const std::function<detail::plan_or_refusal(size_t)> &make,
        std::span<const size_t> argument_bytes,
        const detail::compile_options &options);

} // namespace gradnn::gpu
