#include "gpu/convolution/cudnn/planner.hpp"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "gpu/runtime/device.hpp"

namespace gradnn::gpu::cudnn {

namespace fe = cudnn_frontend;

using detail::compile_options;
using detail::convolution_direction;
using detail::data_type;
using detail::text;

namespace {

fe::DataType_t type_of(data_type type) {
    switch (type) {
        case data_type::f16: return fe::DataType_t::HALF;
        case data_type::bf16: return fe::DataType_t::BFLOAT16;
        case data_type::f64: return fe::DataType_t::DOUBLE;
        default: return fe::DataType_t::FLOAT;
    }
}

/// One that is between two ops has a number that is no operand's.
fe::Tensor_v8 tensor_of(const described_tensor &t, int64_t id) {
    return fe::TensorBuilder_v8()
            .setDim(t.rank, t.dims.data())
            .setStride(t.rank, t.strides.data())
            .setId(id)
            .setAlignment(data_alignment)
            .setDataType(type_of(t.type))
            .setVirtual(id > operand_ids.back())
            .build();
}

fe::DataType_t compute_type_of(const problem_arrangement &a) {
    return a.seen[0].type == data_type::f64 ? fe::DataType_t::DOUBLE
                                            : fe::DataType_t::FLOAT;
}

/// The number of what the convolution writes, where so many ops are behind it, or an op.
int64_t written_by(const problem_arrangement &a, size_t ops_before) {
    return ops_before == a.epilogue.size()
            ? operand_ids[a.output()]
            : operand_ids.back() + 1 + static_cast<int64_t>(ops_before);
}

/// An op behind the convolution.
fe::Operation_v8 operation_behind(const problem_arrangement &a, size_t op) {
    const described_tensor &like = a.seen[a.output()];
    const bool adds = a.epilogue[op] == detail::elementwise_kind::add;
    const auto mode = fe::PointWiseDescBuilder_v8()
                              .setMode(adds ? fe::PointwiseMode_t::ADD
                                            : fe::PointwiseMode_t::RELU_BWD)
                              .setComputeType(compute_type_of(a))
                              .build();
    const auto read = tensor_of(like, written_by(a, op));
    const auto other = tensor_of(like, operand_ids[a.operands.size() + op]);
    const auto written = tensor_of(like, written_by(a, op + 1));
    fe::OperationBuilder_v8 made(
            fe::DescriptorType_t::OPERATION_POINTWISE_DESCRIPTOR);
    made.setpwDesc(mode);
    return adds
            ? made.setxDesc(read).setbDesc(other).setyDesc(written).build()
            : made.setdyDesc(read).setxDesc(other).setdxDesc(written).build();
}

fe::Operation_v8 convolution_of(const problem_arrangement &a) {
    const auto operand = [&](size_t index) {
        return tensor_of(a.seen[index],
                index == a.output() ? written_by(a, 0) : operand_ids[index]);
    };
    const auto src = operand(0), weights = operand(1), dst = operand(2);
    const auto convolution
            = fe::ConvDescBuilder_v8()
                      .setComputeType(compute_type_of(a))
                      .setMathMode(CUDNN_CROSS_CORRELATION)
                      .setSpatialDimCount(a.space)
                      .setSpatialStride(a.space, a.strides.data())
                      .setPrePadding(a.space, a.pads.data())
                      .setPostPadding(a.space, a.pads.data())
                      .setDilation(a.space, a.dilations.data())
                      .build();
    using type = fe::DescriptorType_t;
    constexpr std::array types {
            type::OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
            type::OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
            type::OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR};
    fe::OperationBuilder_v8 made(types[a.output()]);
    using enum convolution_direction;
    a.direction == backward_data ? made.setdxDesc(src) : made.setxDesc(src);
    a.direction == backward_weights ? made.setdwDesc(weights)
                                    : made.setwDesc(weights);
    a.direction == forward ? made.setyDesc(dst) : made.setdyDesc(dst);
    return made.setcDesc(convolution).setAlpha(1.0).setBeta(0.0).build();
}

std::vector<fe::Operation_v8> operations_of(const problem_arrangement &a) {
    std::vector<fe::Operation_v8> all;
    all.push_back(convolution_of(a));
    for (size_t op = 0; op < a.epilogue.size(); ++op)
        all.push_back(operation_behind(a, op));
    return all;
}

// Which of these kernels gradnn does not use.

template <cudnnBackendNumericalNote_t... Notes>
bool has_note(cudnnBackendDescriptor_t config) {
    return (fe::hasNumericalNote<Notes>(config) || ...);
}

/// 2 of "k0" in "eng47_k0=2_k2=1"; 0 where the kernel has no such knob.
int knob_of(const std::string &tag, const std::string &knob) {
    const std::string name = "_" + knob + "=";
    const size_t at = tag.find(name);
    return at == std::string::npos ? 0
                                   : std::atoi(tag.c_str() + at + name.size());
}

/// Whether a kernel may not be used, by what cuDNN notes of it. F(2x2, 3x3), the
/// Winograd transform of 4x4 tiles, is as exact in f32 as plain sums; larger
/// tiles are not, nor is any of them in 16 bits.
bool barred(cudnnBackendDescriptor_t config, const problem_arrangement &a,
        const compile_options &options) {
    if (options.deterministic
            && has_note<CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC>(config))
        return true;
    if (has_note<CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION>(config))
        return true;
    const bool single = a.seen[0].type == data_type::f32;
    const bool strict = options.fpmath == fpmath_mode::strict;
    if (single && (!a.widened || a.f32_output)) {
        // Those that convert f32 do not say to which type of 16 bits.
        if (!strict)
            return options.fpmath != fpmath_mode::any
                    && has_note<CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS>(
                            config);
        return has_note<CUDNN_NUMERICAL_NOTE_TENSOR_CORE,
                CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS,
                CUDNN_NUMERICAL_NOTE_FFT,
                CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6,
                CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13>(config);
    }
    return has_note<CUDNN_NUMERICAL_NOTE_FFT, CUDNN_NUMERICAL_NOTE_WINOGRAD,
            CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4,
            CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6,
            CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13>(config);
}

/// Kernels that do less than cuDNN's notes say of them, or less than gradnn
/// promises: found by running all that the heuristics name (cuDNN 9.14, 9.19).
/// tests/sweep/cudnn_sweep.cpp does that on random problems. `tag` is cuDNN's name
/// of it: a number, which it keeps from version to version, and its knobs.
bool flawed(const std::string &tag, const problem_arrangement &a,
        const compile_options &options) {
    const std::string engine = engine_of(tag);
    const data_type seen = a.seen[0].type;
    const bool grouped = a.seen[0].dims[1] != a.seen[1].dims[1];
    // With groups, on tensors of few positions, and not on all of them: 71 and 78
    // read at misaligned addresses and beyond their operands; 9 and 23 write
    // outside of their workspace; 70 gives nonsense.
    switch (a.direction) {
        case convolution_direction::forward:
            if (grouped && engine == "eng71") return true;
            // Turns -Inf into numbers.
            return engine == "eng47" && a.seen[2].type == data_type::f16;
        case convolution_direction::backward_data:
            return grouped && engine == "eng78";
        case convolution_direction::backward_weights: break;
    }
    if (grouped && (engine == "eng9" || engine == "eng23" || engine == "eng70"))
        return true;
    // Of f32 nonsense where windows reach beyond src, on some shapes; of 16 bits
    // truncated sums of the tensor cores, an error of 1e-9 times the terms.
    if (engine == "eng70" && (a.f32_output || seen == data_type::f32))
        return true;
    if (detail::size_of(seen) == 2 && !a.f32_output) {
        // Parts of sums are rounded to 16 bits before they are added.
        if (engine == "eng47" && knob_of(tag, "k0") > 1) return true;
        if (engine == "eng62" && knob_of(tag, "k25") > 0) return true;
    }
    if (!a.f32_output || options.fpmath != fpmath_mode::strict) return false;
    // One chain of f32 sums: an error of 6e-8 times the terms' square root.
    constexpr int64_t longest_chain = 1024;
    return (engine == "eng17" || engine == "eng67")
            && a.weights_terms() > longest_chain;
}

bool is_refused(const fe::ManagedOpaqueDescriptor &config,
        const problem_arrangement &a, const compile_options &options) {
    return barred(config->get_backend_descriptor(), a, options)
            || flawed(fe::detail::get_engine_tag(config), a, options);
}

} // namespace

std::string engine_of(const std::string &tag) {
    return tag.substr(0, tag.find('_'));
}

plan_finder::plan_finder(const problem_arrangement &arrangement,
        const compile_options &options, library_handle handle,
        size_t workspace_limit, bool refused_too)
    : arrangement_(arrangement),
      options_(options),
      handle_(handle),
      limit_(workspace_limit),
      operations_(operations_of(arrangement)),
      graph_(fe::OperationGraphBuilder_v8()
                      .setHandle(handle)
                      .setOperationGraph(operations_)
                      .build()) {
    static_cast<void>(fe::get_heuristics_list(
            std::vector {fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK}, graph_,
            [](cudnnBackendDescriptor_t) { return false; }, configs_, true));
    if (refused_too) return;
    std::erase_if(configs_, [&](const auto &config) {
        return is_refused(config, arrangement, options);
    });
}

bool plan_finder::refused(size_t index) const {
    return is_refused(configs_[index], arrangement_, options_);
}

std::string plan_finder::name(size_t index) const {
    return fe::detail::get_engine_tag(configs_[index]);
}

built_plan plan_finder::build(size_t index, std::string &reason) {
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
        const std::string tag = made.getTag();
        if (bytes > limit_) {
            reason = text(tag, " needs ", bytes, " bytes of workspace; ",
                    limit_, " are allowed");
            return {};
        }
        const bool deterministic
                = std::ranges::count(made.getAllNumericNotes(),
                          CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC)
                == 0;
        return {std::make_shared<fe::ExecutionPlan_v8>(std::move(made)),
                static_cast<int>(arrangement_.operands.size()
                        + arrangement_.epilogue.size()),
                bytes, deterministic, tag};
    } catch (const fe::cudnnException &failure) {
        reason = failure.what();
        return {};
    }
}

void built_plan::execute(library_handle handle, const operand_data &data,
        void *workspace) const {
    auto pointers = data;
    try {
        const auto pack = fe::VariantPackBuilder_v8()
                                  .setDataPointers(operands, pointers.data())
                                  .setUids(operands, operand_ids.data())
                                  .setWorkspacePointer(workspace)
                                  .build();
        check_status(fe::detail::execute(handle, descriptor->get_raw_desc(),
                             pack.get_raw_desc()),
                "cudnnBackendExecute");
    } catch (const fe::cudnnException &failure) {
        throw error(status::runtime_error, failure.what());
    }
}

} // namespace gradnn::gpu::cudnn
