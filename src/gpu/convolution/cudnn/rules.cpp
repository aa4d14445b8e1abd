#include "gpu/convolution/cudnn/planner.hpp"

#include <cstdlib>
#include <string>

namespace gradnn::gpu::cudnn {

namespace fe = cudnn_frontend;

using detail::compile_options;
using detail::convolution_direction;
using detail::data_type;

namespace {

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

} // namespace

bool barred(cudnnBackendDescriptor_t config, const problem_arrangement &a,
        const compile_options &options) {
    if (options.deterministic
            && has_note<CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC>(config))
        return true;
    if (has_note<CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION>(config))
        return true;
    const bool single = a.operands[0].seen.type == data_type::f32;
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

bool flawed(const std::string &tag, const problem_arrangement &a,
        const compile_options &options) {
    const std::string engine = engine_of(tag);
    const data_type seen = a.operands[0].seen.type;
    const bool grouped
            = a.operands[0].seen.dims[1] != a.operands[1].seen.dims[1];
    // With groups, on tensors of few positions, and not on all of them: 71 and 78
    // read at misaligned addresses and beyond their operands; 9 and 23 write
    // outside of their workspace; 70 gives nonsense.
    switch (a.direction) {
        case convolution_direction::forward:
            if (grouped && engine == "eng71") return true;
            // Turns -Inf into numbers.
            return engine == "eng47"
                    && a.operands[2].seen.type == data_type::f16;
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

std::string engine_of(const std::string &tag) {
    return tag.substr(0, tag.find('_'));
}

} // namespace gradnn::gpu::cudnn
