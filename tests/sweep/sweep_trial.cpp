#include "sweep_trial.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <set>
#include <sstream>

#include <gradnn/engine.hpp>

#include "base/threads.hpp"
#include "cpu/convolution/onednn/choice.hpp"
#include "cpu/convolution/onednn/engine.hpp"
#include "cpu/convolution/onednn/faults.hpp"
#include "cpu/kernels.hpp"
#include "files/tensor_data.hpp"
#include "kernel/engine_impl.hpp"

namespace gradnn::sweep {

namespace {

namespace ours = cpu::onednn;
using detail::convolution_problem;
using detail::data_type;
using dnnl::memory;

/// Memory full of bits that are NaN in every type, with as many such bytes
/// around it, which nobody may write.
class watched {
public:
    explicit watched(size_t bytes)
        : bytes_(bytes),
          memory_(new (std::align_val_t {page}) std::byte[bytes + 2 * page]) {
        std::memset(memory_.get(), nan, bytes + 2 * page);
    }
    std::byte *data() const { return memory_.get() + page; }
    bool is_intact() const { return strays().empty(); }
    /// Where it was written outside: " from -64 to 12 of 8 bytes".
    std::string strays() const {
        const auto touched = [](std::byte b) { return b != std::byte {nan}; };
        const std::byte *const end = data() + bytes_;
        const std::byte *first = std::find_if(memory_.get(), data(), touched);
        if (first == data()) first = std::find_if(end, end + page, touched);
        if (first == end + page) return {};
        const std::byte *last = end + page - 1;
        while (!(last < data() || last >= end) || !touched(*last))
            --last;
        return " from " + std::to_string(first - data()) + " to "
                + std::to_string(last - data()) + " of "
                + std::to_string(bytes_) + " bytes";
    }

private:
    static constexpr size_t page = 16384;
    static constexpr int nan = 0xFF;
    struct release {
        void operator()(std::byte *p) const {
            ::operator delete[](p, std::align_val_t {page});
        }
    };
    const size_t bytes_;
    std::unique_ptr<std::byte[], release> memory_;
};

std::string describe(const difference &found) {
    if (found.count == 0) return {};
    std::ostringstream text;
    text << (found.unwritten > 0 ? "NaN" : "wrong") << " in " << found.count
         << ", element " << found.first << " is " << found.found << ", not "
         << found.expected;
    return text.str();
}

std::string describe(const memory::desc &layout) {
    std::ostringstream text;
    const auto strides = layout.get_strides();
    const auto dims = layout.get_dims();
    if (layout.get_inner_nblks() == 0)
        text << (strides[1] == 1 && dims[1] > 1 ? "nxc" : "ncx");
    const auto blocks = layout.get_inner_blks();
    const auto axes = layout.get_inner_idxs();
    for (size_t index = 0; index < blocks.size(); ++index)
        text << blocks[index] << static_cast<char>('a' + axes[index]);
    return text.str();
}

void reorder(const memory::desc &from_layout, void *from,
        const memory::desc &to_layout, void *to, dnnl::stream &stream) {
    const dnnl::engine &engine = ours::cpu_engine();
    memory source(from_layout, engine, from);
    memory target(to_layout, engine, to);
    dnnl::reorder(source, target).execute(stream, source, target);
}

/// Of implementations: src, weights, dst.
class implementation_trial {
public:
    implementation_trial(
            const ours::geometry &problem, const ours::implementation &tried)
        : layouts_ {tried.src, tried.weights, tried.dst},
          descriptor_(tried.descriptor) {
        const std::array operands {
                &problem.src, &problem.weights, &problem.dst};
        for (size_t index = 0; index < 3; ++index) {
            const auto &sizes = operands[index]->sizes;
            plain_[index] = memory::desc(
                    sizes, memory::data_type::f32, ours::dense_strides(sizes));
        }
    }

