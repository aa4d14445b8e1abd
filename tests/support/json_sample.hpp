// A JSON graph that the tests of its reader change.
#pragma once

#include <string>

#include <gtest/gtest.h>

namespace gradnn::test {

// Two ops with an edge between them (tensor 2).
inline const std::string good = R"({
  "version": "3.2.0", "engine_kind": "cpu", "fpmath_mode": "strict",
  "input_ports": [0, 1, 3], "output_ports": [4],
  "graph": [
    {"id": 7, "name": "up", "kind": "InterpolateBackward",
     "attrs": {
       "mode": {"type": "string", "value": "linear"},
       "sizes": {"type": "s64[]", "value": [12, 14]},
       "data_format": {"type": "string", "value": "NCX"}},
     "inputs": [
       {"id": 0, "dtype": "f32", "shape": [2, 3, 6, 7],
        "stride": [126, 42, 7, 1], "layout_type": "strided",
        "property_type": "undef"},
       {"id": 1, "dtype": "f32", "shape": [2, 3, 12, 14],
        "stride": [504, 168, 14, 1], "layout_type": "strided",
        "property_type": "undef"}],
     "outputs": [
       {"id": 2, "dtype": "f32", "shape": [2, 3, 6, 7],
        "stride": [126, 42, 7, 1], "layout_type": "strided",
        "property_type": "variable"}]},
    {"id": 9, "name": "relu", "kind": "ReLUBackward",
     "attrs": {"use_dst": {"type": "bool", "value": 1}},
     "inputs": [
       {"id": 3, "dtype": "f32", "shape": [2, 3, 6, 7],
        "stride": [126, 42, 7, 1], "layout_type": "strided",
        "property_type": "constant"},
       {"id": 2, "dtype": "f32", "shape": [2, 3, 6, 7],
        "stride": [126, 42, 7, 1], "layout_type": "strided",
        "property_type": "undef"}],
     "outputs": [
       {"id": 4, "dtype": "f32", "shape": [2, 3, 6, 7],
        "stride": [126, 42, 7, 1], "layout_type": "strided",
        "property_type": "undef"}]}]})";

/// `good` with one piece replaced, at its first place or at a later one.
inline std::string changed(
        const std::string &from, const std::string &to, int occurrence = 0) {
    std::string text = good;
    size_t at = text.find(from);
    for (; occurrence > 0 && at != std::string::npos; --occurrence)
        at = text.find(from, at + 1);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
}

} // namespace gradnn::test
