// Suggestions for misspelled words.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gradnn::detail {

/// Insertions, deletions, changes and exchanges of neighbours that make one
/// word of the other.
size_t edit_distance(std::string_view one, std::string_view other);

/// The candidate that the word was likely meant to be: the nearest, at most a
/// third of its letters away, or one that starts with the word. Empty where
/// there is none.
std::string nearest(
        std::string_view word, const std::vector<std::string> &candidates);

/// ", did you mean check?", or nothing where no candidate is near.
std::string suggestion(
        std::string_view word, const std::vector<std::string> &candidates);

} // namespace gradnn::detail
