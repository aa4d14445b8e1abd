#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "gpu/interpolation/resample/cuts.hpp"

namespace gradnn::gpu::resample {

std::vector<choice> choices_of(
        const std::vector<mapped_problem> &forms, const gpu_facts &gpu) {
    // Priced in full: of each kind the best of a price without what is counted lane by lane,
    // which knows no conflicts and no sectors.
    constexpr size_t most_priced = 240, most_chosen = 12;
    constexpr int most_of_kind = 6;
    constexpr double far_off = 2.0;
    std::vector<choice> all;
    const auto sort_by_price = [&](bool by_lanes) {
        for (choice &each : all) {
            const mapped_problem &of = forms[each.form];
            each.cost = cost_of(
                    {of.specification, each.cut_by}, of, gpu, by_lanes);
        }
        std::ranges::stable_sort(all, {}, &choice::cost);
    };
    for (size_t form = 0; form < forms.size(); ++form)
        for (const cut &each : all_cuts(forms[form], gpu))
            all.push_back({0, form, each});
    sort_by_price(false);
    const auto kind_of = [](const cut &c) {
        return std::array<int, 9> {c.vector, c.columns, c.repeated, c.exchanged,
                c.apart, c.stages > 0, c.line_vector, c.words, c.gathers};
    };
    std::map<std::pair<bool, std::array<int, 9>>, int> priced;
    std::erase_if(all, [&](const choice &each) {
        const bool walks = forms[each.form].specification.walk.is_there();
        return ++priced[{walks, kind_of(each.cut_by)}] > most_of_kind;
    });
    if (all.size() > most_priced) all.resize(most_priced);
    sort_by_price(true);
    // The best, each unlike those before it.
    std::vector<choice> chosen;
    for (const choice &each : all) {
        if (chosen.size() == most_chosen
                || each.cost > far_off * all.front().cost)
            break;
        const auto is_alike = [&](const choice &other) {
            const cut &a = each.cut_by, &b = other.cut_by;
            return kind_of(a) == kind_of(b) && a.ahead == b.ahead
                    && a.planes == b.planes;
        };
        if (std::ranges::none_of(chosen, is_alike)) chosen.push_back(each);
    }
    return chosen;
}

bool walks_first(const mapped_problem &of) {
    if (!can_walk_first(of.specification)) return false;
    // Of all GPUs, tensors and numbers of images alike, whatever ops there are around it: as many
    // outer positions as fill an H100.
    constexpr gpu_facts of_h100 {132, 227 << 10, 228 << 10, 65536, 2048};
    constexpr long long elements = 32 << 20;
    problem_specification one = of.specification;
    one.alignment = 16;
    one.bulk_copies = true;
    one.prologue = one.epilogue[0] = one.epilogue[1] = fused_op::none;
    long long written = one.inner, read = one.inner;
    for (const axis *a : {&one.walk, &one.middle, &one.column}) {
        written = std::max(written, a->written * a->write_pitch);
        read = std::max(read, a->read * a->read_pitch);
    }
    // Those between the axes stay.
    int outermost = 0;
    for (int i = most_outer - 1; i >= 0; --i) {
        if (one.outer_read[i] >= read) one.outer[i] = 1;
        if (one.outer[i] == 1) outermost = i;
    }
    one.outer_write[outermost] = written;
    one.outer_read[outermost] = read;
    one.outer[outermost] = static_cast<int>(
            std::max(1LL, elements / std::max(written, read)));
    const auto cost_of = [&](bool walk_first) {
        one.walk_first = walk_first;
        const auto choices = choices_of({{one, of.maps}}, of_h100);
        return choices.empty() ? HUGE_VAL : choices.front().cost;
    };
    return cost_of(true) < cost_of(false);
}

} // namespace gradnn::gpu::resample
