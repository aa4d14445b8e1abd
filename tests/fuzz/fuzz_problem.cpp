#include "fuzz_problem.hpp"

#include <fstream>

#include <nlohmann/json.hpp>

#include "files/json_graph.hpp"

namespace gradnn::fuzz {

namespace {

using nlohmann::json;

constexpr const char *values_names[] = {"mostly_positive", "of_either_sign",
        "equal", "sparse", "wide", "special"};
constexpr const char *fpmath_names[] = {"strict", "bf16", "f16", "any", "tf32"};

json to_json(const op::attr_value &value) {
    constexpr const char *names[]
            = {"s64", "f32", "bool", "string", "s64[]", "f32[]", "f64[]"};
    json result;
    result["type"] = names[value.index()];
    std::visit([&](const auto &v) { result["value"] = v; }, value);
    return result;
}

json to_json(const logical_tensor &lt) {
    if (lt.is_absent()) return nullptr;
    json result;
    result["id"] = lt.get_id();
    result["dtype"] = to_string(lt.get_data_type());
    result["shape"] = lt.get_dims();
    const bool strided = lt.get_layout_type() == layout_type::strided;
    result["layout_type"] = strided ? "strided" : "any";
    if (strided) result["stride"] = lt.get_strides();
    return result;
}

json to_json(const op &of) {
    json result;
    result["id"] = of.get_id();
    result["name"] = of.get_name();
    result["kind"] = to_string(of.get_kind());
    result["attrs"] = json::object();
    for (const auto &[name, value] : of.get_attrs())
        result["attrs"][to_string(name)] = to_json(value);
    result["inputs"] = json::array();
    for (const logical_tensor &lt : of.get_inputs())
        result["inputs"].push_back(to_json(lt));
    result["outputs"] = json::array();
    for (const logical_tensor &lt : of.get_outputs())
        result["outputs"].push_back(to_json(lt));
    return result;
}

} // namespace

std::string to_json(const problem &of, const std::string &engine) {
    json result;
    result["engine_kind"] = engine;
    result["fpmath_mode"] = fpmath_names[static_cast<size_t>(of.fpmath)];
    result["graph"] = json::array();
    for (const op &each : of.ops)
        result["graph"].push_back(to_json(each));
    result["fuzz"] = {{"deterministic", of.deterministic},
            {"kernel", of.kernel},
            {"values", values_names[static_cast<size_t>(of.values)]},
            {"values_seed", of.values_seed}, {"misalignment", of.misalignment},
            {"may_refuse", of.may_refuse}};
    return result.dump(1) + "\n";
}

problem from_json(const std::string &path) {
    const detail::json_graph graph = detail::read_json_graph(path);
    problem result;
    result.ops = graph.ops;
    result.fpmath = graph.fpmath;
    std::ifstream in(path);
    const json document = json::parse(in);
    const auto how = document.find("fuzz");
    if (how == document.end()) return result;
    result.deterministic = how->value("deterministic", true);
    result.kernel = how->value("kernel", "");
    result.values_seed = how->value("values_seed", uint64_t {0});
    result.misalignment = how->value("misalignment", int64_t {0});
    result.may_refuse = how->value("may_refuse", false);
    const std::string values = how->value("values", values_names[0]);
    for (size_t index = 0; index < std::size(values_names); ++index)
        if (values == values_names[index])
            result.values = static_cast<values_kind>(index);
    return result;
}

std::string kinds_of(const problem &of) {
    std::string names;
    for (const op &each : of.ops)
        names += (names.empty() ? "" : "+")
                + std::string(to_string(each.get_kind()));
    return names;
}

} // namespace gradnn::fuzz
