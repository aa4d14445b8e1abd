#include "gpu/convolution/cudnn/planner.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include <gradnn/status.hpp>

#include "gpu/convolution/cudnn/rules.hpp"
#include "gpu/runtime/cuda_check.hpp"
#include "gpu/runtime/device.hpp"
#include "gpu/runtime/pause.hpp"
#include "text.hpp"

namespace gradnn::gpu::cudnn {

namespace fe = cudnn_frontend;

using detail::compile_options;
using detail::convolution_direction;
using detail::data_type;
using detail::text;

namespace {

/// Bytes; what execute promises cuDNN of every pointer.
constexpr int64_t operand_alignment = 16;
/// How many of the heuristics' kernels a measurement tries.
constexpr size_t most_measured = 24;
/// One that takes so many times as long as the fastest so far is not run
/// again, nor, if there is one to take, one whose first run takes so many
/// milliseconds, which may be its loading: some of the last ones take seconds.
constexpr float hopeless_factor = 4.0F;
constexpr float hopeless_ms = 500.0F;
/// After so long none is built or tried any more, if there is one to take: cuDNN
/// compiles some of them.
constexpr std::chrono::seconds most_building {2};
constexpr std::chrono::seconds most_measuring {4};

fe::DataType_t type_of(data_type type) {
    switch (type) {
        case data_type::f16: return fe::DataType_t::HALF;
        case data_type::bf16: return fe::DataType_t::BFLOAT16;
        case data_type::f64: return fe::DataType_t::DOUBLE;
        default: return fe::DataType_t::FLOAT;
    }
}

fe::Tensor_v8 tensor_of(const described_tensor &t, int64_t id) {
    return fe::TensorBuilder_v8()
            .setDim(t.rank, t.dims.data())
            .setStride(t.rank, t.strides.data())
            .setId(id)
            .setAlignment(operand_alignment)
            .setDataType(type_of(t.type))
            .build();
}

fe::Operation_v8 operation_of(const problem_arrangement &a) {
    const auto compute = a.operands[0].seen.type == data_type::f64
            ? fe::DataType_t::DOUBLE
            : fe::DataType_t::FLOAT;
    const auto src = tensor_of(a.operands[0].seen, operand_ids[0]);
    const auto weights = tensor_of(a.operands[1].seen, operand_ids[1]);
    const auto dst = tensor_of(a.operands[2].seen, operand_ids[2]);
    const auto convolution
            = fe::ConvDescBuilder_v8()
                      .setComputeType(compute)
                      .setMathMode(CUDNN_CROSS_CORRELATION)
                      .setSpatialDimCount(a.space)
                      .setSpatialStride(a.space, a.strides.data())
                      .setPrePadding(a.space, a.pads_begin.data())
                      .setPostPadding(a.space, a.pads_end.data())
                      .setDilation(a.space, a.dilations.data())
                      .build();
    using type = fe::DescriptorType_t;
    switch (a.direction) {
        case convolution_direction::backward_data:
            return fe::OperationBuilder_v8(
                    type::OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR)
                    .setdxDesc(src)
                    .setwDesc(weights)
                    .setdyDesc(dst)
                    .setcDesc(convolution)
                    .setAlpha(1.0)
                    .setBeta(0.0)
                    .build();
        case convolution_direction::backward_weights:
            return fe::OperationBuilder_v8(
                    type::OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR)
                    .setxDesc(src)
                    .setdwDesc(weights)
                    .setdyDesc(dst)
                    .setcDesc(convolution)
                    .setAlpha(1.0)
                    .setBeta(0.0)
                    .build();
        case convolution_direction::forward: break;
    }
    return fe::OperationBuilder_v8(
            type::OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR)
            .setxDesc(src)
            .setwDesc(weights)
            .setyDesc(dst)
            .setcDesc(convolution)
            .setAlpha(1.0)
            .setBeta(0.0)
            .build();
}

} // namespace

plan_finder::plan_finder(const problem_arrangement &arrangement,
        const compile_options &options, library_handle handle,
        size_t workspace_limit, bool refused_too)
    : arrangement_(arrangement),
      options_(options),
      handle_(handle),
      limit_(workspace_limit),
      operation_(operation_of(arrangement)),
      graph_([this] {
          std::array<const fe::Operation_v8 *, 1> operations {&operation_};
          return fe::OperationGraphBuilder_v8()
                  .setHandle(handle_)
                  .setOperationGraph(1, operations.data())
                  .build();
      }()) {
    static_cast<void>(fe::get_heuristics_list(
            std::vector {fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK}, graph_,
            [&](cudnnBackendDescriptor_t config) {
                return !refused_too && barred(config, arrangement, options);
            },
            configs_, true));
    if (refused_too) return;
    std::erase_if(configs_, [&](const auto &config) {
        return flawed(fe::detail::get_engine_tag(config), arrangement, options);
    });
}

bool plan_finder::refused(size_t index) const {
    return barred(configs_[index]->get_backend_descriptor(), arrangement_,
                   options_)
            || flawed(name(index), arrangement_, options_);
}

std::string plan_finder::name(size_t index) const {
    return fe::detail::get_engine_tag(configs_[index]);
}

built_plan plan_finder::build(size_t index, std::string &reason) {
    built_plan plan;
    try {
        auto made
                = fe::ExecutionPlanBuilder_v8()
                          .setHandle(handle_)
                          // What a CUDA graph holds on to is the caller's
                          // affair, see gradnn/cuda.hpp.
                          .setCudaGraphRetention(fe::CudaGraphRetention_t::NONE)
                          .setEngineConfig(configs_[index], graph_.getTag())
                          .build();
        const auto bytes = static_cast<size_t>(made.getWorkspaceSize());
        if (bytes > limit_) {
            reason = text(made.getTag(), " wants ", bytes,
                    " bytes of workspace; ", limit_, " are allowed");
            return plan;
        }
        plan.workspace_bytes_ = bytes;
        plan.tag_ = made.getTag();
        const auto &notes = made.getAllNumericNotes();
        plan.deterministic_ = std::find(notes.begin(), notes.end(),
                                      CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC)
                == notes.end();
        plan.descriptor_
                = std::make_unique<built_plan::descriptor>(std::move(made));
    } catch (const fe::cudnnException &failure) {
        reason = failure.what();
    }
    return plan;
}

built_plan plan_finder::named(const std::string &wanted) {
    std::string ignored;
    for (size_t index = 0; index < count(); ++index)
        if (name(index) == wanted) return build(index, ignored);
    return {};
}

namespace {

/// A stream and two events, for one measurement.
class stopwatch {
public:
    stopwatch() {
        check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
                "cudaStreamCreateWithFlags");
        for (cudaEvent_t &event : events_)
            check(cudaEventCreate(&event), "cudaEventCreate");
    }
    stopwatch(const stopwatch &) = delete;
    stopwatch &operator=(const stopwatch &) = delete;
    ~stopwatch() {
        for (cudaEvent_t event : events_)
            if (event != nullptr) ignore(cudaEventDestroy(event));
        ignore(cudaStreamDestroy(stream_));
    }

