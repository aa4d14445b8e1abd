// Writes graphs in the format that src/files/json_graph.hpp reads. Part of the library,
// which has no JSON library.
#pragma once

#include <span>
#include <string>

#include <gradnn/engine.hpp>
#include <gradnn/op.hpp>

namespace gradnn::detail {

/// As in a graph's JSON: "strict", "tf32".
const char *name_of(fpmath_mode mode);

/// The graph as oneDNN Graph's dumps describe it. Reading it gives the same
/// ops, with two exceptions that the format has: a tensor of one unknown dim
/// is read as one of unknown rank, and a strided layout of unknown dims as
/// `any`. Bytes of names that are not UTF-8 become U+FFFD.
std::string graph_json(
        std::span<const op> ops, engine::kind kind, fpmath_mode fpmath);

} // namespace gradnn::detail
