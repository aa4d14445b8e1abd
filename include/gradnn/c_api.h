/* gradnn in C: what language bindings are built on.
 *
 * A function that can fail returns a gradnn_status; gradnn_last_error() then
 * has the text. No exception leaves the library. Every function may be called
 * from many threads at once, except that nobody may destroy what another thread
 * uses. The functions that end in _create or give out a compiled op hand over a
 * reference, which the function named beside gives back.
 *
 * The C++ API (gradnn.hpp) says more of each concept; the pages of doc/ops
 * describe ops, ports and attributes. */
#ifndef GRADNN_C_API_H
#define GRADNN_C_API_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GRADNN_C_API __attribute__((visibility("default")))

/* Values of the enums below are handed over as int32_t, so that any number that
 * another language passes is a number first and can be refused. */

/* Raised with every change of this header that breaks programs; additions keep
 * it. gradnn_c_api_version() is the library's. */
#define GRADNN_C_API_VERSION 1

#define GRADNN_MAX_NDIMS 12
/* A dimension that is not known yet. */
#define GRADNN_UNKNOWN_DIM INT64_MIN

/* Values of gradnn::status. */
typedef enum gradnn_status {
    gradnn_success = 0,
    gradnn_out_of_memory = 1,
    gradnn_invalid_arguments = 2,
    gradnn_unimplemented = 3,
    gradnn_last_impl_reached = 4,
    gradnn_runtime_error = 5,
    gradnn_not_required = 6,
    gradnn_invalid_graph = 7,
    gradnn_invalid_graph_op = 8,
    gradnn_invalid_shape = 9,
    gradnn_invalid_data_type = 10
} gradnn_status;

/* Values of gradnn::logical_tensor::data_type. */
typedef enum gradnn_data_type {
    gradnn_undef = 0,
    gradnn_f16 = 1,
    gradnn_bf16 = 2,
    gradnn_f32 = 3,
    gradnn_s32 = 4,
    gradnn_s8 = 5,
    gradnn_u8 = 6,
    gradnn_f64 = 7,
    gradnn_boolean = 8
} gradnn_data_type;

/* Values of gradnn::logical_tensor::layout_type. */
typedef enum gradnn_layout {
    gradnn_layout_undef = 0,
    gradnn_layout_any = 1, /* of an output: the library chooses */
    gradnn_layout_strided = 2
} gradnn_layout;

/* Values of gradnn::fpmath_mode. */
typedef enum gradnn_fpmath {
    gradnn_fpmath_strict = 0,
    gradnn_fpmath_bf16 = 1,
    gradnn_fpmath_f16 = 2,
    gradnn_fpmath_any = 3,
    gradnn_fpmath_tf32 = 4
} gradnn_fpmath;

/* Values of gradnn::engine::kind. */
typedef enum gradnn_engine_kind {
    gradnn_cpu = 1,
    gradnn_gpu = 2
} gradnn_engine_kind;

typedef enum gradnn_attr_type {
    gradnn_attr_s64 = 0,
    gradnn_attr_f32 = 1,
    gradnn_attr_bool = 2, /* int32_t, 0 or 1 */
    gradnn_attr_string = 3,
    gradnn_attr_s64_list = 4,
    gradnn_attr_f32_list = 5,
    gradnn_attr_f64_list = 6
} gradnn_attr_type;

/* The text of the calling thread's last failure: what was wrong, what was given
 * and what is allowed. Valid until the thread's next failure; "" before the
 * first. Never null. */
GRADNN_C_API const char *gradnn_last_error(void);
/* "invalid_shape" for a gradnn_status. Never null. */
GRADNN_C_API const char *gradnn_status_name(int32_t status);

GRADNN_C_API int gradnn_c_api_version(void);
/* The library's version; each pointer may be null. */
GRADNN_C_API void gradnn_version(int *major, int *minor, int *patch);
/* The oneDNN that the library calls, "3.2.0"; "none" in a build without it. */
GRADNN_C_API const char *gradnn_onednn_version(void);

