// Without a GPU, be it the machine or the build that has none.
#include <string>

#include <gtest/gtest.h>

#include <gradnn/cuda.hpp>

#include "gpu/backend.hpp"

namespace gradnn {
namespace {

TEST(gpu_absent, is_refused_clearly) {
    if (engine::get_count(engine::kind::gpu) != 0)
        GTEST_SKIP() << "there is a GPU";
    EXPECT_FALSE(gpu::backend.unavailable_reason().empty());
    const auto refused = [](const auto &body) {
        try {
            body();
            ADD_FAILURE() << "not refused";
        } catch (const error &e) {
            EXPECT_EQ(e.status, status::unimplemented);
            EXPECT_NE(std::string(e.what()).find(
                              gpu::backend.unavailable_reason()),
                    std::string::npos)
                    << e.what();
        }
    };
    refused([] { engine(engine::kind::gpu, 0); });
    refused([] { cuda_interop::make_engine_with_allocator(0, {}); });
    refused([] { cuda_interop::get_device_info(0); });
    EXPECT_NO_THROW(cuda_interop::get_versions());
    // The CPU is not the worse for it.
    EXPECT_TRUE(engine(engine::kind::cpu, 0));
}

} // namespace
} // namespace gradnn
