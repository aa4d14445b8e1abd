#include "compile/kernel_choice.hpp"

#include <algorithm>
#include <string_view>
#include <type_traits>

#include "base/text.hpp"
#include "compile/autotune.hpp"
#include "kernel/argument_bytes.hpp"
#include "kernel/axis_map.hpp"
#include "kernel/backend.hpp"
#include "kernel/plan_cache.hpp"
#include "op/labels.hpp"

namespace gradnn::detail {

namespace {

std::vector<std::string_view> words(std::string_view list) {
    std::vector<std::string_view> result;
    while (!list.empty()) {
        const size_t comma = std::min(list.find(','), list.size());
        if (comma > 0) result.push_back(list.substr(0, comma));
        list.remove_prefix(std::min(comma + 1, list.size()));
    }
    return result;
}

template <typename Visit>
void visit_lists(const kernel_lists &lists, const Visit &visit) {
    visit(lists.interpolation);
    visit(lists.convolution);
    visit(lists.bias);
    visit(lists.elementwise);
}

void check_forced(const std::string &forced) {
    std::string known;
    const auto collect = [&](const auto &list) {
        for (const auto &row : list) {
            if (!known.empty()) known += ',';
            known += row.name;
        }
    };
    for (const backend *row : backends())
        visit_lists(row->kernels(), collect);
    for (const char *form : {composed_form, form_of_ops})
        known += text(',', form);
    const auto names = words(known);
    for (const std::string_view word : words(forced)) {
        if (std::find(names.begin(), names.end(), word) == names.end())
            throw error(status::invalid_arguments,
                    text("compile_settings::kernels or GRADNN_KERNEL names \"",
                            word, "\"; the kernels of this build are ", known));
    }
}

/// Whether a row may be asked.
template <typename Problem>
bool may_take(const kernel<Problem> &row, const Problem &problem) {
    if constexpr (std::is_same_v<Problem, interpolation_problem>)
        return problem.mode != interpolation_mode::box || row.last_resort
                || row.takes_boxes;
    else
        return true;
}

/// The rows of a list that may be tried.
template <typename Problem>
std::vector<kernel<Problem>> candidates(std::span<const kernel<Problem>> list,
        const Problem &problem, const std::string &forced) {
    const auto wanted = words(forced);
    std::vector<kernel<Problem>> all, rows;
    for (const auto &row : list) {
        if (!may_take(row, problem)) continue;
        all.push_back(row);
        if (std::find(wanted.begin(), wanted.end(), row.name) != wanted.end())
            rows.push_back(row);
    }
    return rows.empty() ? all : rows;
}

template <typename Problem>
std::span<const kernel<Problem>> list_for(const kernel_lists &lists) {
    if constexpr (std::is_same_v<Problem, interpolation_problem>)
        return lists.interpolation;
    else if constexpr (std::is_same_v<Problem, convolution_problem>)
        return lists.convolution;
    else if constexpr (std::is_same_v<Problem, bias_problem>)
        return lists.bias;
    else
        return lists.elementwise;
}

/// Of a row of a list, or one that fuses.
template <typename Row, typename Problem>
plan_or_refusal make_named(const Row &row, const Problem &problem,
        const compile_options &options, const op &the_op) {
    try {
        return row.make(problem, options);
    } catch (const error &failure) {
        throw named(failure, the_op, row.name);
    }
}

template <typename Problem>
std::string yields(const kernel<Problem> &row, const Problem &problem,
        const compile_options &options) {
    return row.yields ? row.yields(problem, options) : std::string();
}

/// Tries a row; its reason joins the refusals where it has one.
template <typename Problem>
bool take(executable_step &step, const kernel<Problem> &row,
        const Problem &problem, const compile_options &options,
        const op &the_op) {
    plan_or_refusal made = make_named(row, problem, options, the_op);
    if (!made.plan) {
        step.refusals.push_back({row.name, std::move(made.refusal)});
        return false;
    }
    step.kernel = row.name;
    step.plan = std::move(made.plan);
    return true;
}

template <typename Problem>
executable_step choose_by_rules(std::span<const kernel<Problem>> rows,
        const Problem &problem, const compile_options &options,
        const op &the_op) {
    executable_step step;
    std::vector<const kernel<Problem> *> later;
    for (const auto &row : rows) {
        std::string reason = yields(row, problem, options);
        if (!reason.empty()) {
            later.push_back(&row);
            step.refusals.push_back({row.name, std::move(reason)});
        } else if (take(step, row, problem, options, the_op))
            return step;
    }
    for (const kernel<Problem> *row : later) {
        std::erase_if(step.refusals, [&](const kernel_remark &each) {
            return std::string_view(each.kernel) == row->name;
        });
        if (take(step, *row, problem, options, the_op)) return step;
    }
    std::string reasons;
    for (const kernel_remark &each : step.refusals) {
        if (!reasons.empty()) reasons += "; ";
        reasons += text(each.kernel, ": ", each.text);
    }
    throw error(status::unimplemented,
            text(op_label(the_op), ": no kernel takes the ", Problem::name,
                    " problem (", reasons, ")"));
}

/// The rows beside the step's that can compute its problem, but a last resort only
/// where it does not yield. The refusals become those of the rest.
template <typename Problem>
std::vector<rival_kernel> rivals_of(executable_step &step,
        std::span<const kernel<Problem>> rows, const Problem &problem,
        const compile_options &options, const op &the_op) {
    std::vector<rival_kernel> rivals;
    step.refusals.clear();
    for (const auto &row : rows) {
        if (std::string_view(row.name) == step.kernel) continue;
        std::string why = "not measured: " + std::string(row.takes);
        if (!row.last_resort || yields(row, problem, options).empty()) {
            try {
                auto made = make_named(row, problem, options, the_op);
                if (made.plan) {
                    rivals.push_back({row.name, std::move(made.plan)});
                    continue;
                }
                why = std::move(made.refusal);
            } catch (const error &failure) { // no memory, no library
                why = failure.what();
            }
        }
        step.refusals.push_back({row.name, std::move(why)});
    }
    return rivals;
}

/// What a measurement of a problem is kept under, on the options' device.
template <typename Problem>
std::string key_of(const Problem &problem, const backend &device,
        const compile_options &options) {
    std::string measured_by = device.kernels().timer->device(options);
    if constexpr (std::is_same_v<Problem, convolution_problem>)
        measured_by
                += text("; ", device.library, ' ', device.library_version());
    return measurement_key(problem, options, measured_by);
}

/// The row that the plan cache names, or the fastest where options.autotune asks,
/// or that of the rules.
template <typename Problem>
executable_step choose_measured(std::span<const kernel<Problem>> rows,
        bool all_rows, const Problem &problem, const backend &device,
        const compile_options &options, const op &the_op) {
    const plan_timer &timer = *device.kernels().timer;
    std::string key = key_of(problem, device, options);
    if (!all_rows) {
        key += "; of";
        for (const auto &row : rows)
            key += text(' ', row.name);
    }
    if (const auto kept = find_in_plan_cache(key, options.plan_cache)) {
        executable_step step;
        for (const auto &row : rows) {
            if (*kept != row.name) continue;
            try {
                if (!take(step, row, problem, options, the_op)) continue;
            } catch (const error &) { // no library, no memory: by the rules
                continue;
            }
            step.timings.push_back(
                    {row.name, "kept in the plan cache as the fastest"});
            return step;
        }
    }
    executable_step step = choose_by_rules(rows, problem, options, the_op);
    if (!options.autotune) return step;
    auto rivals = rivals_of(step, rows, problem, options, the_op);
    if (!rivals.empty()
            && take_fastest(step, std::move(rivals), argument_bytes(problem),
                    options, timer))
        keep_in_plan_cache(key, step.kernel, options.plan_cache);
    return step;
}

/// Whether a backend's timer is for rows of the problem's list.
template <typename Problem>
constexpr bool is_timed
        = std::is_same_v<Problem,
                  interpolation_problem> || std::is_same_v<Problem, convolution_problem>;

bool may_measure(const compile_options &options) {
    return options.autotune || may_find_in_plan_cache(options.plan_cache);
}

template <typename Problem>
executable_step choose(const Problem &problem, const backend &device,
        const compile_options &options, const op &the_op) {
    const kernel_lists &lists = device.kernels();
    const auto list = list_for<Problem>(lists);
    const auto chosen = candidates(list, problem, options.kernels);
    const std::span<const kernel<Problem>> rows(chosen);
    if constexpr (is_timed<Problem>)
        if (lists.timer != nullptr && rows.size() > 1 && may_measure(options))
            return choose_measured(rows, rows.size() == list.size(), problem,
                    device, options, the_op);
    return choose_by_rules(rows, problem, options, the_op);
}

/// A step of the row that is chosen for a problem, with the plan of all ops, or nothing
/// and the reason where that row does not fuse them.
template <typename Problem>
std::optional<executable_step> choose_fused(const fused_problem<Problem> &all,
        const backend &device, const compile_options &options, const op &the_op,
        std::string &refusal) {
    const auto fusing = std::get<fusing_rows<Problem>>(device.fusing);
    if (fusing.empty()) return std::nullopt;
    const Problem &problem = all.problem;
    const auto rows = candidates(
            list_for<Problem>(device.kernels()), problem, options.kernels);
    const auto made_by = [&](std::string_view name) -> std::unique_ptr<plan> {
        const auto row = std::ranges::find(
                fusing, name, [](const auto &each) { return each.name; });
        refusal = text(name, " computes no ops around it");
        if (row == fusing.end()) return nullptr;
        plan_or_refusal made = make_named(*row, all, options, the_op);
        refusal = text(name, ": ", made.refusal);
        return std::move(made.plan);
    };
    executable_step step;
    if (may_measure(options)) {
        step = choose(problem, device, options, the_op);
        step.plan = made_by(step.kernel);
        if (!step.plan) return std::nullopt;
        return step;
    }
    for (const bool yielding : {false, true})
        for (const auto &row : rows) {
            if (yields(row, problem, options).empty() == yielding) continue;
            if (auto plan = made_by(row.name)) {
                step.kernel = row.name;
                step.plan = std::move(plan);
                return step;
            }
            if (make_named(row, problem, options, the_op).plan)
                return std::nullopt;
        }
    return std::nullopt;
}

} // namespace

bool lists_name(const std::string &list, std::string_view name) {
    const auto all = words(list);
    return std::find(all.begin(), all.end(), name) != all.end();
}

bool writes_channels_last(const lowered_step &step, engine::kind kind,
        const compile_options &options) {
    const auto *problem = std::get_if<convolution_problem>(&step.problem);
    const auto ask = backend_of(kind).kernels().writes_channels_last;
    return problem != nullptr && ask != nullptr && ask(*problem, options);
}

executable_step choose_kernel(const lowered_step &step, engine::kind kind,
        const compile_options &options, const op &the_op) {
    if (!options.kernels.empty()) check_forced(options.kernels);
    const shared_axis_maps shared;
    return std::visit(
            [&](const auto &problem) {
                return choose(problem, backend_of(kind), options, the_op);
            },
            step.problem);
}

std::optional<executable_step> choose_fused_kernel(const fused_step &all,
        engine::kind kind, const compile_options &options, const op &the_op,
        std::string &refusal) {
    if (!options.kernels.empty()) check_forced(options.kernels);
    const shared_axis_maps shared;
    return std::visit(
            [&](const auto &problem) {
                return choose_fused(
                        problem, backend_of(kind), options, the_op, refusal);
            },
            all.problem);
}

std::string key_of_forms(const std::vector<placed_step> &steps,
        engine::kind kind, const compile_options &options) {
    std::string key = "form of";
    for (const placed_step &step : steps)
        std::visit(
                [&](const auto &problem) {
                    using problem_type = std::decay_t<decltype(problem)>;
                    if constexpr (is_timed<problem_type>)
                        key += text(" [",
                                key_of(problem, backend_of(kind), options),
                                ']');
                    else if constexpr (std::is_same_v<problem_type,
                                               elementwise_problem>)
                        key += text(" [elementwise ",
                                static_cast<int>(problem.kind), ']');
                },
                step.lowered.problem);
    return key;
}

std::vector<kernel_opinion> opinions_of(const lowered_step &step,
        engine::kind kind, const compile_options &options, const op &the_op) {
    const shared_axis_maps shared;
    return std::visit(
            [&](const auto &problem) {
                using problem_type = std::decay_t<decltype(problem)>;
                std::vector<kernel_opinion> opinions;
                for (const auto &row :
                        list_for<problem_type>(backend_of(kind).kernels())) {
                    if (!may_take(row, problem)) continue;
                    kernel_opinion opinion;
                    opinion.kernel = row.name;
                    opinion.yields = yields(row, problem, options);
                    plan_or_refusal made = plan_or_refusal::refuse({});
                    try {
                        made = make_named(row, problem, options, the_op);
                    } catch (const error &failure) { // a library is missing
                        made = plan_or_refusal::refuse(failure.what());
                    }
                    opinion.refusal = std::move(made.refusal);
                    if (made.plan) {
                        opinion.backend = made.plan->backend();
                        opinion.workspace_bytes = made.plan->workspace_bytes();
                        opinion.plan = std::move(made.plan);
                    }
                    opinions.push_back(std::move(opinion));
                }
                return opinions;
            },
            step.problem);
}

std::vector<kernel_row> kernel_rows(engine::kind kind) {
    std::vector<kernel_row> rows;
    visit_lists(backend_of(kind).kernels(), [&](const auto &list) {
        for (const auto &row : list)
            rows.push_back({row.name, row.takes});
    });
    return rows;
}

} // namespace gradnn::detail
