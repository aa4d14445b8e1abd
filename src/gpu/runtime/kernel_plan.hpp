// Plans of gradnn's own kernels.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "gpu/runtime/launch.hpp"
#include "kernel/kernel.hpp"

namespace gradnn::gpu {

/// A plan that launches kernels, on a stream whose device is current.
class kernel_plan : public detail::plan {
public:
    void execute(std::span<void *const> args, std::byte *workspace,
            detail::stream_impl &stream) const final {
        const launch_scope scope(stream);
        submit(args, workspace, scope.stream());
    }
    std::string backend() const final { return "CUDA"; }

private:
    virtual void submit(std::span<void *const> args, std::byte *workspace,
            const launch_stream &stream) const = 0;
};

} // namespace gradnn::gpu
