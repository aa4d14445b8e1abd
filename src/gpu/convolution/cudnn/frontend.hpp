// cudnn-frontend's wrappers of cuDNN's graph API, as gradnn includes them.
//
// The wrappers of single descriptors are used and not its Graph class: that
// one needs NVRTC and a shared CUDA runtime at run time and takes most of a
// minute to compile. The calls to cuDNN below are the same.
#pragma once

#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
#define NV_CUDNN_FRONTEND_DISABLE_LOGGING
#define CUDNN_FRONTEND_SKIP_JSON_LIB

// Standard headers that cudnn-frontend uses and does not include.
#include <algorithm>
#include <cstring>
#include <iterator>
#include <limits>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_map>

#include <cuda_runtime_api.h>
#include <cudnn.h>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#include <cudnn_frontend_ExecutionPlan.h>
#include <cudnn_frontend_Heuristics.h>
#include <cudnn_frontend_VariantPack.h>
#pragma GCC diagnostic pop
