// Plans of gradnn's own kernels.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <utility>

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

/// A plan of launches that were chosen when it was made.
class launched_plan final : public kernel_plan {
public:
    using launches = std::function<void(std::span<void *const> args,
            std::byte *workspace, const launch_stream &)>;

    explicit launched_plan(launches all, size_t workspace_bytes = 0)
        : launches_(std::move(all)), workspace_bytes_(workspace_bytes) {}

    size_t workspace_bytes() const override { return workspace_bytes_; }

private:
    void submit(std::span<void *const> args, std::byte *workspace,
            const launch_stream &stream) const override {
        launches_(args, workspace, stream);
    }

    const launches launches_;
    const size_t workspace_bytes_;
};

} // namespace gradnn::gpu
