// Times plans of one problem, to take the fastest.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "kernel/kernel.hpp"

namespace gradnn::gpu {

/// Of the GPU's kernel lists.
extern const detail::plan_timer plans_timer;

/// The fastest of the ways that one row has for a problem: the first, without measuring, where
/// there is one, and where there is no memory to measure.
std::unique_ptr<detail::plan> fastest_of(
        std::vector<std::unique_ptr<detail::plan>> plans,
        std::span<const size_t> argument_bytes,
        const detail::compile_options &options);

} // namespace gradnn::gpu
