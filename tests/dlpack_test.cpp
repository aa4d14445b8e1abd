// Tensors from DLPack: any struct with DLTensor's members will do.
#include <gradnn/dlpack.hpp>

#include <gtest/gtest.h>

#include "support/op_builders.hpp"

namespace gradnn::test {
namespace {

// DLPack's declarations, as a framework's dlpack.h has them.
struct DLDevice {
    int device_type;
    int32_t device_id;
};
struct DLDataType {
    uint8_t code;
    uint8_t bits;
    uint16_t lanes;
};
struct DLTensor {
    void *data;
    DLDevice device;
    int32_t ndim;
    DLDataType dtype;
    int64_t *shape;
    int64_t *strides;
    uint64_t byte_offset;
};
constexpr DLDevice cpu_device {1, 0};
constexpr DLDataType f32 {2, 32, 1};

TEST(dlpack, runs_on_a_frameworks_memory) {
    const engine e = shared_engine(engine::kind::cpu);
    // diff_dst is every second column of a larger tensor, 3 elements in.
    std::vector<float> diff_dst_memory(2 * 16 + 3, 100.0F);
    std::vector<int64_t> diff_dst_shape {1, 2, 8};
    std::vector<int64_t> diff_dst_strides {32, 16, 2};
    for (size_t c = 0; c < 2; ++c)
        for (size_t x = 0; x < 8; ++x)
            diff_dst_memory[3 + c * 16 + x * 2] = static_cast<float>(c + 1);
    const DLTensor diff_dst {diff_dst_memory.data(), cpu_device, 3, f32,
            diff_dst_shape.data(), diff_dst_strides.data(), 3 * sizeof(float)};
    std::vector<float> diff_src_memory(8);
    std::vector<int64_t> diff_src_shape {1, 2, 4};
    const DLTensor diff_src {diff_src_memory.data(), cpu_device, 3, f32,
            diff_src_shape.data(), nullptr, 0};

    const logical_tensor diff_dst_lt = logical_tensor_from_dlpack(1, diff_dst);
    EXPECT_EQ(diff_dst_lt.get_strides(), diff_dst_strides);
    EXPECT_EQ(logical_tensor_from_dlpack(2, diff_src).get_strides(),
            (sizes {8, 4, 1}));
    op the_op(0, op::kind::InterpolateBackward,
            {logical_tensor(
                     0, data_type::f32, diff_src_shape, layout_type::strided),
                    diff_dst_lt},
            {logical_tensor_from_dlpack(2, diff_src)});
    the_op.set_attr<std::string>(op::attr::mode, "nearest");
    the_op.set_attr<std::string>(op::attr::data_format, "NCX");
    the_op.set_attr(op::attr::sizes, sizes {8});
    stream s(e);
    compile(the_op, e).execute(s,
            {tensor(the_op.get_inputs()[0], e, nullptr),
                    from_dlpack(1, diff_dst, e)},
            {from_dlpack(2, diff_src, e)});
    EXPECT_EQ(diff_src_memory, (std::vector<float> {2, 2, 2, 2, 4, 4, 4, 4}));
}

TEST(dlpack, types) {
    int64_t shape = 1;
    const auto type_of = [&](uint8_t code, uint8_t bits, uint16_t lanes) {
        const DLTensor t {nullptr, cpu_device, 1, {code, bits, lanes}, &shape,
                nullptr, 0};
        return logical_tensor_from_dlpack(0, t).get_data_type();
    };
    EXPECT_EQ(type_of(2, 16, 1), data_type::f16);
    EXPECT_EQ(type_of(4, 16, 1), data_type::bf16);
    EXPECT_EQ(type_of(2, 32, 1), data_type::f32);
    EXPECT_EQ(type_of(2, 64, 1), data_type::f64);
    EXPECT_EQ(type_of(0, 32, 1), data_type::s32);
    for (const auto &[code, bits, lanes] :
            std::vector<std::tuple<uint8_t, uint8_t, uint16_t>> {
                    {0, 64, 1}, {1, 8, 1}, {2, 32, 4}, {5, 64, 1}, {2, 8, 1}}) {
        try {
            type_of(code, bits, lanes);
            FAIL() << int {code} << ' ' << int {bits};
        } catch (const error &failure) {
            EXPECT_EQ(failure.status, status::invalid_data_type);
            EXPECT_NE(std::string(failure.what()).find("allowed"),
                    std::string::npos)
                    << failure.what();
        }
    }
}

TEST(dlpack, memory_of_another_device_is_refused) {
    const engine e = shared_engine(engine::kind::cpu);
    int64_t shape = 1;
    float value = 0;
    for (const int device_type : {2, 7, 10}) {
        const DLTensor t {&value, {device_type, 0}, 1, f32, &shape, nullptr, 0};
        try {
            from_dlpack(5, t, e);
            FAIL() << device_type;
        } catch (const error &failure) {
            EXPECT_EQ(failure.status, status::invalid_arguments);
            const std::string message = failure.what();
            EXPECT_NE(message.find("tensor 5"), std::string::npos) << message;
            EXPECT_NE(message.find("cpu"), std::string::npos) << message;
        }
    }
    // Pinned host memory is host memory.
    const DLTensor pinned {&value, {3, 0}, 1, f32, &shape, nullptr, 0};
    EXPECT_EQ(from_dlpack(5, pinned, e).get_data_handle(), &value);
}

} // namespace
} // namespace gradnn::test
