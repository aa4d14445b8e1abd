#include "base/text.hpp"

namespace gradnn::detail {

namespace {

template <typename Value, typename Write>
std::string listed(std::span<const Value> values, const Write &write) {
    std::ostringstream out;
    out << '[';
    for (size_t index = 0; index < values.size(); ++index) {
        if (index != 0) out << ", ";
        write(out, values[index]);
    }
    out << ']';
    return out.str();
}

} // namespace

std::string text_of(std::span<const int64_t> values) {
    return listed(values, [](std::ostream &out, int64_t value) {
        if (value == logical_tensor::unknown_dim)
            out << '?';
        else
            out << value;
    });
}

std::string text_of(std::span<const float> values) {
    return listed(values, [](std::ostream &out, float value) { out << value; });
}

std::string text_of(std::span<const double> values) {
    return listed(
            values, [](std::ostream &out, double value) { out << value; });
}

} // namespace gradnn::detail
