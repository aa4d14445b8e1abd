// Convolution, all three directions, on oneDNN's primitives:
//   dst[n,o,y] = sum over i,k of src[n,i,y*stride - pad + k*dilation]
//                * weights[o,i,k]
// and its gradients with respect to src and weights.
//
// The implementation and its layouts are chosen at compile by the cost rule of
// cost.cpp. A tensor that lies otherwise (or has a type that the implementation does
// not take: f16 on CPUs without products of it) is copied to the workspace before,
// or from it after, by oneDNN's reorder or by gradnn::cpu::convert.
//
// The batch is worked off in blocks of images such that the copies of src and
// dst stay in the caches on their way: they take staging_share bytes for each
// thread, more where the weights are so large that going over them for every
// block would cost, but at most staging_limit bytes, or one image of each where
// that is more. To these come a copy of the weights, for partial sums three in
// f32, and oneDNN's scratchpad, whose size oneDNN decides. workspace_bytes() is
// the sum.
// Gradients of the weights are worked off in blocks, too, where the sum over the
// whole batch in one pass would be less exact than gradnn promises.
//
// Threads: oneDNN's, on parts of the output, or for gradients of the weights
// also of the sum. Their number is fixed at compile and execution holds to it
// (cpu/threads.hpp), so the order of every sum is fixed. Partial sums of blocks
// of images are added up in f32 in the order of the images, and what that rounds
// off in another f32.
#include <algorithm>
#include <array>
#include <limits>
#include <new>
#include <system_error>

#include "base/threads.hpp"
#include "cpu/convolution/onednn/choice.hpp"
#include "cpu/convolution/onednn/copy.hpp"
#include "cpu/convolution/onednn/engine.hpp"
#include "cpu/convolution/onednn/geometry.hpp"
#include "cpu/convolution/onednn/program.hpp"
#include "cpu/convolution/onednn/version.hpp"
#include "cpu/kernels.hpp"
#include "kernel/problem_text.hpp"

namespace gradnn::cpu {

namespace onednn {

namespace {

using detail::convolution_direction;
using dnnl::memory;

constexpr size_t staging_share = size_t {2} << 20;
constexpr size_t staging_limit = size_t {64} << 20;
/// Bytes staged for a byte of the weights: in every block these are read, or
/// as partial sums written, read and added up.
constexpr size_t staged_per_weight = 4;
constexpr size_t staged_per_sum = 8;
/// oneDNN's kernels are exercised little beyond what an int counts.
constexpr int64_t block_elements_limit = std::numeric_limits<int32_t>::max();

/// Positions of the plan's arguments.
constexpr int src_argument = 0;
constexpr int weights_argument = 1;
constexpr int dst_argument = 2;

conversion reversed(conversion problem) {
    std::swap(problem.src_type, problem.dst_type);
    std::swap(problem.src_strides, problem.dst_strides);
    return problem;
}

/// Writes the program of a plan.
class builder {
public:
    builder(const geometry &problem, const choice_options &options, int threads)
        : problem_(problem), options_(options) {
        program_.threads = threads;
    }

    /// False, with the reason, where oneDNN should not do this.
    bool build(std::string &refusal);

    program take() { return std::move(program_); }

private:
    size_t reserve(size_t bytes) {
        const size_t offset = used_;
        constexpr size_t alignment = 64;
        used_ += (bytes + alignment - 1) / alignment * alignment;
        program_.workspace_bytes = std::max(program_.workspace_bytes, used_);
        return offset;
    }
    location workspace(size_t bytes) {
        location where;
        where.offset = where.first_offset = reserve(bytes);
        return where;
    }

