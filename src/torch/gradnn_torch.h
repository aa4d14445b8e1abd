/* Kernels for PyTorch's dispatcher through its stable C functions (PyTorch 2.10
 * and later), found at run time: gradnn is built without PyTorch.
 *
 * python/gradnn/torch/_hot.py is the one user. What a kernel has not seen yet it
 * passes to the op gradnn::slow_<name>, whose kernel is Python's. That one
 * computes, and where gradnn did, says by gradnn_torch_keep_compiled how the same
 * call is to be computed from now on, without Python. */
#ifndef GRADNN_TORCH_H
#define GRADNN_TORCH_H

#include <gradnn/c_api.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum gradnn_torch_device {
    gradnn_torch_cpu = 0,
    gradnn_torch_cuda = 1
} gradnn_torch_device;

/* Finds PyTorch's functions in its libraries, which are loaded already: file
 * names. Returns whether all are there that the kernels of the device take;
 * gradnn_torch_missing() names one that is not. */
GRADNN_C_API int gradnn_torch_bind(
        gradnn_torch_device device, const char *library);
GRADNN_C_API const char *gradnn_torch_missing(void);

/* Puts the kernels of a device over those that PyTorch has now, once. They stay,
 * enabled or not, since PyTorch replaces no kernel safely while another thread
 * calls it. Returns whether that worked. */
GRADNN_C_API int gradnn_torch_register(gradnn_torch_device device);

/* Takes them away, so that PyTorch is as it was: for a measurement of PyTorch. No
 * thread may be calling one of the ops meanwhile. Returns whether none is left. */
GRADNN_C_API int gradnn_torch_unregister(gradnn_torch_device device);

/* Where the kernels are not enabled (the state at first) gradnn::slow_<name> runs
 * PyTorch's. */
GRADNN_C_API void gradnn_torch_set_enabled(int enabled);

/* For the kernels of gradnn::slow_<name>, in the thread that they run in. Each
 * function concerns the call that is under way there; without one, nothing
 * happens. */

/* Whether it began with the kernels enabled; 1 without a call. */
GRADNN_C_API int gradnn_torch_call_enabled(void);
/* `compiled` computes it. Of `outputs` (data_type gradnn_undef: none) the dims
 * and strides are those to make tensors with. The three texts are what the
 * status says. */
GRADNN_C_API void gradnn_torch_keep_compiled(const gradnn_compiled *compiled,
        const gradnn_tensor *outputs, size_t output_count, const char *op,
        const char *device, const char *kernels);
/* It raised a Python exception: `type` is the PyObject of its class, which the
 * caller keeps for ever. */
GRADNN_C_API void gradnn_torch_keep_failure(void *type, const char *message);

/* What was counted, for the status. An entry stays at its index. */
typedef struct gradnn_torch_count {
    const char *op;
    const char *device;
    const char *how; /* gradnn's kernels */
    int64_t calls;
} gradnn_torch_count;

GRADNN_C_API size_t gradnn_torch_count_entries(void);
GRADNN_C_API int gradnn_torch_get_count(
        size_t index, gradnn_torch_count *count);
GRADNN_C_API void gradnn_torch_reset_counts(void);

/* The most threads that a plan on the CPU may have. */
GRADNN_C_API int gradnn_torch_thread_limit(void);

/* Workspace for the CPU: of the blocks that the process keeps, if it is large.
 * Null without memory. */
GRADNN_C_API void *gradnn_torch_take_workspace(size_t bytes);
GRADNN_C_API void *gradnn_torch_workspace_data(const void *taken);
GRADNN_C_API void gradnn_torch_return_workspace(void *taken);
/* Bytes of the blocks that are kept and not in use; frees them. */
GRADNN_C_API size_t gradnn_torch_kept_workspace(void);
GRADNN_C_API void gradnn_torch_release_workspace(void);

/* Forgets what was kept. */
GRADNN_C_API void gradnn_torch_forget(void);

#ifdef __cplusplus
}
#endif

#endif
