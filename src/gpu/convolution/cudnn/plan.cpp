#include "gpu/convolution/cudnn/plan.hpp"

#include <span>

#include <gradnn/status.hpp>

#include "base/text.hpp"
#include "gpu/convolution/cudnn/planner.hpp"
#include "gpu/runtime/device.hpp"
#include "kernel/plan_cache.hpp"

namespace gradnn::gpu::cudnn {

namespace fe = cudnn_frontend;

using detail::compile_options;
using detail::text;

namespace {

/// All that decides which kernel is best, for the plan cache.
std::string key_of(const problem_arrangement &a, const compile_options &options,
        size_t workspace_limit) {
    std::string key
            = text(properties_of(static_cast<int>(options.device)).info.name,
                    "; cuDNN ", library_version(), "; direction ",
                    static_cast<int>(a.direction));
    for (const seen_operand &operand : a.operands) {
        const auto rank = static_cast<size_t>(operand.seen.rank);
        key += text("; ", to_string(operand.seen.type), " ",
                detail::text_of(std::span(operand.seen.dims).first(rank)), " ",
                detail::text_of(std::span(operand.seen.strides).first(rank)));
    }
    for (const detail::elementwise_kind each : a.epilogue)
        key += text("; op ", static_cast<int>(each));
    const auto space = static_cast<size_t>(a.space);
    // The pads of both ends.
    for (const auto *list : {&a.strides, &a.dilations, &a.pads, &a.pads})
        key += text("; ", detail::text_of(std::span(*list).first(space)));
    return key
            + text("; deterministic ", options.deterministic, "; fpmath ",
                    static_cast<int>(options.fpmath), a.widened ? " exact" : "",
                    "; workspace ", workspace_limit);
}

} // namespace

void built_plan::execute(library_handle handle, const operand_data &data,
        void *workspace) const {
    auto pointers = data;
    try {
        const auto pack = fe::VariantPackBuilder_v8()
                                  .setDataPointers(operands_, pointers.data())
                                  .setUids(operands_, operand_ids.data())
                                  .setWorkspacePointer(workspace)
                                  .build();
        check_status(fe::detail::execute(handle, descriptor_->get_raw_desc(),
                             pack.get_raw_desc()),
                "cudnnBackendExecute");
    } catch (const fe::cudnnException &failure) {
        throw error(status::runtime_error, failure.what());
    }
}

built_plan find_plan(const problem_arrangement &arrangement,
        const compile_options &options, std::string &reason) {
    const auto device = static_cast<int>(options.device);
    const size_t limit = convolution_workspace_limit(options);
    const auto left = convolution_workspace_left(
            options, arrangement.staged_bytes, reason);
    if (!left) return {};
    const compile_handle handle(device);
    try {
        plan_finder planner(arrangement, options, handle.get(), *left);
        if (planner.count() == 0) {
            reason = "cuDNN has no kernel for these types, layouts and pads";
            return {};
        }
        const std::string key = key_of(arrangement, options, limit);
        const std::string &file = options.plan_cache;
        if (const auto known = detail::find_in_plan_cache(key, file))
            if (built_plan plan = planner.named(*known)) return plan;
        if (options.autotune) {
            std::string found;
            if (built_plan plan = planner.fastest(device, found)) {
                detail::keep_in_plan_cache(key, found, file);
                return plan;
            }
        }
        return planner.first(device, reason);
    } catch (const fe::cudnnException &failure) {
        reason = failure.what();
        return {};
    }
}

std::optional<named_engine> first_engine(
        const detail::convolution_problem &whole,
        const compile_options &options) {
    try {
        const auto problem = first_slice_of(whole);
        const auto arrangements = arrangements_of(problem);
        if (!refusal_of(problem, options, arrangements).refusal.empty())
            return named_engine {};
        const problem_arrangement &arrangement = arrangements.front();
        constexpr size_t most_copied = size_t {1} << 30;
        if (arrangement.staged_bytes > most_copied
                        + round_up(arrangement.operands[1].bytes,
                                staged_alignment))
            return named_engine {};
        const compile_handle handle(static_cast<int>(options.device));
        const plan_finder planner(arrangement, options, handle.get(),
                convolution_workspace_limit(options));
        if (planner.count() == 0) return named_engine {};
        return named_engine {engine_of(planner.name(0)),
                arrangement.operands[0].seen.strides[1] == 1};
    } catch (const fe::cudnnException &) {
        return named_engine {};
    } catch (const error &) {
        // No cuDNN, no handle or no memory: who needs these will say so.
        return std::nullopt;
    }
}

} // namespace gradnn::gpu::cudnn
