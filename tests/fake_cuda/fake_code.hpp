// The code that fake_nvrtc.cpp makes of every source.
#pragma once

namespace gradnn::fake_cuda {

constexpr char fake_code[64] = "code of no kernel, for tests without a GPU";

} // namespace gradnn::fake_cuda
