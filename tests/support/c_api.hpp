// What tests of the C API share.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <gradnn/c_api.h>

namespace gradnn::test {

inline gradnn_tensor tensor_of(std::vector<int64_t> dims,
        gradnn_data_type type = gradnn_f32,
        gradnn_layout layout = gradnn_layout_strided) {
    gradnn_tensor result {};
    result.data_type = type;
    result.layout = layout;
    result.ndims = static_cast<int32_t>(dims.size());
    int64_t stride = 1;
    for (size_t axis = dims.size(); axis-- > 0;) {
        result.dims[axis] = dims[axis];
        result.strides[axis] = stride;
        stride *= dims[axis];
    }
    return result;
}

inline gradnn_attr text_attr(const char *name, const char *value) {
    return {name, gradnn_attr_string, 0, 1, value};
}

inline gradnn_attr list_attr(
        const char *name, const std::vector<int64_t> &values) {
    return {name, gradnn_attr_s64_list, 0, values.size(), values.data()};
}

class c_api : public testing::Test {
protected:
    void SetUp() override {
        ASSERT_EQ(gradnn_engine_create(gradnn_cpu, 0, &engine), gradnn_success);
    }
    void TearDown() override {
        for (gradnn_op *made : ops)
            gradnn_op_destroy(made);
        gradnn_engine_destroy(engine);
    }

    gradnn_op *make(const char *kind, const std::vector<gradnn_attr> &attrs,
            const gradnn_settings *settings = nullptr) {
        gradnn_op *made = nullptr;
        EXPECT_EQ(gradnn_op_create(
                          kind, attrs.data(), attrs.size(), settings, &made),
                gradnn_success)
                << gradnn_last_error();
        ops.push_back(made);
        return made;
    }

    gradnn_op *interpolation(const gradnn_settings *settings = nullptr) {
        static const std::vector<int64_t> sizes {6, 6};
        return make("InterpolateBackward",
                {text_attr("mode", "linear"), text_attr("data_format", "NCX"),
                        list_attr("sizes", sizes)},
                settings);
    }

    gradnn_op *convolution() {
        static const std::vector<int64_t> ones {1, 1};
        return make("ConvBackward",
                {list_attr("strides", ones), list_attr("dilations", ones),
                        list_attr("pads_begin", ones),
                        list_attr("pads_end", ones),
                        text_attr("data_format", "NCX"),
                        text_attr("weights_format", "OIX")});
    }

    gradnn_compiled *compile(gradnn_op *the_op,
            const std::vector<gradnn_tensor> &inputs,
            const std::vector<gradnn_tensor> &outputs) {
        gradnn_compiled *compiled = nullptr;
        EXPECT_EQ(gradnn_compile(the_op, engine, inputs.data(), inputs.size(),
                          outputs.data(), outputs.size(), &compiled),
                gradnn_success)
                << gradnn_last_error();
        return compiled;
    }

    /// That it fails, and what the message says.
    void expect_failure(gradnn_status found, gradnn_status wanted,
            const std::vector<const char *> &pieces) {
        EXPECT_EQ(found, wanted) << gradnn_last_error();
        for (const char *piece : pieces)
            EXPECT_NE(std::string(gradnn_last_error()).find(piece),
                    std::string::npos)
                    << piece << " in: " << gradnn_last_error();
    }

    gradnn_engine *engine = nullptr;
    std::vector<gradnn_op *> ops;
};

inline const gradnn_tensor unknown_f32 {
        gradnn_f32, gradnn_layout_any, -1, 0, {}, {}};

} // namespace gradnn::test