    cudaStream_t stream() const { return stream_; }

    /// Of one run of `runs`, which do not wait for the host.
    template <typename Work>
    float milliseconds(int runs, const Work &work) {
        pause(stream_, runs);
        check(cudaEventRecord(events_[0], stream_), "cudaEventRecord");
        for (int number = 0; number < runs; ++number)
            work();
        check(cudaEventRecord(events_[1], stream_), "cudaEventRecord");
        check(cudaEventSynchronize(events_[1]), "cudaEventSynchronize");
        float time = 0.0F;
        check(cudaEventElapsedTime(&time, events_[0], events_[1]),
                "cudaEventElapsedTime");
        return time / static_cast<float>(runs);
    }

private:
    cudaStream_t stream_ = nullptr;
    std::array<cudaEvent_t, 2> events_ {};
};

/// Where plans of an arrangement can be run: operands of zeros and a workspace.
class trial {
public:
    trial(int device, const problem_arrangement &arrangement,
            size_t workspace_bytes, library_handle handle)
        : workspace_(device, workspace_bytes), handle_(handle) {
        for (size_t index = 0; index < 3; ++index) {
            const described_tensor &t = arrangement.operands[index].seen;
            tensors_[index] = device_buffer(device,
                    static_cast<size_t>(t.extent() * detail::size_of(t.type)));
            data_[index] = tensors_[index].data();
            check(cudaMemsetAsync(data_[index], 0, tensors_[index].size_bytes(),
                          watch.stream()),
                    "cudaMemsetAsync");
        }
        check_status(fe::detail::set_stream(handle_, watch.stream()),
                "cudnnSetStream");
    }
    trial(const trial &) = delete;
    trial &operator=(const trial &) = delete;
    ~trial() { static_cast<void>(fe::detail::set_stream(handle_, nullptr)); }

