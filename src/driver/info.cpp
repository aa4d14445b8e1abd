// gradnn info: engines, instruction sets and library versions.
#include <iostream>

#include <gradnn/cuda.hpp>
#include <gradnn/graph.hpp>

#include "base/threads.hpp"
#include "commands.hpp"
#include "cpu/convolution/onednn/version.hpp"
#include "gpu/backend.hpp"
#include "machine.hpp"
#include "machine_json.hpp"
#include "table.hpp"

namespace gradnn::driver {

using json = nlohmann::ordered_json;

namespace {

/// What the elementwise kernel runs on here: "Highway AVX3_ZEN4".
std::string instruction_set() {
    using lt = logical_tensor;
    const auto vector = [](size_t id) {
        return lt(id, lt::data_type::f32, lt::dims {16},
                lt::layout_type::strided);
    };
    const op relu(
            0, op::kind::ReLUBackward, {vector(0), vector(1)}, {vector(2)});
    const partition part(relu, engine::kind::cpu);
    const compiled_partition compiled = part.compile(
            {vector(0), vector(1)}, {vector(2)}, engine(engine::kind::cpu, 0));
    const auto steps = compiled.get_info().steps;
    return steps.empty() ? "unknown" : steps.front().backend;
}

/// "13.0" of 13000; empty of 0.
std::string cuda_version_text(int version) {
    if (version == 0) return {};
    return std::to_string(version / 1000) + "."
            + std::to_string(version / 10 % 100);
}

/// "9.19.0" of 91900; empty of 0.
std::string cudnn_version_text(size_t version) {
    if (version == 0) return {};
    return std::to_string(version / 10000) + "."
            + std::to_string(version / 100 % 100) + "."
            + std::to_string(version % 100);
}

json gpus_json() {
    json gpus = json::array();
    for (size_t i = 0; i < engine::get_count(engine::kind::gpu); ++i) {
        const auto gpu = cuda_interop::get_device_info(i);
        gpus.push_back({{"name", gpu.name}, {"memory_bytes", gpu.memory_bytes},
                {"compute_capability",
                        std::to_string(gpu.compute_capability_major) + "."
                                + std::to_string(gpu.compute_capability_minor)},
                {"multiprocessors", gpu.multiprocessors},
                {"l2_bytes", gpu.l2_bytes},
                {"code", gpu::code_of_device(i).text}});
    }
    return gpus;
}

} // namespace

json machine_json() {
    json engines = json::array();
    for (const auto kind : {engine::kind::cpu, engine::kind::gpu})
        engines.push_back({{"kind", to_string(kind)},
                {"count", engine::get_count(kind)}});
    const auto cuda = cuda_interop::get_versions();
    const auto compiler = gpu::find_kernel_compiler();
    return {{"cpu", cpu_name()}, {"processors", cpu_count()},
            {"threads", detail::default_threads()}, {"isa", instruction_set()},
            {"cache_bytes", last_level_cache_bytes()},
            {"memory_bytes", available_memory()}, {"gradnn", version_text()},
            {"onednn", cpu::onednn_version()}, {"engines", engines},
            {"gpus", gpus_json()}, {"gpu_code", gpu::code_of_library},
            {"no_gpu", gpu::backend.unavailable_reason()},
            {"cuda_driver", cuda_version_text(cuda.driver)},
            {"cuda_runtime", cuda_version_text(cuda.runtime)},
            {"cudnn", cudnn_version_text(cuda.cudnn)},
            {"no_cudnn", cuda.cudnn_missing}, {"nvrtc", compiler.version},
            {"nvrtc_file", compiler.path}, {"no_nvrtc", compiler.missing}};
}

int info(bool as_json) {
    const json machine = machine_json();
    if (as_json) {
        std::cout << machine.dump(2) << '\n';
        return 0;
    }
    table rows({"gradnn", machine["gradnn"].get<std::string>()});
    rows.add({"oneDNN", machine["onednn"].get<std::string>()});
    for (const json &each : machine["engines"])
        rows.add({each["kind"].get<std::string>() + " engines",
                std::to_string(each["count"].get<size_t>())});
    rows.add({"CPU", machine["cpu"].get<std::string>()});
    rows.add({"processors", std::to_string(machine["processors"].get<int>())});
    rows.add({"threads", std::to_string(machine["threads"].get<int>())});
    rows.add({"SIMD", machine["isa"].get<std::string>()});
    rows.add({"cache", bytes_text(machine["cache_bytes"].get<int64_t>())});
    rows.add({"memory available",
            bytes_text(machine["memory_bytes"].get<int64_t>())});
    for (const json &gpu : machine["gpus"]) {
        rows.add({"GPU",
                gpu["name"].get<std::string>() + ", compute capability "
                        + gpu["compute_capability"].get<std::string>() + ", "
                        + bytes_text(gpu["memory_bytes"].get<int64_t>())
                        + " memory, "
                        + std::to_string(gpu["multiprocessors"].get<int>())
                        + " multiprocessors, "
                        + bytes_text(gpu["l2_bytes"].get<int64_t>()) + " L2"});
        rows.add({"GPU code", gpu["code"].get<std::string>()});
    }
    // What there is, or the reason for having none.
    const auto add = [&](const char *label, const char *key, bool reason) {
        const auto value = machine[key].get<std::string>();
        if (!value.empty()) rows.add({label, (reason ? "none: " : "") + value});
    };
    add("GPU", "no_gpu", true);
    add("GPU code held", "gpu_code", false);
    add("CUDA driver", "cuda_driver", false);
    add("CUDA runtime", "cuda_runtime", false);
    add("cuDNN", "cudnn", false);
    add("cuDNN", "no_cudnn", true);
    add("NVRTC", "nvrtc", false);
    add("NVRTC file", "nvrtc_file", false);
    add("NVRTC", "no_nvrtc", true);
    rows.write(std::cout);
    return 0;
}

} // namespace gradnn::driver
