#include "compile/graph_dump.hpp"

#include <atomic>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <set>

#include <gradnn/log.hpp>
#include <unistd.h>

#include "base/atomic_file.hpp"
#include "compile/log_text.hpp"
#include "op/graph_json.hpp"

namespace gradnn {

namespace detail {

namespace {

/// What is written, asked by every finalize and compile; nothing at first, when
/// the environment was not read.
constexpr unsigned unread = ~0U;
std::atomic<unsigned> wanted {unread};

struct dump_target {
    std::mutex mutex;
    std::string prefix;
    /// Hashes of the partitions that were written.
    std::set<size_t> written;
};

/// Never destroyed: graphs may be finalized while the process ends.
dump_target &target() {
    static dump_target &the_target = *new dump_target;
    return the_target;
}

/// To be called with the mutex held.
void set_prefix(dump_target &to, const std::string &prefix) {
    to.prefix = prefix;
    to.written.clear();
    wanted.store(static_cast<unsigned>(prefix.empty() ? graph_dump_mode::none
                                                      : graph_dump_mode::graph),
            std::memory_order_relaxed);
}

/// The same: what the environment says, unless the program was first.
void read_environment(dump_target &to) {
    if (wanted.load(std::memory_order_relaxed) != unread) return;
    const char *value = std::getenv("GRADNN_GRAPH_DUMP");
    set_prefix(to, value ? value : "");
}

bool dumping(graph_dump_mode modes) {
    if (wanted.load(std::memory_order_relaxed) == unread) {
        dump_target &to = target();
        const std::lock_guard lock(to.mutex);
        read_environment(to);
    }
    return (wanted.load(std::memory_order_relaxed)
                   & static_cast<unsigned>(modes))
            != 0;
}

/// The prefix now; nothing where this content has been written already.
std::optional<std::string> prefix_for(const std::string &content, bool once) {
    dump_target &to = target();
    const std::lock_guard lock(to.mutex);
    if (once && !to.written.insert(std::hash<std::string> {}(content)).second)
        return std::nullopt;
    return to.prefix;
}

std::vector<op> ops_of(const std::vector<checked_op> &checked) {
    std::vector<op> ops;
    for (const checked_op &the_op : checked)
        ops.push_back(op_of(the_op));
    return ops;
}

void write_file(const std::string &prefix, const std::string &name,
        const std::string &content, log_line line) {
    std::string path = prefix;
    try {
        std::error_code ignored;
        if (std::filesystem::is_directory(path, ignored) && path.back() != '/')
            path += '/';
        path += name;
        atomic_file file(path);
        file.write(content);
        file.commit();
        if (log_level() < log_events) return;
        line.event = "dump";
        line.note = path;
    } catch (const std::exception &failure) {
        line.event = "dump:failed";
        line.note = failure.what();
    }
    write_log(line);
}

} // namespace

void dump_graph(const graph_impl &graph) noexcept {
    try {
        if (graph.ops.empty() || !dumping(graph_dump_mode::graph)) return;
        const std::string content = graph_json(
                ops_of(graph.ops), graph.engine_kind, graph.fpmath);
        const auto prefix = prefix_for(content, false);
        if (!prefix) return;
        log_line line;
        line.engine = to_string(graph.engine_kind);
        line.partition = std::to_string(graph.first_partition_id);
        line.ops = ops_text(graph.ops);
        write_file(*prefix,
                "graph-" + std::to_string(::getpid()) + '-' + line.partition
                        + ".json",
                content, line);
    } catch (...) {
        // No memory for a dump: the program goes on without it.
    }
}

void dump_partition(const partition_impl &partition,
        const compiled_impl &compiled) noexcept {
    try {
        // One without a graph is its own graph.
        const auto modes = partition.alone
                ? graph_dump_mode::graph | graph_dump_mode::subgraph
                : graph_dump_mode::subgraph;
        if (!dumping(modes)) return;
        const std::string content = graph_json(
                ops_of(compiled.ops), partition.engine_kind, partition.fpmath);
        const auto prefix = prefix_for(content, true);
        if (!prefix) return;
        log_line line;
        line.engine = to_string(partition.engine_kind);
        line.partition = std::to_string(partition.id);
        line.compiled = std::to_string(compiled.id);
        line.ops = ops_text(compiled.ops);
        write_file(*prefix,
                "partition-" + std::to_string(::getpid()) + '-' + line.partition
                        + '-' + line.compiled + ".json",
                content, line);
    } catch (...) {
        // As in dump_graph.
    }
}

} // namespace detail

void set_graph_dump(const std::string &prefix) {
    detail::dump_target &to = detail::target();
    const std::lock_guard lock(to.mutex);
    detail::set_prefix(to, prefix);
}

status set_dump_mode(graph_dump_mode modes) {
    const auto all = graph_dump_mode::graph | graph_dump_mode::subgraph;
    if ((modes & all) != modes) return status::invalid_arguments;
    detail::dump_target &to = detail::target();
    const std::lock_guard lock(to.mutex);
    detail::read_environment(to);
    detail::wanted.store(
            static_cast<unsigned>(modes), std::memory_order_relaxed);
    return status::success;
}

} // namespace gradnn