/* Engines. Engines of the same device are equal: compiled ops of one run on the
 * other. */
typedef struct gradnn_engine gradnn_engine;

/* How many devices of a gradnn_engine_kind there are; 0 for other numbers. */
GRADNN_C_API size_t gradnn_engine_count(int32_t kind);
GRADNN_C_API gradnn_status gradnn_engine_create(
        int32_t kind, size_t index, gradnn_engine **engine);
GRADNN_C_API void gradnn_engine_destroy(gradnn_engine *engine);

/* See gradnn::cuda_interop::device_allocator. `stream` is a cudaStream_t. */
typedef void *(*gradnn_device_allocate)(
        size_t bytes, int device, void *stream, void *context);
typedef void (*gradnn_device_deallocate)(
        void *pointer, int device, void *stream, void *context);
/* A GPU engine whose memory (tables of compiled ops) comes from the caller. */
GRADNN_C_API gradnn_status gradnn_engine_create_with_allocator(size_t index,
        gradnn_device_allocate allocate, gradnn_device_deallocate deallocate,
        void *context, gradnn_engine **engine);

/* How ops are compiled. gradnn_settings_init writes the defaults; what is then
 * set replaces them. See gradnn::compile_settings and gradnn::graph. */
typedef struct gradnn_settings {
    size_t struct_size; /* of the caller's header; set by the macro below */
    int32_t fpmath; /* gradnn_fpmath; default strict */
    int32_t deterministic; /* default 1 */
    int32_t threads; /* of the CPU engine; 0: the process's default */
    int32_t autotune; /* 0, 1; -1: what the environment says */
    const char *plan_cache; /* file name; null: the environment's */
    const char *kernels; /* null: the environment's */
    int64_t convolution_workspace_limit; /* bytes; -1: the environment's */
    int32_t specialise; /* 0, 1; -1: what the environment says */
    int32_t reserved; /* 0 */
    const char *kernel_cache; /* folder; null: the environment's */
} gradnn_settings;

GRADNN_C_API void gradnn_settings_init_sized(
        gradnn_settings *settings, size_t struct_size);
#define gradnn_settings_init(settings) \
    gradnn_settings_init_sized((settings), sizeof(gradnn_settings))

/* An attribute, by the name that the op's page has: `value` points at `count`
 * elements of the type; for a string at its characters, null-terminated. */
typedef struct gradnn_attr {
    const char *name;
    int32_t type; /* gradnn_attr_type */
    int32_t reserved; /* 0 */
    size_t count; /* of a list; 1 for the others */
    const void *value;
} gradnn_attr;

/* An operation and how to compile it, without shapes: "ConvBackward" and its
 * attributes. Immutable. It keeps what it compiled, as many as
 * gradnn::get_compiled_partition_cache_capacity() says, so that compiling for
 * the same tensors again is a lookup. */
typedef struct gradnn_op gradnn_op;

/* `settings` may be null. Fails for an unknown kind or attribute name. The
 * values of attributes are checked when the op is compiled. */
GRADNN_C_API gradnn_status gradnn_op_create(const char *kind,
        const gradnn_attr *attrs, size_t attr_count,
        const gradnn_settings *settings, gradnn_op **op);
GRADNN_C_API void gradnn_op_destroy(gradnn_op *op);

/* Several ops that are compiled and executed together (doc/partitions.md). `tensors`
 * has a number for each port of each op in turn, inputs before outputs and as many as
 * the op's page has: ports of one number are one tensor, -1 is an absent port. Tensors
 * that no op makes are the inputs of the whole, those that are made and not read its
 * outputs; gradnn_compile and gradnn_execute take either in the order of the numbers.
 * The whole is compiled as `settings` say, which may be null. The ops are copied.
 * gradnn_compile fails where they are no chain that makes one partition. */
