// Times plans of one problem, to take the fastest.
#pragma once

#include "kernel/kernel.hpp"

namespace gradnn::gpu {

/// Of the GPU's kernel lists.
extern const detail::plan_timer plans_timer;

} // namespace gradnn::gpu
