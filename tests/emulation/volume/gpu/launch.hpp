#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <cuda_runtime_api.h>
#include "emu.h"
namespace gradnn::gpu {
struct launch_stream { int n = 0; operator cudaStream_t() const { return nullptr; } };
template <typename... P, typename... A>
void launch_early(const char *, void (*kernel)(P...), unsigned grid, unsigned block, size_t, const launch_stream &, A &&...a) {
    emu_run(grid, block, [&] { kernel(a...); });
}
}