GRADNN_C_API gradnn_status gradnn_group_create(const gradnn_op *const *ops,
        size_t op_count, const int32_t *tensors, size_t tensor_count,
        const gradnn_settings *settings, gradnn_op **group);

/* Describes a tensor. Strides are in elements, in the order of the dims. */
typedef struct gradnn_tensor {
    int32_t data_type; /* gradnn_data_type; gradnn_undef: no tensor */
    int32_t layout; /* gradnn_layout */
    int32_t ndims; /* -1 where the dims of an output are not known */
    int32_t reserved; /* 0 */
    int64_t dims[GRADNN_MAX_NDIMS];
    int64_t strides[GRADNN_MAX_NDIMS]; /* read where the layout is strided */
} gradnn_tensor;

/* An op compiled for an engine and for tensors. Immutable; may be executed from
 * many threads at once. */
typedef struct gradnn_compiled gradnn_compiled;

/* Compiles for the tensors of the op's ports, in the order of the op's page; a
 * port that is absent has data_type gradnn_undef, or is left out at the end.
 * Outputs may leave dims unknown and the layout `any`. */
GRADNN_C_API gradnn_status gradnn_compile(gradnn_op *op,
        const gradnn_engine *engine, const gradnn_tensor *inputs,
        size_t input_count, const gradnn_tensor *outputs, size_t output_count,
        gradnn_compiled **compiled);
GRADNN_C_API void gradnn_compiled_release(gradnn_compiled *compiled);

/* An output with its dims and strides known; fails for an absent one. */
GRADNN_C_API gradnn_status gradnn_compiled_output(
        const gradnn_compiled *compiled, size_t index, gradnn_tensor *output);

/* Bytes that gradnn_execute needs, at a multiple of 64. */
GRADNN_C_API size_t gradnn_compiled_workspace_size(
        const gradnn_compiled *compiled);
/* Bytes of host and device memory that it keeps in tables. */
GRADNN_C_API size_t gradnn_compiled_table_bytes(
        const gradnn_compiled *compiled);
/* Whether the same inputs give the same bits on every run: 0 or 1. */
GRADNN_C_API int gradnn_compiled_deterministic(const gradnn_compiled *compiled);

/* What runs, a step a gradient. The texts live as long as the compiled op. */
typedef struct gradnn_step {
    const char *output; /* "diff_weights" */
    const char *kernel; /* "convolution.onednn" */
    const char *backend; /* "oneDNN 3.2.0 (brgconv:avx512_core)" */
    size_t workspace_bytes;
} gradnn_step;

GRADNN_C_API size_t gradnn_compiled_step_count(const gradnn_compiled *compiled);
GRADNN_C_API gradnn_status gradnn_compiled_step(
        const gradnn_compiled *compiled, size_t index, gradnn_step *step);

/* Runs on raw pointers, one a port as given to gradnn_compile; null for an
 * absent port, for an empty tensor and for an input whose data no formula reads.
 * `native_stream` is a cudaStream_t of the engine's device (null: the legacy
 * default stream) and is ignored on the CPU. On the CPU this returns when the
 * outputs are written, on a GPU when the work is queued.
 *
 * `workspace` holds gradnn_compiled_workspace_size() bytes of the engine's
 * memory at a multiple of 64 and is used until the work is done. Nothing is
 * allocated, so that a CUDA stream may be under capture; tensors of convolutions
 * on a GPU that lie at no multiple of 16 bytes are the exception (they are
 * copied, which needs memory, and are refused under capture).
 *
 * Fails as compiled_partition::execute does: null, misaligned or overlapping
 * data, memory of another device. Nothing is written then. */
GRADNN_C_API gradnn_status gradnn_execute(const gradnn_compiled *compiled,
        void *native_stream, const void *const *inputs, size_t input_count,
        void *const *outputs, size_t output_count, void *workspace);

#ifdef __cplusplus
}
#endif

#endif
