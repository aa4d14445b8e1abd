// Depthwise, planes in shared memory: which tensors and windows, and how the
// work is cut. Plain host arithmetic.
#include <algorithm>
#include <cstdint>

#include "gpu/convolution/depthwise/plan.hpp"
#include "gpu/convolution/depthwise/planes/cut.hpp"
#include "gpu/device/banks.hpp"

namespace gradnn::gpu::depthwise::planes {

namespace {

/// Of both buffers: what a block holds, its slack, and where it begins.
size_t buffer_bytes(int64_t elements, int64_t element_bytes) {
    return static_cast<size_t>(
            round_up((elements + 2 * slack_elements) * element_bytes + 16, 16));
}

/// Bytes between what neighbouring planes, strips and groups have in a buffer.
struct distances {
    int64_t plane;
    int64_t strip;
    int64_t group;
};

/// Turns that the first warp takes at shared memory for so many neighbouring
/// words a thread.
int turns(const work_cut &cut, const distances &apart, int words) {
    const int active = std::min(32, cut.planes * cut.strips * cut.groups);
    return shared_turns(active, 4 * words, [&](int thread) {
        return thread / cut.plane_distance % cut.planes * apart.plane
                + thread / cut.strip_distance % cut.strips * apart.strip
                + thread / cut.group_distance % cut.groups * apart.group;
    });
}

/// What a thread does in a step along H, of either kernel.
struct thread_step {
    int instructions; ///< that are issued
    int loads; ///< of one or two elements, as stores
    int stores;
    int words; ///< of a load or store
};

/// With `wide` elements a load or store, products counted for each element.
thread_step step_of(
        int products, int loads, int stores, int wide, int64_t element_bytes) {
    loads /= wide;
    stores /= wide;
    // f64: products take two turns, and a mask is for a word.
    if (element_bytes == 8)
        return {2 * products + (1 + 2 * wide) * loads + 2 * stores + 20, loads,
                stores, 2 * wide};
    return {products + 3 * loads + 2 * stores + 20, loads, stores, 1};
}

/// Orders the threads of a block so that loads and stores take the fewest
/// turns; returns those of a step of a warp.
int64_t order_threads(work_cut &cut, const thread_step &step,
        const distances &of_loads, const distances &of_stores) {
    int64_t least = 0;
    work_cut best;
    const auto consider = [&](int work_cut::*first, int first_count,
                                  int work_cut::*second, int second_count,
                                  int work_cut::*third) {
        cut.*first = 1;
        cut.*second = first_count;
        cut.*third = first_count * second_count;
        const int64_t taken
                = int64_t {step.loads} * turns(cut, of_loads, step.words)
                + int64_t {step.stores} * turns(cut, of_stores, step.words);
        if (least != 0 && taken >= least) return;
        least = taken;
        best = cut;
    };
    constexpr auto plane = &work_cut::plane_distance;
    constexpr auto strip = &work_cut::strip_distance;
    constexpr auto group = &work_cut::group_distance;
    consider(group, cut.groups, strip, cut.strips, plane);
    consider(group, cut.groups, plane, cut.planes, strip);
    consider(strip, cut.strips, group, cut.groups, plane);
    consider(strip, cut.strips, plane, cut.planes, group);
    consider(plane, cut.planes, group, cut.groups, strip);
    consider(plane, cut.planes, strip, cut.strips, group);
    cut = best;
    return least;
}

/// What a cut costs in cycles of a multiprocessor, whose blocks have `rounds`
/// times planes and then walk `steps`. It adds, for every wave of blocks, the steps
/// of its threads, the bytes that its blocks move, and the time until the first data
/// has arrived. A step takes the longest of three times: to issue its instructions, to
/// access shared memory, and its latency. The constants are fitted to some fifty
/// gradients on an H200.
double cycles_of(const work_cut &cut, int size, int64_t element_bytes,
        const thread_step &step, int64_t turns_of_step, int64_t steps,
        int64_t rounds, int64_t blocks, const problem_facts &facts) {
    const multiprocessor &sm = facts.sm;
    const int64_t resident = std::max<int64_t>(1,
            sm.blocks_held(cut.threads,
                    sm.registers_for(resident_blocks(size, element_bytes)
                            * walking_threads),
                    static_cast<int64_t>(cut.shared_bytes)));
    const int64_t waves = ceil_div(blocks, facts.multiprocessors * resident);
    const auto warps = static_cast<double>(resident * (cut.threads / 32));
    constexpr double latency = 500;
    const double of_step = std::max({latency, warps * step.instructions / 4,
            0.75 * warps * static_cast<double>(turns_of_step)});
    const double moved = static_cast<double>(resident)
            * static_cast<double>(cut.read_bytes + cut.written_bytes)
            / sm.bytes_a_cycle;
    constexpr double until_data = 1500;
    const auto in_all = static_cast<double>(rounds);
    return static_cast<double>(waves)
            * ((static_cast<double>(steps) * of_step + moved) * in_all
                    + (in_all + 1) * until_data);
}

/// Calls body(cut) with bands, strips and their steps for many ways to cut so many
/// steps that leave a thread at most longest_strip of them: all that
/// have few bands and strips.
template <typename Body>
void for_each_way(work_cut cut, int steps, const Body &body) {
    if (cut.groups > walking_threads) return;
    constexpr int most_bands = 4096;
    cut.bands = cut.strips = 0;
    for (int bands = 1; bands <= std::min(steps, most_bands);
            bands += 1 + bands / 16) {
        cut.band_steps = ceil_div(steps, bands);
        if (ceil_div(steps, cut.band_steps) == cut.bands) continue;
        cut.bands = ceil_div(steps, cut.band_steps);
        cut.strips = 0;
        const int fewest = ceil_div(cut.band_steps, longest_strip);
        const int most = std::min(cut.band_steps, walking_threads / cut.groups);
        for (int strips = fewest; strips <= most; strips += 1 + strips / 16) {
            cut.strip_steps = ceil_div(cut.band_steps, strips);
            if (ceil_div(cut.band_steps, cut.strip_steps) == cut.strips)
                continue;
            cut.strips = ceil_div(cut.band_steps, cut.strip_steps);
            body(cut);
        }
    }
}

/// Gives the cut as many planes, of at most so many, as fit by `fit(count)`; false
/// if there is none.
template <typename Fit>
bool give_planes(const work_cut &cut, int64_t planes, const Fit &fit) {
    const int64_t threads = walking_threads / (cut.groups * cut.strips);
    auto count = cut.bands > 1
            ? 1
            : static_cast<int>(std::min<int64_t>(planes, threads));
    while (count > 0 && !fit(count))
        --count;
    return count > 0;
}

bool takes(const problem_facts &facts) {
    const problem_shape &shape = facts.shape;
    const int64_t element_bytes = facts.element_bytes();
    const bool of_weights = facts.of_weights();
    if (facts.channels_last || !window_is_usual(shape)
            || shape.axes[0].read != 1)
        return false;
    const window_axis &along = shape.axes[2];
    const int size = along.kernel;
    const int stride = along.stride;
    if (!(stride == 1 || (stride == 2 && (shape.to_src || of_weights)))
            || (stride == 2 && !of_weights
                    && (along.pad - usual_pad(size)) % 2 != 0))
        return false;
    // All columns that a thread loads, one more on either side where it loads two
    // at a time, are in the slack at least.
    const int run = of_weights ? weights_run(size, element_bytes)
                               : data_run(element_bytes);
    int64_t first = -along.pad;
    int64_t end = (int64_t {round_up(along.written, run)} - 1) * stride
            - along.pad + size;
    if (shape.to_src) {
        first = floor_div(int64_t {along.pad} - size, stride);
        end = floor_div(int64_t {along.written} + run - 1 + along.pad, stride)
                + 1;
    }
    if (first - 1 < -slack_elements || end + 1 > along.read + slack_elements)
        return false;
    return planes_without_gaps(shape);
}

} // namespace

bool cut(work_cut &chosen, const problem_facts &facts) {
    if (!takes(facts)) return false;
    const problem_shape &shape = facts.shape;
    const bool of_weights = facts.of_weights();
    const int64_t element_bytes = facts.element_bytes();
    const window_axis &down = shape.axes[1];
    const window_axis &along = shape.axes[2];
    const int size = down.kernel;
    const int stride = down.stride;
    const int ahead = (size - 1) / stride;
    const int run = of_weights ? weights_run(size, element_bytes)
                               : data_run(element_bytes);
    const int64_t planes = shape.channels * (of_weights ? 1 : shape.images);
    const int wide = rows_are_wide(shape, wide_pads(shape, of_weights)) ? 2 : 1;
    // Of the weights' gradient loads of src; those of dst, of which there are
    // fewer, count as stores.
    const thread_step step = of_weights
            ? step_of(size * size * run, stride * ((run - 1) * stride + size),
                    run, wide, element_bytes)
            : step_of(size * size * run / stride, (run + size - 2) / stride + 1,
                    run * stride, wide, element_bytes);
    // Rows of both tensors of a step.
    const int read_rows = of_weights ? stride : 1;
    const int written_rows = of_weights ? 1 : stride;
    work_cut base;
    if (!of_weights) base.steps = steps_of(shape);
    base.groups = ceil_div(along.written, run);
    double least = 0;
    for_each_way(base, of_weights ? down.written : base.steps.count,
            [&](work_cut cut) {
                int64_t read = int64_t {down.read} * along.read;
                int64_t written = int64_t {down.written} * along.written;
                if (cut.bands > 1) {
                    const int met = of_weights
                            ? (cut.band_steps - 1) * stride + size
                            : cut.band_steps + ahead;
                    read = std::min(read, int64_t {met} * along.read);
                    written = std::min(written,
                            int64_t {cut.band_steps} * written_rows
                                    * along.written);
                }
                const auto fit = [&](int count) {
                    cut.planes = count;
                    cut.threads = round_up(count * cut.groups * cut.strips, 32);
                    cut.read_bytes = buffer_bytes(count * read, element_bytes);
                    cut.written_bytes
                            = buffer_bytes(count * written, element_bytes);
                    const size_t held = cut.read_bytes + cut.written_bytes;
                    const auto of_windows = static_cast<size_t>(size * size
                            * (of_weights ? cut.threads : count)
                            * facts.sum_bytes());
                    // The sums for the weights take the place of the planes.
                    cut.shared_bytes = of_weights ? std::max(held, of_windows)
                                                  : held + of_windows;
                    return static_cast<int64_t>(cut.shared_bytes)
                            <= default_block_shared_bytes;
                };
                if (!give_planes(cut, planes, fit)) return;
                cut.tiles = ceil_div(planes, int64_t {cut.planes});
                const int64_t strip = int64_t {cut.strip_steps} * element_bytes;
                const int64_t turns_of_step = order_threads(cut, step,
                        {read * element_bytes, strip * read_rows * along.read,
                                (of_weights ? run * stride : run / stride)
                                        * element_bytes},
                        {written * element_bytes,
                                strip * written_rows * along.written,
                                run * element_bytes});
                const int64_t chain = int64_t {cut.strip_steps} * run;
                const auto most = of_weights
                        ? static_cast<int>(std::clamp<int64_t>(
                                longest_f32_chain / chain, 1, shape.images))
                        : 1;
                for (int each = most; each > 0;
                        each = each > 8 ? each * 3 / 4 : each - 1) {
                    if (of_weights)
                        cut.image_parts = static_cast<int>(
                                ceil_div(shape.images, int64_t {each}));
                    const double cycles = cycles_of(cut, size, element_bytes,
                            step, turns_of_step, cut.strip_steps + ahead, each,
                            cut.tiles * cut.parts(), facts);
                    if (least != 0 && cycles >= least) continue;
                    least = cycles;
                    chosen = cut;
                }
            });
    return least != 0 && chosen.tiles * chosen.parts() < INT32_MAX;
}

} // namespace gradnn::gpu::depthwise::planes
