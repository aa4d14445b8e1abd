// The functions of gradnn/c_api.h.
#include <gradnn/c_api.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <memory>
#include <span>

#include <gradnn/cuda.hpp>
#include <gradnn/version.hpp>

#include "base/text.hpp"
#include "c_api/conversions.hpp"
#include "c_api/fence.hpp"
#include "c_api/objects.hpp"
#include "execute/execute.hpp"
#include "execute/execute_check.hpp"
#include "kernel/backend.hpp"
#include "op/op_names.hpp"
#include "op/op_schema.hpp"

using namespace gradnn;
using namespace gradnn::c_api;
using detail::access;
using detail::text;

namespace {

/// A CUDA graph refers to the tables of what it captured.
void pin(const gradnn_compiled &compiled) {
    if (!compiled.pinned.exchange(true)) retain(compiled);
}

} // namespace

namespace gradnn::c_api {

void execute(const gradnn_compiled &what, void *native_stream,
        const void *const *inputs, void *const *outputs, void *workspace,
        detail::addresses of_data) {
    std::array<void *, detail::max_ports> data {};
    const auto &ports = what.impl->program->ports;
    for (size_t port = 0; port < ports.size(); ++port)
        data[port] = ports[port].output
                ? outputs[what.places[port]]
                : const_cast<void *>(inputs[what.places[port]]);
    const auto run = [&](detail::stream_impl &stream) {
        detail::execute_pointers(*what.impl, stream,
                std::span(data).first(ports.size()), workspace, of_data);
    };
    // By reference: a function that holds all of it would be allocated.
    if (detail::backend_of(what.engine.get_kind())
                    .run_on_native_stream(access::impl(what.engine),
                            native_stream, std::cref(run)))
        pin(what);
}

} // namespace gradnn::c_api

const char *gradnn_last_error(void) {
    return last_error.c_str();
}

const char *gradnn_status_name(int32_t value) {
    return to_string(static_cast<status>(value));
}

int gradnn_c_api_version(void) {
    return GRADNN_C_API_VERSION;
}

void gradnn_version(int *major, int *minor, int *patch) {
    const version_info found = version();
    if (major) *major = found.major;
    if (minor) *minor = found.minor;
    if (patch) *patch = found.patch;
}

const char *gradnn_onednn_version(void) {
    static const std::string found
            = detail::backend_of(engine::kind::cpu).library_version();
    return found.c_str();
}

size_t gradnn_engine_count(int32_t kind) {
    return engine::get_count(static_cast<engine::kind>(kind));
}

gradnn_status gradnn_engine_create(
        int32_t kind, size_t index, gradnn_engine **result) {
    return fenced([&] {
        given(result, "gradnn_engine_create", "engine") = nullptr;
        *result = new gradnn_engine {
                engine(static_cast<engine::kind>(kind), index)};
    });
}

gradnn_status gradnn_engine_create_with_allocator(size_t index,
        gradnn_device_allocate allocate, gradnn_device_deallocate deallocate,
        void *context, gradnn_engine **result) {
    return fenced([&] {
        given(result, "gradnn_engine_create_with_allocator", "engine")
                = nullptr;
        // The same functions, except for the type of the stream's pointer.
        *result = new gradnn_engine {cuda_interop::make_engine_with_allocator(
                index,
                {reinterpret_cast<cuda_interop::device_allocate_f>(allocate),
                        reinterpret_cast<cuda_interop::device_deallocate_f>(
                                deallocate),
                        context})};
    });
}

void gradnn_engine_destroy(gradnn_engine *engine) {
    delete engine;
}

void gradnn_settings_init_sized(gradnn_settings *settings, size_t struct_size) {
    if (!settings) return;
    gradnn_settings defaults {};
    defaults.struct_size = struct_size;
    defaults.deterministic = 1;
    defaults.autotune = -1;
    defaults.convolution_workspace_limit = -1;
    defaults.specialise = -1;
    std::memcpy(settings, &defaults, std::min(struct_size, sizeof(defaults)));
}

gradnn_status gradnn_op_create(const char *kind, const gradnn_attr *attrs,
        size_t attr_count, const gradnn_settings *settings,
        gradnn_op **result) {
    return fenced([&] {
        given(result, "gradnn_op_create", "op") = nullptr;
        const auto found
                = detail::kind_named(&given(kind, "gradnn_op_create", "kind"));
        if (!found || !detail::find_schema(*found))
            throw error(status::unimplemented,
                    text("gradnn_op_create: ", kind,
                            " is not one of gradnn's ops"));
        if (attr_count != 0) given(attrs, "gradnn_op_create", "attrs");
        auto made = std::make_unique<gradnn_op>();
        op declared(0, *found);
        for (size_t index = 0; index < attr_count; ++index)
            set_attribute(declared, attrs[index]);
        apply_settings(made->partition, settings);
        made->partition.alone = true;
        made->partition.ops.push_back(detail::unchecked(declared));
        *result = made.release();
    });
}

