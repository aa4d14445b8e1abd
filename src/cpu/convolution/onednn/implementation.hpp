// An implementation of oneDNN's, in certain layouts.
#pragma once

#include <string>
#include <string_view>

#include <oneapi/dnnl/dnnl.hpp>

namespace gradnn::cpu::onednn {

struct implementation {
    dnnl::primitive_desc descriptor;
    dnnl::memory::desc src;
    dnnl::memory::desc weights;
    dnnl::memory::desc dst;
    std::string name;
    /// Whether the descriptor counts the channels that pad the layouts, too.
    bool filled = false;
    /// As estimated (cost.hpp).
    double cost = 0;

    explicit operator bool() const { return static_cast<bool>(descriptor); }
};

inline bool contains(std::string_view text, std::string_view part) {
    return text.find(part) != std::string_view::npos;
}

/// Without blocks of channels.
inline bool is_plain(const dnnl::memory::desc &layout) {
    return layout.get_inner_nblks() == 0;
}

} // namespace gradnn::cpu::onednn
