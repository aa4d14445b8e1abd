/* The C API, on which bindings to other languages stand: the gradient of a 2x
 * nearest upsample. */
#include <gradnn/c_api.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static void check(gradnn_status status) {
    if (status == gradnn_success) return;
    fprintf(stderr, "%s: %s\n", gradnn_status_name(status),
            gradnn_last_error());
    exit(1);
}

/* A dense f32 tensor N x C x H x W. */
static gradnn_tensor dense(int64_t n, int64_t c, int64_t h, int64_t w) {
    gradnn_tensor t = {0};
    t.data_type = gradnn_f32;
    t.layout = gradnn_layout_strided;
    t.ndims = 4;
    t.dims[0] = n, t.dims[1] = c, t.dims[2] = h, t.dims[3] = w;
    t.strides[0] = c * h * w, t.strides[1] = h * w, t.strides[2] = w;
    t.strides[3] = 1;
    return t;
}

int main(void) {
    gradnn_engine *cpu = NULL;
    check(gradnn_engine_create(gradnn_cpu, 0, &cpu));

    /* An op is its kind and attributes, without shapes. */
    const int64_t sizes[] = {4, 6};
    const gradnn_attr attrs[] = {
            {"mode", gradnn_attr_string, 0, 1, "nearest"},
            {"data_format", gradnn_attr_string, 0, 1, "NCX"},
            {"sizes", gradnn_attr_s64_list, 0, 2, sizes},
    };
    gradnn_op *up = NULL;
    check(gradnn_op_create("InterpolateBackward", attrs, 3, NULL, &up));

    /* src, diff_dst -> diff_src. Compiling again for the same tensors is a lookup. */
    const gradnn_tensor inputs[] = {dense(1, 1, 2, 3), dense(1, 1, 4, 6)};
    const gradnn_tensor output = dense(1, 1, 2, 3);
    gradnn_compiled *compiled = NULL;
    check(gradnn_compile(up, cpu, inputs, 2, &output, 1, &compiled));

    /* Nothing is allocated by gradnn_execute: the caller brings the workspace. */
    const size_t bytes
            = (gradnn_compiled_workspace_size(compiled) + 63) / 64 * 64;
    void *workspace = bytes > 0 ? aligned_alloc(64, bytes) : NULL;

    float diff_dst[24], diff_src[6];
    for (int i = 0; i < 24; ++i)
        diff_dst[i] = 1;
    const void *in[] = {NULL, diff_dst}; /* no formula reads src */
    void *out[] = {diff_src};
    check(gradnn_execute(compiled, NULL, in, 2, out, 1, workspace));

    gradnn_step step;
    check(gradnn_compiled_step(compiled, 0, &step));
    printf("%s by %s:", step.output, step.kernel);
    int right = 1;
    for (int i = 0; i < 6; ++i) {
        printf(" %g", diff_src[i]);
        right = right && diff_src[i] == 4; /* four outputs copy each input */
    }
    printf("\n");

    free(workspace);
    gradnn_compiled_release(compiled);
    gradnn_op_destroy(up);
    gradnn_engine_destroy(cpu);
    return right ? 0 : 1;
}
