// A plan as a list of oneDNN primitives and conversions over a batch that is
// worked off in blocks of images.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <oneapi/dnnl/dnnl.hpp>

#include "cpu/copies/channel_blocks.hpp"
#include "cpu/copies/convert.hpp"
#include "kernel/kernel.hpp"

namespace gradnn::cpu::onednn {

/// Where a step's data lies: in an argument of the plan or in the workspace.
struct location {
    static constexpr int in_workspace = -1;
    int argument = in_workspace;
    size_t offset = 0; ///< bytes
    /// Bytes from one block of images to the next.
    size_t block_bytes = 0;
    /// Where the first block finds it instead (partial sums: the first goes
    /// straight into the accumulator).
    size_t first_offset = offset;
};

/// One of oneDNN's primitives, with what it reads and writes.
struct primitive_step {
    struct argument {
        int index; ///< DNNL_ARG_*
        dnnl::memory::desc layout;
        location where;
    };
    dnnl::primitive primitive;
    std::vector<argument> arguments;
};

struct conversion_step {
    conversion problem;
    location from;
    location to;
};

struct blocking_step {
    channel_blocking problem;
    bool to_blocks;
    location from;
    location to;
};

/// sum += part, in f32, and low += what that rounds off. In the first block, whose
/// part is the sum, low = 0.
struct accumulation_step {
    int64_t elements;
    location part;
    location sum;
    location low;
};

/// sum += low.
struct completion_step {
    int64_t elements;
    location sum;
    location low;
};

using step = std::variant<primitive_step, conversion_step, blocking_step,
        accumulation_step, completion_step>;

/// What a plan does, in the order in which it does it.
struct program {
    std::vector<step> before; ///< once
    std::vector<step> block; ///< for all blocks, or all but the last
    std::vector<step> last_block; ///< if not empty: for a smaller last block
    std::vector<step> after; ///< once
    int64_t blocks = 1; ///< those of `block`
    int threads = 1;
    size_t workspace_bytes = 0;
    std::string backend;
};

/// Runs a program. Whatever it needs for that is made beforehand, so that
/// execute creates nothing; a second set is made when two threads execute at
/// once, and then kept.
class program_plan final : public detail::plan {
public:
    explicit program_plan(program steps);
    ~program_plan() override;

    void execute(std::span<void *const> args, std::byte *workspace,
            detail::stream_impl &stream) const override;
    size_t workspace_bytes() const override;
    std::string backend() const override;

private:
    class context;
    class lease;

    void run(context &bound, std::span<void *const> args,
            std::byte *workspace) const;

    const program program_;
    mutable std::mutex mutex_;
    mutable std::vector<std::unique_ptr<context>> idle_;
    mutable size_t contexts_ = 0; ///< those made so far
};

} // namespace gradnn::cpu::onednn