    void run(const built_plan &plan) const {
        plan.execute(handle_, data_, workspace_.data());
    }

    void wait() const {
        check(cudaStreamSynchronize(watch.stream()), "cudaStreamSynchronize");
    }

    stopwatch watch;

private:
    const device_buffer workspace_;
    std::array<device_buffer, 3> tensors_;
    std::array<void *, 3> data_ {};
    const library_handle handle_;
};

} // namespace

bool plan_finder::runs(
        const built_plan &plan, int device, std::string &reason) const {
    try {
        const capture_mode_guard relaxed;
        const trial scratch(
                device, arrangement_, plan.workspace_bytes(), handle_);
        scratch.run(plan);
        scratch.wait();
    } catch (const error &failure) {
        // No error of CUDA's may meet the caller's next call.
        static_cast<void>(cudaGetLastError());
        // No memory for a trial says nothing of the plan.
        if (failure.status == status::out_of_memory) return true;
        reason = text(plan.tag(), " does not run: ", failure.what());
        return false;
    }
    return true;
}

built_plan plan_finder::first(int device, std::string &reason) {
    const bool doubtful = arrangement_.exceeds_a_grid();
    for (size_t index = 0; index < count(); ++index)
        if (built_plan plan = build(index, reason))
            if (!doubtful || runs(plan, device, reason)) return plan;
    return {};
}

built_plan plan_finder::fastest(int device, std::string &found) {
    std::vector<std::pair<built_plan, std::string>> plans;
    size_t workspace_bytes = 0;
    const auto begin = std::chrono::steady_clock::now();
    const auto spent = [&] { return std::chrono::steady_clock::now() - begin; };
    for (size_t index = 0; index < std::min(count(), most_measured); ++index) {
        if (!plans.empty() && spent() > most_building) break;
        std::string ignored;
        if (built_plan plan = build(index, ignored)) {
            workspace_bytes = std::max(workspace_bytes, plan.workspace_bytes());
            plans.emplace_back(std::move(plan), name(index));
        }
    }
    built_plan best;
    try {
        const capture_mode_guard relaxed;
        trial scratch(device, arrangement_, workspace_bytes, handle_);
        stopwatch &watch = scratch.watch;
        float least = std::numeric_limits<float>::max();
        for (auto &[plan, plan_name] : plans) {
            if (best && spent() > most_measuring) break;
            const auto run = [&, &candidate = plan] { scratch.run(candidate); };
            float time = std::numeric_limits<float>::max();
            try {
                const float first = watch.milliseconds(1, run);
                if (best && first > hopeless_ms) continue;
                if (watch.milliseconds(1, run) > hopeless_factor * least)
                    continue;
                for (int repeat = 0; repeat < 3; ++repeat)
                    time = std::min(time, watch.milliseconds(4, run));
            } catch (const error &) {
                // A kernel that fails is not the fastest.
                static_cast<void>(cudaGetLastError());
                continue;
            }
            if (time < least) {
                least = time;
                best = std::move(plan);
                found = plan_name;
            }
        }
        scratch.wait();
    } catch (const error &failure) {
        if (failure.status != status::out_of_memory) throw;
        best = {};
    }
    return best;
}

} // namespace gradnn::gpu::cudnn
