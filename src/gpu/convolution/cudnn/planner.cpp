#include "gpu/convolution/cudnn/planner.hpp"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include <gradnn/status.hpp>

#include "base/text.hpp"
#include "gpu/runtime/cuda_check.hpp"
#include "gpu/runtime/device.hpp"

namespace gradnn::gpu::cudnn {

namespace fe = cudnn_frontend;

using detail::compile_options;
using detail::convolution_direction;
using detail::data_type;
using detail::text;

namespace {

/// Bytes; what execute promises cuDNN of every pointer.
constexpr int64_t operand_alignment = 16;

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
    const auto finish = [&](fe::OperationBuilder_v8 &builder) {
        return builder.setcDesc(convolution).setAlpha(1.0).setBeta(0.0).build();
    };
    using type = fe::DescriptorType_t;
    fe::OperationBuilder_v8 to_data(
            type::OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR);
    fe::OperationBuilder_v8 to_weights(
            type::OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR);
    fe::OperationBuilder_v8 forward(
            type::OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
    switch (a.direction) {
        case convolution_direction::backward_data:
            return finish(
                    to_data.setdxDesc(src).setwDesc(weights).setdyDesc(dst));
        case convolution_direction::backward_weights:
            return finish(
                    to_weights.setxDesc(src).setdwDesc(weights).setdyDesc(dst));
        case convolution_direction::forward: break;
    }
    return finish(forward.setxDesc(src).setwDesc(weights).setyDesc(dst));
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
            reason = text(made.getTag(), " needs ", bytes,
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
                = std::make_shared<built_plan::descriptor>(std::move(made));
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

} // namespace gradnn::gpu::cudnn
