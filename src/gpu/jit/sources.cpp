#include "gpu/jit/sources.hpp"

#include <algorithm>
#include <cstdint>
#include <iomanip>
#include <sstream>

#include <gradnn/status.hpp>

#include "base/text.hpp"

namespace gradnn::gpu::jit {

using detail::text;

namespace {

/// NVRTC has no headers of its own: what device code may ask of the standard library,
/// with the types that g++ has on 64-bit Linux.
constexpr source_file standard_headers[] = {
        {"cstdint", R"(#pragma once
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned uint32_t;
typedef unsigned long uint64_t;
typedef unsigned long uintptr_t;
)"},
        {"cstddef", "#pragma once\n"}, // size_t is there
};

/// The path of a line `#include "path"` or `#include <path>`; empty of another line.
std::string_view included_by(std::string_view line) {
    const size_t hash = line.find_first_not_of(" \t");
    if (hash == std::string_view::npos || line[hash] != '#') return {};
    const size_t word = line.find("include", hash);
    const size_t open = line.find_first_of("\"<", hash);
    if (word == std::string_view::npos || open == std::string_view::npos)
        return {};
    const size_t close = line.find_first_of("\">", open + 1);
    if (close == std::string_view::npos) return {};
    return line.substr(open + 1, close - open - 1);
}

} // namespace

std::vector<source_file> with_includes(
        std::string_view path, std::string_view specification) {
    const std::span<const source_file> embedded = embedded_sources();
    std::vector<source_file> files;
    const auto add = [&](std::string_view wanted) {
        const auto named
                = [&](const source_file &file) { return file.path == wanted; };
        if (std::any_of(files.begin(), files.end(), named)) return true;
        if (wanted == specification_name) {
            files.push_back({specification_name, specification});
            return true;
        }
        for (const std::span<const source_file> some :
                {embedded, std::span<const source_file>(standard_headers)}) {
            const auto found = std::find_if(some.begin(), some.end(), named);
            if (found == some.end()) continue;
            files.push_back(*found);
            return true;
        }
        return false;
    };
    if (!add(path))
        throw error(status::invalid_arguments,
                text("gpu::jit: ", path,
                        " is not among the sources that gradnn_embed names"));
    for (size_t index = 0; index < files.size(); ++index) {
        std::string_view rest = files[index].text;
        while (!rest.empty()) {
            const size_t end = std::min(rest.find('\n'), rest.size());
            // What is not there may be in a branch that the preprocessor
            // leaves out; else NVRTC says so.
            add(included_by(rest.substr(0, end)));
            rest.remove_prefix(std::min(end + 1, rest.size()));
        }
    }
    return files;
}

std::string digest_of(std::string_view text) {
    uint64_t digest = 0xcbf29ce484222325U;
    for (const char each : text)
        digest = (digest ^ static_cast<unsigned char>(each)) * 0x100000001b3U;
    std::ostringstream digits;
    digits << std::hex << std::setfill('0') << std::setw(16) << digest;
    return digits.str();
}

} // namespace gradnn::gpu::jit
