// Graphs, partitions and compiled partitions.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gradnn/op.hpp>
#include <gradnn/settings.hpp>

namespace gradnn {

namespace detail {
struct graph_impl;
struct partition_impl;
struct compiled_impl;
} // namespace detail

/// What a compiled partition will run, one entry a kernel launch sequence.
struct step_info {
    /// The gradnn kernel, as GRADNN_KERNEL names it: "convolution.onednn".
    std::string kernel;
    /// The library or instruction set that does the work, and how: "oneDNN 3.2.0
    /// (brgconv:avx512_core)", "Highway AVX3", "CUDA (from the disk in 0.6 ms)".
    std::string backend;
    /// Workspace of this step in bytes.
    size_t workspace_bytes = 0;
    /// The same inputs give the same bits on every run.
    bool deterministic = true;
    /// The op that it belongs to, and the output of it that it computes, as
    /// the op's page names it: "diff_weights".
    size_t op_id = 0;
    std::string output;
};

/// See compiled_partition::get_info.
struct compiled_partition_info {
    std::vector<step_info> steps;
    /// Tensors between the partition's ops, which are no ports of it, with the
    /// layouts that the library chose. They are kept in the workspace, but where it
    /// is composed.
    std::vector<logical_tensor> inner;
    /// A convolution and the nearest upsampling in front of it are computed as one
    /// convolution of the small tensor (doc/partitions.md): the tensors between the
    /// ops are not made.
    bool composed = false;
    /// All outputs have the bits that the ops give one by one: not where it is composed
    /// or a convolution is in slices, nor where cuDNN computes ops of single elements
    /// with a convolution.
    bool bits_of_ops = true;
    /// In how many slices the steps run, all of them for one and then for the next,
    /// so that what is between them stays in the caches; the workspace has room for
    /// one slice.
    size_t slices = 1;
    /// What get_workspace_size() says, in bytes.
    size_t workspace_bytes = 0;
    /// All steps are deterministic.
    bool deterministic = true;
    /// Threads of the CPU engine that it was compiled for, see
    /// compile_settings::threads; 1 on a GPU.
    int threads = 1;
    /// Unique in the process; the field "compiled" of log lines.
    size_t id = 0;
    /// partition::get_id() of the partition that was compiled.
    size_t partition_id = 0;
};

/// A partition compiled for an engine and for the shapes and layouts of its
/// ports. Immutable; one object may be executed from many threads at once.
class GRADNN_API compiled_partition {
public:
    compiled_partition() = default;

    /// The port with this id, its shape and layout known (an output compiled
    /// with layout_type::any is strided here: nested as input 0 is, or as the
    /// kernel writes best). Throws invalid_arguments where no port has the id.
    logical_tensor query_logical_tensor(size_t tid) const;

    /// Pairs (input id, output id) that may share the same memory.
    std::vector<std::pair<size_t, size_t>> get_inplace_ports() const;

    /// Kernels, backends, workspace and determinism.
    compiled_partition_info get_info() const;

    /// Bytes of workspace that the second form of execute needs, aligned to
    /// 64 bytes; 0 where none is needed.
    size_t get_workspace_size() const;

    /// Runs on the stream's engine. Tensors are matched to ports by id; their
    /// order is free. Workspace comes from the stream, which allocates it by
    /// the engine's allocator when it must grow. On the CPU this blocks until
    /// the outputs are written; outputs need no initial value.
    ///
    /// Throws invalid_arguments for a missing, null or mismatched tensor, for
    /// an output that overlaps an input or another output, and for a stream of
    /// another engine; invalid_shape where a `sizes`, `dst_shape` or
    /// `weights_shape` input holds other values than were compiled; and
    /// out_of_memory where the workspace cannot be had. Nothing is written
    /// when it throws one of these.
    void execute(stream &astream, const std::vector<tensor> &inputs,
            const std::vector<tensor> &outputs) const;

    /// The same with the caller's workspace: get_workspace_size() bytes of the
    /// engine's memory at a multiple of 64, not shared with another execution
    /// that is under way.
    void execute(stream &astream, const std::vector<tensor> &inputs,
            const std::vector<tensor> &outputs, void *workspace) const;

    /// The workspace as oneDNN Graph's scratchpad: u8 of one dim, which is 0
    /// where none is needed, with room for memory at any address.
    logical_tensor get_scratchpad_logical_tensor() const;
    /// The same with that tensor as the workspace; the stream's where it is
    /// empty. Throws invalid_arguments where it is smaller, has no memory or is
    /// another engine's.
    void execute(stream &astream, const std::vector<tensor> &inputs,
            const std::vector<tensor> &outputs, const tensor &scratchpad) const;

    explicit operator bool() const { return impl_ != nullptr; }

private:
    friend struct detail::access;
    std::shared_ptr<const detail::compiled_impl> impl_;
};

/// Ops that are compiled and executed together: one, or a chain of several in
/// which each takes what the one before it made.
class GRADNN_API partition {
public:
    /// `fusion` groups ops as doc/partitions.md lists them, where a tensor
    /// between two of them has no other reader; `debug` gives each op a
    /// partition of its own. A tensor that is wanted outside although an op of
    /// the graph reads it must be an input of an End too, as in oneDNN Graph.
    enum class policy { fusion = 1, debug = 2 };

