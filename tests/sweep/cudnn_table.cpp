#include "cudnn_table.hpp"

#include <algorithm>
#include <cstdio>
#include <map>

namespace gradnn::sweep {

namespace {

/// More than one rounding to f32 is off by, much less than promised.
constexpr double rounded_twice = 1024;

} // namespace

void engine_row::count(const trial_result &result, const detail::promise &of,
        sign signs, int64_t terms, const std::string &text) {
    if (!result.failure.empty()) {
        ++failures;
        return;
    }
    if (result.error > rounded_twice) ++twice;
    if (result.error > of.chain) ++over;
    if (signs == sign::any && result.norm > of.norm) ++over_norm;
    if (result.not_finite != 0) ++not_finite;
    if (result.changed != 0) ++changed;
    if (result.strays != 0) ++strays;
    worst_norm = std::max(worst_norm, result.norm);
    if (result.error < worst || (result.error == worst && worst_terms != 0))
        return;
    worst = result.error;
    worst_terms = terms;
    worst_text.set(text);
}

void engine_row::merge(const engine_row &other) {
    trials += other.trials;
    failures += other.failures;
    deaths += other.deaths;
    twice += other.twice;
    over += other.over;
    over_norm += other.over_norm;
    not_finite += other.not_finite;
    changed += other.changed;
    strays += other.strays;
    worst_norm = std::max(worst_norm, other.worst_norm);
    if (other.worst <= worst && worst_terms != 0) return;
    worst = other.worst;
    worst_terms = other.worst_terms;
    worst_text = other.worst_text;
}

engine_row &engine_table::row(const std::string &key) {
    size_t index = 0;
    while (index + 1 < rows.size() && rows[index].trials != 0
            && rows[index].key.get() != key)
        ++index;
    rows[index].key.set(key);
    return rows[index];
}

void print_rows(std::span<const engine_table> tables) {
    std::map<std::string, engine_row> merged;
    for (const engine_table &table : tables)
        for (const engine_row &row : table.rows)
            if (row.trials != 0) merged[row.key.get()].merge(row);
    std::printf("%-44s %6s %5s %5s %6s %6s %5s %5s %7s %6s %9s %9s %8s  %s\n",
            "direction type engine", "trials", "fails", "dies", ">1024",
            ">bound", ">norm", "NaN", "changes", "strays", "norm", "u*S",
            "terms", "worst");
    for (const auto &[key, row] : merged)
        std::printf("%-44s %6lld %5lld %5lld %6lld %6lld %5lld %5lld %7lld "
                    "%6lld %9.2g %9.3g %8lld  %s\n",
                key.c_str(), static_cast<long long>(row.trials),
                static_cast<long long>(row.failures),
                static_cast<long long>(row.deaths),
                static_cast<long long>(row.twice),
                static_cast<long long>(row.over),
                static_cast<long long>(row.over_norm),
                static_cast<long long>(row.not_finite),
                static_cast<long long>(row.changed),
                static_cast<long long>(row.strays), row.worst_norm, row.worst,
                static_cast<long long>(row.worst_terms),
                row.worst_text.characters);
}

} // namespace gradnn::sweep
