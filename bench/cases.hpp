// The cases of cases.json: the shapes that figures are made of, shared with
// compare (Python) and the tests by name. Spatial dims have rank 1 to 3.
#pragma once

#include <cstdint>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace gradnn::bench {

struct interpolation_case {
    std::string name;
    int64_t batch;
    int64_t channels;
    std::vector<int64_t> src;
    std::vector<int64_t> dst;
    std::string mode;
    std::string coordinates;
    std::vector<float> scales; ///< scale_rule given; empty: shape_ratio
    bool cpu_peer; ///< among the cases of onednn_peer
};

struct convolution_case {
    std::string name;
    int64_t batch;
    int64_t in; ///< channels of src
    int64_t out; ///< channels of dst
    std::vector<int64_t> src;
    int64_t kernel;
    int64_t stride;
    int64_t pad;
    int64_t dilation;
    int64_t groups;
    bool transposed;
    int64_t output_padding;
    bool f32_gradients; ///< of weights and bias, where data is of 16 bits
    bool cpu_peer;
};

/// `cpu` cuts batch and channels to what a machine of two cores runs in short
/// time; an interpolation still moves 64 MB.
enum class case_size { gpu, cpu };

struct case_list {
    std::vector<interpolation_case> interpolation;
    std::vector<convolution_case> convolution;
};

/// Throws std::runtime_error, or an exception of nlohmann::json that says what
/// is wrong with the file.
inline case_list load_cases(const std::string &file, case_size size) {
    std::ifstream text(file);
    if (!text) throw std::runtime_error(file + " cannot be read");
    const auto json = nlohmann::json::parse(text);
    // On the CPU `cpu` overrides what it names.
    const auto number = [size](const nlohmann::json &each, const char *key) {
        const nlohmann::json &from
                = size == case_size::cpu && each.at("cpu").contains(key)
                ? each.at("cpu")
                : each;
        return from.at(key).get<int64_t>();
    };
    case_list cases;
    for (const nlohmann::json &each : json.at("interpolation"))
        cases.interpolation.push_back({each.at("name"), number(each, "n"),
                number(each, "c"), each.at("src"), each.at("dst"),
                each.value("mode", "linear"),
                each.value("coordinate_transformation_mode", "half_pixel"),
                each.value("scales", std::vector<float>()),
                each.value("cpu_peer", false)});
    for (const nlohmann::json &each : json.at("convolution"))
        cases.convolution.push_back({each.at("name"), number(each, "n"),
                number(each, "in"), number(each, "out"), each.at("src"),
                number(each, "kernel"), each.value("stride", int64_t {1}),
                each.value("pad", int64_t {0}),
                each.value("dilation", int64_t {1}),
                each.value("groups", int64_t {1}),
                each.value("transposed", false),
                each.value("output_padding", int64_t {0}),
                each.value("f32_gradients", false),
                each.value("cpu_peer", false)});
    return cases;
}

} // namespace gradnn::bench
