#include "cases.hpp"

#include <fstream>
#include <stdexcept>

#include <nlohmann/json.hpp>

namespace gradnn::test {

namespace {

int64_t reach(const convolution_case &c, size_t axis) {
    return (c.kernel[axis] - 1) * c.dilations[axis] + 1;
}

int64_t padding(const convolution_case &c, size_t axis) {
    return c.auto_pad == "none" ? c.pads_begin[axis] + c.pads_end[axis] : 0;
}

bool same(const convolution_case &c) {
    return c.auto_pad == "same_upper" || c.auto_pad == "same_lower";
}

template <typename Case>
const Case &named(const std::vector<Case> &cases, const std::string &name) {
    for (const Case &c : cases)
        if (c.name == name) return c;
    throw std::out_of_range("no case is named " + name);
}

/// The file's list of this name.
nlohmann::json list_of(const char *name) {
    const char *const path = DATA_DIR "/conformance.json";
    std::ifstream file(path);
    if (!file) throw std::runtime_error(std::string(path) + " cannot be read");
    return nlohmann::json::parse(file).at(name);
}

/// What a case says of each axis: a list, or one number for all.
sizes of_axes(const nlohmann::json &entry, const char *key, size_t axes,
        const nlohmann::json &by_default) {
    const nlohmann::json value = entry.value(key, by_default);
    return value.is_array() ? value.get<sizes>()
                            : sizes(axes, value.get<int64_t>());
}

} // namespace

sizes convolution_case::small() const {
    sizes result;
    for (size_t axis = 0; axis < large.size(); ++axis) {
        const int64_t room
                = large[axis] + padding(*this, axis) - reach(*this, axis);
        result.push_back(same(*this)
                        ? (large[axis] + strides[axis] - 1) / strides[axis]
                        : room / strides[axis] + 1);
    }
    return result;
}

sizes convolution_case::output_padding() const {
    sizes result(large.size(), 0);
    if (same(*this)) return result;
    for (size_t axis = 0; axis < large.size(); ++axis)
        result[axis] = (large[axis] + padding(*this, axis) - reach(*this, axis))
                % strides[axis];
    return result;
}

const std::vector<interpolation_case> &interpolation_cases() {
    static const std::vector<interpolation_case> cases = [] {
        std::vector<interpolation_case> all;
        for (const auto &each : list_of("interpolation"))
            all.push_back({.name = each.at("name"),
                    .n = each.at("n"),
                    .c = each.at("c"),
                    .src = each.at("src"),
                    .dst = each.at("dst"),
                    .every_layout = each.value("every_layout", false)});
        return all;
    }();
    return cases;
}

const std::vector<convolution_case> &convolution_cases() {
    static const std::vector<convolution_case> cases = [] {
        std::vector<convolution_case> all;
        for (const auto &each : list_of("convolution")) {
            const size_t axes = each.at("large").size();
            const nlohmann::json pad = each.value("pad", nlohmann::json(0));
            all.push_back({.name = each.at("name"),
                    .n = each.at("n"),
                    .groups = each.value("groups", int64_t {1}),
                    .large_channels = each.at("large_channels"),
                    .small_channels = each.at("small_channels"),
                    .large = each.at("large"),
                    .kernel = of_axes(each, "kernel", axes, 1),
                    .strides = of_axes(each, "stride", axes, 1),
                    .dilations = of_axes(each, "dilation", axes, 1),
                    .pads_begin = of_axes(each, "pads_begin", axes, pad),
                    .pads_end = of_axes(each, "pads_end", axes, pad),
                    .auto_pad = each.value("auto_pad", "none"),
                    .every_layout = each.value("every_layout", false)});
        }
        return all;
    }();
    return cases;
}

const std::vector<plane_case> &plane_cases() {
    static const std::vector<plane_case> cases = [] {
        std::vector<plane_case> all;
        for (const auto &each : list_of("plane"))
            all.push_back({.name = each.at("name"), .dims = each.at("dims")});
        return all;
    }();
    return cases;
}

const interpolation_case &interpolation_named(const std::string &name) {
    return named(interpolation_cases(), name);
}

const convolution_case &convolution_named(const std::string &name) {
    return named(convolution_cases(), name);
}

} // namespace gradnn::test
