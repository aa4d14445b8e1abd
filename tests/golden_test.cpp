// Answers that other systems gave (tests/data/golden), against the library in
// every type that holds their inputs and against the float64 reference.
//
// ctest: hundreds of short tests, to be one test of ctest (WHOLE).
#include <cmath>
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "op/op_names.hpp"
#include "support/op_builders.hpp"
#include "support/param_names.hpp"

namespace gradnn::test {
namespace {

using json = nlohmann::json;

struct golden_case {
    engine::kind on;
    std::string source;
    data_type type;
    double tolerance;
    json body;
};

std::string golden_name(const golden_case &c) {
    return identifier(std::string(to_string(c.on)) + "_" + c.source + "_"
            + c.body.at("name").get<std::string>() + "_" + to_string(c.type));
}

void PrintTo(const golden_case &c, std::ostream *out) {
    *out << golden_name(c);
}

data_type type_named(const std::string &name) {
    for (const data_type type : float_types())
        if (name == to_string(type)) return type;
    throw std::out_of_range(name);
}

std::vector<golden_case> all_cases() {
    std::vector<golden_case> cases;
    for (const engine::kind kind : engine_kinds())
        for (const char *source :
                {"torch", "torch_rules", "tfjs", "ort", "onnx"}) {
            const std::string path
                    = std::string(DATA_DIR) + "/golden/" + source + ".json";
            std::ifstream file(path);
            if (!file) throw std::runtime_error("cannot open " + path);
            const json all = json::parse(file);
            for (const std::string type : all.at("types"))
                for (const json &body : all.at("cases"))
                    cases.push_back({kind, source, type_named(type),
                            all.at("tolerance"), body});
        }
    return cases;
}

void set_attribute(op &the_op, const std::string &name, const json &value) {
    const op::attr attribute = detail::attr_named(name).value();
    if (value.is_string())
        the_op.set_attr(attribute, value.get<std::string>());
    else if (value.is_boolean())
        the_op.set_attr(attribute, value.get<bool>());
    else if (value.is_number_float())
        the_op.set_attr(attribute, value.get<float>());
    else if (attribute == op::attr::scales)
        the_op.set_attr(attribute, value.get<std::vector<float>>());
    else if (attribute == op::attr::ratios)
        the_op.set_attr(attribute, value.get<std::vector<double>>());
    else if (value.is_array())
        the_op.set_attr(attribute, value.get<std::vector<int64_t>>());
    else
        the_op.set_attr(attribute, value.get<int64_t>());
}

logical_tensor tensor_of(size_t id, data_type type, const json &body) {
    if (body.is_null()) return {};
    return {id, type, body.at("shape").get<sizes>(), layout_type::strided};
}

op op_of(const json &body, data_type type) {
    std::vector<logical_tensor> inputs;
    std::vector<logical_tensor> outputs;
    size_t id = 0;
    for (const json &t : body.at("inputs"))
        inputs.push_back(tensor_of(id++, type, t));
    for (const json &t : body.at("outputs"))
        outputs.push_back(tensor_of(id++, type, t));
    op result(0, detail::kind_named(body.at("kind").get<std::string>()).value(),
            inputs, outputs, body.at("name").get<std::string>());
    for (const auto &[name, value] : body.at("attrs").items())
        set_attribute(result, name, value);
    return result;
}

std::vector<double> values_of(const json &body) {
    int64_t count = 1;
    for (const int64_t dim : body.at("shape"))
        count *= dim;
    if (body.contains("data"))
        return body.at("data").get<std::vector<double>>();
    return std::vector<double>(
            static_cast<size_t>(count), body.value("fill", 0.0));
}

class golden : public testing::TestWithParam<golden_case> {
protected:
    /// What the figures are good to, for this case.
    double figure_tolerance() const {
        // Their scales were float64, ours are f32.
        return GetParam().body.at("attrs").contains("scales")
                ? std::max(1e-6, GetParam().tolerance)
                : GetParam().tolerance;
    }

    void expect_near(const std::vector<double> &out,
            const std::vector<double> &figures, double of_type) const {
        ASSERT_EQ(out.size(), figures.size());
        double norm = 0;
        double largest = 0;
        for (const double figure : figures) {
            norm += figure * figure;
            largest = std::max(largest, std::fabs(figure));
        }
        double difference = 0;
        for (size_t i = 0; i < out.size(); ++i) {
            difference += (out[i] - figures[i]) * (out[i] - figures[i]);
            // No element is off by much either.
            EXPECT_NEAR(out[i], figures[i],
                    figure_tolerance() * std::max(1.0, std::fabs(figures[i]))
                            + 2 * of_type * largest)
                    << "element " << i;
        }
        EXPECT_LE(std::sqrt(difference),
                of_type * std::sqrt(norm)
                        + figure_tolerance()
                                * std::sqrt(static_cast<double>(out.size()))
                                * std::max(1.0, largest));
    }
};

TEST_P(golden, library) {
    const golden_case &c = GetParam();
    const op the_op = op_of(c.body, c.type);
    values_list inputs;
    for (const json &t : c.body.at("inputs"))
        inputs.push_back(values_of(t));
    op_run r(the_op, shared_engine(c.on), inputs);
    r.execute();
    r.expect_right();
    // Figures of 4 decimals are not exact in f16: their inputs round as well.
    const bool exact = c.source == "torch";
    for (size_t index = 0; index < the_op.get_outputs().size(); ++index) {
        const json &figures = c.body.at("outputs")[index];
        if (!figures.is_null())
            expect_near(r.output(index), values_of(figures),
                    tolerance_of(c.type) * (exact ? 1 : 2));
    }
}

TEST_P(golden, reference) {
    const golden_case &c = GetParam();
    const op the_op = op_of(c.body, data_type::f64);
    std::vector<detail::reference_tensor> inputs;
    for (const json &t : c.body.at("inputs"))
        inputs.push_back({t.at("shape").get<sizes>(), values_of(t)});
    const auto outputs = detail::reference(the_op, inputs);
    for (size_t index = 0; index < outputs.size(); ++index) {
        const json &figures = c.body.at("outputs")[index];
        if (!figures.is_null())
            expect_near(outputs[index].values, values_of(figures), 1e-15);
    }
}

INSTANTIATE_TEST_SUITE_P(sources, golden, testing::ValuesIn(all_cases()),
        [](const auto &each) { return golden_name(each.param); });

TEST(golden_files, hold_all_cases) {
    size_t count = 0;
    for (const golden_case &c : all_cases())
        if (c.on == engine::kind::cpu) ++count;
    EXPECT_EQ(count, (47U + 19 + 20) * 4 + 17 + 11 * 2);
}

} // namespace
} // namespace gradnn::test
