#include "cudnn_trial.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include <gradnn/status.hpp>

#include "gpu/runtime/cuda_check.hpp"

namespace gradnn::sweep {

namespace {

using gpu::cudnn::described_tensor;
using gpu::cudnn::problem_arrangement;

constexpr size_t guard_bytes = 65536; ///< a multiple of what cuDNN aligns to
constexpr int device = 0;

/// With a depth of 1 where there is none.
reference_tensor_shape shape_of(const described_tensor &t) {
    reference_tensor_shape shape;
    const size_t skip = 5 - t.rank;
    shape.dims[2] = 1;
    int64_t elements = 1;
    for (size_t axis = 0; axis < t.rank; ++axis) {
        const size_t to = axis < 2 ? axis : axis + skip;
        shape.dims[to] = static_cast<int32_t>(t.dims[axis]);
        shape.strides[to] = static_cast<int32_t>(t.strides[axis]);
        elements *= t.dims[axis];
    }
    if (elements != t.extent())
        throw std::logic_error("the sweep's tensors are dense");
    return shape;
}

reference_shape shape_of(const problem_arrangement &a) {
    reference_shape shape;
    shape.direction = a.direction;
    for (size_t index = 0; index < 3; ++index)
        shape.tensors[index] = shape_of(a.seen[index]);
    const size_t skip = 3 - a.space;
    for (size_t axis = 0; axis < a.space; ++axis) {
        shape.strides[axis + skip] = static_cast<int32_t>(a.strides[axis]);
        shape.dilations[axis + skip] = static_cast<int32_t>(a.dilations[axis]);
        shape.pads_begin[axis + skip] = static_cast<int32_t>(a.pads[axis]);
    }
    return shape;
}

size_t elements_of(const described_tensor &t) {
    return static_cast<size_t>(t.extent());
}

} // namespace

bool trial_result::is_right(const detail::promise &of, sign signs) const {
    return failure.empty() && error <= of.chain
            && (norm <= of.norm || signs != sign::any) && not_finite == 0
            && changed == 0 && strays == 0;
}

int64_t terms_of(const problem_arrangement &a) {
    if (a.direction == detail::convolution_direction::backward_weights)
        return a.weights_terms();
    const auto &weights = a.seen[1];
    const int64_t groups = a.seen[0].dims[1] / weights.dims[1];
    int64_t terms = a.direction == detail::convolution_direction::forward
            ? weights.dims[1]
            : weights.dims[0] / groups;
    for (size_t axis = 2; axis < weights.rank; ++axis)
        terms *= weights.dims[axis];
    return terms;
}

arrangement_trial::guarded::guarded(size_t bytes)
    : bytes_(bytes), memory_(device, bytes + 2 * guard_bytes) {}

void *arrangement_trial::guarded::data() const {
    return static_cast<std::byte *>(memory_.data()) + guard_bytes;
}

void arrangement_trial::guarded::fill(int byte) const {
    gpu::check(cudaMemset(memory_.data(), byte, memory_.size_bytes()),
            "cudaMemset");
}

uint64_t arrangement_trial::guarded::strays() const {
    return bytes_written(memory_.data(), guard_bytes)
            + bytes_written(
                    static_cast<std::byte *>(data()) + bytes_, guard_bytes);
}

arrangement_trial::arrangement_trial(const problem_arrangement &arrangement,
        detail::data_type inputs, const detail::promise &held_to, uint64_t seed,
        sign signs)
    : arrangement_(arrangement), held_to_(held_to) {
    const size_t output = arrangement.output();
    std::array<double *, 3> wide {};
    for (size_t index = 0; index < 3; ++index) {
        const described_tensor &seen = arrangement.seen[index];
        const size_t count = elements_of(seen);
        tensors_[index] = guarded(
                count * static_cast<size_t>(detail::size_of(seen.type)));
        tensors_[index].fill(0xFF);
        wide_[index] = gpu::device_buffer(device, count * sizeof(double));
        wide[index] = static_cast<double *>(wide_[index].data());
        if (index != output)
            fill_random(seen.type, inputs, tensors_[index].data(), wide[index],
                    count, seed + index, signs);
    }
    magnitudes_ = gpu::device_buffer(device, wide_[output].size_bytes());
    first_ = gpu::device_buffer(device, tensors_[output].size_bytes());
    totals_ = compute_reference(shape_of(arrangement), wide,
            static_cast<double *>(magnitudes_.data()));
}

void arrangement_trial::run_once(const gpu::cudnn::built_plan &plan,
        gpu::cudnn::library_handle handle, const guarded &workspace,
        int filling) const {
    tensors_[arrangement_.output()].fill(0xFF);
    workspace.fill(0xFF);
    // The second run meets another workspace, of which nothing may depend.
    gpu::check(cudaMemset(workspace.data(), filling, workspace.size_bytes()),
            "cudaMemset");
    plan.execute(handle,
            {tensors_[0].data(), tensors_[1].data(), tensors_[2].data()},
            plan.workspace_bytes != 0 ? workspace.data() : nullptr);
    gpu::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

trial_result arrangement_trial::run(
        const gpu::cudnn::built_plan &plan, gpu::cudnn::library_handle handle) {
    trial_result result;
    const size_t output = arrangement_.output();
    const guarded &written = tensors_[output];
    const guarded workspace(plan.workspace_bytes);
    try {
        run_once(plan, handle, workspace, 0xFF);
        gpu::check(cudaMemcpy(first_.data(), written.data(),
                           first_.size_bytes(), cudaMemcpyDeviceToDevice),
                "cudaMemcpy");
        result.strays = written.strays() + workspace.strays();
        run_once(plan, handle, workspace, 0);
    } catch (const error &failure) {
        // What CUDA does not forget, the next call throws.
        gpu::check(cudaDeviceSynchronize(), failure.what());
        result.failure = failure.what();
        return result;
    }
    result.strays += written.strays() + workspace.strays();
    const described_tensor &seen = arrangement_.seen[output];
    const comparison found = compare_to_reference(seen.type, first_.data(),
            written.data(), static_cast<const double *>(wide_[output].data()),
            static_cast<const double *>(magnitudes_.data()), elements_of(seen),
            held_to_.share * totals_.largest_magnitude);
    result.error = found.error;
    const double size = std::max(totals_.squares, totals_.term_squares);
    result.norm = size > 0 ? std::sqrt(found.error_squares / size) : 0;
    result.not_finite = found.not_finite;
    result.changed = found.changed;
    return result;
}

} // namespace gradnn::sweep
