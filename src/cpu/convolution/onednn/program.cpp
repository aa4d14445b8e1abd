#include "cpu/convolution/onednn/program.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <new>
#include <system_error>

#include "base/parallel.hpp"
#include "base/threads.hpp"
#include "cpu/convolution/onednn/engine.hpp"

namespace gradnn::cpu::onednn {

namespace {

/// Data pointers of one execution.
struct binding {
    std::span<void *const> arguments;
    std::byte *workspace;

    void *resolve(const location &where, int64_t block) const {
        auto *base = where.argument == location::in_workspace
                ? workspace
                : static_cast<std::byte *>(
                        arguments[static_cast<size_t>(where.argument)]);
        return base + (block == 0 ? where.first_offset : where.offset)
                + static_cast<size_t>(block) * where.block_bytes;
    }
};

[[noreturn]] void fail(dnnl_status_t code, const char *what) {
    throw error(code == dnnl_out_of_memory ? status::out_of_memory
                                           : status::runtime_error,
            std::string("convolution.onednn: oneDNN fails in ") + what
                    + " with its status " + std::to_string(code));
}

constexpr int64_t accumulation_grain = 16384;

void accumulate(int64_t elements, const float *part, float *sum, float *low) {
    detail::parallel_for(
            elements, accumulation_grain, [&](int64_t begin, int64_t end) {
                constexpr float most = std::numeric_limits<float>::max();
                for (int64_t i = begin; i < end; ++i) {
                    const float total = sum[i] + part[i];
                    const float taken = total - sum[i];
                    const float rest
                            = (sum[i] - (total - taken)) + (part[i] - taken);
                    // An infinity has no rest.
                    low[i] += std::fabs(total) <= most ? rest : 0.0F;
                    sum[i] = total;
                }
            });
}

void complete(int64_t elements, float *sum, const float *low) {
    detail::parallel_for(
            elements, accumulation_grain, [&](int64_t begin, int64_t end) {
                for (int64_t i = begin; i < end; ++i)
                    sum[i] += low[i];
            });
}

} // namespace

/// Memory objects whose handles an execution sets: one set may serve one
/// execution at a time.
class program_plan::context {
public:
    explicit context(const program &steps) : stream_(cpu_engine()) {
        for (const auto *list : {&steps.before, &steps.block, &steps.last_block,
                     &steps.after}) {
            bound_.emplace_back();
            for (const auto &each : *list)
                bound_.back().push_back(bind(each));
        }
    }

    /// Runs a list of steps: the `list`-th of the program, which must be the
    /// one that this was made for.
    void run(size_t list, const std::vector<step> &steps,
            const binding &pointers, int64_t block) {
        for (size_t index = 0; index < steps.size(); ++index) {
            if (const auto *p = std::get_if<primitive_step>(&steps[index])) {
                run(*p, bound_[list][index], pointers, block);
            } else if (const auto *c
                    = std::get_if<conversion_step>(&steps[index])) {
                convert(c->problem, pointers.resolve(c->from, block),
                        pointers.resolve(c->to, block));
            } else if (const auto *b
                    = std::get_if<blocking_step>(&steps[index])) {
                (b->to_blocks ? block_channels : unblock_channels)(b->problem,
                        pointers.resolve(b->from, block),
                        pointers.resolve(b->to, block));
            } else if (const auto *a
                    = std::get_if<accumulation_step>(&steps[index])) {
                auto *low
                        = static_cast<float *>(pointers.resolve(a->low, block));
                if (block == 0)
                    std::fill(low, low + a->elements, 0.0F);
                else
                    accumulate(a->elements,
                            static_cast<const float *>(
                                    pointers.resolve(a->part, block)),
                            static_cast<float *>(
                                    pointers.resolve(a->sum, block)),
                            low);
            } else if (const auto *e
                    = std::get_if<completion_step>(&steps[index])) {
                complete(e->elements,
                        static_cast<float *>(pointers.resolve(e->sum, block)),
                        static_cast<const float *>(
                                pointers.resolve(e->low, block)));
            }
        }
    }

private:
    /// A primitive's arguments as oneDNN's C API takes them.
    struct bound_step {
        std::vector<dnnl::memory> memories;
        std::vector<dnnl_exec_arg_t> arguments;
    };

