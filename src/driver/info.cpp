// gradnn info: engines, instruction sets and library versions.
#include <iostream>
#include <memory>

#include <CLI/CLI.hpp>

#include <gradnn/graph.hpp>

#include "commands.hpp"
#include "cpu/onednn_version.hpp"
#include "cpu/parallel.hpp"
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
    const op relu(0, op::kind::ReLUBackward, {vector(0), vector(1)},
            {vector(2)});
    const partition part(relu, engine::kind::cpu);
    const compiled_partition compiled = part.compile({vector(0), vector(1)},
            {vector(2)}, engine(engine::kind::cpu, 0));
    const auto steps = compiled.get_info().steps;
    return steps.empty() ? "unknown" : steps.front().backend;
}

} // namespace

json machine_json() {
    json engines = json::array();
    for (const auto kind : {engine::kind::cpu, engine::kind::gpu})
        engines.push_back({{"kind", to_string(kind)},
                {"count", engine::get_count(kind)}});
    return {{"cpu", cpu_name()}, {"processors", cpu_count()},
            {"threads", cpu::max_threads()}, {"isa", instruction_set()},
            {"cache_bytes", last_level_cache_bytes()},
            {"memory_bytes", available_memory()}, {"gradnn", version_text()},
            {"onednn", cpu::onednn_version()}, {"engines", engines}};
}

namespace {

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
    rows.write(std::cout);
    return 0;
}

} // namespace

action add_info(CLI::App &program) {
    auto as_json = std::make_shared<bool>(false);
    CLI::App *command = program.add_subcommand(
            "info", "Engines, instruction sets and library versions");
    command->add_flag("--json", *as_json, "as JSON");
    return [as_json] { return info(*as_json); };
}

} // namespace gradnn::driver
