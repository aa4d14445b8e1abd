#include "compile/compile_settings.hpp"

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "base/text.hpp"
#include "base/threads.hpp"
#include "kernel/backend.hpp"

namespace gradnn::detail {

namespace {

std::string from_environment(const char *variable) {
    const char *value = std::getenv(variable);
    return value != nullptr ? value : "";
}

int threads_of(const compile_settings &settings) {
    if (settings.threads == 0) return default_threads();
    if (settings.threads > thread_limit())
        throw error(status::invalid_arguments,
                text("compile_settings::threads is ", settings.threads,
                        "; at most ", thread_limit(), " is allowed",
                        thread_limit() < most_threads ? ", by OMP_THREAD_LIMIT"
                                                      : ""));
    return settings.threads;
}

std::optional<size_t> bytes_from_environment(const char *variable) {
    const std::string given = from_environment(variable);
    if (given.empty()) return std::nullopt;
    size_t bytes = 0;
    const char *const last = given.data() + given.size();
    const auto [end, failure] = std::from_chars(given.data(), last, bytes);
    if (failure != std::errc() || end != last)
        throw error(status::invalid_arguments,
                text(variable, " is \"", given,
                        "\"; a number of bytes is allowed"));
    return bytes;
}

bool flag_from_environment(const char *variable, bool otherwise) {
    const std::string given = from_environment(variable);
    return given.empty() ? otherwise : given != "0";
}

} // namespace

void check_settings(const compile_settings &settings) {
    if (settings.threads < 0)
        throw error(status::invalid_arguments,
                text("compile_settings::threads is ", settings.threads,
                        "; 0 (the default) and above are allowed"));
}

bool specialises(const compile_settings &settings) {
    return settings.specialise
            ? *settings.specialise
            : flag_from_environment("GRADNN_SPECIALISE", true);
}

std::string kernel_cache_of(const compile_settings &settings) {
    const char *const variable = std::getenv("GRADNN_KERNEL_CACHE");
    if (settings.kernel_cache || variable != nullptr) {
        const std::string given
                = settings.kernel_cache ? *settings.kernel_cache : variable;
        return given == "0" || given == "OFF" ? "" : given;
    }
    const std::string cache = from_environment("XDG_CACHE_HOME");
    if (!cache.empty()) return cache + "/gradnn/kernels";
    const std::string home = from_environment("HOME");
    return home.empty() ? "" : home + "/.cache/gradnn/kernels";
}

compile_options options_of(const partition_impl &partition, const engine &e) {
    const compile_settings &settings = partition.settings;
    compile_options options;
    options.deterministic = partition.deterministic;
    options.fpmath = partition.fpmath;
    options.device = static_cast<int>(e.get_index());
    options.kernels = settings.kernels.empty()
            ? from_environment("GRADNN_KERNEL")
            : settings.kernels;
    if (backend_of(e.get_kind()).on_host) {
        options.threads = threads_of(settings);
        return options;
    }
    options.autotune = settings.autotune
            ? *settings.autotune
            : flag_from_environment("GRADNN_AUTOTUNE", false);
    options.plan_cache = settings.plan_cache
            ? *settings.plan_cache
            : from_environment("GRADNN_PLAN_CACHE");
    options.convolution_workspace_limit = settings.convolution_workspace_limit
            ? settings.convolution_workspace_limit
            : bytes_from_environment("GRADNN_CONVOLUTION_WORKSPACE_LIMIT");
    options.specialise = specialises(settings);
    options.kernel_cache = kernel_cache_of(settings);
    return options;
}

} // namespace gradnn::detail
