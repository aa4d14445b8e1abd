#include <algorithm>
#include <array>
#include <cstddef>
#include <numeric>
#include <utility>

#include "cpu/interpolation/scatter.hpp"
#include "kernel/axis_filter.hpp"

namespace gradnn::cpu {

namespace {

using detail::interpolation_problem;
using detail::tensor_view;

/// An axis of both tensors. `fed`: the places of diff_src that take an element, in order;
/// empty where all do.
struct axis {
    int64_t src = 1;
    int64_t dst = 1;
    std::vector<int64_t> fed;
};

/// Nothing where a place takes several elements, or one that has a weight.
std::optional<axis> find_axis(
        const interpolation_problem &problem, size_t spatial) {
    const detail::interpolation_axis &given = problem.axes[spatial];
    if (detail::is_filtered(problem.mode, given)) return std::nullopt;
    axis made {given.src, given.dst, {}};
    detail::axis_walk walk(problem.mode, problem.coordinates, given);
    // Each output reads one element, a later one than the output before.
    int64_t last = -1;
    bool identity = given.src == given.dst;
    for (int64_t o = 0; o < given.dst; ++o) {
        const detail::output_taps taps = walk.at(o);
        if (taps.two || taps.low == last) return std::nullopt;
        last = taps.low;
        identity = identity && last == o;
        made.fed.push_back(last);
    }
    if (identity) made.fed.clear();
    return made;
}

/// The axes from the innermost to the outermost, or nothing where a tensor has gaps or
/// the two have other orders.
std::optional<std::array<size_t, 5>> dense_order(
        const tensor_view &src, const tensor_view &dst) {
    std::array<size_t, 5> order {0, 1, 2, 3, 4};
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
        // Axes of one place lie anywhere.
        if ((src.dims[a] == 1) != (src.dims[b] == 1)) return src.dims[a] == 1;
        return src.strides[a] < src.strides[b];
    });
    for (const tensor_view *view : {&src, &dst}) {
        int64_t stride = 1;
        for (const size_t a : order) {
            if (view->dims[a] != 1 && view->strides[a] != stride)
                return std::nullopt;
            stride *= view->dims[a];
        }
    }
    return order;
}

/// Where the elements that the first places of diff_src take go, as more axes are added.
struct pattern {
    int64_t src = 1;
    std::vector<int64_t> places {0};

    void add(const axis &next, int64_t size) {
        std::vector<int64_t> made;
        const auto put = [&](int64_t i) {
            for (const int64_t place : places)
                made.push_back(i * src + place);
        };
        if (next.fed.empty())
            for (int64_t i = 0; i < size; ++i)
                put(i);
        else
            std::for_each(next.fed.begin(), next.fed.end(), put);
        places = std::move(made);
        src *= size;
    }
};

/// Places of an axis in a unit: whole cache lines where that can be.
int64_t part_of(int64_t size, int64_t elements, int64_t most, int64_t bytes) {
    const int64_t fitting = std::min(size, most / elements);
    constexpr int64_t line = 64;
    const int64_t lines = line / std::gcd(line, elements * bytes);
    return fitting >= lines ? fitting / lines * lines : fitting;
}

} // namespace

std::optional<scatter_job> find_scatter(const interpolation_problem &problem) {
    constexpr int64_t least_unit = 256;
    constexpr int64_t most_unit = 1 << 15;
    const tensor_view &src = problem.diff_src;
    const auto order = dense_order(src, problem.diff_dst);
    if (!order) return std::nullopt;
    scatter_job job;
    job.element_bytes = detail::size_of(src.type);
    pattern inner;
    bool in_unit = true;
    for (const size_t a : *order) {
        axis next {src.dims[a], src.dims[a], {}};
        // A long axis is not looked at where units would be short.
        if (in_unit && inner.src < least_unit
                && inner.src * next.src > most_unit && a >= 2
                && problem.axes[a - 2].dst != next.src)
            return std::nullopt;
        if (a >= 2) {
            const auto found = find_axis(problem, a - 2);
            if (!found) return std::nullopt;
            next = *found;
        }
        if (next.src == 1) continue;
        if (in_unit && inner.src * next.src <= most_unit) {
            inner.add(next, next.src);
            continue;
        }
        if (in_unit && next.fed.empty()) {
            job.part = std::max<int64_t>(1,
                    part_of(next.src, inner.src, most_unit, job.element_bytes));
            inner.add(next, job.part);
        }
        in_unit = false;
        scatter_axis around {next.src, {}, next.dst};
        if (!next.fed.empty()) {
            around.from.assign(static_cast<size_t>(next.src), -1);
            for (size_t i = 0; i < next.fed.size(); ++i)
                around.from[static_cast<size_t>(next.fed[i])]
                        = static_cast<int64_t>(i);
        }
        job.axes.push_back(std::move(around));
    }
    if (inner.src < least_unit && !job.axes.empty()) return std::nullopt;
    job.unit = inner.src;
    job.unit_inputs = static_cast<int64_t>(inner.places.size());
    for (const int64_t place : inner.places) {
        while (static_cast<int64_t>(job.chunk_inputs.size()) * job.chunk()
                <= place)
            job.chunk_inputs.push_back(static_cast<int64_t>(job.places.size()));
        job.places.push_back(static_cast<uint16_t>(place % job.chunk()));
    }
    const int64_t chunks = (job.unit + job.chunk() - 1) / job.chunk();
    job.chunk_inputs.resize(static_cast<size_t>(chunks + 1), job.unit_inputs);
    for (size_t i = 0; i < job.axes.size(); ++i)
        job.units *= i == 0 ? (job.axes[0].size + job.part - 1) / job.part
                            : job.axes[i].size;
    return job;
}

} // namespace gradnn::cpu
