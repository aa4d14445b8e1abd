// A plan of launches that were chosen when it was made.
#pragma once

#include <functional>
#include <utility>

#include "gpu/runtime/kernel_plan.hpp"

namespace gradnn::gpu {

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
