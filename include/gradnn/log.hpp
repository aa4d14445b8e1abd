// The log of the process: its level, where its lines go, and graphs in files.
//
// A line tells of one event: a partition was created, compiled or executed.
// doc/logging.md has the format. All functions may be called from any thread
// at any time.
#pragma once

#include <string>

#include <gradnn/status.hpp>

namespace gradnn {

/// What is logged:
/// 0 nothing;
/// 1 each creation, compilation and execution of a partition;
/// 2 also why kernels refused a problem that a later one of the list took;
/// 3 also the time of each step of an execution. On a GPU that is the device's
///   time, and execute waits for it.
/// The default is the environment variable GRADNN_VERBOSE, or 0. Throws
/// invalid_arguments for other levels.
GRADNN_API void set_verbose(int level);
GRADNN_API int get_verbose();

/// Receives a line without its end of line. The first line is the header, which
/// names the fields.
using log_callback = void (*)(const char *line, void *context);

/// Sends the lines to `callback` with `context`, or to stderr again where
/// `callback` is null. Calls do not overlap, whichever thread logs. When this
/// returns, the callback that was set before is not running and is not called
/// again. The callback may use gradnn; what it does is not logged. It may be
/// called by a thread of the library. It should not throw: an exception is
/// dropped.
GRADNN_API void set_log_callback(
        log_callback callback, void *context = nullptr);

/// Writes each graph that is finalized, and each partition that is compiled
/// without a graph, to a file of its own, in oneDNN Graph's JSON format, which
/// the gradnn program reads. `prefix` is an existing folder or the beginning of
/// the files' names; empty ends it. The default is the environment variable
/// GRADNN_GRAPH_DUMP. A file that cannot be written is reported in the log, at
/// every level.
GRADNN_API void set_graph_dump(const std::string &prefix);

/// What is written: graphs that are finalized, partitions that are compiled.
enum class graph_dump_mode : unsigned { none = 0, subgraph = 1, graph = 2 };
constexpr graph_dump_mode operator|(graph_dump_mode a, graph_dump_mode b) {
    return static_cast<graph_dump_mode>(
            static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
constexpr graph_dump_mode operator&(graph_dump_mode a, graph_dump_mode b) {
    return static_cast<graph_dump_mode>(
            static_cast<unsigned>(a) & static_cast<unsigned>(b));
}

/// oneDNN Graph's way to ask for them, in its names: to the place that
/// set_graph_dump or the environment has given, or else the current folder.
/// invalid_arguments for bits that are none of these.
GRADNN_API status set_dump_mode(graph_dump_mode modes);

} // namespace gradnn