gradnn_status gradnn_group_create(const gradnn_op *const *ops, size_t op_count,
        const int32_t *tensors, size_t tensor_count,
        const gradnn_settings *settings, gradnn_op **result) {
    return fenced([&] {
        constexpr const char *name = "gradnn_group_create";
        given(result, name, "group") = nullptr;
        given(ops, name, "ops");
        given(tensors, name, "tensors");
        auto made = std::make_unique<gradnn_op>();
        apply_settings(made->partition, settings);
        std::vector<int32_t> read;
        size_t used = 0;
        for (size_t index = 0; index < op_count; ++index) {
            const gradnn_op &the_op = given(ops[index], name, "ops");
            if (the_op.partition.ops.size() != 1)
                refuse(text(name, ": ops[", index, "] is a group itself"));
            const op &identity = the_op.partition.ops[0].identity();
            const detail::op_schema &schema
                    = *detail::find_schema(identity.get_kind());
            const size_t inputs = schema.inputs.size();
            const size_t ports = inputs + schema.outputs.size();
            if (tensor_count - used < ports)
                refuse(text(name, ": given ", tensor_count,
                        " tensors, which are too few for the ", ports,
                        " ports of ops[", index, "], ",
                        to_string(identity.get_kind())));
            made->partition.ops.push_back(detail::unchecked(identity));
            const int32_t *const first = tensors + used;
            made->ports.emplace_back(first, first + ports);
            read.insert(read.end(), first, first + inputs);
            made->going_out.insert(
                    made->going_out.end(), first + inputs, first + ports);
            used += ports;
        }
        if (op_count == 0 || used != tensor_count)
            refuse(text(name, ": given ", op_count, " ops and ", tensor_count,
                    " tensors; a number for each of their ", used,
                    " ports is allowed"));
        // What is both made and read is inside.
        const auto only_in = [](std::vector<int32_t> these,
                                     const std::vector<int32_t> &others) {
            std::sort(these.begin(), these.end());
            these.erase(std::unique(these.begin(), these.end()), these.end());
            std::erase_if(these, [&](int32_t number) {
                return number < 0
                        || std::find(others.begin(), others.end(), number)
                        != others.end();
            });
            return these;
        };
        made->coming_in = only_in(read, made->going_out);
        made->going_out = only_in(made->going_out, read);
        *result = made.release();
    });
}

void gradnn_op_destroy(gradnn_op *the_op) {
    delete the_op;
}

gradnn_status gradnn_compile(gradnn_op *the_op, const gradnn_engine *engine,
        const gradnn_tensor *inputs, size_t input_count,
        const gradnn_tensor *outputs, size_t output_count,
        gradnn_compiled **result) {
    return fenced([&] {
        given(result, "gradnn_compile", "compiled") = nullptr;
        given(the_op, "gradnn_compile", "op");
        given(engine, "gradnn_compile", "engine");
        if (input_count != 0) given(inputs, "gradnn_compile", "inputs");
        if (output_count != 0) given(outputs, "gradnn_compile", "outputs");
        constexpr size_t most = lookup_key::max_tensors;
        if (input_count > most || output_count > most
                || input_count + output_count > most)
            refuse(text("gradnn_compile: given ", input_count, " inputs and ",
                    output_count, " outputs; no op has more than ", most,
                    " ports"));
        const gradnn_compiled &compiled = the_op->compile(
                *engine, {inputs, input_count}, {outputs, output_count});
        *result = const_cast<gradnn_compiled *>(&compiled);
    });
}

void gradnn_compiled_release(gradnn_compiled *compiled) {
    release(compiled);
}

gradnn_status gradnn_compiled_output(
        const gradnn_compiled *compiled, size_t index, gradnn_tensor *output) {
    return fenced([&] {
        given(output, "gradnn_compiled_output", "output") = {};
        for (const logical_tensor &port :
                given(compiled, "gradnn_compiled_output", "compiled")
                        .impl->ports)
            if (port.get_id() == gradnn_compiled::first_output_id + index) {
                *output = description_of(port);
                return;
            }
        refuse(text("gradnn_compiled_output: there is no output ", index));
    });
}

size_t gradnn_compiled_workspace_size(const gradnn_compiled *compiled) {
    return compiled ? compiled->info.workspace_bytes : 0;
}

size_t gradnn_compiled_table_bytes(const gradnn_compiled *compiled) {
    return compiled ? compiled->impl->program->table_bytes : 0;
}

int gradnn_compiled_deterministic(const gradnn_compiled *compiled) {
    return compiled && compiled->info.deterministic ? 1 : 0;
}

size_t gradnn_compiled_step_count(const gradnn_compiled *compiled) {
    return compiled ? compiled->info.steps.size() : 0;
}

gradnn_status gradnn_compiled_step(
        const gradnn_compiled *compiled, size_t index, gradnn_step *step) {
    return fenced([&] {
        const auto &steps = given(compiled, "gradnn_compiled_step", "compiled")
                                    .info.steps;
        given(step, "gradnn_compiled_step", "step") = {};
        if (index >= steps.size())
            refuse(text("gradnn_compiled_step: given step ", index,
                    "; there are ", steps.size()));
        const step_info &found = steps[index];
        *step = {found.output.c_str(), found.kernel.c_str(),
                found.backend.c_str(), found.workspace_bytes};
    });
}

gradnn_status gradnn_execute(const gradnn_compiled *compiled,
        void *native_stream, const void *const *inputs, size_t input_count,
        void *const *outputs, size_t output_count, void *workspace) {
    return fenced([&] {
        const gradnn_compiled &what
                = given(compiled, "gradnn_execute", "compiled");
        if (input_count < what.input_count)
            refuse(text("gradnn_execute: given ", input_count,
                    " inputs; compiled for ", what.input_count));
        if (output_count < what.output_count)
            refuse(text("gradnn_execute: given ", output_count,
                    " outputs; compiled for ", what.output_count));
        if (input_count != 0) given(inputs, "gradnn_execute", "inputs");
        if (output_count != 0) given(outputs, "gradnn_execute", "outputs");
        c_api::execute(what, native_stream, inputs, outputs, workspace,
                detail::addresses::asked);
    });
}
