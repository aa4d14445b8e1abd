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
    bool antialias;
    std::vector<float> scales; ///< scale_rule given; empty: shape_ratio
    bool cpu_peer; ///< among the cases of onednn_peer
};

struct convolution_case {
    std::string name;
    int64_t batch;
    int64_t in; ///< channels of src
    int64_t out; ///< channels of dst
    std::vector<int64_t> src;
    std::vector<int64_t> kernel; ///< by axis
    std::vector<int64_t> stride;
    int64_t pad;
    int64_t dilation;
    int64_t groups;
    bool transposed;
    int64_t output_padding;
    bool f32_gradients; ///< of weights and bias, where data is of 16 bits
    bool cpu_peer;
};

/// `cpu` cuts batch and channels, or a signal's length, to what a machine of two
/// cores runs in short time; an interpolation still moves 64 MB.
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
    const auto completed
            = [size](const nlohmann::json &listed, nlohmann::json defaults) {
                  defaults["cpu_peer"] = false;
                  defaults.update(listed);
                  if (size == case_size::cpu) defaults.update(listed.at("cpu"));
                  return defaults;
              };
    // One number for all axes, or a list.
    const auto by_axis = [](const nlohmann::json &each, const char *key) {
        const nlohmann::json &value = each.at(key);
        if (value.is_array()) return value.get<std::vector<int64_t>>();
        return std::vector<int64_t>(
                each.at("src").size(), value.get<int64_t>());
    };
    case_list cases;
    for (const nlohmann::json &listed : json.at("interpolation")) {
        const auto each = completed(listed,
                {{"mode", "linear"},
                        {"coordinate_transformation_mode", "half_pixel"},
                        {"antialias", false},
                        {"scales", nlohmann::json::array()}});
        cases.interpolation.push_back({each.at("name"), each.at("n"),
                each.at("c"), each.at("src"), each.at("dst"), each.at("mode"),
                each.at("coordinate_transformation_mode"), each.at("antialias"),
                each.at("scales"), each.at("cpu_peer")});
    }
    for (const nlohmann::json &listed : json.at("convolution")) {
        const auto each = completed(listed,
                {{"stride", 1}, {"pad", 0}, {"dilation", 1}, {"groups", 1},
                        {"transposed", false}, {"output_padding", 0},
                        {"f32_gradients", false}});
        cases.convolution.push_back({each.at("name"), each.at("n"),
                each.at("in"), each.at("out"), each.at("src"),
                by_axis(each, "kernel"), by_axis(each, "stride"),
                each.at("pad"), each.at("dilation"), each.at("groups"),
                each.at("transposed"), each.at("output_padding"),
                each.at("f32_gradients"), each.at("cpu_peer")});
    }
    return cases;
}

} // namespace gradnn::bench