    std::string run(const values &expected, size_t output) {
        static constexpr std::array<std::array<int, 3>, 3> arguments {
                {{DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST},
                        {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS,
                                DNNL_ARG_DIFF_DST},
                        {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST}}};
        const dnnl::engine &engine = ours::cpu_engine();
        dnnl::stream stream(engine);
        values copies = expected;
        std::vector<watched> tensors;
        tensors.reserve(3);
        std::vector<dnnl_exec_arg_t> bound;
        std::vector<memory> memories;
        const auto bind = [&](int index, const memory::desc &layout, void *at) {
            memories.emplace_back(layout, engine, at);
            bound.push_back({index, memories.back().get()});
        };
        for (size_t index = 0; index < 3; ++index) {
            const auto &tensor
                    = tensors.emplace_back(layouts_[index].get_size());
            if (index != output)
                reorder(plain_[index], copies[index].data(), layouts_[index],
                        tensor.data(), stream);
            bind(arguments[output][index], layouts_[index], tensor.data());
        }
        const auto scratch_layout = descriptor_.scratchpad_desc();
        const watched scratch(scratch_layout.get_size());
        bind(DNNL_ARG_SCRATCHPAD, scratch_layout, scratch.data());
        dnnl_primitive_t made = nullptr;
        if (dnnl_primitive_create(&made, descriptor_.get()) != dnnl_success)
            return "cannot be made";
        const dnnl::primitive primitive(made);
        if (dnnl_primitive_execute(primitive.get(), stream.get(),
                    static_cast<int>(bound.size()), bound.data())
                != dnnl_success)
            return "cannot be executed";
        stream.wait();
        static constexpr std::array names {"src", "weights", "dst"};
        if (!scratch.is_intact())
            return "writes outside of scratch" + scratch.strays();
        for (size_t index = 0; index < 3; ++index)
            if (!tensors[index].is_intact())
                return std::string("writes outside of ") + names[index]
                        + tensors[index].strays();
        std::fill(copies[output].begin(), copies[output].end(), 0.0F);
        reorder(layouts_[output], tensors[output].data(), plain_[output],
                copies[output].data(), stream);
        return describe(compare(copies[output], expected[output],
                ours::from_onednn(layouts_[output].get_data_type())));
    }

private:
    std::array<memory::desc, 3> layouts_;
    std::array<memory::desc, 3> plain_;
    dnnl::primitive_desc descriptor_;
};

/// With the elements of src that strides of a 1x1 window do not step over, where these
/// are all that a geometry has.
values read_by(const ours::geometry &geometry,
        const convolution_problem &problem, const values &all) {
    values read = all;
    const auto &src = problem.src.dims;
    const auto &dst = problem.dst.dims;
    if (geometry.src.elements() == static_cast<int64_t>(all[0].size()))
        return read;
    read[0].clear();
    for (int64_t plane = 0; plane < src[0] * src[1]; ++plane)
        for (int64_t d = 0; d < dst[2]; ++d)
            for (int64_t h = 0; h < dst[3]; ++h)
                for (int64_t w = 0; w < dst[4]; ++w)
                    read[0].push_back(all[0][static_cast<size_t>(
                            ((plane * src[2] + d * problem.strides[0]) * src[3]
                                    + h * problem.strides[1])
                                    * src[4]
                            + w * problem.strides[2])]);
    return read;
}

template <typename View>
logical_tensor described(const View &view) {
    return {0, view.type,
            logical_tensor::dims(view.dims.begin(), view.dims.end()),
            logical_tensor::dims(view.strides.begin(), view.strides.end())};
}

/// gradnn's plan, from the caller's layouts and types.
std::string run_plan(const convolution_problem &problem,
        const detail::plan &plan, const values &expected) {
    const std::array layouts {described(problem.src),
            described(problem.weights), described(problem.dst)};
    const size_t output = output_of(problem);
    std::vector<watched> tensors;
    tensors.reserve(3);
    std::array<void *, 3> arguments {};
    for (size_t index = 0; index < 3; ++index) {
        const auto &tensor
                = tensors.emplace_back(layouts[index].get_mem_size());
        arguments[index] = tensor.data();
        const std::vector<double> wide(
                expected[index].begin(), expected[index].end());
        if (index != output)
            detail::store(layouts[index], wide, arguments[index]);
    }
    const watched workspace(plan.workspace_bytes());
    static const engine cpu(engine::kind::cpu, 0);
    stream on(cpu);
    plan.execute(arguments, workspace.data(), *detail::access::impl(on));
    if (!workspace.is_intact())
        return "writes outside of the workspace" + workspace.strays();
    for (const auto &tensor : tensors)
        if (!tensor.is_intact())
            return "writes outside of a tensor" + tensor.strays();
    const auto wide = detail::load(layouts[output], arguments[output]);
    return describe(compare({wide.begin(), wide.end()}, expected[output],
            layouts[output].get_data_type()));
}

template <typename Body>
std::string caught(const Body &body) {
    try {
        return body();
    } catch (const std::exception &failure) {
        return std::string("throws ") + failure.what();
    }
}

} // namespace

void try_all(const convolution_problem &problem, const values &expected,
        const trial_options &options, const announce &before,
        const report &after) {
    std::string refusal;
    const auto geometry = ours::make_geometry(problem, refusal);
    if (!geometry) return;
    const values taken = read_by(*geometry, problem, expected);
    const size_t output = output_of(problem);
    // The cache would give primitives of other implementations than were asked
    // for (src/cpu/convolution/onednn/onednn.cpp); gradnn's plan has to do with it.
    const int cached = dnnl::get_primitive_cache_capacity();
    dnnl::set_primitive_cache_capacity(0);
    detail::run_with_threads(options.threads, [&] {
        ours::choice_options choice;
        choice.images = problem.src.dims[0];
        choice.fpmath = options.fpmath;
        std::set<std::string> seen;
        for (const auto &tried :
                ours::list_implementations(*geometry, choice)) {
            if (ours::contains(tried.name, "ref")
                    || !ours::contains(tried.name, options.only))
                continue;
            std::ostringstream layouts;
            layouts << "src=" << describe(tried.src)
                    << " weights=" << describe(tried.weights)
                    << " dst=" << describe(tried.dst);
            const bool converted = ours::to_onednn(problem.src.type)
                            != tried.src.get_data_type()
                    && ours::to_onednn(problem.dst.type)
                            != tried.dst.get_data_type();
            if (converted) layouts << " in f32";
            const bool refused = ours::is_faulty(*geometry, tried);
            if (!seen.insert(tried.name + layouts.str()).second
                    || !before(tried.name, layouts.str(), refused))
                continue;
            if (refused && !options.refused_too) continue;
            after(caught([&] {
                return implementation_trial(*geometry, tried)
                        .run(taken, output);
            }));
        }
    });
    dnnl::set_primitive_cache_capacity(cached);
    if (!options.only.empty()) return;
    cpu::compile_options settings;
    settings.deterministic = false;
    settings.threads = options.threads;
    settings.fpmath = options.fpmath;
    const auto made = cpu::make_convolution_onednn(problem, settings);
    if (!made.plan || !before("plan", made.plan->backend(), false)) return;
    after(caught([&] { return run_plan(problem, *made.plan, expected); }));
}

} // namespace gradnn::sweep
