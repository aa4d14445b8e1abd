// The identity interpolation: a copy.
#pragma once

#include <array>
#include <memory>

#include "gpu/kernels.hpp"
#include "gpu/runtime/copy.hpp"
#include "gpu/runtime/launch.hpp"

namespace gradnn::gpu {

class identity_plan final : public detail::plan {
public:
    explicit identity_plan(const interpolation_problem &problem) {
        copy_.src_type = copy_.dst_type = problem.diff_src.type;
        copy_.rank = 5;
        for (size_t axis = 0; axis < 5; ++axis) {
            copy_.dims[axis] = problem.diff_src.dims[axis];
            copy_.src_strides[axis] = problem.diff_dst.strides[axis];
            copy_.dst_strides[axis] = problem.diff_src.strides[axis];
        }
    }

    void execute(std::span<void *const> args, std::byte *,
            detail::stream_impl &stream) const override {
        const launch_scope scope(stream);
        copy(copy_, args[0], args[1], scope.stream());
    }

    std::string backend() const override { return "CUDA"; }

private:
    strided_copy copy_;
};

} // namespace gradnn::gpu