    bool choose(std::string &refusal);
    int64_t block_images(const implementation &chosen) const;
    void add_block(std::vector<step> &list, const implementation &chosen);
    void add_primitive(std::vector<step> &list,
            const dnnl::primitive_desc_base &descriptor,
            std::vector<primitive_step::argument> arguments);
    void add_copy(std::vector<step> &list, const operand &tensor,
            const location &theirs, const memory::desc &layout,
            const location &ours, bool is_weights, bool to_caller);
    void add_conversion(std::vector<step> &list, const conversion &problem,
            const location &theirs, const location &ours, bool to_caller);
    void add_reorder(std::vector<step> &list,
            const dnnl::reorder::primitive_desc &descriptor,
            const location &theirs, const location &ours, bool to_caller);
    void place_weights();

    const geometry &problem_;
    choice_options options_;
    program program_;
    size_t used_ = 0;
    implementation main_;
    implementation rest_; ///< for the last block, if that is smaller
    location weights_;
    location sum_; ///< of the partial sums, if there are several blocks
    location low_; ///< and what that rounds off
    bool copies_ = false;
    bool converts_ = false;
};

/// A primitive of the descriptor. oneDNN finds the primitives that it keeps by layouts in
/// which strides of axes of size 1 do not count, though they matter for its choice. Throws
/// where it gives one of another implementation, with another scratchpad.
dnnl::primitive make_primitive(const dnnl::primitive_desc_base &descriptor) {
    dnnl::primitive made(descriptor.get());
    const char *name = nullptr;
    dnnl::error::wrap_c_api(dnnl_primitive_desc_query(made.get_primitive_desc(),
                                    dnnl_query_impl_info_str, 0, &name),
            "the name of an implementation");
    if (descriptor.impl_info_str() != name)
        throw dnnl::error(dnnl_unimplemented,
                "its cache holds another implementation of the problem");
    return made;
}

void builder::add_primitive(std::vector<step> &list,
        const dnnl::primitive_desc_base &descriptor,
        std::vector<primitive_step::argument> arguments) {
    const auto scratchpad = descriptor.scratchpad_desc();
    // Scratch is of no use beyond its primitive: all share the same.
    const size_t mark = used_;
    if (scratchpad.get_size() > 0)
        arguments.push_back({DNNL_ARG_SCRATCHPAD, scratchpad,
                workspace(scratchpad.get_size())});
    used_ = mark;
    list.emplace_back(
            primitive_step {make_primitive(descriptor), std::move(arguments)});
}

void builder::add_reorder(std::vector<step> &list,
        const dnnl::reorder::primitive_desc &descriptor, const location &theirs,
        const location &ours, bool to_caller) {
    add_primitive(list, descriptor,
            {{DNNL_ARG_FROM, descriptor.src_desc(), to_caller ? ours : theirs},
                    {DNNL_ARG_TO, descriptor.dst_desc(),
                            to_caller ? theirs : ours}});
}

void builder::add_conversion(std::vector<step> &list, const conversion &problem,
        const location &theirs, const location &ours, bool to_caller) {
    list.emplace_back(to_caller
                    ? conversion_step {reversed(problem), ours, theirs}
                    : conversion_step {problem, theirs, ours});
}

/// Copies between a tensor of the caller and a layout of oneDNN's.
void builder::add_copy(std::vector<step> &list, const operand &tensor,
        const location &theirs, const memory::desc &layout,
        const location &ours, bool is_weights, bool to_caller) {
    copies_ = true;
    if (to_onednn(tensor.type) != layout.get_data_type()) converts_ = true;
    const auto route = find_route(tensor, layout, is_weights, to_caller);
    if (route.blocking) {
        list.emplace_back(blocking_step {*route.blocking, !to_caller,
                to_caller ? ours : theirs, to_caller ? theirs : ours});
    } else if (route.conversion && route.reorder) {
        const auto between = workspace(route.between.get_size());
        if (!to_caller)
            add_conversion(list, *route.conversion, theirs, between, false);
        add_reorder(list, *route.reorder, between, ours, to_caller);
        if (to_caller)
            add_conversion(list, *route.conversion, theirs, between, true);
    } else if (route.conversion) {
        add_conversion(list, *route.conversion, theirs, ours, to_caller);
    } else {
        add_reorder(list, *route.reorder, theirs, ours, to_caller);
    }
}

/// How many images at a time: all, where no limit stands against it.
int64_t builder::block_images(const implementation &chosen) const {
    const int64_t batch = problem_.src.sizes[0];
    const int64_t images = chosen.src.get_dims()[0];
    size_t staged = 0;
    int64_t largest = 1;
    const auto add = [&](const operand &tensor, const memory::desc &layout) {
        largest = std::max(largest, tensor.elements() / batch);
        operand block = tensor;
        block.sizes[0] = images;
        if (same_layout(block, layout)) return;
        staged += layout.get_size() / static_cast<size_t>(images);
    };
    add(problem_.src, chosen.src);
    add(problem_.dst, chosen.dst);
    int64_t limit = block_elements_limit / largest;
    const bool sums
            = problem_.direction == convolution_direction::backward_weights;
    if (sums) {
        const int64_t points
                = problem_.dst.elements() / batch / problem_.dst.sizes[1];
        limit = std::min(limit, exact_products(chosen) / points);
    }
    if (staged > 0) {
        const size_t wanted = std::max(
                staging_share * static_cast<size_t>(program_.threads),
                chosen.weights.get_size()
                        * (sums ? staged_per_sum : staged_per_weight));
        limit = std::min(limit,
                static_cast<int64_t>(std::min(wanted, staging_limit) / staged));
    }
    limit = std::clamp<int64_t>(limit, 1, batch);
    const int64_t blocks = (batch + limit - 1) / limit;
    return (batch + blocks - 1) / blocks;
}

/// Finds implementations for the blocks of the batch.
bool builder::choose(std::string &refusal) {
    const int64_t batch = problem_.src.sizes[0];
    options_.images = batch;
    main_ = choose_implementation(problem_, options_, refusal);
    if (!main_) return false;
    int64_t images = block_images(main_);
    if (images == batch) return true;

    options_.partial_sums
            = problem_.direction == convolution_direction::backward_weights;
    // Another number of images may bring other layouts, and more to stage.
    for (;;) {
        options_.images = images;
        main_ = choose_implementation(problem_, options_, refusal);
        if (!main_) return false;
        const int64_t wanted = block_images(main_);
        if (wanted >= images) break;
        images = wanted;
    }
    if (batch % images == 0) return true;
    auto rest = options_;
    rest.images = batch % images;
    rest_ = with_images(problem_, rest, main_);
    if (rest_) return true;
    while (batch % images != 0)
        --images;
    options_.images = images;
    main_ = choose_implementation(problem_, options_, refusal);
    return static_cast<bool>(main_);
}

/// Where the weights lie for the primitives.
void builder::place_weights() {
    const size_t bytes = main_.weights.get_size();
    const bool several = options_.images < problem_.src.sizes[0];
    if (problem_.direction == convolution_direction::backward_weights
            && several) {
        sum_ = workspace(bytes);
        weights_ = workspace(bytes);
        weights_.first_offset = sum_.offset;
        low_ = workspace(bytes);
        program_.after.emplace_back(completion_step {
                static_cast<int64_t>(bytes / sizeof(float)), sum_, low_});
        add_copy(program_.after, problem_.weights, {weights_argument},
                main_.weights, sum_, true, true);
        return;
    }
    if (same_layout(problem_.weights, main_.weights)) {
        weights_.argument = weights_argument;
        return;
    }
    weights_ = workspace(bytes);
    const bool output
            = problem_.direction == convolution_direction::backward_weights;
    add_copy(output ? program_.after : program_.before, problem_.weights,
            {weights_argument}, main_.weights, weights_, true, output);
}

/// The steps for one block of images.
void builder::add_block(std::vector<step> &list, const implementation &chosen) {
    const auto direction = problem_.direction;
    const bool forward = direction == convolution_direction::forward;
    const bool backward_data
            = direction == convolution_direction::backward_data;
    const bool backward_weights
            = direction == convolution_direction::backward_weights;
    struct side {
        operand tensor;
        location theirs;
        location ours;
        const memory::desc &layout;
        bool staged;
    };
    const auto place = [&](operand tensor, int argument,
                               const memory::desc &layout) {
        tensor.sizes[0] = layout.get_dims()[0];
        location theirs;
        theirs.argument = argument;
        theirs.block_bytes = static_cast<size_t>(options_.images
                * tensor.strides[0] * detail::size_of(tensor.type));
        const bool staged = !same_layout(tensor, layout);
        const location ours = staged ? workspace(layout.get_size()) : theirs;
        return side {std::move(tensor), theirs, ours, layout, staged};
    };
    const side src = place(problem_.src, src_argument, chosen.src);
    const side dst = place(problem_.dst, dst_argument, chosen.dst);
    const auto copy = [&](const side &s, bool to_caller) {
        if (s.staged)
            add_copy(list, s.tensor, s.theirs, s.layout, s.ours, false,
                    to_caller);
    };

    if (!backward_data) copy(src, false);
    if (!forward) copy(dst, false);
    // Not the layouts of `chosen`, whose blocks it may fill up.
    const auto at = [&](int index, const location &where) {
        const auto which = dnnl::query::exec_arg_md;
        return primitive_step::argument {
                index, chosen.descriptor.query_md(which, index), where};
    };
    add_primitive(list, chosen.descriptor,
            {at(backward_data ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC, src.ours),
                    at(backward_weights ? DNNL_ARG_DIFF_WEIGHTS
                                        : DNNL_ARG_WEIGHTS,
                            weights_),
                    at(forward ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, dst.ours)});
    if (backward_data) copy(src, true);
    if (forward) copy(dst, true);
    if (options_.partial_sums)
        list.emplace_back(accumulation_step {
                static_cast<int64_t>(chosen.weights.get_size() / sizeof(float)),
                weights_, sum_, low_});
}

bool builder::build(std::string &refusal) {
    if (!choose(refusal)) return false;
    place_weights();
    const size_t mark = used_;
    add_block(program_.block, main_);
    if (rest_) {
        used_ = mark;
        add_block(program_.last_block, rest_);
    }
    program_.blocks = problem_.src.sizes[0] / options_.images;
    program_.backend = "oneDNN " + onednn_version() + " (" + main_.name + ")"
            + (converts_              ? " + convert"
                            : copies_ ? " + reorder"
                                      : "");
    return true;
}

} // namespace

} // namespace onednn

std::string onednn_version() {
    const auto *version = dnnl_version();
    return std::to_string(version->major) + "." + std::to_string(version->minor)
            + "." + std::to_string(version->patch);
}

plan_or_refusal make_convolution_onednn(
        const convolution_problem &problem, const compile_options &options) {
    std::string refusal;
    const auto described = onednn::make_geometry(problem, refusal);
    if (!described) return plan_or_refusal::refuse(refusal);
    const int threads = std::max(1, options.threads);
    std::unique_ptr<onednn::program_plan> made;
    try {
        detail::run_with_threads(threads, [&] {
            onednn::builder writer(*described,
                    {1, false, options.fpmath, planes_nanoseconds(problem)},
                    threads);
            if (writer.build(refusal))
                made = std::make_unique<onednn::program_plan>(writer.take());
        });
    } catch (const dnnl::error &failure) {
        if (failure.status == dnnl_out_of_memory)
            throw error(status::out_of_memory,
                    "convolution.onednn: oneDNN ran out of memory at compile");
        return plan_or_refusal::refuse(
                std::string("oneDNN fails: ") + failure.what());
    }
    if (!made) return detail::refuse(refusal, problem);
    return made;
}

} // namespace gradnn::cpu
