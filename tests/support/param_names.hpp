// Readable names of parametrised tests.
#pragma once

#include <cctype>
#include <cstdint>
#include <ostream>
#include <string>

#include "op_builders.hpp"

namespace gradnn::test {

/// Only letters, digits and underscores: "convolution.gemm" becomes
/// "convolution_gemm"; an empty kernel name is the library's own choice.
inline std::string identifier(const std::string &text) {
    std::string result;
    for (const char letter : text.empty() ? std::string("chosen") : text)
        result += std::isalnum(static_cast<unsigned char>(letter)) != 0 ? letter
                                                                        : '_';
    return result;
}

/// One test of the conformance product: an op on an engine with a kernel.
struct conformance_param {
    engine::kind on;
    std::string kernel;
    std::string op_name; ///< what distinguishes the op among those of a file
    op the_op;
};

inline std::string conformance_name(const conformance_param &p) {
    return identifier(std::string(to_string(p.on)) + "_" + p.op_name + "_"
            + (p.kernel.empty() ? "chosen" : p.kernel));
}

/// gtest prints parameters where tests fail.
inline void PrintTo(const conformance_param &p, std::ostream *out) {
    *out << conformance_name(p);
}

/// A seed that differs from op to op and not from run to run.
inline uint64_t seed_of(const std::string &name) {
    uint64_t seed = 1469598103934665603U;
    for (const char letter : name)
        seed = (seed ^ static_cast<unsigned char>(letter)) * 1099511628211U;
    return seed;
}

} // namespace gradnn::test
