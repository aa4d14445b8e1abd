// Broken files must end in input errors, and what is read in errors of the
// library at worst.
#pragma once

#include <string>

#include "generate.hpp"

namespace gradnn::fuzz {

/// A graph's file with a few things changed.
std::string broken_json(
        random_source &numbers, const generator_options &options);

/// Reads it; compiles what can be read. What went wrong, or an empty text.
std::string check_broken_json(random_source &numbers,
        const generator_options &options, const engine &e);
std::string check_json(const std::string &text, const engine &e);

/// The same for a .npy file.
std::string check_broken_npy(random_source &numbers);
std::string check_npy(const std::string &contents);

} // namespace gradnn::fuzz
