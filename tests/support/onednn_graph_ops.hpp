// Random ops that oneDNN Graph and gradnn both have.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <oneapi/dnnl/dnnl_graph.hpp>

#include <gradnn/gradnn.hpp>

#include "support/random_cases.hpp"

namespace gradnn::test {

/// A port: dims that are given, or a rank alone.
struct port {
    sizes dims;
    bool known = true;
};

/// An op, for either library.
struct description {
    const char *name = "";
    op::kind kind = op::kind::LastSymbol;
    dnnl::graph::op::kind onednn_kind = dnnl::graph::op::kind::LastSymbol;
    std::vector<port> inputs;
    std::vector<port> outputs;
    std::map<std::string, sizes> lists;
    std::map<std::string, std::string> words;
    std::map<std::string, int64_t> numbers;
    std::map<std::string, bool> flags;

    std::string text() const {
        std::string result = name;
        for (const auto *ports : {&inputs, &outputs})
            for (const port &each : *ports)
                result += " " + testing::PrintToString(each.dims)
                        + (each.known ? "" : "?");
        for (const auto &[key, value] : lists)
            result += " " + key + testing::PrintToString(value);
        for (const auto &[key, value] : words)
            result += " " + key + " " + value;
        for (const auto &[key, value] : numbers)
            result += " " + key + " " + std::to_string(value);
        return result;
    }
};

/// One of the four kinds of convolution that both libraries have. Sizes fit
/// together in most cases, and whatever rest, output_padding and dst_shape
/// there may be is for oneDNN to accept or not.
description random_convolution_op(random_source &numbers);
/// Add with dims that broadcast, or not.
description random_add(random_source &numbers);
description random_other(random_source &numbers);

} // namespace gradnn::test