    partition() = default;
    /// A partition of one op, without a graph.
    partition(const op &aop, engine::kind ekind);
    /// Throws invalid_arguments for settings that are out of range.
    partition(const op &aop, engine::kind ekind,
            const compile_settings &settings);

    /// Unique in the process; the field "partition" of log lines.
    size_t get_id() const;
    size_t get_ops_num() const;
    /// Ids of the ops, in the order in which they run.
    std::vector<size_t> get_ops() const;
    engine::kind get_engine_kind() const;

    /// Whether a kernel of this build can run it. Shapes that are not known
    /// yet are taken to be fine; compile checks them.
    bool is_supported() const;
    /// Why is_supported() is false; empty where it is true.
    std::string unsupported_reason() const;

    /// The tensors that execute reads and writes. Those between the partition's ops
    /// are not among them.
    std::vector<logical_tensor> get_input_ports() const;
    std::vector<logical_tensor> get_output_ports() const;

    /// Chooses kernels for these shapes and layouts. The lists hold every port
    /// (matched by id; the order is free) and nothing else; inputs must be
    /// strided with all dims known, outputs may leave dims unknown (they are
    /// inferred) and the layout `any`. Compiled partitions are cached: compiling
    /// the same again is cheap.
    ///
    /// Throws invalid_arguments where is_supported() is false; invalid_shape,
    /// invalid_data_type or invalid_arguments naming the op and the port or
    /// attribute; unimplemented where every kernel refuses
    /// (the message holds their reasons).
    compiled_partition compile(const std::vector<logical_tensor> &inputs,
            const std::vector<logical_tensor> &outputs, const engine &e) const;

private:
    friend struct detail::access;
    std::shared_ptr<const detail::partition_impl> impl_;
};

/// Collects ops. Not to be changed from two threads at once.
class GRADNN_API graph {
public:
    graph(engine::kind engine_kind);
    graph(engine::kind engine_kind, fpmath_mode mode);

    /// Checks an op against its schema and adds it. With `allow_exception`
    /// false a failure is returned instead of thrown. An op that gradnn cannot
    /// compute, Wildcard and End among them, is added unchecked.
    status add_op(const op &op, bool allow_exception = true);

    /// Ends the adding of ops: checks that ids are unique, that every tensor
    /// has one producer and one shape, and that there is no cycle.
    void finalize();
    bool is_finalized() const;

    /// On by default: the same inputs give the same bits on every run of
    /// partitions that are compiled for the same number of threads (see
    /// compile_settings::threads) and the same kind of device. Off, kernels
    /// may be chosen that do not promise it. To be called before
    /// get_partitions.
    void set_deterministic(bool deterministic);
    bool get_deterministic() const;

    /// How the partitions are compiled: threads, autotuning, workspace. To be
    /// called before get_partitions. Throws invalid_arguments for settings
    /// that are out of range.
    void set_compile_settings(const compile_settings &settings);
    compile_settings get_compile_settings() const;

    /// Replaces the mode that the graph was made with. To be called before
    /// get_partitions. `apply_to_int`, which oneDNN Graph has for integer ops,
    /// is remembered and has no effect: gradnn has no such ops.
    void set_fpmath_mode(fpmath_mode mode, bool apply_to_int = false);
    fpmath_mode get_fpmath_mode() const;
    void get_fpmath_mode(fpmath_mode &mode, bool &apply_to_int) const;

    /// Partitions in an order in which they can be executed. The graph must be
    /// finalized. The default policy is oneDNN Graph's: ops are grouped. Each op
    /// that gradnn cannot compute is an unsupported partition of its own, as in
    /// oneDNN Graph; so is End, which makes nothing to run.
    std::vector<partition> get_partitions(
            partition::policy policy = partition::policy::fusion);
    /// How many partitions get_partitions() returns under policy::fusion.
    size_t get_partition_count() const;

private:
    friend struct detail::access;
    std::shared_ptr<detail::graph_impl> impl_;
};

/// How many compiled partitions the process-wide cache keeps (1024 at first; 0
/// turns it off). Throws invalid_arguments for a negative capacity.
GRADNN_API int get_compiled_partition_cache_capacity();
GRADNN_API void set_compiled_partition_cache_capacity(int capacity);

/// oneDNN Graph's constant tensor cache, for programs written against it. The
/// values are remembered and have no effect: the weights that a gradient takes
/// change with every step, so gradnn keeps nothing of them between executions.
/// Off (0) and 0 megabytes at first. Throw invalid_arguments for a negative
/// flag, and for engine kind any.
GRADNN_API void set_constant_tensor_cache(int flag);
GRADNN_API int get_constant_tensor_cache();
GRADNN_API void set_constant_tensor_cache_capacity(
        engine::kind kind, size_t megabytes);
GRADNN_API size_t get_constant_tensor_cache_capacity(engine::kind kind);

} // namespace gradnn
