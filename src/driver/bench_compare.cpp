#include "bench_compare.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>
#include <vector>

#include "base/input_error.hpp"
#include "base/text.hpp"
#include "bench_table.hpp"
#include "table.hpp"

namespace gradnn::driver {

using detail::input_error;
using detail::text;
using json = nlohmann::ordered_json;

namespace {

constexpr const char *numbers[] = {"time_ms", "time_ms_min", "time_ms_max"};

/// What the comparison reads of a partition or a step.
void check_times(
        const std::string &file, const std::string &place, const json &from) {
    for (const char *key : numbers)
        if (!from.contains(key) || !from[key].is_number()
                || !(from[key].get<double>() >= 0))
            throw input_error(file, place + "." + key,
                    "a number of milliseconds is missing; the file must be "
                    "one that gradnn bench --json wrote");
}

double spread_of(const json &from) {
    const auto quartiles = from.find("time_ms_quartiles");
    if (quartiles != from.end() && quartiles->is_array()
            && quartiles->size() == 2 && (*quartiles)[0].is_number()
            && (*quartiles)[1].is_number())
        return (*quartiles)[1].get<double>() - (*quartiles)[0].get<double>();
    return from["time_ms_max"].get<double>()
            - from["time_ms_min"].get<double>();
}

std::string verdict(const json &before, const json &after) {
    const double change
            = after["time_ms"].get<double>() - before["time_ms"].get<double>();
    if (std::abs(change) <= std::max(spread_of(before), spread_of(after)))
        return "";
    return change > 0 ? "SLOWER" : "faster";
}

/// The results of one graph, in their order.
std::map<std::string, std::vector<const json *>> by_graph(
        const json &results, bool short_names) {
    std::map<std::string, std::vector<const json *>> found;
    for (const json &each : results)
        found[short_names ? short_graph_name(each)
                          : each["graph"].get<std::string>()]
                .push_back(&each);
    return found;
}

/// The old result of each new one, or null.
std::vector<const json *> matches(const json &old, const json &results) {
    std::vector<const json *> result(results.size(), nullptr);
    for (const bool short_names : {false, true}) {
        const auto known = by_graph(old, short_names);
        std::map<std::string, size_t> seen;
        for (size_t index = 0; index < results.size(); ++index) {
            const json &each = results[index];
            const std::string name = short_names
                    ? short_graph_name(each)
                    : each["graph"].get<std::string>();
            const size_t number = seen[name]++;
            const auto found = known.find(name);
            if (result[index] || found == known.end()
                    || number >= found->second.size())
                continue;
            const json &candidate = *found->second[number];
            if (candidate["ops"] == each["ops"]
                    && candidate["engine"] == each["engine"])
                result[index] = &candidate;
        }
    }
    return result;
}

/// A field of an older report; "unknown" where there is none.
std::string text_or_unknown(const json &from, const char *key) {
    const auto found = from.find(key);
    return found != from.end() && found->is_string() ? found->get<std::string>()
                                                     : "unknown";
}

std::string kernel_change(const json &before, const json &after) {
    const std::string old = text_or_unknown(before, "kernel");
    return after["kernel"] == old ? "" : "kernel was " + old;
}

void add_row(table &rows, const std::string &graph, const std::string &what,
        const json &before, const json &after) {
    const double old_time = before["time_ms"].get<double>();
    const double time = after["time_ms"].get<double>();
    rows.add({graph, what, time_text(old_time), time_text(time),
            old_time > 0 ? format("%.2f", time / old_time) : "-",
            verdict(before, after), kernel_change(before, after)});
}

} // namespace

json read_bench_report(const std::string &file) {
    std::ifstream stream(file, std::ios::binary);
    std::ostringstream contents;
    contents << stream.rdbuf();
    if (!stream)
        throw input_error(file,
                "cannot be read; --compare takes a report of "
                "gradnn bench --json");
    const json report = json::parse(contents.str(), nullptr, false);
    if (!report.is_object() || !report.contains("results")
            || !report["results"].is_array())
        throw input_error(file,
                "holds no \"results\"; --compare takes a report of gradnn "
                "bench --json");
    for (size_t index = 0; index < report["results"].size(); ++index) {
        const json &each = report["results"][index];
        const std::string place = text("results[", index, "]");
        for (const char *key : {"graph", "engine"})
            if (!each.is_object() || !each.contains(key)
                    || !each[key].is_string())
                throw input_error(file, place + "." + key,
                        "a string is missing; the file must be one that "
                        "gradnn bench --json wrote");
        if (!each.contains("ops") || !each["ops"].is_array())
            throw input_error(file, place + ".ops",
                    "a list is missing; the file must be one that gradnn "
                    "bench --json wrote");
        check_times(file, place, each);
        if (!each.contains("steps")) continue;
        if (!each["steps"].is_array())
            throw input_error(file, place + ".steps", "must be a list");
        for (size_t step = 0; step < each["steps"].size(); ++step)
            check_times(file, text(place, ".steps[", step, "]"),
                    each["steps"][step]);
    }
    return report;
}

void write_bench_comparison(const json &old, const std::string &old_file,
        const json &report, std::ostream &out) {
    const json &results = report["results"];
    const auto found = matches(old["results"], results);
    table rows({"graph", "ops", "before", "after", "ratio", "", ""});
    for (size_t index = 0; index < results.size(); ++index) {
        const json &each = results[index];
        const json *const before = found[index];
        if (!before) {
            rows.add({short_graph_name(each), joined_ops(each), "-",
                    time_text(each["time_ms"].get<double>()), "-",
                    "not in the old report", ""});
            continue;
        }
        add_row(rows, short_graph_name(each), joined_ops(each), *before, each);
        const json &steps = each["steps"];
        if (steps.size() < 2 || !before->contains("steps")) continue;
        for (const json &step : steps)
            for (const json &old_step : (*before)["steps"])
                if (step["output"] == text_or_unknown(old_step, "output"))
                    add_row(rows, "", "  " + step["output"].get<std::string>(),
                            old_step, step);
    }
    out << "\nbefore: " << old_file << "; after: now\n";
    rows.write(out);
    out << "ratio: after / before; SLOWER and faster: by more than both runs' "
           "spread\n";
    const auto cpu_of = [](const json &from) {
        const auto machine = from.find("machine");
        return machine == from.end() ? std::string("unknown")
                                     : text_or_unknown(*machine, "cpu");
    };
    if (cpu_of(old) != cpu_of(report))
        out << old_file << " is of another machine: " << cpu_of(old)
            << ", here is " << cpu_of(report) << '\n';
}

} // namespace gradnn::driver