    static bound_step bind(const step &each) {
        bound_step bound;
        const auto *p = std::get_if<primitive_step>(&each);
        if (!p) return bound;
        for (const auto &argument : p->arguments) {
            bound.memories.emplace_back(argument.layout, cpu_engine(),
                    static_cast<void *>(DNNL_MEMORY_NONE));
            bound.arguments.push_back(
                    {argument.index, bound.memories.back().get()});
        }
        return bound;
    }

    void run(const primitive_step &each, bound_step &bound,
            const binding &pointers, int64_t block) {
        for (size_t index = 0; index < bound.arguments.size(); ++index) {
            const auto result = dnnl_memory_set_data_handle(
                    bound.arguments[index].memory,
                    pointers.resolve(each.arguments[index].where, block));
            if (result != dnnl_success) fail(result, "binding a tensor");
        }
        const auto result = dnnl_primitive_execute(each.primitive.get(),
                stream_.get(), static_cast<int>(bound.arguments.size()),
                bound.arguments.data());
        if (result != dnnl_success) fail(result, "executing a primitive");
    }

    dnnl::stream stream_;
    std::vector<std::vector<bound_step>> bound_;
};

/// Takes an idle context, or makes one, and gives it back.
class program_plan::lease {
public:
    explicit lease(const program_plan &owner) : owner_(owner) {
        {
            const std::lock_guard lock(owner_.mutex_);
            if (!owner_.idle_.empty()) {
                context_ = std::move(owner_.idle_.back());
                owner_.idle_.pop_back();
                return;
            }
            // Room for the return of every context, so that it cannot fail.
            owner_.idle_.reserve(++owner_.contexts_);
        }
        context_ = std::make_unique<context>(owner_.program_);
    }
    ~lease() {
        const std::lock_guard lock(owner_.mutex_);
        if (context_) owner_.idle_.push_back(std::move(context_));
    }
    lease(const lease &) = delete;
    lease &operator=(const lease &) = delete;

    context &operator*() { return *context_; }

private:
    const program_plan &owner_;
    std::unique_ptr<context> context_;
};

program_plan::program_plan(program steps) : program_(std::move(steps)) {
    const lease first(*this);
}

program_plan::~program_plan() = default;

size_t program_plan::workspace_bytes() const {
    return program_.workspace_bytes;
}

std::string program_plan::backend() const {
    return program_.backend;
}

void program_plan::run(context &bound, std::span<void *const> args,
        std::byte *workspace) const {
    const binding pointers {args, workspace};
    const auto &p = program_;
    bound.run(0, p.before, pointers, 0);
    for (int64_t block = 0; block < p.blocks; ++block)
        bound.run(1, p.block, pointers, block);
    bound.run(2, p.last_block, pointers, p.blocks);
    bound.run(3, p.after, pointers, 0);
}

void program_plan::execute(std::span<void *const> args, std::byte *workspace,
        detail::stream_impl &) const {
    try {
        lease bound(*this);
        detail::run_with_threads(
                program_.threads, [&] { run(*bound, args, workspace); });
    } catch (const dnnl::error &failure) {
        fail(failure.status, "preparing an execution");
    } catch (const std::bad_alloc &) {
        throw error(status::out_of_memory,
                "convolution.onednn: no memory left to execute");
    } catch (const std::system_error &failure) {
        throw error(status::runtime_error,
                std::string("convolution.onednn: no thread to execute on: ")
                        + failure.what());
    }
}

} // namespace gradnn::cpu::onednn
