# What gradnn is built with. Each part is looked for on the machine first (an
# embedding project sets CMAKE_PREFIX_PATH or brings the target), then in
# third_party/, where scripts/setup puts what Debian and Ubuntu do not have.

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(Highway REQUIRED)

set(GRADNN_WITH_ONEDNN FALSE)
if(NOT GRADNN_ONEDNN STREQUAL "OFF")
    if(GRADNN_ONEDNN STREQUAL "AUTO")
        find_package(OneDNN 3)
    else()
        find_package(OneDNN 3 REQUIRED)
    endif()
    set(GRADNN_WITH_ONEDNN ${OneDNN_FOUND})
    if(NOT OneDNN_FOUND)
        message(WARNING "No oneDNN 3.x: convolutions on the CPU will run on "
            "gradnn's own kernels, which are slower. scripts/setup installs "
            "it; GRADNN_ONEDNN=OFF silences this.")
    endif()
endif()

set(GRADNN_WITH_CUDA FALSE)
if(NOT GRADNN_CUDA STREQUAL "OFF")
    # Every GPU since 2020. Machine code of 8.0 runs on 8.6 and 8.9 too, that of 10.0 on
    # 10.3, that of 12.0 on 12.1. Nothing here knows of instructions after 9.0's, so code
    # for 10.0 and 12.0 is assembled from the PTX of 9.0, which the library holds for later
    # GPUs. Most of a kernel's compile time makes its PTX: so four generations take 2.4
    # times as long as one, and not four times; compressed they have fewer bytes than one
    # as it is (a library of 26 MB and of 42).
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES AND NOT DEFINED ENV{CUDAARCHS})
        set(CMAKE_CUDA_ARCHITECTURES 80-real 90)
        if(NOT DEFINED GRADNN_CUDA_ASSEMBLED)
            set(GRADNN_CUDA_ASSEMBLED 90:100 90:120)
            if(GRADNN_CUDA_NATIVE)
                include(cmake/gpu_at_hand.cmake)
            endif()
        endif()
    endif()
    # The toolkit does not put itself into PATH, and may have come since CMake last looked.
    if(NOT CMAKE_CUDA_COMPILER)
        unset(CMAKE_CUDA_COMPILER CACHE)
        find_program(GRADNN_NVCC nvcc PATHS /usr/local/cuda/bin)
        mark_as_advanced(GRADNN_NVCC)
        if(GRADNN_NVCC AND NOT DEFINED ENV{CUDACXX})
            set(ENV{CUDACXX} "${GRADNN_NVCC}")
        endif()
    endif()
    include(CheckLanguage)
    check_language(CUDA)
    if(CMAKE_CUDA_COMPILER)
        enable_language(CUDA)
        find_package(CUDAToolkit 12)
        include(cmake/gpu_code.cmake)
    endif()
    # Headers alone: cuDNN itself is loaded when a convolution needs it.
    find_path(GRADNN_CUDNN_INCLUDE_DIR cudnn.h
        HINTS ${CUDAToolkit_INCLUDE_DIRS})
    find_path(GRADNN_CUDNN_FRONTEND_INCLUDE_DIR cudnn_frontend.h
        HINTS ${CUDAToolkit_INCLUDE_DIRS}
        PATHS "${PROJECT_SOURCE_DIR}/third_party/cudnn_frontend/include")
    find_path(GRADNN_CUTLASS_INCLUDE_DIR cutlass/conv/kernel/default_conv2d.h
        PATHS "${PROJECT_SOURCE_DIR}/third_party/cutlass/include")
    mark_as_advanced(GRADNN_CUDNN_INCLUDE_DIR
        GRADNN_CUDNN_FRONTEND_INCLUDE_DIR GRADNN_CUTLASS_INCLUDE_DIR)
    if(CUDAToolkit_FOUND AND GRADNN_CUDNN_INCLUDE_DIR
            AND GRADNN_CUDNN_FRONTEND_INCLUDE_DIR
            AND GRADNN_CUTLASS_INCLUDE_DIR)
        set(GRADNN_WITH_CUDA TRUE)
    elseif(GRADNN_CUDA STREQUAL "ON")
        message(FATAL_ERROR "GRADNN_CUDA is ON, which takes nvcc and the CUDA "
            "toolkit (12 or later; found: ${CMAKE_CUDA_COMPILER}), cuDNN's "
            "headers (${GRADNN_CUDNN_INCLUDE_DIR}), and those that "
            "scripts/setup fetches: cudnn-frontend's "
            "(${GRADNN_CUDNN_FRONTEND_INCLUDE_DIR}) and CUTLASS's "
            "(${GRADNN_CUTLASS_INCLUDE_DIR})")
    elseif(CUDAToolkit_FOUND)
        message(WARNING "No GPU engine though CUDA is here: GRADNN_CUDA=ON "
            "says what is missing, scripts/setup fetches it")
    else()
        message(STATUS "No GPU engine: GRADNN_CUDA=ON says what is missing")
    endif()
endif()

# The program reads JSON and a command line; the library does neither.
if(GRADNN_BUILD_DRIVER OR GRADNN_BUILD_TESTS)
    find_package(nlohmann_json 3.10 REQUIRED)
endif()
if(GRADNN_BUILD_DRIVER)
    find_package(CLI11 2.1 REQUIRED)
endif()
if(GRADNN_BUILD_TESTS)
    find_package(GTest 1.11 REQUIRED)
endif()
