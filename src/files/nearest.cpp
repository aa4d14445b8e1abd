#include "files/nearest.hpp"

#include <algorithm>
#include <numeric>

namespace gradnn::detail {

size_t edit_distance(std::string_view one, std::string_view other) {
    // Rows of the usual table: distances between prefixes.
    std::vector<size_t> before;
    std::vector<size_t> above(other.size() + 1);
    std::vector<size_t> row(other.size() + 1);
    std::iota(above.begin(), above.end(), size_t {0});
    for (size_t i = 1; i <= one.size(); ++i) {
        row[0] = i;
        for (size_t j = 1; j <= other.size(); ++j) {
            const size_t changed = one[i - 1] == other[j - 1] ? 0 : 1;
            row[j] = std::min(
                    {above[j] + 1, row[j - 1] + 1, above[j - 1] + changed});
            if (i > 1 && j > 1 && one[i - 1] == other[j - 2]
                    && one[i - 2] == other[j - 1])
                row[j] = std::min(row[j], before[j - 2] + 1);
        }
        before = above;
        above = row;
    }
    return above.back();
}

std::string nearest(
        std::string_view word, const std::vector<std::string> &candidates) {
    std::string best;
    size_t least = 0;
    for (const std::string &candidate : candidates) {
        const bool starts = word.size() >= 3 && candidate.starts_with(word);
        const size_t distance = starts ? 1 : edit_distance(word, candidate);
        if (distance > std::max<size_t>(1, candidate.size() / 3)
                || distance >= word.size())
            continue;
        if (best.empty() || distance < least) {
            best = candidate;
            least = distance;
        }
    }
    return best;
}

std::string suggestion(
        std::string_view word, const std::vector<std::string> &candidates) {
    const std::string found = nearest(word, candidates);
    return found.empty() ? std::string() : ", did you mean " + found + "?";
}

} // namespace gradnn::detail
